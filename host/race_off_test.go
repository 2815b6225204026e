//go:build !race

package main

// raceDetector reports whether the race detector is on. Hosts then take many times longer to start.
const raceDetector = false
