//go:build linux

package sandbox_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	ossignal "os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"assay/host/check"
	"assay/host/sandbox"
	"assay/registry"
)

// What the sandbox keeps away is real: without it, these guests hang a process or bring it down.

// unguarded hands a file to the engine as it is, with the engine's own interruption on, and calls it for 50 ms.
func unguarded(wasm func() []byte) func(*report) {
	return func(r *report) {
		ctx := context.Background()
		engine := wazero.NewRuntimeWithConfig(ctx,
			wazero.NewRuntimeConfigCompiler().WithCoreFeatures(api.CoreFeaturesV2).
				WithMemoryLimitPages(16).WithCloseOnContextDone(true))
		defer engine.Close(ctx)
		host := engine.NewHostModuleBuilder("assay")
		for _, im := range newLayer().imports {
			host = host.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(context.Context, api.Module,
				[]uint64) {
			}),
				[]byte(im.params), []byte(im.results)).Export(im.name)
		}
		if _, err := host.Instantiate(ctx); err != nil {
			r.Refused = err.Error()
			return
		}
		guest, err := engine.Instantiate(ctx, wasm())
		if err != nil {
			r.Refused = err.Error()
			return
		}
		ctx, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		if _, err := guest.ExportedFunction("assay_v1_score").Call(ctx); err != nil {
			r.Lost = err.Error()
		}
	}
}

// guards lists guests that the engine alone does not survive.
func guards() map[string]struct {
	wasm    func() []byte
	crashes bool // it takes the process with it; otherwise the call does not end
} {
	return map[string]struct {
		wasm    func() []byte
		crashes bool
	}{
		"unmetered/callTree":        {callTree, false},
		"unmetered/naiveFib":        {naiveFib, false},
		"unvetted/manyLocals":       {manyLocals, true},
		"unvetted/sixtyFourTables":  {sixtyFourTables, true},
		"unvetted/countlessImports": {announcing(importSection), true},
		"unvetted/growTableForever": {growTableWithoutEnd, true},
	}
}

// growTableWithoutEnd asks for a table of 2^30 entries, which is 8 GiB.
func growTableWithoutEnd() []byte {
	l := scoring(op(0xd0, 0x70), num(1<<30), op(0xfc, 15, 0), drop, scored)
	l.tables = [][]byte{cat([]byte(funcref), op(0, 1))}
	return l.encode()
}

// TestGuards runs each without the sandbox: a guard that nothing needs is one too many.
func TestGuards(t *testing.T) {
	t.Parallel()
	for name, g := range guards() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			long := patience
			if !g.crashes {
				long = 2 * time.Second // forty times what the call may take
			}
			e := inChild(t, name, long)
			outOfMemory := strings.Contains(e.crash, "out of memory") ||
				strings.Contains(e.crash, "too many address space collisions")
			if e.hung == g.crashes || outOfMemory != g.crashes {
				t.Errorf("hung: %v, crashed: %q; refused: %q, lost: %q: it needs no guard", e.hung, e.crash, e.Refused,
					e.Lost)
			}
		})
	}
}

func guardTasks() map[string]func(*report) {
	tasks := map[string]func(*report){"prefixes": prefixes, "flips": flips, "fullDisk": fullDisk,
		"deepAgain": deepAgain}
	for name, g := range guards() {
		tasks[name] = unguarded(g.wasm)
	}
	return tasks
}

// whole has every section, to be cut and altered.
var whole = specimen{budgetMS: 2, wasm: func() []byte {
	l := healthy().with(fib(score + 1))
	l.tables = [][]byte{cat([]byte(funcref), op(1, 2, 4))}
	l.globals = [][]byte{cat([]byte(i32), op(1), num(7), op(0x0b))}
	l.elements = [][]byte{cat(op(0), num(0), op(0x0b), vector([][]byte{unsigned(score), unsigned(score + 1)}))}
	l.constants = nil // data comes last, and a file that ends before it would be complete
	return l.encode()
}}

// TestPrefixes cuts a plugin at every byte (Z24): none of the pieces is a plugin, whoever looks at it.
func TestPrefixes(t *testing.T) {
	t.Parallel()
	if e := inChild(t, "prefixes", patience); e.crash != "" || e.Lost != "" || !e.reported {
		t.Errorf("hung: %v, crashed: %q, %s", e.hung, e.crash, e.Lost)
	}
}

func prefixes(r *report) {
	m := whole.module()
	manifest := len(whole.wasm()) // where its section begins: before it, the code is complete
	box := sandbox.New(sandbox.Config{Instances: 1, Logger: quiet})
	defer box.Close()
	for n := range m.Wasm {
		if _, err := registry.OpenModule(m.Wasm[:n]); err == nil {
			r.Lost = "the registry took a piece of a plugin"
		}
		if opened := callAltered(box, registry.Module{Manifest: m.Manifest,
			Wasm: m.Wasm[:n]}); opened != (n == manifest) {
			r.Lost = fmt.Sprintf("the sandbox took %d bytes of a plugin: %v", n, opened)
		}
	}
}

// TestFlips alters single bits of a plugin (Z25): it is refused, or it is a plugin like any other.
func TestFlips(t *testing.T) {
	t.Parallel()
	e := inChild(t, "flips", patience)
	if e.hung || e.crash != "" || !e.reported {
		t.Errorf("hung: %v, crashed: %q", e.hung, e.crash)
	}
	if e.Score == 0 || e.Score == flipped {
		t.Errorf("%d of %d altered plugins were opened: nothing was tried", e.Score, flipped)
	}
	t.Logf("%d of %d were opened, %d MiB", e.Score, flipped, e.PeakMB)
}

// flipped is how many bits are flipped; FuzzOpen alters more.
const flipped = 2000

func flips(r *report) {
	m := whole.module()
	box := sandbox.New(sandbox.Config{Instances: 1, Logger: quiet})
	defer box.Close()
	random := rand.New(rand.NewPCG(1, 2))
	for range flipped {
		wasm := whole.wasm()
		wasm[random.IntN(len(wasm))] ^= 1 << random.IntN(8)
		if callAltered(box, registry.Module{Manifest: m.Manifest, Wasm: wasm}) {
			r.Score++
		}
	}
}

// callAltered opens a plugin and calls it, and says whether it could be opened.
func callAltered(box *sandbox.Sandbox, m registry.Module) bool {
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

// FuzzOpen alters plugins in any way.
func FuzzOpen(f *testing.F) {
	m := whole.module()
	f.Add(m.Wasm)
	for _, s := range zoo() {
		if wasm := s.wasm(); len(wasm) < 4<<10 && !s.ends.refused {
			f.Add(wasm)
		}
	}
	box := sandbox.New(sandbox.Config{Instances: 1, Logger: quiet})
	f.Cleanup(func() { _ = box.Close() })
	f.Fuzz(func(_ *testing.T, wasm []byte) { callAltered(box, registry.Module{Manifest: m.Manifest, Wasm: wasm}) })
}

// TestFullDisk has a compile cache on a disk that takes nothing (Z45).
func TestFullDisk(t *testing.T) {
	t.Parallel()
	if e := inChild(t, "fullDisk", patience); e.hung || e.crash != "" || e.Score != len(asked) {
		t.Errorf("hung: %v, crashed: %q, refused: %q, score %d", e.hung, e.crash, e.Refused, e.Score)
	}
}

func fullDisk(r *report) {
	dir, err := os.MkdirTemp("", "zoo")
	if err != nil {
		r.Refused = err.Error()
		return
	}
	defer os.RemoveAll(dir)
	ossignal.Ignore(syscall.SIGXFSZ) // which asks a process that writes too much to end
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		r.Refused = err.Error()
		return
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 1, Max: before.Max}); err != nil {
		r.Refused = err.Error()
		return
	}
	defer func() { _ = syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before) }()
	box := sandbox.New(sandbox.Config{Instances: 1, Logger: quiet, CacheDir: dir, CacheKey: make([]byte, 32)})
	defer box.Close()
	p, err := box.Open(context.Background(), specimen{wasm: healthy().encode}.module())
	if err != nil {
		r.Refused = err.Error()
		return
	}
	defer p.Close(context.Background())
	r.call(p)
}

// TestStackIsGivenBack has a guest go deep and answer (Z06): the engine's stack has grown, and must not stay with the
// instance.
func TestStackIsGivenBack(t *testing.T) {
	t.Parallel()
	if raceDetector { // the stack grows too slowly for any budget, and what it takes tells nothing
		return
	}
	e := inChild(t, "deepAgain", patience)
	if e.hung || e.crash != "" || e.Lost != "" || !e.reported {
		t.Fatalf("hung: %v, crashed: %q, lost: %s", e.hung, e.crash, e.Lost)
	}
	t.Logf("an idle plugin keeps %d MiB, after %d at its most", e.Score, e.PeakMB)
	if e.Score > 4 {
		t.Errorf("an idle plugin keeps %d MiB", e.Score)
	}
}

func deepAgain(r *report) {
	box := sandbox.New(sandbox.Config{Instances: 1, Logger: quiet})
	defer box.Close()
	before, err := residentMB()
	if err != nil {
		r.Lost = err.Error()
		return
	}
	p, err := box.Open(context.Background(), specimen{budgetMS: 100, wasm: func() []byte {
		body, f := deep(score+1, recursionDepth)
		return scoring(body, scored).with(f).encode()
	}}.module())
	if err != nil {
		r.Lost = err.Error()
		return
	}
	defer p.Close(context.Background())
	for r.call(p); r.Reason == check.Timeout; r.call(p) { // on a busy machine
		*r = report{}
		p.WakeUp()
	}
	after, err := residentMB()
	if err != nil {
		r.Lost = err.Error()
	}
	r.Score = after - before
}
