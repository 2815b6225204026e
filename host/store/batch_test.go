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

// sizes remembers the sizes of the batches that a ledger committed.
type sizes struct {
	mu   sync.Mutex
	seen []int
}

func newSizes() *sizes { return &sizes{} }

func (s *sizes) observe(size int, _ time.Duration, _ int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, size)
}

// want waits until as many batches were observed: a batch is, just after its checks were answered.
func (s *sizes) want(t *testing.T, want ...int) {
	t.Helper()
	var seen []int
	until(t, "all batches are observed", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		seen = slices.Clone(s.seen)
		return len(seen) >= len(want)
	})
	if !slices.Equal(seen, want) {
		t.Errorf("batches of %v, want %v", seen, want)
	}
}

// queued appends records behind a first one that waits for the head's lock, and returns once all of them are queued.
// The answers come through the channels, in the order of the records.
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
		until(t, "the check is queued", func() bool { return len(l.queue) == i })
	}
	return answers
}

// inOneBatch appends records so that they are committed together, and returns what each got.
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

func TestBusyLedgerCommitsWhatHasCome(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	s := open(t, url, nil)
	sizes := newSizes()
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
	sizes := newSizes()
	l := ledgerOn(t, s, LedgerConfig{OnBatch: sizes.observe})
	caller := newCaller(t, s, plan(t, "pro", 1500))
	for range 3 {
		if err := l.Append(t.Context(), allowed(t, caller)); err != nil {
			t.Fatal(err)
		}
	}
	sizes.want(t, 1, 1, 1)
}

func TestFullQueueIsOverload(t *testing.T) {
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
		t.Errorf("a check that was turned away is recorded %d times", n)
	}
	verifyLedger(t, s)
}

func TestCheckThatNobodyWaitsForIsNotCounted(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	s := open(t, url, nil)
	sizes := newSizes()
	l := ledgerOn(t, s, LedgerConfig{OnBatch: sizes.observe})
	caller := newCaller(t, s, plan(t, "pro", 1500))
	held := lockTheHeads(t, url)
	first := queued(t, held, l, allowed(t, caller), nil)
	ctx, cancel := context.WithCancel(t.Context())
	left, kept := allowed(t, caller), allowed(t, caller)
	gone, stays := make(chan error, 1), make(chan error, 1)
	go func() { gone <- l.Append(ctx, left) }()
	until(t, "the check is queued", func() bool { return len(l.queue) == 1 })
	go func() { stays <- l.Append(t.Context(), kept) }()
	until(t, "the other check is queued", func() bool { return len(l.queue) == 2 })
	cancel()
	if err := receive(t, "the answer of a check given up", gone); !errors.Is(err, context.Canceled) {
		t.Errorf("append whose context ended: %v", err)
	}
	held.release(t)
	for _, answer := range []chan error{first[0], stays} {
		if err := receive(t, "an answer", answer); err != nil {
			t.Error(err)
		}
	}
	sizes.want(t, 1, 1)
	if n := recorded(t, s, left.Decision.Ref); n != 0 {
		t.Errorf("a check given up before its batch is recorded %d times", n)
	}
	verifyLedger(t, s)
}

func TestBatchOfChecksGivenUpIsNoBatch(t *testing.T) {
	t.Parallel()
	s := open(t, postgrestest.Database(t), nil)
	sizes := newSizes()
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

func TestCloseRecordsWhatIsQueued(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	s := open(t, url, nil)
	l := ledgerOn(t, s, LedgerConfig{Batch: 2}) // several batches are left to commit
	caller := newCaller(t, s, plan(t, "pro", 1500))
	held := lockTheHeads(t, url)
	var records []check.Record
	for range 5 {
		records = append(records, allowed(t, caller))
	}
	answers := queued(t, held, l, allowed(t, caller), records)
	ended := make(chan error, 1)
	go func() { ended <- l.Close() }()
	until(t, "the ledger takes no more", func() bool {
		l.mu.RLock()
		defer l.mu.RUnlock()
		return l.closed
	})
	if err := l.Append(t.Context(), allowed(t, caller)); !errors.Is(err, check.ErrOverloaded) {
		t.Errorf("append to a closed ledger: %v, want ErrOverloaded", err)
	}
	held.release(t)
	if err := receive(t, "the ledger's end", ended); err != nil {
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

// One record that Postgres refuses must not take the rest of its batch down.
func TestPoisonedRecordFailsAlone(t *testing.T) {
	t.Parallel()
	for name, poison := range map[string]struct {
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
			sizes := newSizes()
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
			bad := map[int]bool{poison.place: true}
			records[poison.place] = known
			if poison.twice {
				bad[(poison.place+1)%9] = true
				records[(poison.place+1)%9] = known
			}
			for i, err := range inOneBatch(t, url, l, caller, records) {
				if bad[i] && (err == nil || !isDataError(err)) {
					t.Errorf("a ref that is taken: %v, want Postgres's refusal", err)
				}
				if !bad[i] && err != nil {
					t.Errorf("record %d beside a poisoned one: %v", i, err)
				}
				if n := recorded(t, s, records[i].Decision.Ref); n != 1 {
					t.Errorf("record %d stands in the audit trail %d times", i, n)
				}
			}
			sizes.want(t, 1, 1, 9)
			verifyLedger(t, s)
		})
	}
}
