package sandbox

import (
	"context"
	"math/rand/v2"
	"testing"

	"assay/registry"
	"assay/registry/expect"
)

// complete has every section of a module, to be truncated and altered.
var complete = hostileGuest{fuel: 100_000, wasm: func() []byte {
	g := healthy().with(fib(fnScore + 1))
	g.tables = [][]byte{functionTable(2, 4)}
	g.globals = [][]byte{concat([]byte(tI32), op(1), i32Const(7), op(0x0b))}
	g.elements = [][]byte{activeElements(fnScore, fnScore+1)}
	g.data = nil // the data section is last, and a file that ends before it would be complete
	return g.encode()
}}

// openCorrupted reports whether a module can be opened, and calls it if so.
func openCorrupted(box *Sandbox, m registry.Module) bool {
	p, err := box.Open(context.Background(), m)
	if err != nil {
		return false
	}
	var r report
	for range 3 {
		r.call(p)
	}
	return p.Close(context.Background()) == nil
}

// bitFlips is the number of single-bit changes of TestBitFlips. FuzzOpen tries more.
const bitFlips = 500

// TestBitFlips flips single bits of a plugin: Open refuses it, or it runs like any other plugin.
func TestBitFlips(t *testing.T) {
	t.Parallel()
	c := inChild(t, "bit flips", childTimeout)
	expect.That(t, c.clean(), "hung: %v, crashed: %q", c.hung, c.crash)
	expect.That(t, c.Score != 0 && c.Score != bitFlips, "%d of %d altered plugins were opened, want some", c.Score,
		bitFlips)
	t.Logf("%d of %d were opened, %d MiB", c.Score, bitFlips, c.PeakMB)
}

// openBitFlips reports as Score the number of altered plugins that were opened.
func openBitFlips(r *report) {
	m := complete.module()
	box := newBox()
	random := rand.New(rand.NewPCG(1, 2))
	for range bitFlips {
		wasm := complete.wasm()
		wasm[random.IntN(len(wasm))] ^= 1 << random.IntN(8)
		if openCorrupted(box, registry.Module{Manifest: m.Manifest, Wasm: wasm}) {
			r.Score++
		}
	}
}

// FuzzOpen opens and calls arbitrary modules.
func FuzzOpen(f *testing.F) {
	m := complete.module()
	f.Add(m.Wasm)
	for _, h := range hostileGuests() {
		if wasm := h.wasm(); len(wasm) < 4<<10 && !h.want.refused {
			f.Add(wasm)
		}
	}
	box := sandboxOf(f, 1)
	f.Fuzz(func(_ *testing.T, wasm []byte) { openCorrupted(box, registry.Module{Manifest: m.Manifest, Wasm: wasm}) })
}
