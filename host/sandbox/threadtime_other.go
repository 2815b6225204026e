//go:build !linux

package sandbox

import "time"

// processStart is the origin of threadTime.
var processStart = time.Now()

// threadTime returns the time since the process started in place of the thread's processor time, which each of these
// systems measures in its own way. So a call that the system suspends for longer than its limit is refused.
func threadTime() time.Duration { return time.Since(processStart) }
