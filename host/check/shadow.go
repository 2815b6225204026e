package check

import (
	"context"
	"maps"
	"sync"
	"time"

	"assay/host/entity"
)

// Shadow runs the shadow layers of checks after their answers, on idle processors, and skips checks that it has no time
// for. Its fields are set once, before use.
type Shadow struct {
	Collector Collector // of the facts that only shadow layers read; nil: none
	Observer  ShadowObserver
	// Spare calls f when no check waits for a processor. It returns the context's error, without calling f, if ctx ends
	// first. nil: at once.
	Spare func(ctx context.Context, f func()) error
	// Idle reports whether no check is in progress. While one is, shadow layers get only a small part of one processor,
	// because recording and answering need processors too. nil: always idle.
	Idle func() bool

	mu      sync.Mutex // of the fields below
	waiting chan shadowed
	stopped bool // nothing receives from waiting anymore
}

// ShadowObserver receives what shadow layers find. Its methods must not block.
type ShadowObserver interface {
	// ShadowRan is called after the shadow layers of a check have run. live is the decision as it was answered, and
	// shadow the result if the shadow layers, which have these outcomes, had counted.
	ShadowRan(live *Decision, shadow Fused, outcomes []Outcome)
	// ShadowLeftOut is called for a check whose shadow layers did not run.
	ShadowLeftOut(live *Decision)
}

// shadowed is a check whose shadow layers have not run yet.
type shadowed struct {
	ref    *LineupRef
	lineup *Lineup
	record Record
}

const (
	maxShadowed    = 256
	shadowDeadline = time.Second // for the shadow layers of one check, from when they begin
	// While checks are in progress, shadow layers pause after each check for shadowPauses times as long as they took,
	// and at least for shadowPause.
	shadowPauses = 20
	shadowPause  = 2 * time.Millisecond
)

// queue returns the checks that wait; s.mu must be locked.
func (s *Shadow) queue() chan shadowed {
	if s.waiting == nil {
		s.waiting = make(chan shadowed, maxShadowed)
	}
	return s.waiting
}

// offer queues a check if its lineup has shadow layers for it, unless an override decided it: no lineup changes its
// verdict. It never blocks.
func (s *Shadow) offer(c shadowed) {
	if s == nil || len(c.lineup.shadow[c.record.Entity.Type]) == 0 || c.record.Decision.Override != nil {
		return
	}
	if !s.enqueue(c) {
		s.Observer.ShadowLeftOut(c.record.Decision)
	}
}

func (s *Shadow) enqueue(c shadowed) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped || !c.ref.retain() {
		return false
	}
	select {
	case s.queue() <- c:
		return true
	default:
		c.ref.Release()
		return false
	}
}

// Run runs shadow layers until ctx ends. It must be called at most once.
func (s *Shadow) Run(ctx context.Context) {
	s.mu.Lock()
	queue := s.queue()
	s.mu.Unlock()
	for {
		select {
		case <-ctx.Done():
			s.drain()
			return
		case c := <-queue:
			took, complete := s.run(ctx, c)
			if !complete {
				s.Observer.ShadowLeftOut(c.record.Decision)
			}
			c.ref.Release()
			s.pause(ctx, took)
		}
	}
}

// pause leaves the processors to any checks in progress after shadow layers took some time.
func (s *Shadow) pause(ctx context.Context, took time.Duration) {
	if s.Idle == nil || s.Idle() {
		return
	}
	select {
	case <-ctx.Done():
	case <-time.After(max(shadowPauses*took, shadowPause)):
	}
}

// drain releases the lineups of the waiting checks. Otherwise they would never be closed.
func (s *Shadow) drain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	for {
		select {
		case c := <-s.waiting:
			s.Observer.ShadowLeftOut(c.record.Decision)
			c.ref.Release()
		default:
			return
		}
	}
}

// run returns how long the layers took. complete is set if all of them had the facts that they would have had before
// the answer.
func (s *Shadow) run(ctx context.Context, c shadowed) (took time.Duration, complete bool) {
	ctx, cancel := context.WithTimeout(ctx, shadowDeadline)
	defer cancel()
	live, t := c.record.Decision, c.record.Entity.Type
	facts, err := s.facts(ctx, c)
	if err != nil {
		return 0, false
	}
	var outcomes []Outcome
	for _, i := range c.lineup.shadow[t] {
		o, err := s.call(ctx, &c.lineup.Members[i], t, Input{Entity: c.record.Entity.Facts, LookedUp: facts})
		took += time.Duration(o.Micros) * time.Microsecond
		if err != nil {
			return took, false
		}
		outcomes = append(outcomes, o)
	}
	s.Observer.ShadowRan(live, Fuse(c.lineup.Bias[t], c.lineup.Bands, c.lineup.together(t, live.Layers, outcomes)),
		outcomes)
	return took, true
}

// call runs a layer. An error is not the layer's fault.
func (s *Shadow) call(ctx context.Context, m *Member, t entity.Type, in Input) (o Outcome, err error) {
	if s.Spare == nil {
		o, _, err = m.Run(ctx, t, in)
		return o, err
	}
	if late := s.Spare(ctx, func() { o, _, err = m.Run(ctx, t, in) }); late != nil {
		return o, late
	}
	return o, err
}

// facts returns the facts that were looked up for the check, and those that only its shadow layers read.
func (s *Shadow) facts(ctx context.Context, c shadowed) (entity.Facts, error) {
	missing := c.lineup.shadowLookups[c.record.Entity.Type]
	if s.Collector == nil || len(missing) == 0 {
		return c.record.LookedUp, nil
	}
	more, _, err := s.Collector.Collect(ctx, c.record.Caller.Account, c.record.Entity, missing)
	if err != nil {
		return nil, err
	}
	all := entity.Facts{}
	maps.Copy(all, more)
	maps.Copy(all, c.record.LookedUp)
	return all, nil
}
