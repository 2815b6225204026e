package linear

import (
	"bytes"
	"slices"
	"sync"
	"testing"
)

func TestInstancesShareOneImage(t *testing.T) {
	t.Parallel()
	everyWay(t, func(t *testing.T, w way) {
		e := newEngine(t, assemble(3), w)
		guests := make([]*guest, 100)
		for i := range guests {
			guests[i] = e.frozen(t)
		}
		if len(e.images.held) != 1 || e.images.held[0].uses != len(guests) {
			t.Fatalf("%d images, the first used %d times", len(e.images.held), e.images.held[0].uses)
		}
		for i, g := range guests {
			g.call(t, "poke", 4096, uint64(i)+1)
		}
		for i, g := range guests {
			if got := g.call(t, "peek", 4096); got != uint32(i)+1 {
				t.Errorf("guest %d reads %d: what another wrote", i, got)
			}
		}
		for i, g := range guests {
			if i%2 == 0 {
				g.restore(t)
			}
		}
		for i, g := range guests {
			if got := g.call(t, "peek", 4096); got != uint32(i%2*(i+1)) {
				t.Errorf("guest %d reads %d after others were restored", i, got)
			}
		}
	})
}

func TestInstancesThatDifferShareNothing(t *testing.T) {
	t.Parallel()
	everyWay(t, func(t *testing.T, w way) {
		e := newEngine(t, assemble(3), w)
		var guests []*guest
		for i := range uint64(4) {
			g := e.start(t)
			g.call(t, "poke", 3*pageSize-4, i/2)
			if err := g.memory.Freeze(); err != nil {
				t.Fatal(err)
			}
			guests = append(guests, g)
		}
		if len(e.images.held) != 2 {
			t.Errorf("%d images, want 2", len(e.images.held))
		}
		grown := e.start(t)
		grown.call(t, "grow", 1)
		if err := grown.memory.Freeze(); err != nil {
			t.Fatal(err)
		}
		if len(e.images.held) != 3 {
			t.Errorf("%d images, want one for the larger memory", len(e.images.held))
		}
		for i, g := range guests {
			g.call(t, "fill", 0, 0xff, 3*pageSize)
			g.restore(t)
			if got := g.call(t, "peek", 3*pageSize-4); got != uint32(i/2) {
				t.Errorf("guest %d was restored to %d", i, got)
			}
		}
	})
}

func TestFreeLeavesTheOthers(t *testing.T) {
	t.Parallel()
	everyWay(t, func(t *testing.T, w way) {
		e := newEngine(t, assemble(3), w)
		a, b := e.frozen(t), e.frozen(t)
		want := slices.Clone(contentOf(b.memory))
		b.call(t, "fill", 0, 0xff, 3*pageSize)
		if err := a.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		a.memory.Free() // once more, which does nothing
		b.restore(t)
		if !bytes.Equal(contentOf(b.memory), want) {
			t.Error("the content is not the frozen one")
		}
		c := e.frozen(t)
		if len(e.images.held) != 1 {
			t.Errorf("%d images, want 1", len(e.images.held))
		}
		for _, g := range []*guest{b, c} {
			if err := g.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if len(e.images.held) != 0 {
			t.Errorf("%d images outlive their instances", len(e.images.held))
		}
	})
}

// An instantiation that fails half-way frees nothing by itself.
func TestFailedInstantiation(t *testing.T) {
	t.Parallel()
	e := newEngine(t, assemble(0), way{copyUpTo: copyUpTo})
	if _, err := e.instantiate(); err == nil {
		t.Fatal("data outside of the memory was laid out")
	}
}

// Instances come, run, and go all at once, as in a pool under load.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	everyWay(t, func(t *testing.T, w way) {
		e := newEngine(t, assemble(3), w)
		var wg sync.WaitGroup
		for worker := range uint64(8) {
			wg.Go(func() {
				for range 40 {
					g, err := e.instantiate()
					if err != nil {
						t.Error(err)
						return
					}
					g.call(t, "poke", pageSize, worker%3) // three contents
					if err := g.memory.Freeze(); err != nil {
						t.Error(err)
						return
					}
					for i := range uint64(50) {
						if got := g.call(t, "peek", pageSize); got != uint32(worker%3) {
							t.Errorf("worker %d reads %d", worker, got)
						}
						g.call(t, "poke", pageSize, 100*worker+i)
						if ok, err := g.memory.Restore(); !ok || err != nil {
							t.Errorf("restored %v, %v", ok, err)
						}
					}
					if err := g.Close(t.Context()); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if len(e.images.held) != 0 {
			t.Errorf("%d images are left", len(e.images.held))
		}
	})
}
