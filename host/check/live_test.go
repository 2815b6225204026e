package check_test

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"assay/host/check"
	"assay/host/entity"
	"assay/registry/expect"
)

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestLiveWithoutLineup(t *testing.T) {
	t.Parallel()
	var live check.Live
	expect.That(t, live.Acquire() == nil, "acquired a lineup before the first swap")
	expect.That(t, live.Swap(nil) == nil, "swapping nothing for nothing returned a channel")
	expect.That(t, live.Swap(check.NewLineup(1, nil, bands, nil)) == nil, "the first swap returned a channel")
	held := live.Acquire()
	drained := live.Swap(nil)
	expect.That(t, live.Acquire() == nil, "acquired a lineup after the last was swapped out")
	expect.Equal(t, "drained while a holder was left", closed(drained), false)
	held.Release()
	expect.Equal(t, "drained after the last holder released it", closed(drained), true)
}

func TestLiveSwapsALineupForItself(t *testing.T) {
	t.Parallel()
	var live check.Live
	l := check.NewLineup(1, nil, bands, nil)
	live.Swap(l)
	held := live.Acquire()
	drained := live.Swap(l) // such as a rollback to the current revision
	live.Acquire().Release()
	expect.Equal(t, "a holder of the second period was counted for the first", closed(drained), false)
	held.Release()
	expect.Equal(t, "the first period drains", closed(drained), true)
}

func TestLiveUnderConcurrentSwaps(t *testing.T) {
	t.Parallel()
	const swaps, checkers, checksEach = 20_000, 6, 20 // checksEach is the number of acquisitions for each revision
	type use struct {
		holders atomic.Int64
		ended   atomic.Bool
	}
	uses := make([]use, swaps+1)
	var live check.Live
	live.Swap(check.NewLineup(0, nil, bands, nil))

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
				expect.That(t, !u.ended.Load(), "revision %d was acquired after it had drained", h.Revision)
				if done.Add(1)%8 == 0 {
					runtime.Gosched()
				}
				expect.That(t, !u.ended.Load(), "revision %d drained while a holder was left", h.Revision)
				u.holders.Add(-1)
				h.Release()
			}
		})
	}
	for i := range int64(swaps) {
		for done.Load() < i*checksEach && !t.Failed() {
			runtime.Gosched()
		}
		drained := live.Swap(check.NewLineup(i+1, nil, bands, nil))
		drains.Go(func() {
			<-drained
			uses[i].ended.Store(true)
			expect.Equal(t, "holders of a revision that drained", uses[i].holders.Load(), 0)
		})
	}
	stop.Store(true)
	checks.Wait()
	expect.That(t, closed(live.Swap(nil)), "the last revision has no holders but has not drained")
	drains.Wait() // hangs if a revision never drains
}

func TestLineupRunsTheLayersOfTheEntityType(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.swap(5, f.member("domains", entity.Domain), f.member("mails", entity.Email),
		f.member("both", entity.Domain, entity.Email))
	for value, want := range map[check.Field][]string{
		aDomain: {"domains", "both"}, anEmail: {"mails", "both"}, anIBAN: {},
	} {
		d := f.mustCheck(t, value)
		got := make([]string, len(d.Layers))
		for i, o := range d.Layers {
			got[i] = o.Layer
		}
		same(t, want, got)
		expect.Equal(t, "revision", d.Revision, 5)
	}
}
