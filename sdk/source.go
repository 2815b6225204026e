//go:build !wasip1

package sdk

import "embed"

// Source holds the files that `assay plugin new` copies to an author's folder: the SDK of each language and a first
// layer. The Go SDK is copied without normal.go, which has a dependency; the template replaces it. The first layer in
// Go is package starter.
//
//go:embed abi.go check_native.go check_wasip1.go facts.go layer.go quote.go valid.go
//go:embed starter/score.go starter/score_test.go
//go:embed rust/*.rs assemblyscript/*.ts c/*.h all:_templates
var Source embed.FS
