// Package docs holds the documents that the host itself shows.
package docs

import _ "embed"

// Results is results.md, which long runs write: see bench.Results.
//
//go:embed results.md
var Results string
