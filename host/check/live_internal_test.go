package check

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"assay/registry/expect"
)

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
			expect.Equal(t, "the acquired revision", live.Acquire().Revision, 3)
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
