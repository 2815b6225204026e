module layer/front-door

go 1.24
