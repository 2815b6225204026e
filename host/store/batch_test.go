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
	"assay/host/entity"
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

// want waits for batches of the given sizes, in any order.
func (s *sizes) want(t *testing.T, want ...int) {
	t.Helper()
	var seen []int
	until(t, "all batches to be observed", func() bool { // which is just after the checks were answered
		s.mu.Lock()
		defer s.mu.Unlock()
		seen = slices.Sorted(slices.Values(s.seen))
		return len(seen) >= len(want)
	})
	slices.Sort(want)
	noDiff(t, "batch sizes", want, seen)
}

// wantRecorded waits for answers, which are not errors.
func wantRecorded(t *testing.T, answers []<-chan error) {
	t.Helper()
	for _, answer := range answers {
		noError(t, receive(t, "an answer", answer))
	}
}

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

// queued appends first, which waits for the head's lock, and then queues records. It returns their outcomes in order.
func queued(t *testing.T, held *headLock, l *Ledger, first check.Record, records []check.Record) []<-chan error {
	t.Helper()
	answers := make([]<-chan error, 1+len(records))
	for i, r := range append([]check.Record{first}, records...) {
		answers[i] = async(func() error { return l.Append(context.Background(), r) })
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
	return listOf(len(records), func(i int) error { return receive(t, "a check's answer", answers[1+i]) })
}

func TestBusyLedgerCommitsQueuedChecksTogether(t *testing.T) {
	t.Parallel()
	var sizes sizes
	s, l, caller := newVerified(t, nil, LedgerConfig{OnBatch: sizes.observe})
	noError(t, errors.Join(inOneBatch(t, s.url, l, caller, allowedMany(t, caller, 300))...))
	sizes.want(t, 1, 256, 44)
}

// A second batch is sent while the first commits, but only a full one.
func TestSecondBatchInFlightIsFull(t *testing.T) {
	t.Parallel()
	var sizes sizes
	s, l, caller := newVerified(t, nil, LedgerConfig{Batch: 4, OnBatch: sizes.observe})
	held := lockTheHeads(t, s.url)
	answers := queued(t, held, l, allowed(t, caller), allowedMany(t, caller, 3))
	expect(t, "batches in flight", lockWaiters(t, held.monitor), 1)
	go func() { _ = l.Append(context.Background(), allowed(t, caller)) }()
	held.waiting(t, 2)
	answers = append(answers, async(func() error {
		return l.Append(context.Background(), allowedMany(t, caller, 9)...)
	}))
	until(t, "the check to be queued", func() bool { return queueLength(l) == 1 })
	expect(t, "batches in flight", lockWaiters(t, held.monitor), 2)
	held.release(t)
	wantRecorded(t, answers)
	sizes.want(t, 1, 4, 9) // two of them are in flight at once
}

// An idle ledger commits at once. A check whose caller has already left makes no batch.
func TestIdleLedgerCommitsAtOnce(t *testing.T) {
	t.Parallel()
	var sizes sizes
	_, l, caller := newVerified(t, nil, LedgerConfig{OnBatch: sizes.observe})
	noError(t, l.Append(t.Context())) // no checks
	wantError(t, "append with an ended context", l.Append(endedContext(t), allowed(t, caller)), context.Canceled)
	for range 3 {
		noError(t, l.Append(t.Context(), allowed(t, caller)))
	}
	sizes.want(t, 1, 1, 1)
}

func TestFullQueueReportsOverload(t *testing.T) {
	t.Parallel()
	s, l, caller := newVerified(t, nil, LedgerConfig{Queue: 2})
	held := lockTheHeads(t, s.url)
	answers := queued(t, held, l, allowed(t, caller), []check.Record{allowed(t, caller), allowed(t, caller)})
	beyond := allowed(t, caller)
	wantRefusal(t, "append to a full queue", l.Append(t.Context(), beyond))
	held.release(t)
	wantRecorded(t, answers)
	expect(t, "records of a rejected check", recorded(t, s, beyond.Decision.Ref), 0)
	verifyLedger(t, s)

	// A caller whose context ends after its check was sent still gets the outcome.
	held = lockTheHeads(t, s.url)
	ctx, cancel := context.WithCancel(t.Context())
	r := allowed(t, caller)
	answer := async(func() error { return l.Append(ctx, r) })
	held.waiting(t, 1)
	cancel()
	held.release(t)
	wantError(t, "append", receive(t, "the answer", answer), nil)
	expect(t, "records", recorded(t, s, r.Decision.Ref), 1)
}

func TestAbandonedCheckIsNotRecorded(t *testing.T) {
	t.Parallel()
	var sizes sizes
	s, l, caller := newVerified(t, nil, LedgerConfig{OnBatch: sizes.observe})
	held := lockTheHeads(t, s.url)
	first := queued(t, held, l, allowed(t, caller), nil)
	ctx, cancel := context.WithCancel(t.Context())
	abandoned, kept := allowed(t, caller), allowed(t, caller)
	canceled := async(func() error { return l.Append(ctx, abandoned) })
	until(t, "the check to be queued", func() bool { return queueLength(l) == 1 })
	stays := async(func() error { return l.Append(t.Context(), kept) })
	until(t, "the other check to be queued", func() bool { return queueLength(l) == 2 })
	cancel()
	wantError(t, "append whose context ended", receive(t, "the result of the abandoned check", canceled),
		context.Canceled)
	held.release(t)
	wantRecorded(t, []<-chan error{first[0], stays})
	sizes.want(t, 1, 1)
	expect(t, "records of an abandoned check", recorded(t, s, abandoned.Decision.Ref), 0)
}

func TestCloseRecordsQueuedChecks(t *testing.T) {
	t.Parallel()
	s, l, caller := newLedger(t, nil, LedgerConfig{Batch: 2}) // several batches remain to be committed
	held := lockTheHeads(t, s.url)
	answers := queued(t, held, l, allowed(t, caller), allowedMany(t, caller, 5))
	ended := async(l.Close)
	until(t, "the ledger to be closed", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.closed
	})
	wantRefusal(t, "append to a closed ledger", l.Append(t.Context(), allowed(t, caller)))
	held.release(t)
	noError(t, receive(t, "Close", ended))
	wantRecorded(t, answers)
	wantError(t, "closing again", l.Close(), nil)
	verifyLedger(t, s)
	expect(t, "checks recorded", rowsOf(t, s, "audit_records WHERE kind = 'check'"), 6)
}

// A record that Postgres rejects must not fail the rest of its batch.
func TestRejectedRecordFailsAlone(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	caller := newCaller(t, s, plan(t, "pro", 1_000_000))
	for name, bad := range map[string][]int{"first": {0}, "in the middle": {4}, "two at the end": {7, 8}} {
		t.Run(name, func(t *testing.T) {
			var sizes sizes
			l := ledgerOn(t, s, LedgerConfig{OnBatch: sizes.observe})
			known := allowed(t, caller)
			noError(t, l.Append(t.Context(), known))
			records := allowedMany(t, caller, 9)
			for _, i := range bad {
				records[i] = known
			}
			for i, err := range inOneBatch(t, s.url, l, caller, records) {
				if slices.Contains(bad, i) {
					holds(t, err != nil && isDataError(err), "duplicate reference: %v, want a data error", err)
				} else {
					wantError(t, "a record next to a rejected one", err, nil)
				}
				expect(t, fmt.Sprintf("records of check %d", i), recorded(t, s, records[i].Decision.Ref), 1)
			}
			sizes.want(t, 1, 1, 9)
			verifyLedger(t, s)
		})
	}
}

// of returns a check under another lineup.
func of(revision int64, r check.Record) check.Record {
	d := *r.Decision
	d.Revision = revision
	r.Decision = &d
	return r
}

// A check is recorded if its lineup is in force, or was two seconds ago by the database's clock. Otherwise nothing of
// its call is stored or counted, and other calls of the batch are not concerned.
func TestReplacedLineupIsNotRecorded(t *testing.T) {
	t.Parallel()
	s, l, caller := newVerified(t, nil, LedgerConfig{})
	conn := session(t, s.url)
	exec(t, conn, `INSERT INTO revisions_in_force (revision, until) VALUES (1, null), (2, clock_timestamp() + '1 hour'),
		(3, clock_timestamp() - interval '2 seconds'), (4, '-infinity')`)
	john := func() check.Record { return decided(caller, parse(t, entity.Domain, "john.example"), check.Block) }
	for name, c := range map[string]struct {
		revisions []int64
		want      error
	}{
		"in force":           {[]int64{1}, nil},
		"replaced just now":  {[]int64{2}, nil},
		"replaced 2 s ago":   {[]int64{3}, check.ErrRevision},
		"replaced long ago":  {[]int64{4}, check.ErrRevision},
		"never in force":     {[]int64{5}, check.ErrRevision},
		"without a lineup":   {[]int64{0}, check.ErrRevision},
		"a batch in force":   {[]int64{1, 1, 2}, nil},
		"a batch's last one": {[]int64{1, 2, 3}, check.ErrRevision},
	} {
		before := one[int](t, s, "SELECT coalesce(sum(used), 0) FROM quota_usage")
		records := column(c.revisions, func(revision int64) check.Record { return of(revision, john()) })
		wantError(t, name, l.Append(t.Context(), records...), c.want)
		stored, used := 0, one[int](t, s, "SELECT coalesce(sum(used), 0) FROM quota_usage")-before
		for _, r := range records {
			stored += recorded(t, s, r.Decision.Ref)
		}
		expect(t, name+": records", stored, map[bool]int{c.want == nil: len(records)}[true])
		expect(t, name+": checks counted", used, stored)
	}

	// Calls that wait for the head together are one batch. The lineup of one is replaced while it waits.
	lock := lockTheHeads(t, s.url)
	first := async(func() error { return l.Append(t.Context(), john()) })
	lock.waiting(t, 1)
	refs, errs := make([]string, 6), make(chan []error)
	go func() {
		errs <- concurrently(len(refs), func(i int) error {
			r := of([]int64{1, lasting}[i%2], john())
			refs[i] = r.Decision.Ref
			return l.Append(t.Context(), r)
		})
	}()
	exec(t, conn, "UPDATE revisions_in_force SET until = now() - interval '1 minute' WHERE revision = 1")
	lock.release(t)
	noError(t, <-first)
	for i, err := range <-errs {
		wantError(t, "a call of a batch", err, []error{check.ErrRevision, nil}[i%2])
		expect(t, "records of the call", recorded(t, s, refs[i]), i%2)
	}
}
