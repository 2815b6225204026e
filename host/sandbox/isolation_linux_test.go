package sandbox

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"
	"weak"

	"assay/host/check"
	"assay/registry"
	"assay/registry/expect"
)

// backgroundLoad calls a healthy plugin until it is stopped.
type backgroundLoad struct {
	stop   chan struct{}
	wg     sync.WaitGroup
	scored atomic.Int64
}

// loadHealthy starts n callers. Each call has an entity of its own, and must return a result for that entity.
func loadHealthy(t *testing.T, p *Plugin, n int) *backgroundLoad {
	t.Helper()
	load := &backgroundLoad{stop: make(chan struct{})}
	for caller := range n {
		load.wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-load.stop:
					return
				default:
				}
				value := fmt.Sprintf("%d.caller-%d.example", i, caller)
				result, err := p.Score(context.Background(), facts(value, ""))
				switch {
				case err != nil:
					t.Errorf("the healthy plugin failed: %v", err)
				case result.Score != len(value) || len(result.Signals) != 1 || result.Signals[0].Text != value:
					t.Errorf("called with %s, the healthy plugin returned %+v", value, result)
				default:
					load.scored.Add(1)
				}
			}
		})
	}
	return load
}

// end waits until the callers have so many results, and stops them.
func (l *backgroundLoad) end(results int64) {
	for l.scored.Load() < results {
		runtime.Gosched()
	}
	close(l.stop)
	l.wg.Wait()
}

// residentMB returns the resident memory of the process after a garbage collection.
func residentMB(t *testing.T) int {
	t.Helper()
	debug.FreeOSMemory()
	return statusMB(t, "VmRSS")
}

// statusMB returns a field of /proc/self/status in MiB.
func statusMB(t *testing.T, name string) (kb int) {
	t.Helper()
	_, value, _ := strings.Cut(string(expect.Value(os.ReadFile("/proc/self/status"))(t)), name+":")
	expect.Value(fmt.Sscan(value, &kb))(t)
	return kb / 1024
}

// repetitions returns how often a caller calls the guest: seldom, if its calls take long.
func (h hostileGuest) repetitions() int {
	switch {
	case h.want.reason == check.Exhausted || h.want.reason == overran: // it burns its whole budget
		return 4
	case strings.HasPrefix(h.name, "stack/") || h.memoryMB > 1:
		return 4
	case raceDetector:
		return 12
	}
	return 40
}

// TestHostileGuestsNextToHealthy opens every hostile guest, and runs those that are not refused repeatedly, in the
// process of a healthy plugin under load. It measures the whole process, so no other test may run at the same time.
func TestHostileGuestsNextToHealthy(t *testing.T) { //nolint:paralleltest // it measures the whole process
	const callers = 2
	box := sandboxOf(t, callers)
	load := loadHealthy(t, openIn(t, box, hostileGuest{wasm: healthy().encode}.module()), callers)
	before, goroutines := residentMB(t), runtime.NumGoroutine()
	hostileCalls := 0
	for _, h := range hostileGuests() {
		calls := h.repetitions()
		t.Run(h.name, func(t *testing.T) {
			expect.NoError(t, os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)) // the peak begins now
			resident := statusMB(t, "VmRSS")
			if h.want.refused {
				refused := report{Refused: openError(t, box, h.module()).Error()}
				expect.Equal(t, "the refusal", h.want.mismatch(refused), "")
			} else {
				h.callNextToOthers(t, box, callers, calls)
				hostileCalls += callers * calls
			}
			scored := load.scored.Load()
			for load.scored.Load() == scored && !t.Failed() { // the healthy plugin still returns results
				runtime.Gosched()
			}
			grown := statusMB(t, "VmHWM") - resident
			expect.That(t, grown <= callers*(64+2*h.memoryMB) || raceDetector, "the process grew by %d MiB", grown)
		})
	}
	load.end(1000)
	expect.That(t, hostileCalls >= 1_000 || raceDetector, "only %d hostile calls", hostileCalls)
	t.Logf("%d MiB before and %d after %d hostile calls; %d healthy results", before, residentMB(t), hostileCalls,
		load.scored.Load())
	expect.Until(t, "the memory is given back", func() bool { return raceDetector || residentMB(t) <= before+64 })
	expect.Until(t, "the goroutines have ended", func() bool { return runtime.NumGoroutine() <= goroutines })
}

func (h hostileGuest) callNextToOthers(t *testing.T, box *Sandbox, callers, calls int) {
	t.Helper()
	if h.want.reason == check.Exhausted {
		h.fuel = 200_000
	}
	p := openIn(t, box, h.module())
	p.bounds.time = cmp.Or(h.time, patience)
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range calls {
				var r report
				r.call(p)
				expect.Equal(t, "the call", h.want.mismatch(r), "")
			}
		})
	}
	wg.Wait()
}

// Code that is mapped from a file gives the same results as code in memory, and is unmapped with its plugin.
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
		_, code := engineCode(p.compiled)
		address := fmt.Sprintf("%x-", uintptr(unsafe.Pointer(unsafe.SliceData(code))))
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
	for line := range strings.Lines(string(expect.Value(os.ReadFile("/proc/self/maps"))(t))) {
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
