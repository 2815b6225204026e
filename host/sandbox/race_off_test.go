//go:build !race

package sandbox

// raceDetector reports whether the race detector is on. It multiplies memory use and running time.
const raceDetector = false
