//go:build !wasip1

package sdk

import "embed"

// Source holds the SDKs and the templates of layers that `assay plugin new` copies into an author's folder. The Go SDK
// is at its root, without normal.go: the copy has no dependencies, and its template replaces that file.
//
//go:embed abi.go check_native.go check_wasip1.go layer.go valid.go all:_templates
var Source embed.FS
