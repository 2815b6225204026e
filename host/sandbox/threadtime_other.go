//go:build !linux

package sandbox

import "time"

// processStart is the origin of threadTime.
var processStart = time.Now()

// threadTime stands in for the processor time of the current thread, which other systems measure in ways of their own.
// It is the time since the process started. A call that the system suspends for longer than its limit is then refused.
func threadTime() time.Duration { return time.Since(processStart) }
