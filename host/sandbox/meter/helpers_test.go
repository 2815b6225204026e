package meter

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"assay/registry/expect"
)

// Test modules are assembled from the bytes of their sections.

func cat(parts ...[]byte) []byte                { return slices.Concat(parts...) }
func u(x uint32) []byte                         { return appendU32(nil, x) }
func s(x int64) []byte                          { return AppendSigned(nil, x) }
func str(name string) []byte                    { return appendName(nil, name) }
func vec(items ...[]byte) []byte                { return cat(u(uint32(len(items))), cat(items...)) }
func sized(b []byte) []byte                     { return cat(u(uint32(len(b))), b) }
func repeat(n int, item ...byte) []byte         { return bytes.Repeat(item, n) }
func locals(n uint32, t ValueType) [][]byte     { return [][]byte{cat(u(n), []byte{byte(t)})} }
func section(id byte, items ...[]byte) []byte   { return rawSection(id, vec(items...)) }
func rawSection(id byte, content []byte) []byte { return appendSection(nil, id, content) }
func module(sections ...[]byte) []byte          { return cat(magic, cat(sections...)) }

// fn returns a function body with groups of locals. It appends end to the code.
func fn(locals [][]byte, code ...byte) []byte { return sized(cat(vec(locals...), code, []byte{opEnd})) }

func sig(params, results string) []byte {
	return cat([]byte{0x60}, sized([]byte(params)), sized([]byte(results)))
}

func export(name string, kind Kind, index uint32) []byte {
	return cat(str(name), []byte{byte(kind)}, u(index))
}

// Value types. A string of them is a list of parameters or results.
const i32, i64 = "\x7f", "\x7e"

// function returns a module with one function of the given type, exported as "run". Type 1 is (i32) -> (i32).
func function(params, results string, code ...byte) []byte {
	return module(section(idType, sig(params, results), sig(i32, i32)), section(idFunction, u(0)),
		section(idExport, export("run", FunctionKind, 0)), section(idCode, fn(nil, code...)))
}

// withMemory returns a module with a memory of one page and one function of type (i32) -> (), exported as "run".
func withMemory(code ...byte) []byte {
	return module(section(idType, sig(i32, "")), section(idFunction, u(0)), section(idMemory, []byte{0, 1}),
		section(idExport, export("run", FunctionKind, 0)), section(idCode, fn(nil, code...)))
}

// endless returns an endless loop of code.
func endless(code ...byte) []byte {
	return cat([]byte{opLoop, emptyBlock}, code, []byte{opBr, 0, opEnd})
}

// fibonacci recurses without a loop.
func fibonacci() []byte {
	return function(i64, i64, 0x20, 0, 0x42, 2, 0x54, 0x04, 0x7e, 0x20, 0, 0x05, 0x20, 0, 0x42, 1, 0x7d, opCall, 0,
		0x20, 0, 0x42, 2, 0x7d, opCall, 0, 0x7c, 0x0b)
}

// callTree has 100 functions, each of which calls the next one twice: 2^99 calls without a loop.
func callTree() []byte {
	bodies, types := make([][]byte, 100), make([][]byte, 100)
	for i := range bodies {
		next := min(i+1, 99)
		bodies[i], types[i] = fn(nil, opCall, byte(next), opCall, byte(next)), u(0)
	}
	bodies[99] = fn(nil)
	return module(section(idType, sig("", "")), section(idFunction, types...),
		section(idExport, export("run", FunctionKind, 0)), section(idCode, bodies...))
}

var errOutOfFuel = errors.New("out of fuel")

// fuelSupply refills a guest a number of times, and then traps it.
type fuelSupply struct {
	slice   int64
	refills int // left; negative: unlimited
	calls   int
	granted int64
	fuel    api.MutableGlobal // nil before the first refill
}

func (f *fuelSupply) refill(_ context.Context, m api.Module, _ []uint64) {
	if f.calls++; f.refills == 0 {
		panic(errOutOfFuel)
	}
	f.refills--
	f.fuel = m.ExportedGlobal(FuelExport).(api.MutableGlobal)
	f.granted += f.slice - int64(f.fuel.Get())
	f.fuel.Set(uint64(f.slice))
}

// burned returns the fuel that the guest has burned.
func (f *fuelSupply) burned() int64 {
	if f.fuel == nil {
		return 0
	}
	return f.granted - int64(f.fuel.Get())
}

// testHost provides the imports of test guests.
type testHost struct{ runtime wazero.Runtime }

func newHost(t testing.TB, config wazero.RuntimeConfig, fuel *fuelSupply) *testHost {
	t.Helper()
	ctx, h := context.Background(), &testHost{runtime: newRuntime(t, config)}
	expect.Value(h.runtime.NewHostModuleBuilder(ImportModule).NewFunctionBuilder().
		WithGoModuleFunction(api.GoModuleFunc(fuel.refill), nil, nil).Export(ImportName).Instantiate(ctx))(t)
	expect.Value(h.runtime.NewHostModuleBuilder("assay").NewFunctionBuilder().
		WithFunc(func(_ context.Context, m api.Module, _, _, buf, _ uint32) int32 {
			m.Memory().WriteString(buf, "login.paypal-verify.example")
			return 27
		}).Export("fact").Instantiate(ctx))(t)
	return h
}

func newRuntime(t testing.TB, config wazero.RuntimeConfig) wazero.Runtime {
	r := wazero.NewRuntimeWithConfig(context.Background(), config.WithMemoryLimitPages(1024))
	t.Cleanup(func() { r.Close(context.Background()) })
	return r
}

func compiler() wazero.RuntimeConfig {
	return wazero.NewRuntimeConfigCompiler().WithCoreFeatures(api.CoreFeaturesV2)
}

// start instantiates a module and runs its start function.
func (h *testHost) start(wasm []byte) (api.Module, error) {
	return h.runtime.InstantiateWithConfig(context.Background(), wasm,
		wazero.NewModuleConfig().WithName("").WithStartFunctions(StartExport, "_initialize"))
}

func (h *testHost) mustStart(t testing.TB, wasm []byte) api.Module {
	t.Helper()
	return expect.Value(h.start(wasm))(t)
}

func mustInstrument(t testing.TB, wasm []byte) *Module {
	t.Helper()
	return expect.Value(Instrument(wasm, DefaultLimits()))(t)
}

// startMetered instruments a module under a policy and instantiates it.
func startMetered(t testing.TB, wasm []byte, p policy, fuel *fuelSupply) api.Module {
	t.Helper()
	guest := newHost(t, compiler(), fuel).mustStart(t, expect.Value(instrument(wasm, DefaultLimits(), p))(t).Wasm)
	fuel.fuel = guest.ExportedGlobal(FuelExport).(api.MutableGlobal)
	return guest
}

// run calls the exported function "run".
func run(guest api.Module, args ...uint64) error {
	return expect.ErrorOf(guest.ExportedFunction("run").Call(context.Background(), args...))
}

func TestInstrumentIsDeterministic(t *testing.T) {
	t.Parallel()
	wasm := everything()
	before, m := bytes.Clone(wasm), mustInstrument(t, wasm)
	expect.Must(t, bytes.Equal(m.Wasm, mustInstrument(t, wasm).Wasm), "the second result differs from the first")
	expect.Must(t, bytes.Equal(wasm, before), "Instrument modified its input")
	_, err := Instrument(m.Wasm, DefaultLimits())
	e := new(Error)
	expect.Must(t, errors.As(err, &e) && e.Section == "import", "instrumenting twice: %v", err)
}

// BenchmarkSlice measures how long a slice lasts, which is how late a deadline may be noticed. The cases are cheap
// instructions, loads that miss every cache, and bulk operations.
func BenchmarkSlice(b *testing.B) {
	chase := module(section(idType, sig("", "")), section(idFunction, u(0)), section(idMemory, cat([]byte{0}, u(256))),
		section(idExport, export("run", FunctionKind, 0), export("memory", MemoryKind, 0)),
		section(idCode, fn(locals(1, I32), endless(0x20, 0, 0x28, 2, 0, 0x21, 0)...)))
	// A loop as clang compiles it: a hash of the numbers below the argument.
	hash := section(idCode, fn(locals(2, I32), 0x03, 0x40, 0x20, 1, 0x20, 2, 0x73, 0x41, 0x93, 0x83, 0x80, 8, 0x6c,
		0x21, 1, 0x20, 2, 0x41, 1, 0x6a, 0x22, 2, 0x20, 0, 0x49, 0x0d, 0, 0x0b, 0x20, 1))
	for name, wasm := range map[string][]byte{
		"hash loop": module(section(idType, sig(i32, i32)), section(idFunction, u(0)),
			section(idExport, export("run", FunctionKind, 0)), hash),
		"chase":       chase,
		"fill 64 KiB": withMemory(endless(0x41, 0, 0x41, 1, 0x41, 0x80, 0x80, 4, opMisc, memoryFill, 0)...),
		"straight":    function(i32, i32, cat([]byte{0x20, 0}, repeat(300_000, 0x20, 0, 0x6d))...),
		"call tree":   callTree(),
		"fibonacci":   fibonacci(),
	} {
		b.Run(name, func(b *testing.B) {
			fuel := &fuelSupply{slice: Slice, refills: -1}
			guest := startMetered(b, wasm, defaultPolicy(), fuel)
			if name == "chase" { // a cycle through 16 MiB in steps that no prefetcher follows
				const words = 16 << 20 / 4
				for i, at := 0, uint32(0); i < words; i++ {
					next := (at*1664525 + 1013904223) % words
					guest.Memory().WriteUint32Le(at*4, next*4)
					at = next
				}
			}
			fuel.refills = b.N
			args := make([]uint64, len(guest.ExportedFunction("run").Definition().ParamTypes()))
			for i := range args {
				args[i] = 1 << 31
			}
			b.ResetTimer()
			for fuel.refills > 0 {
				expect.Must(b, run(guest, args...) != nil || fuel.calls != 0, "the guest never checked its fuel")
			}
		})
	}
}
