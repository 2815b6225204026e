package meter

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
)

// A small assembler: modules are written as the bytes of their sections.

func cat(parts ...[]byte) []byte { return slices.Concat(parts...) }
func u(x uint32) []byte          { return appendU32(nil, x) }
func s(x int64) []byte           { return appendS64(nil, x) }
func str(name string) []byte     { return appendName(nil, name) }
func vec(items ...[]byte) []byte { return cat(u(uint32(len(items))), cat(items...)) }
func sized(b []byte) []byte      { return cat(u(uint32(len(b))), b) }

func section(id byte, items ...[]byte) []byte    { return cat([]byte{id}, sized(vec(items...))) }
func rawSection(id byte, contents []byte) []byte { return cat([]byte{id}, sized(contents)) }
func module(sections ...[]byte) []byte           { return cat(magic, cat(sections...)) }

// fn is a body: groups of locals as count and type, then code, to which end is added.
func fn(locals [][]byte, code ...byte) []byte {
	return sized(cat(vec(locals...), code, []byte{opEnd}))
}

func sig(params, results string) []byte {
	return cat([]byte{0x60}, sized([]byte(params)), sized([]byte(results)))
}

func export(name string, kind byte, index uint32) []byte {
	return cat(str(name), []byte{kind}, u(index))
}

const i32, i64, v128, funcref = "\x7f", "\x7e", "\x7b", "\x70"

// one is a module of a memory and one function, exported as "run", of type (i32) -> ().
func one(locals [][]byte, code ...byte) []byte {
	return module(section(idType, sig(i32, "")), section(idFunction, u(0)), section(idMemory, []byte{0, 1}),
		section(idExport, export("run", 0, 0)), section(idCode, fn(locals, code...)))
}

var errStopped = errors.New("out of fuel")

// supply refills a guest a number of times, then stops it; it keeps count of what was burned.
type supply struct {
	slice   int64
	refills int // left; negative for no end
	calls   int
	granted int64
	fuel    api.MutableGlobal
}

func (f *supply) refill(_ context.Context, m api.Module, _ []uint64) {
	if f.calls++; f.refills == 0 {
		panic(errStopped)
	}
	f.refills--
	f.fuel = m.ExportedGlobal(FuelExport).(api.MutableGlobal)
	f.granted += f.slice - int64(f.fuel.Get())
	f.fuel.Set(uint64(f.slice))
}

func (f *supply) burned() int64 {
	if f.fuel == nil {
		return 0
	}
	return f.granted - int64(f.fuel.Get())
}

// world instantiates modules among the imports that the guests of these tests ask for.
type world struct {
	rt     wazero.Runtime
	supply *supply
	heard  []string // what the guest told its host
}

func newWorld(t testing.TB, config wazero.RuntimeConfig, fuel *supply) *world {
	t.Helper()
	ctx := context.Background()
	w := &world{rt: wazero.NewRuntimeWithConfig(ctx, config.WithMemoryLimitPages(1024)), supply: fuel}
	t.Cleanup(func() { w.rt.Close(ctx) })
	wasi_snapshot_preview1.MustInstantiate(ctx, w.rt)
	_, err := w.rt.NewHostModuleBuilder(ImportModule).NewFunctionBuilder().
		WithGoModuleFunction(api.GoModuleFunc(fuel.refill), nil, nil).Export(ImportName).Instantiate(ctx)
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.rt.NewHostModuleBuilder("assay").NewFunctionBuilder().
		WithFunc(func(_ context.Context, m api.Module, _, _, buf, _ uint32) int32 {
			m.Memory().WriteString(buf, "login.paypal-verify.example")
			return 27
		}).Export("fact").NewFunctionBuilder().
		WithFunc(func(_ context.Context, m api.Module, _ int32, code, codeLen, _, _ uint32) {
			b, _ := m.Memory().Read(code, codeLen)
			if len(w.heard) < 100 {
				w.heard = append(w.heard, string(b))
			}
		}).Export("signal").Instantiate(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func compiler() wazero.RuntimeConfig {
	return wazero.NewRuntimeConfigCompiler().WithCoreFeatures(api.CoreFeaturesV2)
}

func (w *world) start(wasm []byte) (api.Module, error) {
	return w.rt.InstantiateWithConfig(context.Background(), wasm,
		wazero.NewModuleConfig().WithName("").WithStartFunctions(StartExport, "_initialize"))
}

// metered instantiates wasm after rewriting it under s.
func metered(t testing.TB, wasm []byte, s scheme, fuel *supply) (api.Module, *world) {
	t.Helper()
	m, err := instrument(wasm, DefaultLimits(), s)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, compiler(), fuel)
	guest, err := w.start(m.Wasm)
	if err != nil {
		t.Fatal(err)
	}
	return guest, w
}

func mustVet(t *testing.T, wasm []byte) *Summary {
	t.Helper()
	sum, err := Vet(wasm, DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

func TestSameBytes(t *testing.T) {
	t.Parallel()
	wasm := everything()
	before := bytes.Clone(wasm)
	a, err := Instrument(wasm, DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	b, err := Instrument(wasm, DefaultLimits())
	if err != nil || !bytes.Equal(a.Wasm, b.Wasm) {
		t.Fatalf("second run differs from the first (%v)", err)
	}
	if !bytes.Equal(wasm, before) {
		t.Fatal("the input was written to")
	}
	_, err = Instrument(a.Wasm, DefaultLimits())
	if e := new(Error); !errors.As(err, &e) || e.Section != "import" {
		t.Fatalf("metering twice: %v", err)
	}
}
