package sandbox

import (
	"sync"
	"time"
)

const (
	failureThreshold = 5 // consecutive failures that open the breaker
	minCooldown      = time.Second
	maxCooldown      = time.Minute

	// maxDebt is the fuel that starting instances again may burn beyond what calls have paid for.
	maxDebt = failureThreshold * startFuel
)

// circuitBreaker takes a plugin that keeps failing out of service, so that it does not delay every check.
//
// It opens after failureThreshold consecutive failures, for minCooldown. After the cooldown it lets one probe call
// through at a time: a success closes the breaker, a failure reopens it for twice as long, at most for maxCooldown.
//
// A plugin that traps now and then costs the host the initialisation of a new instance each time. The breaker keeps an
// account of it: an initialisation is charged with its fuel, and each call pays off as much as its budget of fuel. A
// failure also opens the breaker if the debt exceeds maxDebt, and the cooldown keeps doubling until the debt is paid.
type circuitBreaker struct {
	now      func() time.Time
	disabled bool  // it never opens
	payment  int64 // by which each call reduces debt
	mu       sync.Mutex
	failures int           // consecutive
	debt     int64         // fuel of initialisations
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
	b.debt = max(b.debt-b.payment, 0)
	if ok {
		b.failures, b.retryAt = 0, time.Time{}
		if b.debt == 0 {
			b.cooldown = 0
		}
		return
	}
	b.failures++
	if (b.failures >= failureThreshold || b.debt > maxDebt) && !b.disabled {
		b.cooldown = min(max(2*b.cooldown, minCooldown), maxCooldown)
		b.retryAt = b.now().Add(b.cooldown)
	}
}

// charge adds the fuel of an initialisation to the plugin's debt.
func (b *circuitBreaker) charge(fuel int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.debt = min(b.debt+fuel, 2*maxDebt)
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
