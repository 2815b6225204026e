package resolver

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// ErrDead means that no server answers at all; they are asked again all the time.
var ErrDead = errors.New("no DNS server answers")

// pulse tells servers that are dead, for which no check should wait, from names whose own servers hang, which anybody
// can ask for: after some questions in a row without any answer, the servers are asked for the root's name servers,
// which each of them knows.
type pulse struct {
	misses  atomic.Int32 // questions that were given up since a server last answered anything
	dead    atomic.Bool
	probing atomic.Bool
}

const missesToProbe = 8

func (p *pulse) heard() {
	p.misses.Store(0)
	p.dead.Store(false)
}

// missed notes a question that its asker gave up.
func (r *Resolver) missed() {
	if r.pulse.misses.Add(1) < missesToProbe || !r.pulse.probing.CompareAndSwap(false, true) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	r.running.Go(func() {
		defer r.pulse.probing.Store(false)
		r.probe()
	})
}

// probe asks until a server answers.
func (r *Resolver) probe() {
	for {
		for _, server := range r.cfg.Servers {
			ctx, cancel := context.WithTimeout(r.base, r.cfg.Pulse)
			_, err := attempt(ctx, server, Question{Name: ".", Kind: NS})
			cancel()
			if err == nil {
				r.pulse.heard()
				return
			}
		}
		r.pulse.dead.Store(true)
		select {
		case <-time.After(r.cfg.Pulse):
		case <-r.base.Done():
			return
		}
	}
}
