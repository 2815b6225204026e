package check

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"assay/host/entity"
)

// Shadow runs the shadow layers of checks after their answers, when nothing else is being judged. What it cannot get to
// in time it leaves out and counts. Its fields are set once, before use.
type Shadow struct {
	Collector Collector   // of the facts that only shadow layers read; nil: none
	Idle      func() bool // reports whether no check is being judged; nil: always

	// Ran is called after the shadow layers of a check have run, one call at a time. live is the decision as it was
	// answered, and shadow what it would have been if the shadow layers counted.
	Ran func(t entity.Type, live *Decision, shadow Fused, outcomes []Outcome)

	once    sync.Once
	waiting chan shadowed
	left    atomic.Int64
}

// shadowed is a check whose shadow layers have not run yet.
type shadowed struct {
	ref    *LineupRef
	lineup *Lineup
	record Record
}

const (
	maxShadowed    = 256
	shadowDeadline = time.Second
	idleInterval   = 5 * time.Millisecond // between questions whether the host is idle
)

func (s *Shadow) queue() chan shadowed {
	s.once.Do(func() { s.waiting = make(chan shadowed, maxShadowed) })
	return s.waiting
}

// LeftOut returns the number of checks whose shadow layers did not run.
func (s *Shadow) LeftOut() int64 { return s.left.Load() }

// offer queues a check if its lineup has shadow layers for it. It never blocks.
func (s *Shadow) offer(c shadowed) {
	if s == nil || len(c.lineup.shadow[c.record.Entity.Type]) == 0 {
		return
	}
	if !c.ref.retain() {
		return
	}
	select {
	case s.queue() <- c:
	default:
		s.left.Add(1)
		c.ref.Release()
	}
}

// Run runs shadow layers until ctx ends.
func (s *Shadow) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			s.drain()
			return
		case c := <-s.queue():
			if s.waitUntilIdle(ctx) {
				s.run(ctx, c)
			} else {
				s.left.Add(1)
			}
			c.ref.Release()
		}
	}
}

// drain releases the lineups of the waiting checks.
func (s *Shadow) drain() {
	for {
		select {
		case c := <-s.queue():
			s.left.Add(1)
			c.ref.Release()
		default:
			return
		}
	}
}

func (s *Shadow) waitUntilIdle(ctx context.Context) bool {
	if s.Idle == nil || s.Idle() {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, shadowDeadline)
	defer cancel()
	tick := time.NewTicker(idleInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
			if s.Idle() {
				return true
			}
		}
	}
}

func (s *Shadow) run(ctx context.Context, c shadowed) {
	ctx, cancel := context.WithTimeout(ctx, shadowDeadline)
	defer cancel()
	t := c.record.Entity.Type
	facts := s.facts(ctx, c)
	var outcomes []Outcome
	for _, i := range c.lineup.shadow[t] {
		in := Input{Entity: c.record.Entity.Facts, LookedUp: facts}
		o, _, err := c.lineup.Members[i].Run(ctx, t, in)
		if err != nil {
			s.left.Add(1) // the host could not complete the call, which says nothing about the layer
			return
		}
		outcomes = append(outcomes, o)
	}
	s.Ran(t, c.record.Decision, Fuse(c.lineup.Bias[t], c.lineup.Bands,
		slices.Concat(c.record.Decision.Layers, outcomes)), outcomes)
}

// facts returns the facts that were looked up for the check, and those that only its shadow layers read.
func (s *Shadow) facts(ctx context.Context, c shadowed) entity.Facts {
	missing := c.lineup.shadowLookups[c.record.Entity.Type]
	if s.Collector == nil || len(missing) == 0 {
		return c.record.LookedUp
	}
	more, _, err := s.Collector.Collect(ctx, c.record.Caller.Account, c.record.Entity, missing)
	if err != nil {
		return c.record.LookedUp
	}
	all := maps.Clone(more)
	if all == nil {
		all = entity.Facts{}
	}
	maps.Copy(all, c.record.LookedUp)
	return all
}
