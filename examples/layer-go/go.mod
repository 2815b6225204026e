module layer/borrowed-address

go 1.24
