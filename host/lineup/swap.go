package lineup

import (
	"context"
	"errors"
	"time"

	"assay/host/check"
)

// enter puts an activation in force. It is remembered before it can decide a check.
func (f *Follower) enter(a Verified, swap func()) error {
	if err := f.verifier.Memory.Remember(a.Number, a.Hash); err != nil {
		return err
	}
	if swap != nil {
		swap()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.inForce, f.state = a, State{Activation: a.Number, Revision: a.Lineup.Revision}
	if a.Canary != nil {
		f.state.Canary = a.Canary.Revision
	}
	notify(f.stateChanged)
	return nil
}

// swap puts next in force. The plugins of the previous lineup stay open for a while, so that a rollback opens nothing.
// If only the canary changes, those of the previous lineup stay open instead.
func (f *Follower) swap(next *check.Lineup, plugins []*openPlugin, canaryOnly bool) {
	f.mu.Lock()
	previous, earlier := &retired{plugins: f.plugins}, f.previous
	f.plugins = plugins
	if !canaryOnly {
		f.previous = nil
	}
	f.mu.Unlock()
	previous.drained = f.live.Swap(next)
	if canaryOnly {
		f.retire(previous)
		return
	}
	f.retire(earlier)
	switch {
	case previous.drained == nil: // there was none
	case next == nil || f.keepPrevious == 0:
		f.retire(previous)
	default:
		f.mu.Lock()
		defer f.mu.Unlock()
		f.previous = previous
		previous.timer = time.AfterFunc(f.keepPrevious, func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			if f.previous == previous {
				f.previous = nil
				f.retire(previous)
			}
		})
	}
}

// retired is a lineup that was in force.
type retired struct {
	plugins []*openPlugin
	drained <-chan struct{} // closed when its last check has finished
	timer   *time.Timer     // ends the period for which it is kept
}

// retire releases a lineup's plugins once the last check that uses it has finished.
func (f *Follower) retire(r *retired) {
	if r == nil {
		return
	}
	if r.timer != nil {
		r.timer.Stop()
	}
	f.draining.Go(func() {
		<-r.drained
		f.open.release(r.plugins)
	})
}

// Trim returns memory that recent checks did not need to the operating system.
func (f *Follower) Trim(context.Context) error {
	f.mu.Lock() // no plugin is closed meanwhile
	var errs []error
	for _, p := range distinct(f.plugins) {
		errs = append(errs, p.Trim())
	}
	f.mu.Unlock()
	returnMemory()
	return errors.Join(errs...)
}

// Close takes the lineup out of force, waits for the checks that use it, and closes its plugins.
func (f *Follower) Close() {
	f.swap(nil, nil, false)
	f.open.dropKept()
	f.draining.Wait()
}
