package sandbox

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"unsafe"
	"weak"

	"assay/host/check"
	"assay/registry"
	"assay/registry/expect"
)

// Code that is mapped from a file gives the same results as code in memory, also after its pages were given back, and
// is unmapped when the plugin is closed.
func TestMappedCode(t *testing.T) {
	t.Parallel()
	addOne := concat(i32Const(bufferAt), i32Const(bufferAt), opLoad, i32Const(1), opAdd, opStore)
	g := newGuest()
	m := pack(t, g.scoring(bytes.Repeat(addOne, minMappedCode/16+7), i32Const(bufferAt), opLoad, i32Const(31), op(0x71),
		g.text(codeOne), g.text("Additions"), callFunc(fnSignal), returnScored).encode(), manifest())
	score := func(p *Plugin) check.Result {
		t.Helper()
		return expect.Value(p.Score(t.Context(), facts("example.org", "")))(t)
	}
	inMemory := openIn(t, sandboxOf(t, 1), m)
	want := score(inMemory)
	box := sandboxWithCache(t, cacheDir(t))
	for _, state := range []string{"compiled", "loaded from the cache"} {
		p := open(t, box, m)
		expect.Must(t, p.mapped && !inMemory.mapped, "%s: the code is not mapped", state)
		address := fmt.Sprintf("%x-", uintptr(unsafe.Pointer(unsafe.SliceData(executableOf(p.compiled)))))
		for range 2 {
			got := score(p)
			expect.That(t, got.Score == want.Score && got.Fuel == want.Fuel, "%s: %+v, want %+v", state, got, want)
			expect.Error(t, "error", p.Trim(), nil)
		}
		expect.That(t, mapsFileAt(t, address), "%s: the code is not a mapping of a file", state)
		engine := weak.Make(p.engine.(*cachedEngine))
		closePlugin(t, p)
		expect.Until(t, "the code is unmapped", func() bool {
			runtime.GC()
			return engine.Value() == nil && !mapsFileAt(t, address)
		})
	}
}

// mapsFileAt reports whether this process has an executable mapping of a deleted file that begins at an address.
func mapsFileAt(t *testing.T, address string) bool {
	t.Helper()
	maps := expect.Value(os.ReadFile("/proc/self/maps"))(t)
	for line := range strings.Lines(string(maps)) {
		if strings.HasPrefix(line, address) {
			return strings.Contains(line, "r-xp") && strings.Contains(line, "(deleted)")
		}
	}
	return false
}

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
