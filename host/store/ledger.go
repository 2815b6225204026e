package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/uptrace/bun"

	"assay/host/check"
)

// Ledger records checks, many in one transaction: each takes the lock of its audit chain's head, and one transaction a
// check would make every check wait for the disk behind every other. While one batch commits the next gathers, so an
// idle ledger adds no waiting and a busy one commits as many as have come.
type Ledger struct {
	store    *Store
	db       *bun.DB
	batch    int
	observed func(size int, took time.Duration, queued int)
	events   func()
	queue    chan *pending

	mu      sync.RWMutex // held for writing once, to close the queue
	closed  bool
	drained chan struct{}
}

// LedgerConfig says how a ledger batches.
type LedgerConfig struct {
	Batch    int                                            // checks in one transaction at most; 0: 256
	Queue    int                                            // checks that may wait; 0: 4096
	Observed func(size int, took time.Duration, queued int) // told after every batch; may be nil
	// told when webhook events were committed; must not block; may be nil
	Events func()
}

// pending is what one caller appends together, on its way into the ledger.
type pending struct {
	ctx     context.Context
	records []check.Record
	done    chan error // buffered: whoever waited may have gone
}

func (p *pending) caller() check.Caller { return p.records[0].Caller }

var _ check.Ledger = (*Ledger)(nil)

// Durations that bound a batch.
const (
	commitTimeout   = 5 * time.Second  // for one attempt
	resolveTimeout  = 10 * time.Second // to find out what became of a commit
	resolveInterval = 100 * time.Millisecond
)

// NewLedger starts a ledger on the store's database, with a connection of its own. Close ends it.
func (s *Store) NewLedger(cfg LedgerConfig) (*Ledger, error) {
	if cfg.Batch == 0 {
		cfg.Batch = 256
	}
	if cfg.Queue == 0 {
		cfg.Queue = 4096
	}
	if cfg.Observed == nil {
		cfg.Observed = func(int, time.Duration, int) {}
	}
	if cfg.Events == nil {
		cfg.Events = func() {}
	}
	db, err := connect(s.url, 2)
	if err != nil {
		return nil, fmt.Errorf("opening ledger: %w", err)
	}
	l := &Ledger{store: s, db: db, batch: cfg.Batch, observed: cfg.Observed, events: cfg.Events,
		queue: make(chan *pending, cfg.Queue), drained: make(chan struct{})}
	go l.run()
	return l, nil
}

// Append implements check.Ledger.
func (l *Ledger) Append(ctx context.Context, records ...check.Record) error {
	if len(records) == 0 {
		return nil
	}
	p := &pending{ctx: ctx, records: records, done: make(chan error, 1)}
	if err := l.enqueue(p); err != nil {
		return err
	}
	select {
	case err := <-p.done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("waiting for the ledger: %w", ctx.Err())
	}
}

func (l *Ledger) enqueue(p *pending) error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.closed {
		return check.ErrOverloaded
	}
	select {
	case l.queue <- p:
		return nil
	default:
		return check.ErrOverloaded
	}
}

// Close records what is queued and ends the ledger. Later appends get check.ErrOverloaded.
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
	for first := range l.queue {
		batch := l.gather(first)
		if len(batch) == 0 {
			continue
		}
		began := time.Now()
		l.commit(batch)
		l.observed(countRecords(batch), time.Since(began), len(l.queue))
	}
}

func countRecords(batch []*pending) (n int) {
	for _, p := range batch {
		n += len(p.records)
	}
	return n
}

// gather takes what has queued up behind first. A check that nobody waits for any more is left out: it was not
// answered, so it must not count.
func (l *Ledger) gather(first *pending) []*pending {
	var batch []*pending
	size := 0
	for p, more := first, true; more; {
		if p.ctx.Err() == nil {
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

// commit records a batch and tells everyone who waits. When one record's content is what Postgres refuses, the halves
// are tried apart, so that it takes nobody else down with it.
func (l *Ledger) commit(batch []*pending) {
	verdicts, err := l.commitWithRetries(batch)
	if err != nil && isDataError(err) && len(batch) > 1 {
		half := len(batch) / 2
		l.commit(batch[:half])
		l.commit(batch[half:])
		return
	}
	for i, p := range batch {
		if err != nil {
			p.done <- fmt.Errorf("recording check: %w", err)
			continue
		}
		p.done <- verdicts[i]
	}
}

// commitWithRetries runs the batch's transaction. An error means that none of it was kept or, when it is an
// *inDoubtError, that this could not be found out.
func (l *Ledger) commitWithRetries(batch []*pending) ([]error, error) {
	for attempt := 1; ; attempt++ {
		ctx, cancel := context.WithTimeout(context.Background(), commitTimeout)
		verdicts, err := l.transact(ctx, batch)
		cancel()
		if err == nil || attempt == 3 || !retryable(err) {
			return verdicts, err
		}
	}
}

func (l *Ledger) transact(ctx context.Context, batch []*pending) ([]error, error) {
	tx, err := l.db.BeginTx(ctx, nil)
	if err != nil {
		// Nothing was sent: the connection may have died while it was idle, with all its siblings.
		if tx, err = l.db.BeginTx(ctx, nil); err != nil {
			return nil, err
		}
	}
	defer tx.Rollback() // once committed it does nothing
	w := writer{store: l.store, tx: tx}
	verdicts, err := w.write(ctx, batch)
	if err != nil {
		return nil, err
	}
	if err := tx.Commit(); err != nil {
		if retryable(err) || isDataError(err) {
			return nil, err // Postgres says that it rolled back; of anything else, a pooler between may be the author
		}
		return verdicts, l.resolveCommit(w.chains(), w.first, err)
	}
	if w.event {
		l.events()
	}
	return verdicts, nil
}

// inDoubtError means that a commit was sent and neither its success nor its failure could be learned. It hides what it
// holds from errors.As: no SQLSTATE within may look like a reason to run the batch again.
type inDoubtError struct{ err error }

func (e *inDoubtError) Error() string {
	return fmt.Sprintf("the outcome of the commit is unknown: %v", e.err)
}

// resolveCommit finds out what became of a commit whose answer was lost, by looking for one of its records: for its
// leaf, which stays even if it is erased meanwhile. It never runs the batch again. It takes the same heads' lock first:
// while the lost transaction still holds it, its outcome is not yet decided.
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
