package check

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"assay/registry/expect"
)

// Between loading the current lineup and retaining it, the lineup can be swapped out and drain.
func TestDrainedLineupCannotBeRetained(t *testing.T) {
	t.Parallel()
	var live Live
	live.Swap(NewLineup(1, nil, Bands{}, nil))
	stale := live.current.Load()
	expect.Must(t, stale.retain(), "the lineup in force cannot be retained")
	drained := live.Swap(NewLineup(2, nil, Bands{}, nil))
	expect.That(t, stale.retain(), "a lineup with references cannot be retained")
	stale.Release()
	stale.Release()
	<-drained
	expect.That(t, !stale.retain(), "a drained lineup was retained")
	h := live.Acquire()
	expect.That(t, h.Revision == 2, "revision %d is in force, want 2", h.Revision)
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
			h := live.Acquire()
			expect.That(t, h.Revision == 3, "acquired revision %d, want 3", h.Revision)
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
