package linear

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"assay/registry/expect"
)

// The assembled guest's data segments.
const (
	activeAt    = 1024 // address of the active segment
	activeData  = "active data segment"
	passiveData = "passive segment"
)

// Maximum sizes of memories, in pages.
const (
	maxPages   = 64   // of an assembled guest
	limitPages = 1024 // of any guest
)

// assemble returns a module (WebAssembly 2.0, chapter 5) with a memory of the given number of pages and an exported
// function for each kind of access. With no pages it cannot be instantiated, because its data segment is out of bounds.
func assemble(pages uint64) []byte {
	const i32 = 0x7f
	type function struct {
		name          string
		params        int
		results, body []byte
	}
	get := func(n byte) []byte { return []byte{0x20, n} }
	functions := []function{
		{"poke", 2, nil, join(get(0), get(1), []byte{0x36, 0, 0})},
		{"peek", 1, []byte{i32}, join(get(0), []byte{0x28, 0, 0})},
		{"grow", 1, []byte{i32}, join(get(0), []byte{0x40, 0})},
		{"size", 0, []byte{i32}, []byte{0x3f, 0}},
		{"fill", 3, nil, join(get(0), get(1), get(2), []byte{0xfc, 11, 0})},
		{"copy", 3, nil, join(get(0), get(1), get(2), []byte{0xfc, 10, 0, 0})},
		{"init", 3, nil, join(get(0), get(1), get(2), []byte{0xfc, 8, 1, 0})},
	}
	var types, indices, exports, bodies [][]byte
	for i, f := range functions {
		types = append(types, join([]byte{0x60}, sized(slices.Repeat([]byte{i32}, f.params)), sized(f.results)))
		indices = append(indices, uleb(uint64(i)))
		exports = append(exports, join(sized([]byte(f.name)), []byte{0}, uleb(uint64(i))))
		bodies = append(bodies, sized(join([]byte{0}, f.body, []byte{0x0b})))
	}
	exports = append(exports, join(sized([]byte("memory")), []byte{2, 0}))
	active := join([]byte{0, 0x41}, []byte{0x80, activeAt >> 7}, []byte{0x0b}, sized([]byte(activeData)))
	section := func(id byte, content []byte) []byte { return join([]byte{id}, sized(content)) }
	return join([]byte("\x00asm\x01\x00\x00\x00"), section(1, vector(types)), section(3, vector(indices)),
		section(5, join([]byte{1, 1}, uleb(pages), uleb(maxPages))),
		section(7, vector(exports)), section(12, uleb(2)), section(10, vector(bodies)),
		section(11, vector([][]byte{active, join([]byte{1}, sized([]byte(passiveData)))})))
}

func join(parts ...[]byte) []byte  { return slices.Concat(parts...) }
func uleb(v uint64) []byte         { return binary.AppendUvarint(nil, v) }
func sized(b []byte) []byte        { return join(uleb(uint64(len(b))), b) }
func vector(items [][]byte) []byte { return join(uleb(uint64(len(items))), join(items...)) }

func contentOf(m *Memory) []byte { return m.reservation.bytes(m.size) }

// strategy is a way to restore a memory.
type strategy struct {
	maxCopied uint64        // bytes; images up to this size are copied back
	adjust    func(*Memory) // called after the snapshot; may be nil
}

// engine is a runtime with one compiled module.
type engine struct {
	runtime  wazero.Runtime
	compiled wazero.CompiledModule
	images   *ImageStore
	strategy strategy
}

// guest is an instance of an engine's module.
type guest struct {
	api.Module
	memory    *Memory
	strategy  strategy
	functions map[string]api.Function // looked up once, because a lookup allocates a stack
	stack     [3]uint64
}

func (g *guest) function(name string) api.Function {
	f := g.functions[name]
	if f == nil {
		f = g.ExportedFunction(name)
		g.functions[name] = f
	}
	return f
}

func newEngine(t testing.TB, wasm []byte, s strategy) *engine {
	t.Helper()
	ctx := context.Background()
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigCompiler().WithMemoryLimitPages(limitPages))
	t.Cleanup(func() { _ = r.Close(ctx) })
	return &engine{r, expect.Value(r.CompileModule(ctx, wasm))(t), &ImageStore{maxCopied: s.maxCopied}, s}
}

// start returns an instance without a snapshot.
func (e *engine) start(t testing.TB) *guest {
	t.Helper()
	g := expect.Value(e.instantiate())(t)
	t.Cleanup(func() { _ = g.Close(context.Background()) })
	return g
}

func (e *engine) instantiate() (*guest, error) {
	memory, err := e.images.Reserve(uint64(e.compiled.ExportedMemories()["memory"].Min())*pageSize, limitPages*pageSize)
	if err != nil {
		return nil, err
	}
	module, err := e.runtime.InstantiateModule(experimental.WithMemoryAllocator(context.Background(), memory),
		e.compiled, wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err != nil {
		memory.Free()
		return nil, err
	}
	if err := memory.Bind(module); err != nil {
		return nil, err
	}
	return &guest{Module: module, memory: memory, strategy: e.strategy, functions: map[string]api.Function{}}, nil
}

// startWithSnapshot returns an instance with a snapshot.
func (e *engine) startWithSnapshot(t testing.TB) *guest {
	t.Helper()
	g := e.start(t)
	g.snapshot(t)
	return g
}

func (g *guest) snapshot(t testing.TB) {
	t.Helper()
	expect.NoError(t, g.memory.Snapshot())
	if g.strategy.adjust != nil {
		g.strategy.adjust(g.memory)
	}
}

// call runs an exported function of up to three parameters.
func (g *guest) call(t testing.TB, name string, params ...uint64) uint32 {
	t.Helper()
	g.memory.Enter()
	defer g.memory.Leave()
	copy(g.stack[:], params)
	err := g.function(name).CallWithStack(context.Background(), g.stack[:])
	expect.Must(t, err == nil, "%s%v: %v", name, params, err)
	return uint32(g.stack[0])
}

func (g *guest) restore(t testing.TB) {
	t.Helper()
	expect.NoError(t, g.memory.Restore())
}

// BenchmarkRestore measures every strategy, without the call that writes and with it. "never" measures only the call.
func BenchmarkRestore(b *testing.B) {
	poke := func(b *testing.B, g *guest) { // a stack, a buffer and a heap
		for _, at := range []uint64{16, activeAt, 0x4000, 0x8000} {
			g.call(b, "poke", at, 7)
		}
	}
	for _, pages := range []uint64{1, 2, 4, 8} {
		for name, s := range strategies() {
			b.Run(fmt.Sprintf("%dKiB/%s", pages*64, name), func(b *testing.B) {
				g := newEngine(b, assemble(pages), s).startWithSnapshot(b)
				b.Run("alone", func(b *testing.B) {
					for b.Loop() {
						b.StopTimer()
						poke(b, g)
						b.StartTimer()
						g.restore(b)
					}
				})
				b.Run("with-call", func(b *testing.B) {
					for b.Loop() {
						poke(b, g)
						g.restore(b)
					}
				})
			})
		}
		b.Run(fmt.Sprintf("%dKiB/never/with-call", pages*64), func(b *testing.B) {
			g := newEngine(b, assemble(pages), strategy{maxCopied: maxSize}).startWithSnapshot(b)
			for b.Loop() {
				poke(b, g)
			}
		})
	}
}
