package sandbox

import (
	"sync"
	"time"
)

// A plugin that fails this often in a row rests for a second, and after each failed attempt to come back for twice as
// long.
const (
	breakAfter   = 5
	restShortest = time.Second
	restLongest  = time.Minute
)

// breaker takes a plugin that keeps failing out of service for a while, so that every check is not held up by its
// budget.
type breaker struct {
	mu       sync.Mutex
	failures int           // in a row
	rest     time.Duration // how long the next rest is
	until    time.Time     // when it may be tried again; zero while it is in service
	trying   bool          // one call is finding out whether it works again
}

// allow says whether a call may be made now. Of a plugin that has rested, one call at a time is let through.
func (b *breaker) allow(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.until.IsZero() {
		return true
	}
	if b.trying || now.Before(b.until) {
		return false
	}
	b.trying = true
	return true
}

// done tells how a call that was allowed went.
func (b *breaker) done(ok bool, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.trying = false
	if ok {
		b.failures, b.rest, b.until = 0, 0, time.Time{}
		return
	}
	if b.failures++; b.failures >= breakAfter {
		b.rest = min(max(2*b.rest, restShortest), restLongest)
		b.until = now.Add(b.rest)
	}
}

// abandon ends a call that says nothing of the plugin, such as one that nobody waited for any longer.
func (b *breaker) abandon() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.trying = false
}

// resting says whether the plugin is out of service.
func (b *breaker) resting() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.until.IsZero()
}
