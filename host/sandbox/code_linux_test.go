package sandbox

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"unsafe"
	"weak"

	"assay/host/check"
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
