package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"assay/host/check"
)

// sizes collects the sizes of the batches that a ledger committed.
type sizes struct {
	mu   sync.Mutex
	seen []int
}

func (s *sizes) observe(size int, _ time.Duration, _ int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, size)
}

// want waits for batches of the given sizes.
func (s *sizes) want(t *testing.T, want ...int) {
	t.Helper()
	if seen := s.wait(t, len(want)); !slices.Equal(seen, want) {
		t.Errorf("batch sizes %v, want %v", seen, want)
	}
}

func (s *sizes) wantInAnyOrder(t *testing.T, want ...int) {
	t.Helper()
	seen := s.wait(t, len(want))
	slices.Sort(seen)
	if slices.Sort(want); !slices.Equal(seen, want) {
		t.Errorf("batch sizes %v, want %v in any order", seen, want)
	}
}

// wait waits for a number of batches. OnBatch is called just after the batch's checks were answered.
func (s *sizes) wait(t *testing.T, batches int) (seen []int) {
	t.Helper()
	until(t, "all batches to be observed", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		seen = slices.Clone(s.seen)
		return len(seen) >= batches
	})
	return seen
}

// queueLength returns the number of calls in a ledger's queues.
func queueLength(l *Ledger) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range l.batchers {
		b.mu.Lock()
		n += len(b.queue)
		b.mu.Unlock()
	}
	return n
}

// queued appends first, which waits for the head's lock, and then queues records. The channels receive the results of
// Append in the same order.
func queued(t *testing.T, held *headLock, l *Ledger, first check.Record, records []check.Record) []chan error {
	t.Helper()
	answers := make([]chan error, 1+len(records))
	for i, r := range append([]check.Record{first}, records...) {
		answers[i] = make(chan error, 1)
		go func() { answers[i] <- l.Append(context.Background(), r) }()
		if i == 0 {
			held.waiting(t, 1)
			continue
		}
		queued := i
		if i >= l.batch {
			queued -= l.batch // in flight
		}
		until(t, "the check to be queued", func() bool { return queueLength(l) == queued })
	}
	return answers
}

// inOneBatch appends records so that they are committed in one batch, and returns the result of each.
func inOneBatch(t *testing.T, url string, l *Ledger, opener check.Caller, records []check.Record) []error {
	t.Helper()
	held := lockTheHeads(t, url)
	answers := queued(t, held, l, allowed(t, opener), records)
	held.release(t)
	noError(t, receive(t, "the first check's answer", answers[0]))
	errs := make([]error, len(records))
	for i := range records {
		errs[i] = receive(t, "a check's answer", answers[1+i])
	}
	return errs
}

func TestBusyLedgerCommitsQueuedChecksTogether(t *testing.T) {
	t.Parallel()
	var sizes sizes
	s, l, caller := newLedger(t, nil, LedgerConfig{OnBatch: sizes.observe})
	records := allowedMany(t, caller, 300)
	noError(t, errors.Join(inOneBatch(t, s.url, l, caller, records)...))
	sizes.wantInAnyOrder(t, 1, 256, 44)
	verifyLedger(t, s)
}

// A second batch is sent while the first commits, but only a full one.
func TestSecondBatchInFlightIsFull(t *testing.T) {
	t.Parallel()
	var sizes sizes
	s, l, caller := newLedger(t, nil, LedgerConfig{Batch: 4, OnBatch: sizes.observe})
	held := lockTheHeads(t, s.url)
	answers := queued(t, held, l, allowed(t, caller), allowedMany(t, caller, 3))
	expect(t, "batches in flight", lockWaiters(t, held.monitor), 1)
	go func() { _ = l.Append(context.Background(), allowed(t, caller)) }()
	held.waiting(t, 2)
	answers = append(answers, make(chan error, 1))
	go func() { answers[4] <- l.Append(context.Background(), allowedMany(t, caller, 9)...) }()
	until(t, "the check to be queued", func() bool { return queueLength(l) == 1 })
	expect(t, "batches in flight", lockWaiters(t, held.monitor), 2)
	held.release(t)
	for _, answer := range answers {
		noError(t, receive(t, "an answer", answer))
	}
	sizes.wantInAnyOrder(t, 1, 4, 9) // two of them are in flight at once
	verifyLedger(t, s)
}

// An idle ledger commits at once. A check whose caller has already left makes no batch.
func TestIdleLedgerCommitsAtOnce(t *testing.T) {
	t.Parallel()
	var sizes sizes
	s, l, caller := newLedger(t, nil, LedgerConfig{OnBatch: sizes.observe})
	noError(t, l.Append(t.Context())) // no checks
	left, leave := context.WithCancel(t.Context())
	leave()
	wantError(t, "append with an ended context", l.Append(left, allowed(t, caller)), context.Canceled)
	for range 3 {
		noError(t, l.Append(t.Context(), allowed(t, caller)))
	}
	sizes.want(t, 1, 1, 1)
	verifyLedger(t, s)
}

func TestFullQueueReportsOverload(t *testing.T) {
	t.Parallel()
	s, l, caller := newLedger(t, nil, LedgerConfig{Queue: 2})
	held := lockTheHeads(t, s.url)
	answers := queued(t, held, l, allowed(t, caller), []check.Record{allowed(t, caller), allowed(t, caller)})
	beyond := allowed(t, caller)
	wantRefusal(t, "append to a full queue", l.Append(t.Context(), beyond))
	held.release(t)
	for _, answer := range answers {
		noError(t, receive(t, "an answer", answer))
	}
	expect(t, "records of a rejected check", recorded(t, s, beyond.Decision.Ref), 0)
	verifyLedger(t, s)
}

func TestAbandonedCheckIsNotRecorded(t *testing.T) {
	t.Parallel()
	var sizes sizes
	s, l, caller := newLedger(t, nil, LedgerConfig{OnBatch: sizes.observe})
	held := lockTheHeads(t, s.url)
	first := queued(t, held, l, allowed(t, caller), nil)
	ctx, cancel := context.WithCancel(t.Context())
	abandoned, kept := allowed(t, caller), allowed(t, caller)
	canceled, stays := make(chan error, 1), make(chan error, 1)
	go func() { canceled <- l.Append(ctx, abandoned) }()
	until(t, "the check to be queued", func() bool { return queueLength(l) == 1 })
	go func() { stays <- l.Append(t.Context(), kept) }()
	until(t, "the other check to be queued", func() bool { return queueLength(l) == 2 })
	cancel()
	wantError(t, "append whose context ended", receive(t, "the result of the abandoned check", canceled),
		context.Canceled)
	held.release(t)
	for _, answer := range []chan error{first[0], stays} {
		noError(t, receive(t, "an answer", answer))
	}
	sizes.want(t, 1, 1)
	expect(t, "records of an abandoned check", recorded(t, s, abandoned.Decision.Ref), 0)
	verifyLedger(t, s)
}

func TestCloseRecordsQueuedChecks(t *testing.T) {
	t.Parallel()
	s, l, caller := newLedger(t, nil, LedgerConfig{Batch: 2}) // several batches remain to be committed
	held := lockTheHeads(t, s.url)
	records := allowedMany(t, caller, 5)
	answers := queued(t, held, l, allowed(t, caller), records)
	ended := make(chan error, 1)
	go func() { ended <- l.Close() }()
	until(t, "the ledger to be closed", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.closed
	})
	wantRefusal(t, "append to a closed ledger", l.Append(t.Context(), allowed(t, caller)))
	held.release(t)
	noError(t, receive(t, "Close", ended))
	for _, answer := range answers {
		noError(t, receive(t, "an answer", answer))
	}
	wantError(t, "closing again", l.Close(), nil)
	verifyLedger(t, s)
	expect(t, "checks recorded", one[int](t, s, "SELECT count(*) FROM audit_records WHERE kind = 'check'"), 6)
}

// A record that Postgres rejects must not fail the rest of its batch.
func TestRejectedRecordFailsAlone(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	caller := newCaller(t, s, plan(t, "pro", 1_000_000))
	for name, test := range map[string]struct {
		place int // in a batch of 9
		twice bool
	}{
		"first":               {place: 0},
		"in the middle":       {place: 4},
		"last":                {place: 8},
		"twice in one batch":  {place: 2, twice: true},
		"next to one another": {place: 7, twice: true},
	} {
		t.Run(name, func(t *testing.T) {
			var sizes sizes
			l := ledgerOn(t, s, LedgerConfig{OnBatch: sizes.observe})
			known := allowed(t, caller)
			noError(t, l.Append(t.Context(), known))
			records := allowedMany(t, caller, 9)
			bad := map[int]bool{test.place: true}
			records[test.place] = known
			if test.twice {
				bad[(test.place+1)%9] = true
				records[(test.place+1)%9] = known
			}
			for i, err := range inOneBatch(t, s.url, l, caller, records) {
				if bad[i] && (err == nil || !isDataError(err)) {
					t.Errorf("duplicate reference: %v, want a data error", err)
				}
				if !bad[i] && err != nil {
					t.Errorf("record %d next to a rejected one: %v", i, err)
				}
				expect(t, fmt.Sprintf("records of check %d", i), recorded(t, s, records[i].Decision.Ref), 1)
			}
			sizes.want(t, 1, 1, 9)
			verifyLedger(t, s)
		})
	}
}
