package admission

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"sync"
	"time"
)

// Rate is how many requests are accepted in a minute.
type Rate struct {
	Name      string // for clients
	PerMinute int    // 0: no limit
	Burst     int    // requests that may come at once; 0: a twelfth of PerMinute
	ByAddress bool   // counts clients by their network
}

// RateWindow is the period of a Rate.
const RateWindow = time.Minute

// interval is the time after which a use is free again.
func (r Rate) interval() time.Duration { return RateWindow / time.Duration(r.PerMinute) }

// burst is how many uses a bucket holds.
func (r Rate) burst() int { return max(1, cmp.Or(r.Burst, r.PerMinute/12)) }

// Bucket returns the maximum number of uses at once, and the time in which an empty bucket fills.
func (r Rate) Bucket() (burst int, window time.Duration) {
	return r.burst(), r.interval() * time.Duration(r.burst())
}

// RateError means that requests come faster than a Rate. Its text is for clients.
type RateError struct {
	Rate  Rate
	Until time.Time // when the next request is accepted
}

func (e *RateError) Error() string {
	return fmt.Sprintf("more than %d requests a minute arrive (limit %q); nothing was counted, try again later",
		e.Rate.PerMinute, e.Rate.Name)
}

// Uses stores the uses that all hosts accepted.
type Uses interface {
	// SettleUses adds the uses that this host accepted since the last call, and returns the total over all hosts for
	// each name. A total restarts at 0 after a minute without uses.
	SettleUses(ctx context.Context, accepted map[string]int64) (total map[string]int64, err error)
}

// Limiter limits how often things are used, by rates. It is the generic cell rate algorithm: a bucket holds a burst of
// uses, and refills steadily. Take contacts no other host. Instead, Settle exchanges the uses that hosts accepted, and
// deducts those of the others. With a Settle each second, two hosts together accept at most 1.2 times the rate in any
// minute (TestLimiterAcrossHosts). While Settle fails, each host limits by itself. A Limiter is safe for concurrent
// use.
type Limiter struct {
	now func() time.Time

	mu      sync.Mutex
	buckets map[string]*bucket
}

// bucket holds the uses of one name.
type bucket struct {
	rate     Rate
	full     time.Time // when all uses are free again; now or earlier if they are
	taken    time.Time // the last use on this host
	accepted int64     // on this host, not settled yet
	total    int64     // of all hosts when it was last settled
	settled  bool
}

// maxBuckets limits a Limiter's memory to a few megabytes. Beyond it, all buckets are dropped.
const maxBuckets = 100_000

// NewLimiter returns a Limiter with full buckets. now is time.Now, except in tests.
func NewLimiter(now func() time.Time) *Limiter {
	return &Limiter{now: now, buckets: map[string]*bucket{}}
}

// Take counts a use of name, or returns a *RateError and counts nothing. It does not wait.
func (l *Limiter) Take(name string, r Rate) error {
	if r.PerMinute <= 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	b := l.buckets[name]
	if b == nil {
		if len(l.buckets) >= maxBuckets {
			clear(l.buckets)
		}
		b = &bucket{}
		l.buckets[name] = b
	}
	b.rate = r
	next := later(b.full, now).Add(r.interval())
	if free := next.Add(-r.interval() * time.Duration(r.burst())); free.After(now) {
		return &RateError{Rate: r, Until: free}
	}
	b.full, b.taken = next, now
	b.accepted++
	return nil
}

// Settle exchanges accepted uses with other hosts. Uses that it could not exchange are forgotten.
func (l *Limiter) Settle(ctx context.Context, uses Uses) error {
	accepted := l.accepted()
	if len(accepted) == 0 {
		return nil
	}
	total, err := uses.SettleUses(ctx, accepted)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	for name, n := range total {
		if b := l.buckets[name]; b != nil {
			b.settle(now, n, accepted[name])
		}
	}
	return nil
}

// accepted returns the uses to report to other hosts, and drops buckets that have been full and unused for a minute. It
// keeps back a few uses for the next call, so that rarely used names cost no write. It reports such a name with 0,
// because other hosts' uses still count.
func (l *Limiter) accepted() map[string]int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	accepted := make(map[string]int64, len(l.buckets))
	for name, b := range l.buckets {
		if now.Sub(b.taken) > RateWindow && !b.full.After(now) {
			delete(l.buckets, name)
			continue
		}
		accepted[name] = 0
		if b.accepted >= int64(max(1, min(b.rate.burst(), b.rate.PerMinute/12)/10)) {
			accepted[name], b.accepted = b.accepted, 0
		}
	}
	return accepted
}

// settle deducts other hosts' uses, given the total and the uses that this host has just reported. Uses from before
// this host knew the name count for at most half a burst, so that a customer who is new here is not refused.
func (b *bucket) settle(now time.Time, total, told int64) {
	others := total - told - b.total
	if !b.settled {
		others = min(others, int64(b.rate.burst()/2))
	}
	b.total, b.settled = total, true
	if others <= 0 || b.rate.PerMinute <= 0 {
		return
	}
	debt := time.Duration(min(float64(others)*float64(b.rate.interval()), math.MaxInt64/2))
	b.full = later(b.full, now).Add(debt)
	_, window := b.rate.Bucket()
	if most := now.Add(max(2*RateWindow, window+RateWindow)); b.full.After(most) { // whatever the database says
		b.full = most
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
