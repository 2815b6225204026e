package resolver

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// ErrUnresponsive means that no server responds to health probes. Probes continue until one does.
var ErrUnresponsive = fmt.Errorf("%w: no server responds to probes", ErrUnanswered)

// health detects when the configured servers are down, so that lookups fail at once instead of waiting. Timeouts alone
// do not prove it: anyone can submit names whose authoritative servers hang. After timeoutsToProbe consecutive timeouts
// the servers are therefore asked for the name servers of the root, which every recursive resolver knows.
type health struct {
	timeouts atomic.Int32 // lookups since the last response that no server answered in time
	down     atomic.Bool
	probing  atomic.Bool
}

const timeoutsToProbe = 8

func (h *health) recordResponse() {
	h.timeouts.Store(0)
	h.down.Store(false)
}

// recordTimeout counts a lookup without an answer, and starts probing if there were too many. It must not be called if
// this host was late.
func (r *Resolver) recordTimeout() {
	if r.health.timeouts.Add(1) < timeoutsToProbe || !r.health.probing.CompareAndSwap(false, true) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	r.running.Go(func() {
		defer r.health.probing.Store(false)
		r.probe()
	})
}

// probe queries the servers until one responds or the resolver is closed. Servers are down if each had the time to
// respond and did not; a probe that this host delayed proves nothing.
func (r *Resolver) probe() {
	for {
		silent := true
		for _, server := range r.trust.Load().servers {
			err := r.ask(server)
			if err == nil {
				r.health.recordResponse()
				return
			}
			silent = silent && errors.Is(err, ErrUnanswered)
		}
		if silent {
			r.health.down.Store(true)
		}
		select {
		case <-r.cfg.After(r.cfg.ProbeInterval):
		case <-r.base.Done():
			return
		}
	}
}

// ask probes a server.
func (r *Resolver) ask(server string) error {
	ctx, cancel := context.WithTimeout(r.base, r.cfg.ProbeInterval)
	defer cancel()
	f, began := &flight{}, r.cfg.Now()
	_, err := attempt(ctx, server, Question{Name: ".", Type: NS}, f.recordSent(r.cfg.Now, time.Time{}))
	switch {
	case err == nil:
		return nil
	case isOwn(err) || r.late(f, began, r.cfg.ProbeInterval):
		return ErrLate
	}
	return ErrUnanswered
}
