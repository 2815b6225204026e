// Package replay predicts the changes of a lineup before it is in force. A [Ring] remembers the last checks of a host
// in memory, [Ring.Replay] scores them again with a candidate, and a [Report] shows which verdicts differ.
package replay

import (
	"context"
	"sync"
	"time"

	"assay/host/check"
)

// The bounds of a ring.
const (
	DefaultChecks = 20_000
	DefaultBytes  = 64 << 20
)

const (
	maxAge = 7 * 24 * time.Hour // a check is remembered for at most this time
	// erasedFor is how long after an erasure the ring refuses checks of the subject: a check that was recorded before
	// the erasure may arrive after the notification of it. It arrives within microseconds, unless the host was paused.
	erasedFor = time.Minute
	maxErased = 10_000 // subjects that were erased within erasedFor; with more, everything is forgotten
	perLock   = 500    // checks that an erasure looks at before it lets others use the ring
)

// pseudonymBytes is the length of the pseudonyms in the audit log.
const pseudonymBytes = 32

type pseudonym [pseudonymBytes]byte

// remembered is a check in a ring.
type remembered struct {
	subject pseudonym
	at      time.Time    // of the decision
	terms   *check.Terms // of the lineup that decided
	content []byte       // see encode
}

// Ring holds the last recorded checks of a host in memory, and never writes them anywhere. It is safe for concurrent
// use.
type Ring struct {
	now     func() time.Time
	maxSize int64
	scratch sync.Pool // of *[]byte

	mu      sync.Mutex
	checks  []remembered // number n is at index n modulo the length
	oldest  uint64       // number of the oldest check that may be there
	next    uint64       // number of the next check
	size    int64        // bytes of all contents
	erased  map[pseudonym]time.Time
	cleared time.Time // checks that were decided before are not remembered
}

var _ check.Memory = (*Ring)(nil)

// NewRing returns an empty ring for up to the given number of checks, whose contents take up to maxBytes.
func NewRing(checks int, maxBytes int64) *Ring {
	return &Ring{now: time.Now, maxSize: maxBytes, checks: make([]remembered, checks),
		erased: map[pseudonym]time.Time{}, scratch: sync.Pool{New: func() any { return new(make([]byte, 0, 4<<10)) }}}
}

// Remember implements check.Memory. It leaves out checks that an erasure could not find: those without a pseudonym. It
// also leaves out those that an override decided: no lineup changes their verdict.
func (r *Ring) Remember(records []check.Record) {
	for i := range records {
		record := &records[i]
		d := record.Decision
		if len(record.Pseudonym) != pseudonymBytes || d.Terms == nil || d.Override != nil {
			continue
		}
		c := remembered{subject: pseudonym(record.Pseudonym), at: d.At, terms: d.Terms}
		buffer := r.scratch.Get().(*[]byte)
		*buffer = encode((*buffer)[:0], record)
		r.add(c, *buffer)
		clear(*buffer) // an unused buffer keeps nothing of a check
		r.scratch.Put(buffer)
	}
}

// add remembers a check with a copy of its content. In a full ring, it replaces the oldest check and its content.
func (r *Ring) add(c remembered, content []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, erased := r.erased[c.subject]; erased || !c.at.After(r.cleared) {
		return
	}
	slot := &r.checks[r.index(r.next)]
	if r.next-r.oldest == uint64(len(r.checks)) {
		if cap(slot.content) < len(content) {
			r.forgetOldest()
		} else {
			clear(slot.content[min(len(content), len(slot.content)):])
			c.content = slot.content[:0]
			r.size -= int64(cap(slot.content))
			r.oldest++
		}
	}
	c.content = append(c.content, content...)
	*slot = c
	r.next++
	r.size += int64(cap(c.content))
	for r.size > r.maxSize {
		r.forgetOldest()
	}
}

func (r *Ring) index(number uint64) uint64 { return number % uint64(len(r.checks)) }

// forgetOldest forgets the oldest check, which may have been erased already.
func (r *Ring) forgetOldest() {
	r.forget(r.oldest)
	r.oldest++
}

func (r *Ring) forget(number uint64) {
	c := &r.checks[r.index(number)]
	r.size -= int64(cap(c.content))
	clear(c.content)
	*c = remembered{}
}

// Erase forgets the checks of a subject that is about to be erased in the audit log. If the subject is unknown, because
// a notification may have been lost, it forgets everything.
func (r *Ring) Erase(subject []byte) {
	if len(subject) != pseudonymBytes {
		r.Clear()
		return
	}
	erased := pseudonym(subject)
	r.mu.Lock()
	if len(r.erased) == maxErased {
		r.mu.Unlock()
		r.Clear()
		r.mu.Lock()
	}
	r.erased[erased] = r.now()
	first, end := r.oldest, r.next
	r.mu.Unlock()
	for ; first < end; first += perLock {
		r.mu.Lock()
		for n := max(first, r.oldest); n < min(first+perLock, end); n++ {
			if r.checks[r.index(n)].subject == erased {
				r.forget(n)
			}
		}
		r.mu.Unlock()
	}
}

// Clear forgets everything, also the checks in progress: an erasure may have been missed.
func (r *Ring) Clear() {
	empty := make([]remembered, len(r.checks))
	r.mu.Lock()
	forgotten := r.checks
	r.checks, r.oldest, r.size, r.cleared = empty, r.next, 0, r.now()
	clear(r.erased)
	r.mu.Unlock()
	for _, c := range forgotten { // without the lock, for which checks would wait
		clear(c.content)
	}
}

// Trim forgets checks that are too old.
func (r *Ring) Trim(context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	for r.oldest < r.next && now.Sub(r.checks[r.index(r.oldest)].at) > maxAge {
		r.forgetOldest()
	}
	for subject, at := range r.erased {
		if now.Sub(at) > erasedFor {
			delete(r.erased, subject)
		}
	}
	return nil
}

// Size returns the number of checks in the ring and the bytes of their contents.
func (r *Ring) Size() (checks int, bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for n := r.oldest; n < r.next; n++ {
		if r.checks[r.index(n)].terms != nil {
			checks++
		}
	}
	return checks, r.size
}

// newest calls do for the checks that are in the ring now, from the newest to the oldest, as long as it returns true. A
// check that is forgotten meanwhile is left out. The content is valid until do returns.
func (r *Ring) newest(do func(remembered) bool) {
	r.mu.Lock()
	end := r.next
	r.mu.Unlock()
	var buffer []byte
	defer func() { clear(buffer[:cap(buffer)]) }()
	for n := end; n > 0; n-- {
		r.mu.Lock()
		if n <= r.oldest {
			r.mu.Unlock()
			return
		}
		c := r.checks[r.index(n-1)]
		buffer = append(buffer[:0], c.content...) // an erasure overwrites the original
		c.content = buffer
		r.mu.Unlock()
		if c.terms != nil && !do(c) {
			return
		}
	}
}
