// Code generated from manifest.json by assay plugin build. DO NOT EDIT.

package main

// The signals that the manifest declares.
const (
	signalListedExact      = "feeds:listed:exact"       // A list of bad entities that is up to date names this very entity
	signalListedExpired    = "feeds:listed:expired"     // A list of bad entities names this very entity, but its publisher has not confirmed it for days
	signalListedDisputed   = "feeds:listed:disputed"    // A list of bad entities and a list of good ones both name this very entity
	signalListedMailDomain = "feeds:listed:mail_domain" // A list of bad entities names the mail domain of the address
	signalListedParent     = "feeds:listed:parent"      // A list of bad entities names a domain that this one belongs to
	signalListedDisposable = "feeds:listed:disposable"  // A list names this address or mail domain as disposable
	signalListedPage       = "feeds:listed:page"        // A list of bad entities names pages on this host, not the host itself
	signalListedSeveral    = "feeds:listed:several"     // More than one list names it
)
