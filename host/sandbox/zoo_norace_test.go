//go:build !race

package sandbox_test

// raceDetector says whether it is at work: it takes several times the memory that it watches.
const raceDetector = false
