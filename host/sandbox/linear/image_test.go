package linear

import (
	"bytes"
	"slices"
	"sync"
	"testing"

	"assay/registry/expect"
)

func TestInstancesShareOneImage(t *testing.T) {
	t.Parallel()
	forEachStrategy(t, func(t *testing.T, s strategy) {
		e := newEngine(t, assemble(3), s)
		guests := make([]*guest, 100)
		for i := range guests {
			guests[i] = e.startWithSnapshot(t)
		}
		expect.Must(t, len(e.images.images) == 1 && e.images.images[0].refs == len(guests),
			"%d images, the first used %d times", len(e.images.images), e.images.images[0].refs)
		for i, g := range guests {
			g.call(t, "poke", 4096, uint64(i)+1)
		}
		for i, g := range guests {
			got := g.call(t, "peek", 4096)
			expect.That(t, got == uint32(i)+1, "guest %d reads %d, which another wrote", i, got)
		}
		for i, g := range guests {
			if i%2 == 0 {
				g.restore(t)
			}
		}
		for i, g := range guests {
			got := g.call(t, "peek", 4096)
			expect.That(t, got == uint32(i%2*(i+1)), "guest %d reads %d after others were restored", i, got)
		}
	})
}

func TestDifferentSnapshotsAreNotShared(t *testing.T) {
	t.Parallel()
	forEachStrategy(t, func(t *testing.T, s strategy) {
		e := newEngine(t, assemble(3), s)
		var guests []*guest
		for i := range uint64(4) {
			g := e.start(t)
			g.call(t, "poke", 3*pageSize-4, i/2)
			g.snapshot(t)
			guests = append(guests, g)
		}
		expect.Equal(t, "images", len(e.images.images), 2)
		grown := e.start(t)
		grown.call(t, "grow", 1)
		grown.snapshot(t)
		expect.Equal(t, "images", len(e.images.images), 3)
		for i, g := range guests {
			g.call(t, "fill", 0, 0xff, 3*pageSize)
			g.restore(t)
			got := g.call(t, "peek", 3*pageSize-4)
			expect.That(t, got == uint32(i/2), "guest %d was restored to %d", i, got)
		}
	})
}

func TestFreeKeepsSharedImage(t *testing.T) {
	t.Parallel()
	forEachStrategy(t, func(t *testing.T, s strategy) {
		e := newEngine(t, assemble(3), s)
		a, b := e.startWithSnapshot(t), e.startWithSnapshot(t)
		want := slices.Clone(contentOf(b.memory))
		b.call(t, "fill", 0, 0xff, 3*pageSize)
		expect.NoError(t, a.Close(t.Context()))
		a.memory.Free() // the engine has already freed it
		b.restore(t)
		expect.That(t, bytes.Equal(contentOf(b.memory), want), "the content differs from the snapshot")
		c := e.startWithSnapshot(t)
		expect.Equal(t, "images", len(e.images.images), 1)
		for _, g := range []*guest{b, c} {
			expect.NoError(t, g.Close(t.Context()))
		}
		expect.Equal(t, "images outlive their instances", len(e.images.images), 0)
	})
}

// Instances start, run and end concurrently, as in a pool under load.
func TestConcurrentInstances(t *testing.T) {
	t.Parallel()
	forEachStrategy(t, func(t *testing.T, s strategy) {
		e := newEngine(t, assemble(3), s)
		var wg sync.WaitGroup
		for worker := range uint64(8) {
			wg.Go(func() {
				for range 40 {
					g, err := e.instantiate()
					if err != nil {
						t.Error(err)
						return
					}
					g.call(t, "poke", pageSize, worker%3) // three different snapshots
					if err := g.memory.Snapshot(); err != nil {
						t.Error(err)
						return
					}
					for i := range uint64(50) {
						got := g.call(t, "peek", pageSize)
						expect.That(t, got == uint32(worker%3), "worker %d reads %d", worker, got)
						g.call(t, "poke", pageSize, 100*worker+i)
						err := g.memory.Restore()
						expect.That(t, err == nil, "Restore returns %v", err)
					}
					expect.Error(t, "error", g.Close(t.Context()), nil)
				}
			})
		}
		wg.Wait()
		expect.Equal(t, "images are left", len(e.images.images), 0)
	})
}
