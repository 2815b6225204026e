package sandbox

import (
	"sync"
	"time"
)

const (
	failureThreshold = 5 // consecutive failures that open the breaker
	minCooldown      = time.Second
	maxCooldown      = time.Minute
)

// circuitBreaker takes a plugin that keeps failing out of service, so that it does not delay every check.
//
// It opens after failureThreshold consecutive failures, for minCooldown. After the cooldown it lets one probe call
// through at a time: a success closes the breaker, a failure reopens it for twice as long, at most for maxCooldown.
type circuitBreaker struct {
	now      func() time.Time
	disabled bool // it never opens
	mu       sync.Mutex
	failures int           // consecutive
	cooldown time.Duration // the current or last one
	retryAt  time.Time     // when the next probe is allowed; zero while the breaker is closed
	probing  bool          // a probe is under way
}

// allow reports whether a call may be made now. After each allowed call, use either record or cancel.
func (b *circuitBreaker) allow() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.retryAt.IsZero() {
		return true
	}
	if b.probing || b.now().Before(b.retryAt) {
		return false
	}
	b.probing = true
	return true
}

// record counts the outcome of an allowed call.
func (b *circuitBreaker) record(ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.probing = false
	if ok {
		b.failures, b.cooldown, b.retryAt = 0, 0, time.Time{}
		return
	}
	if b.failures++; b.failures >= failureThreshold && !b.disabled {
		b.cooldown = min(max(2*b.cooldown, minCooldown), maxCooldown)
		b.retryAt = b.now().Add(b.cooldown)
	}
}

// cancel ends an allowed call without counting it, such as one whose caller stopped waiting.
func (b *circuitBreaker) cancel() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.probing = false
}

// isOpen reports whether the plugin is out of service.
func (b *circuitBreaker) isOpen() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.retryAt.IsZero()
}
