package check_test

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"assay/host/check"
	"assay/host/entity"
)

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestLiveDrains(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ holders int }{
		"nobody holds it":  {0},
		"one check does":   {1},
		"three checks do":  {3},
		"a hundred checks": {100},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var live check.Live
			if drained := live.Swap(check.NewLineup(1, 0, bands, nil)); drained != nil {
				t.Fatal("a first lineup drains another")
			}
			held := make([]*check.LineupRef, c.holders)
			for i := range held {
				held[i] = live.Acquire()
			}
			drained := live.Swap(check.NewLineup(2, 0, bands, nil))
			for i, h := range held {
				if closed(drained) {
					t.Fatalf("drained while %d checks held it", len(held)-i)
				}
				if h.Revision != 1 {
					t.Fatalf("a check that began with revision 1 holds %d", h.Revision)
				}
				h.Release()
			}
			if !closed(drained) {
				t.Error("not drained when the last holder has left")
			}
			next := live.Acquire()
			if next.Revision != 2 {
				t.Errorf("revision %d is in force, want 2", next.Revision)
			}
			next.Release()
		})
	}
}

func TestLiveWithoutLineup(t *testing.T) {
	t.Parallel()
	var live check.Live
	if live.Acquire() != nil {
		t.Error("there is a lineup before the first")
	}
	if live.Swap(nil) != nil {
		t.Error("no lineup drains")
	}
	live.Swap(check.NewLineup(1, 0, bands, nil))
	held := live.Acquire()
	drained := live.Swap(nil)
	if live.Acquire() != nil {
		t.Error("there is a lineup after the last was taken out of force")
	}
	if closed(drained) {
		t.Error("drained while it was held")
	}
	held.Release()
	if !closed(drained) {
		t.Error("not drained when the last holder has left")
	}
}

func TestLiveHasOneLineupTwice(t *testing.T) {
	t.Parallel()
	var live check.Live
	l := check.NewLineup(1, 0, bands, nil)
	live.Swap(l)
	held := live.Acquire()
	drained := live.Swap(l) // a rollback to what is in force
	again := live.Acquire()
	again.Release()
	if closed(drained) {
		t.Error("the second stay in force was counted for the first")
	}
	held.Release()
	if !closed(drained) {
		t.Error("the first stay in force does not drain")
	}
}

func TestLiveUnderFire(t *testing.T) {
	t.Parallel()
	const swaps, checkers, checksEach = 20_000, 6, 20 // of a revision, by all checkers together
	type use struct {
		holders atomic.Int64
		ended   atomic.Bool
	}
	uses := make([]use, swaps+1)
	var live check.Live
	live.Swap(check.NewLineup(0, 0, bands, nil))

	var stop atomic.Bool
	var done atomic.Int64
	var checks, drains sync.WaitGroup
	for range checkers {
		checks.Go(func() {
			for !stop.Load() {
				h := live.Acquire()
				if h == nil {
					t.Error("no lineup in force during a swap")
					return
				}
				u := &uses[h.Revision]
				u.holders.Add(1)
				if u.ended.Load() {
					t.Errorf("revision %d was acquired after it had drained", h.Revision)
				}
				if done.Add(1)%8 == 0 {
					runtime.Gosched()
				}
				if u.ended.Load() {
					t.Errorf("revision %d drained while it was held", h.Revision)
				}
				u.holders.Add(-1)
				h.Release()
			}
		})
	}
	for i := range int64(swaps) {
		for done.Load() < i*checksEach && !t.Failed() {
			runtime.Gosched()
		}
		drained := live.Swap(check.NewLineup(i+1, 0, bands, nil))
		drains.Go(func() {
			<-drained
			uses[i].ended.Store(true)
			if n := uses[i].holders.Load(); n != 0 {
				t.Errorf("revision %d drained with %d holders", i, n)
			}
		})
	}
	stop.Store(true)
	checks.Wait()
	if !closed(live.Swap(nil)) {
		t.Error("the last revision has no holders, and has not drained")
	}
	drains.Wait() // a revision that never drains ends the test here, by its time limit
}

func TestLiveCountsEveryHolder(t *testing.T) {
	t.Parallel()
	var live check.Live
	live.Swap(check.NewLineup(1, 0, bands, nil))
	last := live.Acquire()
	const checkers, rounds, each = 2, 10, 100_000
	var checks sync.WaitGroup
	var begun atomic.Int64
	for range checkers {
		checks.Go(func() {
			for round := range int64(rounds) {
				// They begin each round together: else, on few cores, one is through before the other begins.
				begun.Add(1)
				for begun.Load() < (round+1)*checkers {
					runtime.Gosched()
				}
				for range each {
					live.Acquire().Release()
				}
			}
		})
	}
	checks.Wait()
	drained := live.Swap(nil)
	if closed(drained) {
		t.Fatal("drained while it was held")
	}
	last.Release()
	if !closed(drained) {
		t.Error("not drained when the last holder has left")
	}
}

func TestLineupRunsTheLayersOfTheType(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.swap(5,
		f.member("domains", entity.Domain),
		f.member("mails", entity.Email),
		f.member("both", entity.Domain, entity.Email),
	)
	for value, want := range map[check.Field][]string{
		{Type: entity.Domain, Value: "example.com"}:          {"domains", "both"},
		{Type: entity.Email, Value: "jane@example.com"}:      {"mails", "both"},
		{Type: entity.IBAN, Value: "DE89370400440532013000"}: {},
	} {
		d := f.mustCheck(t, value)
		got := make([]string, len(d.Layers))
		for i, o := range d.Layers {
			got[i] = o.Layer
		}
		same(t, want, got)
		if d.Revision != 5 {
			t.Errorf("revision is %d, want 5", d.Revision)
		}
	}
}
