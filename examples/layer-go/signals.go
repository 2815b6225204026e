// Code generated from manifest.json by assay plugin build. DO NOT EDIT.

package main

// The signals that the manifest declares.
const (
	signalAddressInside = "borrowed-address:address:inside" // The labels in front of the registered name read as another site's address
	signalAddressNew    = "borrowed-address:address:new"    // A name with such labels was registered less than 90 days ago
)
