//go:build race

package sandbox

// raceDetector reports whether the race detector is on. It multiplies memory use and the time of host functions.
const raceDetector = true

// slowdown is the factor by which limits of processor time are extended. Host functions and compilers take about ten
// times longer than without the detector; guests take the same time.
const slowdown = 50
