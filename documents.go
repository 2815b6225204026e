// Package assay holds the documents of the repository's root and of plugins that the host shows.
package assay

import _ "embed"

// Changelog is CHANGELOG.md.
//
//go:embed CHANGELOG.md
var Changelog string

// Catalogue is plugins/CATALOGUE.md, which TestCatalogue generates from the manifests of the layers.
//
//go:embed plugins/CATALOGUE.md
var Catalogue string
