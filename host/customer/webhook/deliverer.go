// Package webhook delivers events from an outbox to the customers' endpoints: it signs each request, calls only
// permitted addresses, follows the retry schedule, and keeps slow receivers from delaying others. It declares the
// outbox that it reads and the types that describe endpoints, events and attempts; package store implements and fills
// them.
package webhook

import (
	"context"
	"crypto/x509"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"assay/host/internal/maintenance"
)

// Config configures a Deliverer. Outbox and Logger are required; the zero value of every other field is valid.
type Config struct {
	Outbox   Outbox
	Allow    []netip.Prefix // networks that may be called although they are not public, on any port and without TLS
	Resolver *net.Resolver  // nil: the system's name servers
	Roots    *x509.CertPool // nil: the system's
	Logger   *slog.Logger
	// Turn returns the time between polls of this host if several hosts take turns; nil: there is one host.
	Turn func(time.Duration) time.Duration
	// called after each attempt with its outcome and start delay; must not block; may be nil
	Observed func(o Outcome, late time.Duration)
	Now      func() time.Time // for webhook-timestamp, which receivers compare with their clocks; nil: time.Now
}

// Deliverer delivers events. Hint, Run and InFlight are safe for concurrent use.
type Deliverer struct {
	outbox   Outbox
	send     func(Delivery) Outcome
	lanes    *lanes
	log      *slog.Logger
	observed func(Outcome, time.Duration)
	turn     func(time.Duration) time.Duration
	hint     chan struct{}
	attempts sync.WaitGroup
}

// Polling of the outbox. Hints and retry timers wake the host early; polling guarantees that nothing is missed.
const (
	pollInterval    = 500 * time.Millisecond
	minPollInterval = 10 * time.Millisecond // events that arrive within it share one claim
	// with attemptTimeout shorter than AttemptLease, so that no other host claims the event during the attempt
	claimTimeout = 3 * time.Second
	// for recording an outcome while the database does not respond
	finishTimeout      = 30 * time.Second
	finishRetryDelay   = 250 * time.Millisecond
	minWarningInterval = 10 * time.Second
)

// New returns a Deliverer. It delivers nothing until Run is called.
func New(cfg Config) (*Deliverer, error) {
	guard, err := NewGuard(cfg.Allow)
	if err != nil {
		return nil, err
	}
	if cfg.Observed == nil {
		cfg.Observed = func(Outcome, time.Duration) {}
	}
	if cfg.Turn == nil {
		cfg.Turn = func(d time.Duration) time.Duration { return d }
	}
	sender := newSender(guard, cfg.Resolver, cfg.Roots, cfg.Logger)
	if cfg.Now != nil {
		sender.now = cfg.Now
	}
	return &Deliverer{
		outbox: cfg.Outbox, send: sender.send, lanes: newLanes(),
		log: cfg.Logger, observed: cfg.Observed, turn: cfg.Turn, hint: make(chan struct{}, 1),
	}, nil
}

// Hint wakes the Deliverer because an event may be due. It never blocks. A hint may be lost.
func (d *Deliverer) Hint() {
	select {
	case d.hint <- struct{}{}:
	default:
	}
}

// InFlight returns how many attempts are running, and how many of them are in the slow lane.
func (d *Deliverer) InFlight() (all, slow int) { return d.lanes.inFlight() }

// Run delivers events until ctx ends. It then waits for the attempts in flight, at most 10 seconds, and for their
// outcomes to be recorded, at most 30 seconds more.
func (d *Deliverer) Run(ctx context.Context) {
	defer d.attempts.Wait()
	var warned time.Time
	for ctx.Err() == nil {
		began := time.Now()
		claimed, err := d.claimAll(ctx)
		if err != nil && ctx.Err() == nil && time.Since(warned) > minWarningInterval {
			warned = time.Now()
			d.log.Warn("webhook events cannot be claimed", "error", err)
		}
		if claimed == 0 {
			select {
			case <-ctx.Done():
			case <-d.hint:
			case <-time.After(d.turn(pollInterval) - time.Since(began)):
			}
		}
		maintenance.Pause(ctx, minPollInterval-time.Since(began))
	}
}

// claimAll claims due events for the free slots of both lanes and starts their attempts.
func (d *Deliverer) claimAll(ctx context.Context) (claimed int, err error) {
	// A claim that is canceled may still have been committed, and its events would wait for their leases to expire. So
	// it only times out.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), claimTimeout)
	defer cancel()
	fast, closed, slow, slowAccounts := d.lanes.available()
	if fast > 0 {
		n, err := d.claim(ctx, ClaimOptions{MaxEvents: fast, MaxPerAccount: maxPerClaim, Except: closed})
		if err != nil {
			return n, err
		}
		claimed = n
	}
	if len(slowAccounts) > 0 {
		n, err := d.claim(ctx, ClaimOptions{MaxEvents: slow, MaxPerAccount: maxPerClaim, Only: slowAccounts})
		return claimed + n, err
	}
	return claimed, nil
}

func (d *Deliverer) claim(ctx context.Context, opts ClaimOptions) (int, error) {
	deliveries, err := d.outbox.Claim(ctx, opts)
	for _, delivery := range deliveries {
		slot := d.lanes.acquire(delivery.AccountID, d.Hint)
		d.attempts.Go(func() { d.deliver(delivery, slot) })
	}
	return len(deliveries), err
}

// deliver makes an attempt and records its outcome.
func (d *Deliverer) deliver(delivery Delivery, s *slot) {
	outcome := d.send(delivery)
	if d.lanes.release(s, outcome.Took) {
		d.Hint()
	}
	d.observed(outcome, delivery.Late)
	for deadline := outcome.EndedAt.Add(finishTimeout); ; {
		ctx, cancel := context.WithDeadline(context.Background(), deadline)
		delay, retry, err := d.outbox.Finish(ctx, outcome)
		cancel()
		if err == nil {
			if retry {
				time.AfterFunc(delay, d.Hint)
			}
			return
		}
		if time.Until(deadline) < finishRetryDelay {
			// The lease expires and the event is sent again: delivery is at least once.
			d.log.Error("webhook attempt cannot be recorded", "ref", delivery.Ref, "error", err)
			return
		}
		maintenance.Pause(context.Background(), finishRetryDelay)
	}
}
