package sandbox

import (
	"time"

	"golang.org/x/sys/unix"
)

// threadTime returns the processor time that the current thread has used. It is meaningful only for a goroutine that is
// locked to its thread. With the race detector this clock runs slower, so that the limits leave enough time to host
// functions, which the detector slows down.
func threadTime() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) // fails only for an unknown clock or a bad pointer
	return time.Duration(t.Nano()) / slowdown
}
