package linear

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"assay/registry/expect"
)

func TestRestoreAfterAllKindsOfWrites(t *testing.T) {
	t.Parallel()
	const pages, end = 48, 48 * pageSize
	tests := map[string]func(t *testing.T, g *guest){
		"nothing":        func(*testing.T, *guest) {},
		"first byte":     func(t *testing.T, g *guest) { g.Memory().WriteByte(0, 0xff) },
		"last byte":      func(t *testing.T, g *guest) { g.Memory().WriteByte(end-1, 0xff) },
		"last word":      func(t *testing.T, g *guest) { g.call(t, "poke", end-4, 1) },
		"page border":    func(t *testing.T, g *guest) { g.call(t, "poke", 3*4096-2, 0xffffffff) },
		"data segment":   func(t *testing.T, g *guest) { g.call(t, "fill", activeAt, 0, 64) },
		"memory.fill":    func(t *testing.T, g *guest) { g.call(t, "fill", 0, 0xaa, end) },
		"fill with zero": func(t *testing.T, g *guest) { g.call(t, "fill", 0, 0, end) },
		"memory.copy":    func(t *testing.T, g *guest) { g.call(t, "copy", pageSize-7, 0, 40*pageSize) },
		"memory.init":    func(t *testing.T, g *guest) { g.call(t, "init", 2*pageSize-5, 0, uint64(len(passiveData))) },
		"the host":       func(t *testing.T, g *guest) { g.Memory().Write(7*pageSize, bytes.Repeat([]byte{1}, 9000)) },
		"every page": func(t *testing.T, g *guest) {
			for at := uint64(0); at < end; at += 4096 {
				g.call(t, "poke", at, 1)
			}
		},
		"every other page of a third": func(t *testing.T, g *guest) {
			for at := uint64(0); at < end/3; at += 8192 {
				g.call(t, "poke", at, 1)
			}
		},
	}
	expect.Each(t, strategies(), func(t *testing.T, s strategy) {
		g := newEngine(t, assemble(pages), s).start(t)
		for i := range contentOf(g.memory) { // all pages differ
			if i >= 2*activeAt {
				contentOf(g.memory)[i] = byte(i>>12 + i)
			}
		}
		want := slices.Clone(contentOf(g.memory))
		g.snapshot(t)
		expect.Must(t, bytes.Equal(contentOf(g.memory), want), "the snapshot changed the content")
		for range 3 { // each write follows every other, as the order is random
			for name, write := range tests {
				write(t, g)
				g.restore(t)
				expect.Must(t, bytes.Equal(contentOf(g.memory), want), "%s: the content differs", name)
			}
		}
	})
}

func TestGrowth(t *testing.T) {
	t.Parallel()
	const failed = 0xffffffff
	tests := map[string]struct {
		by          uint64
		want, pages uint32
	}{
		"by nothing":   {0, 3, 3},
		"by one":       {1, 3, 4},
		"to the end":   {maxPages - 3, 3, maxPages},
		"beyond":       {maxPages - 2, failed, 3},
		"far beyond":   {0xffff, failed, 3},
		"by minus one": {failed, failed, 3},
	}
	expect.Each(t, strategies(), func(t *testing.T, s strategy) {
		for name, test := range tests {
			g := newEngine(t, assemble(3), s).startWithSnapshot(t)
			for range 3 { // each call finds the memory as it was, and grows it again
				if got := g.call(t, "size"); got != 3 || g.Memory().Size() != 3*pageSize {
					t.Fatalf("%s: memory.size returns %d, the host sees %d bytes", name, got, g.Memory().Size())
				}
				expect.Equal(t, name+": reads", g.call(t, "peek", 0), 0)
				g.call(t, "poke", 0, 7)
				expect.Equal(t, name, g.call(t, "grow", test.by), test.want)
				expect.Equal(t, name+": memory.size returns", g.call(t, "size"), test.pages)
				for _, last := range []uint64{3*pageSize - 4, uint64(test.pages)*pageSize - 4} {
					expect.That(t, g.call(t, "peek", last) == 0, "%s: the word at %d is not zero", name, last)
				}
				g.call(t, "poke", uint64(test.pages)*pageSize-4, 7)
				g.restore(t)
				g.stack = [3]uint64{3 * pageSize}
				err := g.function("peek").CallWithStack(t.Context(), g.stack[:])
				expect.That(t, err != nil, "%s: the guest reads beyond its memory", name)
			}
		}
	})
}

func TestGrowthBeforeSnapshot(t *testing.T) {
	t.Parallel()
	expect.Each(t, strategies(), func(t *testing.T, s strategy) {
		g := newEngine(t, assemble(1), s).start(t)
		g.call(t, "poke", 8, 1)
		g.call(t, "grow", 5)
		g.call(t, "poke", 5*pageSize, 2)
		g.snapshot(t)
		g.call(t, "fill", 0, 9, 6*pageSize)
		g.restore(t)
		a, b := g.call(t, "peek", 8), g.call(t, "peek", 5*pageSize)
		expect.That(t, a == 1 && b == 2, "reads %d and %d", a, b)
	})
}

func TestReserveRejectsBadSizes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string][2]uint64{
		"minimum above maximum": {2 * pageSize, pageSize},
		"minimum not in pages":  {1, pageSize},
		"maximum not in pages":  {0, pageSize + 4096},
		"beyond 32 bits":        {0, maxSize + pageSize},
		"negative maximum":      {0, 1<<64 - pageSize},
	} {
		m, err := NewImageStore().Reserve(test[0], test[1])
		expect.That(t, err != nil && strings.Contains(err.Error(), "whole pages"), "%s: %v, %v", name, m, err)
	}
}

func TestMisuse(t *testing.T) {
	t.Parallel()
	expect.Each(t, strategies(), func(t *testing.T, s strategy) {
		m := expect.Value((&ImageStore{maxCopied: s.maxCopied}).Reserve(3*pageSize, 4*pageSize))(t)
		m.Allocate(0, 0)
		func() {
			defer func() { expect.That(t, recover() != nil, "two instantiations were accepted") }()
			m.Allocate(0, 0)
		}()
		expect.That(t, len(m.Reallocate(3*pageSize)) == 3*pageSize && m.Reallocate(2*pageSize) == nil &&
			m.Reallocate(5*pageSize) == nil, "Reallocate accepts wrong sizes")
		wantError := func(when string, want string, err error) {
			t.Helper()
			expect.ErrorText(t, when, err, want)
		}
		wantError("restoring before the snapshot", "no snapshot", m.Restore())
		expect.NoError(t, m.Snapshot())
		wantError("second snapshot", "a snapshot already", m.Snapshot())
		m.Free()
		m.Free()
		wantError("restoring after Free", "closed", m.Restore())
		wantError("snapshot after Free", "closed", m.Snapshot())
		expect.That(t, m.Reallocate(4*pageSize) == nil, "memory grew after Free")
	})
}

func TestEmptyMemory(t *testing.T) {
	t.Parallel()
	expect.Each(t, strategies(), func(t *testing.T, s strategy) {
		for _, maxBytes := range []uint64{0, pageSize} {
			m := expect.Value((&ImageStore{maxCopied: s.maxCopied}).Reserve(0, maxBytes))(t)
			expect.That(t, m.Reallocate(0) != nil, "reallocating 0 bytes failed")
			expect.NoError(t, m.Snapshot())
			expect.Error(t, "Restore returns", m.Restore(), nil)
			if maxBytes > 0 {
				expect.That(t, m.Reallocate(maxBytes) != nil, "memory did not grow")
				expect.That(t, m.Restore() != nil, "growth was undone in a memory of no module")
			}
			m.Free()
		}
	})
}

func TestInstancesShareOneImage(t *testing.T) {
	t.Parallel()
	expect.Each(t, strategies(), func(t *testing.T, s strategy) {
		e, guests := newEngine(t, assemble(3), s), make([]*guest, 100)
		for i := range guests {
			guests[i] = e.startWithSnapshot(t)
		}
		expect.Must(t, len(e.images.images) == 1 && e.images.images[0].refs == len(guests),
			"%d images, the first used %d times", len(e.images.images), e.images.images[0].refs)
		for i, g := range guests {
			g.call(t, "poke", 4096, uint64(i)+1)
		}
		for i, g := range guests {
			expect.Equal(t, fmt.Sprintf("guest %d reads", i), g.call(t, "peek", 4096), uint32(i)+1)
		}
		for i, g := range guests {
			if i%2 == 0 {
				g.restore(t)
			}
		}
		for i, g := range guests {
			expect.Equal(t, fmt.Sprintf("guest %d, others restored", i), g.call(t, "peek", 4096), uint32(i%2*(i+1)))
		}
	})
}

func TestDifferentSnapshotsAreNotShared(t *testing.T) {
	t.Parallel()
	expect.Each(t, strategies(), func(t *testing.T, s strategy) {
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
			expect.Equal(t, fmt.Sprintf("guest %d, restored", i), g.call(t, "peek", 3*pageSize-4), uint32(i/2))
		}
	})
}

func TestFreeKeepsSharedImage(t *testing.T) {
	t.Parallel()
	expect.Each(t, strategies(), func(t *testing.T, s strategy) {
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
	expect.Each(t, strategies(), func(t *testing.T, s strategy) {
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
						expect.Equal(t, fmt.Sprint("worker ", worker), g.call(t, "peek", pageSize), uint32(worker%3))
						g.call(t, "poke", pageSize, 100*worker+i)
						expect.Error(t, "Restore", g.memory.Restore(), nil)
					}
					expect.Error(t, "error", g.Close(t.Context()), nil)
				}
			})
		}
		wg.Wait()
		expect.Equal(t, "images are left", len(e.images.images), 0)
	})
}
