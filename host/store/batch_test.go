package store

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"assay/host/check"
	"assay/host/postgres/postgrestest"
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

// want waits for len(want) batches. OnBatch is called just after the batch's checks were answered.
func (s *sizes) want(t *testing.T, want ...int) {
	t.Helper()
	var seen []int
	until(t, "all batches to be observed", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		seen = slices.Clone(s.seen)
		return len(seen) >= len(want)
	})
	if !slices.Equal(seen, want) {
		t.Errorf("batch sizes %v, want %v", seen, want)
	}
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
		until(t, "the check to be queued", func() bool { return len(l.queue) == i })
	}
	return answers
}

// inOneBatch appends records so that they are committed in one batch, and returns the result of each.
func inOneBatch(t *testing.T, url string, l *Ledger, opener check.Caller, records []check.Record) []error {
	t.Helper()
	held := lockTheHeads(t, url)
	answers := queued(t, held, l, allowed(t, opener), records)
	held.release(t)
	if err := receive(t, "the first check's answer", answers[0]); err != nil {
		t.Fatal(err)
	}
	errs := make([]error, len(records))
	for i := range records {
		errs[i] = receive(t, "a check's answer", answers[1+i])
	}
	return errs
}

func TestBusyLedgerCommitsQueuedChecksTogether(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	s := open(t, url, nil)
	var sizes sizes
	l := ledgerOn(t, s, LedgerConfig{OnBatch: sizes.observe})
	caller := newCaller(t, s, plan(t, "pro", 1500))
	var records []check.Record
	for range 300 {
		records = append(records, allowed(t, caller))
	}
	for _, err := range inOneBatch(t, url, l, caller, records) {
		if err != nil {
			t.Fatal(err)
		}
	}
	sizes.want(t, 1, 256, 44)
	verifyLedger(t, s)
}

func TestIdleLedgerCommitsAtOnce(t *testing.T) {
	t.Parallel()
	s := open(t, postgrestest.Database(t), nil)
	var sizes sizes
	l := ledgerOn(t, s, LedgerConfig{OnBatch: sizes.observe})
	caller := newCaller(t, s, plan(t, "pro", 1500))
	for range 3 {
		if err := l.Append(t.Context(), allowed(t, caller)); err != nil {
			t.Fatal(err)
		}
	}
	sizes.want(t, 1, 1, 1)
}

func TestFullQueueReportsOverload(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	s := open(t, url, nil)
	l := ledgerOn(t, s, LedgerConfig{Queue: 2})
	caller := newCaller(t, s, plan(t, "pro", 1500))
	held := lockTheHeads(t, url)
	answers := queued(t, held, l, allowed(t, caller), []check.Record{allowed(t, caller), allowed(t, caller)})
	beyond := allowed(t, caller)
	if err := l.Append(t.Context(), beyond); !errors.Is(err, check.ErrOverloaded) {
		t.Errorf("append to a full queue: %v, want ErrOverloaded", err)
	}
	held.release(t)
	for _, answer := range answers {
		if err := receive(t, "an answer", answer); err != nil {
			t.Error(err)
		}
	}
	if n := recorded(t, s, beyond.Decision.Ref); n != 0 {
		t.Errorf("a rejected check is recorded %d times", n)
	}
	verifyLedger(t, s)
}

func TestAbandonedCheckIsNotRecorded(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	s := open(t, url, nil)
	var sizes sizes
	l := ledgerOn(t, s, LedgerConfig{OnBatch: sizes.observe})
	caller := newCaller(t, s, plan(t, "pro", 1500))
	held := lockTheHeads(t, url)
	first := queued(t, held, l, allowed(t, caller), nil)
	ctx, cancel := context.WithCancel(t.Context())
	abandoned, kept := allowed(t, caller), allowed(t, caller)
	canceled, stays := make(chan error, 1), make(chan error, 1)
	go func() { canceled <- l.Append(ctx, abandoned) }()
	until(t, "the check to be queued", func() bool { return len(l.queue) == 1 })
	go func() { stays <- l.Append(t.Context(), kept) }()
	until(t, "the other check to be queued", func() bool { return len(l.queue) == 2 })
	cancel()
	if err := receive(t, "the result of the abandoned check", canceled); !errors.Is(err, context.Canceled) {
		t.Errorf("append whose context ended: %v", err)
	}
	held.release(t)
	for _, answer := range []chan error{first[0], stays} {
		if err := receive(t, "an answer", answer); err != nil {
			t.Error(err)
		}
	}
	sizes.want(t, 1, 1)
	if n := recorded(t, s, abandoned.Decision.Ref); n != 0 {
		t.Errorf("an abandoned check is recorded %d times", n)
	}
	verifyLedger(t, s)
}

func TestAbandonedChecksAreNoBatch(t *testing.T) {
	t.Parallel()
	s := open(t, postgrestest.Database(t), nil)
	var sizes sizes
	l := ledgerOn(t, s, LedgerConfig{OnBatch: sizes.observe})
	caller := newCaller(t, s, plan(t, "pro", 1500))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Append(ctx, allowed(t, caller)); !errors.Is(err, context.Canceled) {
		t.Errorf("append with an ended context: %v", err)
	}
	if err := l.Append(t.Context(), allowed(t, caller)); err != nil {
		t.Fatal(err)
	}
	sizes.want(t, 1)
	verifyLedger(t, s)
}

func TestCloseRecordsQueuedChecks(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	s := open(t, url, nil)
	l := ledgerOn(t, s, LedgerConfig{Batch: 2}) // several batches remain to be committed
	caller := newCaller(t, s, plan(t, "pro", 1500))
	held := lockTheHeads(t, url)
	var records []check.Record
	for range 5 {
		records = append(records, allowed(t, caller))
	}
	answers := queued(t, held, l, allowed(t, caller), records)
	ended := make(chan error, 1)
	go func() { ended <- l.Close() }()
	until(t, "the ledger to be closed", func() bool {
		l.mu.RLock()
		defer l.mu.RUnlock()
		return l.closed
	})
	if err := l.Append(t.Context(), allowed(t, caller)); !errors.Is(err, check.ErrOverloaded) {
		t.Errorf("append to a closed ledger: %v, want ErrOverloaded", err)
	}
	held.release(t)
	if err := receive(t, "Close", ended); err != nil {
		t.Error(err)
	}
	for _, answer := range answers {
		if err := receive(t, "an answer", answer); err != nil {
			t.Error(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Errorf("closing again: %v", err)
	}
	verifyLedger(t, s)
	if n := one[int](t, s, "SELECT count(*) FROM audit_records"); n != 6 {
		t.Errorf("%d checks recorded, want 6", n)
	}
}

// A record that Postgres rejects must not fail the rest of its batch.
func TestRejectedRecordFailsAlone(t *testing.T) {
	t.Parallel()
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
			t.Parallel()
			url := postgrestest.Database(t)
			s := open(t, url, nil)
			var sizes sizes
			l := ledgerOn(t, s, LedgerConfig{OnBatch: sizes.observe})
			caller := newCaller(t, s, plan(t, "pro", 1500))
			known := allowed(t, caller)
			if err := l.Append(t.Context(), known); err != nil {
				t.Fatal(err)
			}
			var records []check.Record
			for range 9 {
				records = append(records, allowed(t, caller))
			}
			bad := map[int]bool{test.place: true}
			records[test.place] = known
			if test.twice {
				bad[(test.place+1)%9] = true
				records[(test.place+1)%9] = known
			}
			for i, err := range inOneBatch(t, url, l, caller, records) {
				if bad[i] && (err == nil || !isDataError(err)) {
					t.Errorf("duplicate reference: %v, want a data error", err)
				}
				if !bad[i] && err != nil {
					t.Errorf("record %d next to a rejected one: %v", i, err)
				}
				if n := recorded(t, s, records[i].Decision.Ref); n != 1 {
					t.Errorf("record %d is recorded %d times, want once", i, n)
				}
			}
			sizes.want(t, 1, 1, 9)
			verifyLedger(t, s)
		})
	}
}
