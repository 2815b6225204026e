package sandbox

import (
	"context"
	"testing"

	"assay/registry"
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
