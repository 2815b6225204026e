package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uptrace/bun"

	"assay/host/check"
	"assay/host/internal/lru"
)

// Ledger records checks in batches, each batch by one statement that is a transaction of its own (ledger_append in the
// migrations). A transaction locks the head of its audit chain, so with one transaction per check, each check would
// wait for the disk writes of all checks before it. The next batch gathers while the previous one commits: an idle
// ledger commits a check at once, and a busy one commits all checks that have queued up. Each chain has its own queue.
type Ledger struct {
	store     *Store
	db        *bun.DB // for batches
	settler   *bun.DB // finds out the outcome of batches whose own connection was lost or is late
	batch     int
	queue     int
	onBatch   func(size int, took time.Duration, queued int)
	onEvents  func()
	patience  time.Duration
	settling  time.Duration
	resolving time.Duration
	late      time.Duration
	accounts  *lru.Cache[string, accountInfo]
	answered  *Answered
	host      string
	pace      pace

	mu       sync.Mutex
	closed   bool
	batchers map[int]*batcher // by chain
	work     sync.WaitGroup   // batches in flight
}

// LedgerConfig configures a Ledger.
type LedgerConfig struct {
	Batch int // gather no further checks once a transaction has this many; 0: 256
	Queue int // capacity of each chain's queue, in calls of Append; 0: 4096

	Patience time.Duration // withdraw a check that is not sent to the database within this time; 0: 1 s
	Settling time.Duration // report a check's outcome as unknown at this time after it was sent; 0: 1 s
	Late     time.Duration // settle a batch over another connection at this time after it was sent; 0: 500 ms

	Answered *Answered // the records that this host answered for; nil: they are not remembered
	Host     string    // the host's name, for losses that it finds

	// OnBatch is called after each batch. It may be nil.
	OnBatch func(size int, took time.Duration, queued int)
	// OnEvents is called after webhook events are committed. It must not block, and may be nil.
	OnEvents func()
}

// pending is a queued call of Append.
type pending struct {
	ctx     context.Context
	records []check.Record
	rows    []row
	lacking bool        // an event has no payload
	answer  *keptAnswer // nil: the call has no idempotency key
	done    chan error  // buffered, because the caller may have stopped waiting
	state   atomic.Int32
	sentAt  time.Time // set before the state becomes callSent
}

// The states of a call. A queued call becomes sent or withdrawn.
const (
	callQueued    int32 = iota
	callSent            // a statement that writes it has been sent, or is about to be
	callWithdrawn       // its caller has given up, so it will never be sent
	callUnknown         // its caller was told that the outcome is unknown, so it is not sent again
)

// send marks the call as sent. It reports false if the call was withdrawn.
func (p *pending) send() bool {
	if p.state.Load() == callSent { // by an attempt that was rolled back
		return true
	}
	p.sentAt = time.Now()
	return p.state.CompareAndSwap(callQueued, callSent)
}

// withdraw withdraws the call, and reports false if it has been sent already.
func (p *pending) withdraw() bool {
	return p.state.CompareAndSwap(callQueued, callWithdrawn) || p.state.Load() == callWithdrawn
}

func (p *pending) caller() check.Caller { return p.records[0].Caller }

var _ check.Ledger = (*Ledger)(nil)

const (
	resolveTimeout  = 10 * time.Second // to find out the outcome of a commit
	resolveInterval = 100 * time.Millisecond
)

// NewLedger starts a ledger on the store's database, with its own connection pools. Close stops it.
func (s *Store) NewLedger(cfg LedgerConfig) (*Ledger, error) {
	cfg.Batch, cfg.Queue = cmp.Or(cfg.Batch, 256), cmp.Or(cfg.Queue, 4096)
	cfg.Patience, cfg.Settling = cmp.Or(cfg.Patience, time.Second), cmp.Or(cfg.Settling, time.Second)
	cfg.Late = cmp.Or(cfg.Late, 500*time.Millisecond)
	if cfg.Answered == nil {
		cfg.Answered = &Answered{chains: map[int][]answeredBatch{}}
	}
	if cfg.OnBatch == nil {
		cfg.OnBatch = func(int, time.Duration, int) {}
	}
	if cfg.OnEvents == nil {
		cfg.OnEvents = func() {}
	}
	db, err := connectLedger(s.url, s.url, batchConnections)
	if err != nil {
		return nil, fmt.Errorf("opening ledger: %w", err)
	}
	settler, err := connectLedger(s.url, s.direct, settleConnections)
	if err != nil {
		return nil, fmt.Errorf("opening ledger: %w", errors.Join(err, db.Close()))
	}
	l := &Ledger{store: s, db: db, settler: settler, batch: cfg.Batch, queue: cfg.Queue, onBatch: cfg.OnBatch,
		onEvents: cfg.OnEvents, patience: cfg.Patience, settling: cfg.Settling, late: cfg.Late,
		resolving: resolveTimeout, accounts: lru.New[string, accountInfo](maxAccounts, 0),
		batchers: map[int]*batcher{}, answered: cfg.Answered, host: cfg.Host}
	l.pace.start(cfg.Batch)
	l.work.Go(func() { // opens a connection, so that the first batch need not; without one, that tries again
		ctx, cancel := context.WithTimeout(context.Background(), l.patience)
		defer cancel()
		_ = l.db.PingContext(ctx)
	})
	return l, nil
}

var (
	errFull   = errors.New("the queue is full")
	errClosed = errors.New("the ledger is closed")
	errSlow   = errors.New("the database does not respond in time")

	errTestKey = errors.New("checks with test keys are not recorded")
)

// Outcomes after which Append prepares a call's records again.
var (
	errNeedsEvent = errors.New("the account has a webhook endpoint")
	errMoved      = errors.New("the account belongs to another audit chain")
)

// Append implements check.Ledger. A caller that gives up before its records are sent to the database withdraws them. It
// waits only briefly for the outcome of records that were sent; after that, the ledger finds it out without the caller.
func (l *Ledger) Append(ctx context.Context, records ...check.Record) error {
	if len(records) == 0 {
		return nil
	}
	if records[0].Caller.Limits.Test {
		return errTestKey
	}
	if err := l.store.clockError(); err != nil {
		return err
	}
	if l.store.watched.lost.Load() {
		return refused(errRecordsLost)
	}
	patience := time.NewTimer(l.patience)
	defer patience.Stop()
	id := records[0].Caller.Account
	answer, err := l.store.answerOf(id, records[0].Once)
	if err != nil {
		return err
	}
	for attempt := 1; ; attempt++ {
		a, err := l.account(ctx, id)
		if err != nil {
			return err
		}
		rows, lacking, err := l.store.rows(a, records)
		if err != nil {
			return err
		}
		p := &pending{ctx: ctx, records: records, rows: rows, lacking: lacking, answer: answer,
			done: make(chan error, 1)}
		err = l.enqueue(a.Chain, p)
		if err == nil {
			err = l.wait(p, patience.C)
		}
		switch {
		case attempt == 3:
			return err
		case errors.Is(err, errNeedsEvent):
			a.Endpoint = true
			l.accounts.Put(id, a, 0)
		case errors.Is(err, errMoved):
			l.accounts.Forget(id)
		default:
			return err
		}
	}
}

// wait returns the outcome of a queued call.
func (l *Ledger) wait(p *pending, patience <-chan time.Time) error {
	var cause error
	select {
	case err := <-p.done:
		return err
	case <-patience:
		cause = errSlow
	case <-p.ctx.Done():
		cause = p.ctx.Err()
	}
	if p.withdraw() {
		return refused(cause)
	}
	deadline := p.sentAt.Add(l.settling)
	for {
		settling := time.NewTimer(time.Until(deadline))
		select {
		case err := <-p.done:
			settling.Stop()
			return err
		case <-settling.C:
		}
		// After the host itself was paused, all its timers end before it can read the replies that have arrived.
		if now := time.Now(); now.Sub(deadline) > pauseLength {
			deadline = now.Add(l.settling)
			continue
		}
		p.state.Store(callUnknown)
		return fmt.Errorf("waiting for the outcome of a check that was sent: %w", cause)
	}
}

// pauseLength is the delay of a timer that indicates a pause of the whole host. Shorter delays, as on a busy machine,
// do not matter.
const pauseLength = 200 * time.Millisecond

// refused returns the error for records that are certain not to be stored.
func refused(err error) error { return &check.UnavailableError{Part: "ledger", Err: err} }

// enqueue adds a call to its chain's queue.
func (l *Ledger) enqueue(chain int, p *pending) error {
	b, err := l.batcher(chain)
	if err == nil {
		err = b.add(p)
	}
	if err != nil {
		return refused(err)
	}
	return nil
}

func (l *Ledger) batcher(chain int) (*batcher, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, errClosed
	}
	b := l.batchers[chain]
	if b == nil {
		b = &batcher{ledger: l, chain: chain}
		l.batchers[chain] = b
	}
	return b, nil
}

// Pace returns how long a record that arrives now waits for the constant parts of the batch in progress and its own,
// how long each record delays the next, and how late the batch in progress is. A batch is late when it takes twice as
// long as usual.
func (l *Ledger) Pace() (least, each, late time.Duration) { return l.pace.at(time.Now()) }

// Close records the queued checks and stops the ledger. Later calls of Append are refused.
func (l *Ledger) Close() error {
	l.mu.Lock()
	l.closed = true
	batchers := l.batchers
	l.mu.Unlock()
	for _, b := range batchers {
		b.mu.Lock()
		b.closed = true
		b.mu.Unlock()
	}
	l.work.Wait()
	return errors.Join(closePool(l.db), closePool(l.settler), l.answered.Save())
}
