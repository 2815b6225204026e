module assay.example/client

go 1.25
