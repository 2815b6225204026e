//go:build race

package hosttest

// RaceDetector reports whether the race detector is on. Hosts then take many times longer to start.
const RaceDetector = true
