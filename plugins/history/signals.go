// Code generated from manifest.json by assay plugin build. DO NOT EDIT.

package main

// The signals that the manifest declares.
const (
	signalAllBurst    = "history:all:burst"    // Three or more customers checked the entity unusually often within an hour or a day, and have known it for less than a week
	signalOwnRepeated = "history:own:repeated" // The caller's own account checked the entity ten times or more within an hour
	signalOwnKnown    = "history:own:known"    // The caller's own account has known the entity for 30 days or more and checks it at most twice a day
)
