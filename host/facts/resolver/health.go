package resolver

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// ErrUnresponsive means that no server responds to health probes. Probes continue until one does.
var ErrUnresponsive = errors.New("no DNS server responds")

// health detects when the configured servers are down, so that lookups fail at once instead of waiting. Timeouts alone
// do not prove it: anyone can submit names whose authoritative servers hang. After timeoutsToProbe consecutive timeouts
// the servers are therefore asked for the name servers of the root, which every recursive resolver knows.
type health struct {
	timeouts atomic.Int32 // lookups abandoned by their callers since the last response
	down     atomic.Bool
	probing  atomic.Bool
}

const timeoutsToProbe = 8

func (h *health) recordResponse() {
	h.timeouts.Store(0)
	h.down.Store(false)
}

// recordTimeout counts a lookup that its caller abandoned, and starts probing if there were too many.
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

// probe queries the servers until one responds or the resolver is closed.
func (r *Resolver) probe() {
	for {
		for _, server := range r.cfg.Servers {
			ctx, cancel := context.WithTimeout(r.base, r.cfg.ProbeInterval)
			_, err := attempt(ctx, server, Question{Name: ".", Type: NS})
			cancel()
			if err == nil {
				r.health.recordResponse()
				return
			}
		}
		r.health.down.Store(true)
		select {
		case <-time.After(r.cfg.ProbeInterval):
		case <-r.base.Done():
			return
		}
	}
}
