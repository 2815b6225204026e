package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"assay/host/audit"
	"assay/host/internal/maintenance"
)

// batcher gathers the calls of one chain into batches. One batch is in flight, and a second only if it is full: a busy
// chain's head is then never idle, and an idle chain's batches do not become smaller.
type batcher struct {
	ledger *Ledger
	chain  int

	mu      sync.Mutex
	closed  bool
	queue   []*pending
	records int // in the queue
	flying  int // batches in flight
}

const maxFlying = 2

// add queues a call.
func (b *batcher) add(p *pending) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return errClosed
	case len(b.queue) >= b.ledger.queue:
		return errFull
	}
	b.queue = append(b.queue, p)
	b.records += len(p.records)
	if b.ready() {
		b.flying++
		b.ledger.work.Go(b.run)
	}
	return nil
}

// ready reports whether another batch can begin.
func (b *batcher) ready() bool {
	return len(b.queue) > 0 && (b.flying == 0 || b.flying < maxFlying && b.records >= b.ledger.batch)
}

// run records batches until none is ready.
func (b *batcher) run() {
	for {
		b.mu.Lock()
		b.flying--
		if !b.ready() {
			b.mu.Unlock()
			return
		}
		b.flying++
		batch := b.gather()
		queued := len(b.queue)
		b.mu.Unlock()
		n := countRecords(batch)
		if n == 0 {
			continue
		}
		began := time.Now()
		b.ledger.pace.began(n, began)
		b.commit(batch)
		b.ledger.pace.ended(n, time.Now())
		b.ledger.onBatch(n, time.Since(began), queued)
	}
}

func countRecords(batch []*pending) (n int) {
	for _, p := range batch {
		n += len(p.records)
	}
	return n
}

// gather removes calls from the queue, up to the batch size. It drops those that were withdrawn, and withdraws those
// whose context has ended: their checks will not be answered, so they must not count.
func (b *batcher) gather() []*pending {
	var batch []*pending
	size, taken := 0, 0
	for _, p := range b.queue {
		if size >= b.ledger.batch {
			break
		}
		taken++
		b.records -= len(p.records)
		if p.state.Load() == callQueued && (p.ctx.Err() == nil || !p.withdraw()) {
			batch = append(batch, p)
			size += len(p.records)
		}
	}
	clear(b.queue[:taken])
	b.queue = b.queue[taken:]
	return batch
}

// commit records a batch and replies to its callers. It makes up to three attempts if other transactions interfere or
// the connection breaks. If Postgres rejects the values of a record, commit bisects the batch, so that the others
// are recorded.
func (b *batcher) commit(batch []*pending) {
	for attempt := 1; ; attempt++ {
		left, err := b.attempt(batch)
		b.ledger.store.batchEnded(err)
		switch {
		case len(left) == 0:
			return
		case isDataError(err) && len(left) > 1:
			half := len(left) / 2
			b.commit(left[:half])
			b.commit(left[half:])
			return
		case attempt < 3 && (retryable(err) || errors.Is(err, errLost) || pgconn.SafeToRetry(err)):
			batch = left
			continue
		}
		if sqlState(err) == recordsLost {
			b.ledger.store.watched.lost.Store(true) // Guard finds the lost records
			err = errRecordsLost
		}
		err = fmt.Errorf("recording check: %w", err)
		if isOutage(err) || errors.Is(err, errRecordsLost) || errors.Is(err, errLost) || errors.Is(err, errLate) {
			err = refused(err)
		}
		reply(left, err)
		return
	}
}

func reply(batch []*pending, err error) {
	for _, p := range batch {
		p.done <- err
	}
}

// Reasons why a call that was sent is certain not to be recorded.
var (
	errLost = errors.New("the connection was lost before the batch was recorded")
	errLate = errors.New("the database did not record the batch in time")
)

// inDoubtError means that a batch was sent but its outcome is unknown. It does not unwrap, so that its cause cannot
// make the ledger run the batch again, or report it as refused.
type inDoubtError struct{ err error }

func (e *inDoubtError) Error() string {
	return fmt.Sprintf("the outcome of the commit is unknown: %v", e.err)
}

// attempt sends a batch once and replies to the callers whose outcome is known, or will never be known. It returns the
// calls that are certain not to be recorded, and why.
func (b *batcher) attempt(batch []*pending) (left []*pending, err error) {
	l := b.ledger
	ctx, cancel := context.WithTimeout(context.Background(), l.patience)
	conn, err := acquire(ctx, l.db)
	cancel()
	if err != nil {
		return batch, err
	}
	// The last moment at which a caller can withdraw its call.
	sent := make([]*pending, 0, len(batch))
	for _, p := range batch {
		if p.send() {
			sent = append(sent, p)
		}
	}
	if len(sent) == 0 {
		return nil, conn.release()
	}
	id := make([]byte, 16)
	rand.Read(id)
	return b.conclude(sent, id, b.start(conn, sent, id), conn)
}

// result is the outcome of a batch: an error for each call.
type result struct {
	calls []error
	err   error      // the statement failed; nothing is recorded unless it is an *inDoubtError
	head  audit.Head // the head after the batch; its number is 0 if unknown
}

// start sends a batch without waiting for its reply. The statement has no context: cancelling one that waits for a
// synchronous standby would commit it without the standby.
func (b *batcher) start(conn *connection, batch []*pending, id []byte) <-chan result {
	params := appendParams(b.chain, id, b.ledger.lockTimeout(), batch, b.ledger.answered.last(b.chain))
	replied := make(chan result, 1)
	b.ledger.work.Go(func() {
		calls, head, err := conn.append(params, batch)
		_ = conn.release()
		replied <- result{calls, err, head}
	})
	return replied
}

// lockTimeout is how long a statement waits for the head: it ends while callers still wait.
func (l *Ledger) lockTimeout() time.Duration { return l.settling * 6 / 10 }

// conclude waits for the reply to a batch. If it is late or lost, conclude settles the batch over another connection.
func (b *batcher) conclude(batch []*pending, id []byte, replied <-chan result, conn *connection) (left []*pending,
	err error) {
	l := b.ledger
	late := time.NewTimer(l.late)
	defer late.Stop()
	cause := errLate
	select {
	case r := <-replied:
		if !inDoubt(r.err) {
			return b.answer(batch, r)
		}
		cause = errors.Join(errLost, r.err)
		replied = nil
	case <-late.C:
	}
	dropIdle(l.db)
	dropIdle(l.settler)
	ctx, cancel := context.WithTimeout(context.Background(), l.resolving)
	defer cancel()
	settled := make(chan result, 1)
	l.work.Go(func() { settled <- b.settle(ctx, batch, id, cause) })
	for {
		select {
		case r := <-replied:
			if !inDoubt(r.err) {
				return b.answer(batch, r)
			}
			replied = nil
		case r := <-settled:
			conn.abandon()
			return b.answer(batch, r)
		}
	}
}

// answer replies to the callers whose outcome is known, or will never be known, and returns the other calls.
func (b *batcher) answer(batch []*pending, r result) (left []*pending, err error) {
	if inDoubt(r.err) {
		reply(batch, fmt.Errorf("recording check: %w", r.err))
		return nil, nil
	}
	if r.err != nil {
		return batch, r.err
	}
	event := false
	var recorded []*pending
	for i, p := range batch {
		switch {
		case errors.Is(r.calls[i], errLost) || errors.Is(r.calls[i], errLate):
			left, err = append(left, p), r.calls[i]
		case r.calls[i] == nil:
			event = event || slices.ContainsFunc(p.rows, func(r row) bool { return r.payload != nil })
			recorded = append(recorded, p)
		default:
			p.done <- r.calls[i]
		}
	}
	if len(recorded) > 0 && r.head.Seq > 0 {
		b.ledger.answered.add(b.chain, batchOf(recorded, r.head))
	}
	reply(recorded, nil)
	if event {
		b.ledger.onEvents()
	}
	return left, err
}

// batchOf returns the entry to remember for recorded calls, in the order of the chain, which ends with head.
func batchOf(recorded []*pending, head audit.Head) answeredBatch {
	b := answeredBatch{Seq: head.Seq, Hash: head.Hash[:], Refs: make([]string, 0, countRecords(recorded))}
	for _, p := range recorded {
		for i := range p.rows {
			b.Refs, b.At = append(b.Refs, p.rows[i].ref), p.rows[i].at
		}
	}
	return b
}

// settle finds out which calls of a batch are recorded. If none is, the database refuses the batch from then on. settle
// never runs the batch again.
func (b *batcher) settle(ctx context.Context, batch []*pending, id []byte, cause error) result {
	l := b.ledger
	params := b.settleParams(id, batch)
	for {
		recorded, err := l.trySettle(ctx, params)
		if err == nil {
			calls := make([]error, len(batch))
			for i := range calls {
				calls[i] = cause
			}
			for _, i := range recorded {
				calls[i] = nil
			}
			return result{calls: calls}
		}
		if !maintenance.Pause(ctx, resolveInterval) {
			return result{err: &inDoubtError{errors.Join(cause, err)}}
		}
	}
}

func (l *Ledger) trySettle(ctx context.Context, params []any) (recorded []int, err error) {
	ctx, cancel := context.WithTimeout(ctx, l.settling)
	defer cancel()
	conn, err := acquire(ctx, l.settler)
	if err != nil {
		return nil, err
	}
	// A wait for a synchronous standby ends with the connection, which is dropped without a cancel request.
	stop := context.AfterFunc(ctx, conn.abandon)
	defer stop()
	recorded, err = conn.settle(params)
	return recorded, errors.Join(err, conn.release())
}

// inDoubt reports whether a statement that failed with err may have been committed. An error that Postgres reports for
// a statement means that it was rolled back. An error that ends the connection may come after the commit: from a
// pooler, or from a server that stops while the commit waits for a standby.
func inDoubt(err error) bool {
	var pg *pgconn.PgError
	switch {
	case errors.As(err, new(*inDoubtError)):
		return true
	case err == nil || pgconn.SafeToRetry(err):
		return false
	case errors.As(err, &pg):
		return pg.SeverityUnlocalized != "ERROR" || pg.Code[:2] == "08"
	}
	return true
}
