// Package webhook delivers the events that checks have left in the outbox: signed, on the schedule of the spec, to
// addresses that may be called, and so that no receiver holds up another.
package webhook

import (
	"context"
	"crypto/x509"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"assay/host/store"
)

// outbox is the durable queue: what is due, and what has become of it.
type outbox interface {
	// Claim makes due events this host's for store.AttemptLease.
	Claim(ctx context.Context, w store.Want) ([]store.Delivery, error)
	// Finish records how an attempt ended. When again is true, the next is due in so long.
	Finish(ctx context.Context, e store.Ended) (in time.Duration, again bool, err error)
}

// Config is what a Deliverer needs. Outbox is required; the rest has defaults.
type Config struct {
	Outbox outbox
	// networks that may be called although they are not public, with any port and without TLS
	Allow    []netip.Prefix
	Resolver *net.Resolver  // nil: the system's name servers
	Roots    *x509.CertPool // nil: the system's
	Logger   *slog.Logger   // nil: silent
	// told of every attempt that ended, and how late it began; must not block; may be nil
	Observed func(a store.Ended, late time.Duration)
}

// Deliverer delivers events. Hint, Run and UnderWay are safe for concurrent use.
type Deliverer struct {
	outbox   outbox
	attempt  func(store.Delivery) store.Ended
	places   *places
	log      *slog.Logger
	observed func(store.Ended, time.Duration)
	hint     chan struct{}
	attempts sync.WaitGroup
}

// How the outbox is asked. A hint or the end of a pause wakes the host at once; looking is what it can rely on.
const (
	lookEvery = 250 * time.Millisecond
	lookApart = 10 * time.Millisecond // what comes within goes into one claim
	// with an attempt behind it, less than store.AttemptLease: nobody else begins the event meanwhile
	claimTimeout = 3 * time.Second
	finishFor    = 30 * time.Second // to record an outcome while the database does not answer
	finishPause  = 250 * time.Millisecond
	complainOnce = 10 * time.Second
)

// New returns a deliverer that does nothing until Run.
func New(cfg Config) (*Deliverer, error) {
	guard, err := NewGuard(cfg.Allow)
	if err != nil {
		return nil, err
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Observed == nil {
		cfg.Observed = func(store.Ended, time.Duration) {}
	}
	return &Deliverer{
		outbox: cfg.Outbox, attempt: newCaller(guard, cfg.Resolver, cfg.Roots, cfg.Logger).attempt, places: newPlaces(),
		log: cfg.Logger, observed: cfg.Observed, hint: make(chan struct{}, 1),
	}, nil
}

// Hint says that something may be due. It never blocks, and may be lost.
func (d *Deliverer) Hint() {
	select {
	case d.hint <- struct{}{}:
	default:
	}
}

// UnderWay is how many attempts are being made, and how many of them are slow.
func (d *Deliverer) UnderWay() (all, slow int) { return d.places.underWay() }

// Run delivers until ctx ends, and then returns once the attempts under way have ended, 10 seconds later at most, and
// are recorded, for which the database has 30 more.
func (d *Deliverer) Run(ctx context.Context) {
	defer d.attempts.Wait()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	var complained time.Time
	for ctx.Err() == nil {
		began := time.Now()
		claimed, err := d.round(ctx)
		if err != nil && ctx.Err() == nil && time.Since(complained) > complainOnce {
			complained = time.Now()
			d.log.Warn("webhook events cannot be claimed", "error", err)
		}
		if claimed == 0 {
			select {
			case <-ctx.Done():
			case <-d.hint:
			case <-look.C:
			}
		}
		pause(ctx, lookApart-time.Since(began))
	}
}

// round claims what is due and has a place, and begins it.
func (d *Deliverer) round(ctx context.Context) (claimed int, err error) {
	// Cut off in the middle, a claim may have been made all the same, and its events would wait for their leases to
	// pass.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), claimTimeout)
	defer cancel()
	quick, closed, slow, slowAccounts := d.places.lanes()
	if quick > 0 {
		n, err := d.claim(ctx, store.Want{Events: quick, Account: perClaim, Not: closed})
		if err != nil {
			return n, err
		}
		claimed = n
	}
	if len(slowAccounts) > 0 {
		n, err := d.claim(ctx, store.Want{Events: slow, Account: perClaim, Only: slowAccounts})
		return claimed + n, err
	}
	return claimed, nil
}

func (d *Deliverer) claim(ctx context.Context, w store.Want) (int, error) {
	deliveries, err := d.outbox.Claim(ctx, w)
	for _, delivery := range deliveries {
		held := d.places.take(delivery.Account, d.Hint)
		d.attempts.Go(func() { d.deliver(delivery, held) })
	}
	return len(deliveries), err
}

// deliver makes an attempt and records how it ended.
func (d *Deliverer) deliver(delivery store.Delivery, held *place) {
	ended := d.attempt(delivery)
	if d.places.leave(held, ended.Took) {
		d.Hint()
	}
	d.observed(ended, delivery.Late)
	for deadline := ended.At.Add(finishFor); ; {
		ctx, cancel := context.WithDeadline(context.Background(), deadline)
		in, again, err := d.outbox.Finish(ctx, ended)
		cancel()
		if err == nil {
			if again {
				time.AfterFunc(in, d.Hint)
			}
			return
		}
		if time.Until(deadline) < finishPause {
			// Its lease passes, and it is sent again: a receiver may get an event twice, never not at all.
			d.log.Error("webhook attempt cannot be recorded", "ref", delivery.Ref, "error", err)
			return
		}
		pause(context.Background(), finishPause)
	}
}

// pause waits for so long, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
