package admission

import (
	"context"
	"slices"
	"time"
)

// Judge calls f when one of the visit's checks has its turn. It returns the context's error, without calling f, if ctx
// ends first. It must not be called after Close.
func (v *Visit) Judge(ctx context.Context, f func()) error {
	if v == nil {
		f()
		return nil
	}
	g := v.gate
	since, err := g.acquire(ctx, v)
	if err != nil {
		return err
	}
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.release(v.account, since)
	}()
	f()
	return nil
}

// Spare calls f when a processor is free and no check is waiting. f must be short, because a check that arrives in the
// meantime may have to wait. It returns the context's error, without calling f, if ctx ends first. A nil gate calls f
// at once.
func (g *Gate) Spare(ctx context.Context, f func()) error {
	if g == nil {
		f()
		return nil
	}
	g.mu.Lock()
	if err := ctx.Err(); err != nil {
		g.mu.Unlock()
		return err
	}
	if g.free > 0 {
		g.free--
		g.mu.Unlock()
	} else {
		w := &waiter{turn: make(chan struct{})}
		g.spare = append(g.spare, w)
		g.mu.Unlock()
		select {
		case <-w.turn:
		case <-ctx.Done():
			g.mu.Lock()
			defer g.mu.Unlock()
			if i := slices.Index(g.spare, w); i >= 0 {
				g.spare = slices.Delete(g.spare, i, i+1)
			} else { // its turn came in the meantime
				g.hand()
			}
			return ctx.Err()
		}
	}
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.hand() // without an effect on the mean cost of checks
	}()
	f()
	return nil
}

// acquire waits for a processor and returns when the check got it.
func (g *Gate) acquire(ctx context.Context, v *Visit) (since time.Time, err error) {
	g.mu.Lock()
	if err := ctx.Err(); err != nil {
		g.mu.Unlock()
		return since, err
	}
	if g.free > 0 {
		g.free--
		g.turn(v.account)
		g.mu.Unlock()
		return g.cfg.Now(), nil
	}
	w := &waiter{turn: make(chan struct{})}
	if !v.account.waits() {
		g.turns = append(g.turns, v.account)
	}
	v.account.waiting[v.lane] = append(v.account.waiting[v.lane], w)
	g.mu.Unlock()
	select {
	case <-w.turn:
		return w.since, nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !v.account.remove(v.lane, w) { // its turn came in the meantime
		g.hand()
		return since, ctx.Err()
	}
	if !v.account.waits() {
		i := slices.Index(g.turns, v.account)
		g.turns = slices.Delete(g.turns, i, i+1)
	}
	return since, ctx.Err()
}

// release takes the processor from an account's check that got it at the given time.
func (g *Gate) release(a *account, since time.Time) {
	// If the whole process was stopped for long, the check says little about the next ones.
	took := min(g.cfg.Now().Sub(since), g.cfg.Target)
	for _, level := range a.levels {
		level.used += took
		level.cost += (min(took, longest*level.cost) - level.cost) / costWeight
	}
	g.cost += (min(took, longest*g.cost) - g.cost) / costWeight
	g.hand()
}

// hand gives a processor to the next check or, if none waits, to spare work, or frees it. The time until the check runs
// counts towards its cost, so that the cost includes everything else that the processors do.
func (g *Gate) hand() {
	if len(g.turns) == 0 && len(g.spare) > 0 {
		w := g.spare[0]
		g.spare = slices.Delete(g.spare, 0, 1)
		close(w.turn)
		return
	}
	if len(g.turns) == 0 {
		g.free++
		return
	}
	i := 0
	for j, a := range g.turns {
		b := g.turns[i]
		if x, y := a.levels[0], b.levels[0]; x.used < y.used || x == y && a.used < b.used {
			i = j
		}
	}
	a := g.turns[i]
	g.turns = slices.Delete(g.turns, i, i+1)
	g.turn(a)
	w := a.next()
	if a.waits() {
		g.turns = append(g.turns, a)
	}
	w.since = g.cfg.Now()
	close(w.turn)
}

// remove removes a waiting check and reports whether it was there.
func (a *account) remove(lane int, w *waiter) bool {
	i := slices.Index(a.waiting[lane], w)
	if i < 0 {
		return false
	}
	a.waiting[lane] = slices.Delete(a.waiting[lane], i, i+1)
	return true
}
