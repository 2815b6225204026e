// Package assay embeds the documents in the repository's root and in plugins that the host shows.
package assay

import _ "embed"

// Changelog is CHANGELOG.md.
//
//go:embed CHANGELOG.md
var Changelog string

// Catalogue is plugins/CATALOGUE.md, the list of layers, which TestCatalogue generates.
//
//go:embed plugins/CATALOGUE.md
var Catalogue string
