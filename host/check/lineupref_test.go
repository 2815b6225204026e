package check

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// A check that has read the pointer to a lineup may be overtaken by a swap and the leaving of all others.
func TestDrainedLineupIsNotHeldAgain(t *testing.T) {
	t.Parallel()
	var live Live
	live.Swap(NewLineup(1, 0, Bands{}, nil))
	overtaken := live.current.Load()
	if !overtaken.retain() {
		t.Fatal("the lineup in force cannot be held")
	}
	drained := live.Swap(NewLineup(2, 0, Bands{}, nil))
	if !overtaken.retain() {
		t.Error("a lineup that another check holds cannot be held")
	}
	overtaken.Release()
	overtaken.Release()
	<-drained
	if overtaken.retain() {
		t.Error("a drained lineup is held again")
	}
	if h := live.Acquire(); h.Revision != 2 {
		t.Errorf("revision %d is in force, want 2", h.Revision)
	}
}

func TestAcquireWaitsForTheLineupBehindADrainedOne(t *testing.T) {
	t.Parallel()
	var live Live
	live.Swap(NewLineup(1, 0, Bands{}, nil))
	overtaken := live.current.Load()
	<-live.Swap(NewLineup(2, 0, Bands{}, nil))
	live.current.Store(overtaken) // what a check sees that was overtaken, held still

	var checks sync.WaitGroup
	var begun atomic.Int32
	for range 4 {
		checks.Go(func() {
			begun.Add(1)
			if h := live.Acquire(); h.Revision != 3 {
				t.Errorf("revision %d is given out, want 3", h.Revision)
			}
		})
	}
	for begun.Load() < 4 {
		runtime.Gosched()
	}
	var next Live
	next.Swap(NewLineup(3, 0, Bands{}, nil))
	live.current.Store(next.current.Load())
	checks.Wait()
}
