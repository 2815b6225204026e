//go:build !race

package sandbox

// raceDetector reports whether the race detector is on. It multiplies memory use and the time of host functions.
const raceDetector = false

// slowdown is the factor by which limits of processor time are extended.
const slowdown = 1
