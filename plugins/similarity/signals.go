// Code generated from manifest.json by assay plugin build. DO NOT EDIT.

package main

// The signals that the manifest declares.
const (
	signalDomainSame = "similarity:domain:same" // The name equals that of a reported domain but for hyphens, digits or the suffix
	signalDomainNear = "similarity:domain:near" // The name differs in one to three letters from that of a reported domain
	signalUserNear   = "similarity:user:near"   // The mailbox nearly equals that of a reported address
)
