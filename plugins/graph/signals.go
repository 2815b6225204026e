// Code generated from manifest.json by assay plugin build. DO NOT EDIT.

package main

// The signals that the manifest declares.
const (
	signalEntityBlocked  = "graph:entity:blocked"  // Checks by several customers were blocked, on evidence other than the graph's
	signalEntityReported = "graph:entity:reported" // Several customers reported the entity as fraud, though none of their checks was blocked
	signalNeighboursBad  = "graph:neighbours:bad"  // Entities that were sent in the same requests, or share its domain, name server, network, number range or bank, were blocked or are listed
)
