// Code generated from manifest.json by assay plugin build. DO NOT EDIT.

package main

// The signals that the manifest declares.
const (
	// The labels in front of the registered name read as another site's address.
	signalAddressInside = "borrowed-address:address:inside"

	// A name with such labels was registered less than 90 days ago.
	signalAddressNew = "borrowed-address:address:new"
)
