//go:build race

package main

// raceDetector says whether it is at work: hosts then take many times as long to start.
const raceDetector = true
