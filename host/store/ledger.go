package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uptrace/bun"

	"assay/host/audit"
	"assay/host/check"
)

// Ledger records checks in batches, each batch in one transaction. A transaction locks the heads of its audit chains,
// so with one transaction per check, each check would wait for the disk writes of all checks before it. The next batch
// gathers while the previous one commits: an idle ledger commits a check at once, and a busy one commits all checks
// that have queued up.
type Ledger struct {
	store    *Store
	db       *bun.DB
	batch    int
	onBatch  func(size int, took time.Duration, queued int)
	onEvents func()
	queue    chan *pending
	patience time.Duration
	settling time.Duration

	started time.Time
	began   atomic.Int64 // when the batch in progress began, since started; 0: none is in progress
	size    atomic.Int64 // records of the batch in progress
	each    atomic.Int64 // moving mean of the time by which a record lengthens its batch

	mu      sync.RWMutex // write-locked to close the queue
	closed  bool
	drained chan struct{} // closed after the last batch
}

// LedgerConfig configures a Ledger.
type LedgerConfig struct {
	Batch int // gather no further checks once a transaction has this many; 0: 256
	Queue int // capacity of the queue, in calls of Append; 0: 4096

	Patience time.Duration // withdraw a check that is not sent to the database within this time; 0: 1 s
	Settling time.Duration // report a check's outcome as unknown at this time after it was sent; 0: 1 s

	// OnBatch is called after each batch. It may be nil.
	OnBatch func(size int, took time.Duration, queued int)
	// OnEvents is called after webhook events are committed. It must not block, and may be nil.
	OnEvents func()
}

// pending is a queued call of Append.
type pending struct {
	ctx     context.Context
	records []check.Record
	done    chan error // buffered, because the caller may have stopped waiting
	state   atomic.Int32
	sentAt  time.Time // set before the state becomes callSent
}

// The states of a call. A queued call becomes either of the others, and then keeps its state.
const (
	callQueued    int32 = iota
	callSent            // a statement that writes it has been sent, or is about to be
	callWithdrawn       // its caller has given up, so it will never be sent
)

// send marks the call as sent. It reports false if the call was withdrawn.
func (p *pending) send() bool {
	if p.state.Load() == callSent { // by an attempt that was rolled back
		return true
	}
	p.sentAt = time.Now()
	return p.state.CompareAndSwap(callQueued, callSent)
}

// withdraw reports whether the call has not been sent, and prevents that it ever is.
func (p *pending) withdraw() bool {
	return p.state.CompareAndSwap(callQueued, callWithdrawn) || p.state.Load() == callWithdrawn
}

func (p *pending) caller() check.Caller { return p.records[0].Caller }

var _ check.Ledger = (*Ledger)(nil)

const (
	commitTimeout   = 5 * time.Second  // for one attempt to commit a batch
	resolveTimeout  = 10 * time.Second // to find out the outcome of a commit
	resolveInterval = 100 * time.Millisecond
)

// NewLedger starts a ledger on the store's database, with its own connection pool. Close stops it.
func (s *Store) NewLedger(cfg LedgerConfig) (*Ledger, error) {
	if cfg.Batch == 0 {
		cfg.Batch = 256
	}
	if cfg.Queue == 0 {
		cfg.Queue = 4096
	}
	if cfg.Patience == 0 {
		cfg.Patience = time.Second
	}
	if cfg.Settling == 0 {
		cfg.Settling = time.Second
	}
	if cfg.OnBatch == nil {
		cfg.OnBatch = func(int, time.Duration, int) {}
	}
	if cfg.OnEvents == nil {
		cfg.OnEvents = func() {}
	}
	db, err := connect(s.url, ledgerConnections)
	if err != nil {
		return nil, fmt.Errorf("opening ledger: %w", err)
	}
	l := &Ledger{store: s, db: db, batch: cfg.Batch, onBatch: cfg.OnBatch, onEvents: cfg.OnEvents,
		queue: make(chan *pending, cfg.Queue), patience: cfg.Patience, settling: cfg.Settling, started: time.Now(),
		drained: make(chan struct{})}
	l.each.Store(int64(initialEach))
	go l.run()
	return l, nil
}

var (
	errFull   = errors.New("the queue is full")
	errClosed = errors.New("the ledger is closed")
	errSlow   = errors.New("the database does not respond in time")
)

// Append implements check.Ledger. A caller that gives up before its records are sent to the database withdraws them. It
// waits for the outcome of records that were sent, but not for long; the ledger then finds it out without the caller.
func (l *Ledger) Append(ctx context.Context, records ...check.Record) error {
	if len(records) == 0 {
		return nil
	}
	if err := l.store.clockError(); err != nil {
		return err
	}
	p := &pending{ctx: ctx, records: records, done: make(chan error, 1)}
	if err := l.enqueue(p); err != nil {
		return refused(err)
	}
	patience := time.NewTimer(l.patience)
	defer patience.Stop()
	var cause error
	select {
	case err := <-p.done:
		return err
	case <-patience.C:
		cause = errSlow
	case <-ctx.Done():
		cause = ctx.Err()
	}
	if p.withdraw() {
		return refused(cause)
	}
	settling := time.NewTimer(time.Until(p.sentAt.Add(l.settling)))
	defer settling.Stop()
	select {
	case err := <-p.done:
		return err
	case <-settling.C:
		return fmt.Errorf("waiting for the outcome of a check that was sent: %w", cause)
	}
}

// refused returns the error for records that are certain not to be stored.
func refused(err error) error { return &check.UnavailableError{Part: "ledger", Err: err} }

func (l *Ledger) enqueue(p *pending) error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.closed {
		return errClosed
	}
	select {
	case l.queue <- p:
		return nil
	default:
		return errFull
	}
}

// ownRecords is the assumed constant part of a batch's time: as much as for this many records. What delays a small
// batch has little to do with its records, so without a constant part a ledger would look slow when it has little to
// do.
const ownRecords = 16

// initialEach is assumed for each record until batches have been recorded. Without an assumption, the first batches of
// a new ledger would all look late.
const initialEach = 500 * time.Microsecond

// Pace returns how long a record that arrives now waits for the constant parts of the batch in progress and its own,
// for how long each record delays those after it, and by how much the batch in progress is late. A batch is late when
// it takes twice as long as usual.
func (l *Ledger) Pace() (least, each, late time.Duration) { return l.paceAt(time.Since(l.started)) }

// paceAt returns the pace at a time after the ledger's start.
func (l *Ledger) paceAt(now time.Duration) (least, each, late time.Duration) {
	each = time.Duration(l.each.Load())
	if began := time.Duration(l.began.Load()); began > 0 {
		usual := time.Duration(ownRecords+l.size.Load()) * each
		late = max(0, now-began-2*usual)
	}
	return 2 * ownRecords * each, each, late
}

// observe updates the durations that Pace expects, after a batch of n records.
func (l *Ledger) observe(n int, took time.Duration) {
	const longest = 200 * time.Millisecond // an outage says nothing about the batches after it
	took = min(took, longest)
	each := time.Duration(l.each.Load())
	each += (took/time.Duration(ownRecords+n) - each) * time.Duration(n) / time.Duration(n+l.batch)
	l.each.Store(int64(each))
}

// Close records the queued checks and stops the ledger. Later calls of Append are refused.
func (l *Ledger) Close() error {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		close(l.queue)
	}
	l.mu.Unlock()
	<-l.drained
	return l.db.Close()
}

func (l *Ledger) run() {
	defer close(l.drained)
	l.prepare()
	for first := range l.queue {
		batch := l.gather(first)
		if len(batch) == 0 {
			continue
		}
		n := countRecords(batch)
		began := time.Since(l.started)
		l.size.Store(int64(n))
		l.began.Store(int64(began))
		l.commit(batch)
		l.began.Store(0)
		took := time.Since(l.started) - began
		l.observe(n, took)
		l.onBatch(n, took, len(l.queue))
	}
}

// prepare opens a connection, so that the first batch need not. Without one, the first batch tries again.
func (l *Ledger) prepare() {
	ctx, cancel := context.WithTimeout(context.Background(), commitTimeout)
	defer cancel()
	_ = l.db.PingContext(ctx)
}

func countRecords(batch []*pending) (n int) {
	for _, p := range batch {
		n += len(p.records)
	}
	return n
}

// gather returns the queued calls, starting with first, up to the batch size. It drops those that were withdrawn, and
// withdraws those whose context has ended: their checks will not be answered, so they must not count.
func (l *Ledger) gather(first *pending) []*pending {
	var batch []*pending
	size := 0
	for p, more := first, true; more; {
		if p.state.Load() == callQueued && (p.ctx.Err() == nil || !p.withdraw()) {
			batch = append(batch, p)
			size += len(p.records)
		}
		if size >= l.batch {
			break
		}
		select {
		case p, more = <-l.queue:
		default:
			more = false
		}
	}
	return batch
}

// commit records a batch and replies to its callers. If Postgres rejects the values of a record, commit bisects the
// batch, so that the others are recorded.
func (l *Ledger) commit(batch []*pending) {
	results, err := l.commitWithRetries(batch)
	l.store.batchEnded(err)
	if err != nil && isDataError(err) && len(batch) > 1 {
		half := len(batch) / 2
		l.commit(batch[:half])
		l.commit(batch[half:])
		return
	}
	if err != nil {
		err = fmt.Errorf("recording check: %w", err)
	}
	if isOutage(err) {
		err = refused(err)
	}
	for i, p := range batch {
		if err != nil {
			p.done <- err
			continue
		}
		p.done <- results[i]
	}
}

// commitWithRetries runs the batch's transaction, with up to three attempts, and returns a result for each call. If the
// error is an *inDoubtError, the outcome is unknown. Any other error means that nothing was recorded.
func (l *Ledger) commitWithRetries(batch []*pending) ([]error, error) {
	for attempt := 1; ; attempt++ {
		ctx, cancel := context.WithTimeout(context.Background(), commitTimeout)
		results, err := l.transact(ctx, batch)
		cancel()
		if err == nil || attempt == 3 || !retryable(err) {
			return results, err
		}
	}
}

func (l *Ledger) transact(ctx context.Context, batch []*pending) ([]error, error) {
	tx, err := l.db.BeginTx(ctx, nil)
	if err != nil {
		// All idle connections may have died. Nothing was sent yet, so trying again is safe.
		if tx, err = l.db.BeginTx(ctx, nil); err != nil {
			return nil, err
		}
	}
	defer tx.Rollback() // no effect after Commit
	w := writer{store: l.store, tx: tx, names: audit.NewPseudonyms(l.store.keys.Pseudonym)}
	results, err := w.write(ctx, batch)
	if err != nil {
		return nil, err
	}
	if err := tx.Commit(); err != nil {
		if retryable(err) || isDataError(err) {
			return nil, err // These SQLSTATEs mean a rollback. Other errors may come from a pooler.
		}
		if err := l.resolveCommit(w.chains(), w.first, err); err != nil {
			return nil, err
		}
	}
	if w.event {
		l.onEvents()
	}
	return results, nil
}

// inDoubtError means that a commit was sent but its outcome is unknown. It does not unwrap, so that its cause cannot
// make the ledger run the batch again, or report it as refused.
type inDoubtError struct{ err error }

func (e *inDoubtError) Error() string {
	return fmt.Sprintf("the outcome of the commit is unknown: %v", e.err)
}

// resolveCommit finds out the outcome of a commit whose reply was lost, by looking for the leaf of one of its records.
// A leaf remains even if its record is erased meanwhile. resolveCommit never runs the batch again. It first locks the
// same heads, because the outcome is open as long as the lost transaction holds these locks.
func (l *Ledger) resolveCommit(chains []int, one *auditRow, cause error) error {
	if one == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), resolveTimeout)
	defer cancel()
	for {
		var found bool
		err := l.db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
			if _, err := lockHeads(ctx, tx, bun.List(chains)); err != nil {
				return err
			}
			return tx.NewRaw("SELECT EXISTS (SELECT FROM audit_records WHERE chain = ? AND seq = ? AND leaf = ?)",
				one.Chain, one.Seq, one.Leaf).Scan(ctx, &found)
		})
		switch {
		case err == nil && found:
			return nil
		case err == nil:
			return fmt.Errorf("committing: %w", cause)
		case ctx.Err() != nil:
			return &inDoubtError{errors.Join(cause, err)}
		}
		select {
		case <-ctx.Done():
		case <-time.After(resolveInterval):
		}
	}
}
