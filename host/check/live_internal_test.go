package check

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// Between loading the current lineup and retaining it, the lineup can be swapped out and drain.
func TestDrainedLineupCannotBeRetained(t *testing.T) {
	t.Parallel()
	var live Live
	live.Swap(NewLineup(1, nil, Bands{}, nil))
	stale := live.current.Load()
	if !stale.retain() {
		t.Fatal("the lineup in force cannot be retained")
	}
	drained := live.Swap(NewLineup(2, nil, Bands{}, nil))
	if !stale.retain() {
		t.Error("a lineup with references cannot be retained")
	}
	stale.Release()
	stale.Release()
	<-drained
	if stale.retain() {
		t.Error("a drained lineup was retained")
	}
	if h := live.Acquire(); h.Revision != 2 {
		t.Errorf("revision %d is in force, want 2", h.Revision)
	}
}

func TestAcquireSkipsADrainedLineup(t *testing.T) {
	t.Parallel()
	var live Live
	live.Swap(NewLineup(1, nil, Bands{}, nil))
	stale := live.current.Load()
	<-live.Swap(NewLineup(2, nil, Bands{}, nil))
	live.current.Store(stale) // freezes the moment in which a check still sees the drained lineup

	var checks sync.WaitGroup
	var begun atomic.Int32
	for range 4 {
		checks.Go(func() {
			begun.Add(1)
			if h := live.Acquire(); h.Revision != 3 {
				t.Errorf("acquired revision %d, want 3", h.Revision)
			}
		})
	}
	for begun.Load() < 4 {
		runtime.Gosched()
	}
	var next Live
	next.Swap(NewLineup(3, nil, Bands{}, nil))
	live.current.Store(next.current.Load())
	checks.Wait()
}
