// Code generated from manifest.json by assay plugin build. DO NOT EDIT.

package main

// The signals that the manifest declares.
const (
	// The name begins with a word such as login or store.
	signalLabelDoor = "front-door:label:door"

	// The name begins like the address of another site.
	signalLabelAddress = "front-door:label:address"
)
