package meter

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"assay/registry/expect"
)

// observation is everything that a host can observe of a program.
type observation struct {
	Results []uint64
	Trap    string // "" if it ended without one
	Noted   []uint64
	Pages   uint32
	Memory  [sha256.Size]byte
	Globals [3]uint64
}

// execution is the host's side of one execution of a program.
type execution struct {
	fuelSupply

	limit int64 // of the fuel; as the sandbox, refill ends the program at the first check beyond it
	noted []uint64
}

type executionKey struct{}

func executionOf(ctx context.Context) *execution { return ctx.Value(executionKey{}).(*execution) }

func (x *execution) refill(m api.Module) {
	x.fuel = m.ExportedGlobal(FuelExport).(api.MutableGlobal)
	burned := x.burned()
	if burned > x.limit {
		panic(errOutOfFuel)
	}
	slice := min(x.slice, x.limit-burned)
	x.granted = burned + slice
	x.fuel.Set(uint64(slice))
}

// newProgramRuntime returns a runtime with the imports of programs.
func newProgramRuntime(t testing.TB) wazero.Runtime {
	t.Helper()
	r := newRuntime(t, compiler())
	refill := func(ctx context.Context, m api.Module) { executionOf(ctx).refill(m) }
	mix := func(_ context.Context, m api.Module, a, b uint32) uint32 {
		m.Memory().WriteUint32Le(a&0xfff0, b)
		if g, ok := m.ExportedGlobal(FuelExport).(api.MutableGlobal); ok {
			g.Set(g.Get() - mixFuel)
		} else if g, ok := m.ExportedGlobal("count").(api.MutableGlobal); ok {
			g.Set(g.Get() + mixFuel)
		}
		return a*31 + b
	}
	note := func(ctx context.Context, a uint32) {
		x := executionOf(ctx)
		x.noted = append(x.noted, uint64(a))
	}
	_, err := r.NewHostModuleBuilder(ImportModule).NewFunctionBuilder().WithFunc(refill).Export(ImportName).
		Instantiate(t.Context())
	if err == nil {
		_, err = r.NewHostModuleBuilder("env").NewFunctionBuilder().WithFunc(mix).Export("mix").NewFunctionBuilder().
			WithFunc(note).Export("note").Instantiate(t.Context())
	}
	expect.NoError(t, err)
	return r
}

// execute calls a program with some arguments. It returns what the program did and the value of the global count.
func execute(t *testing.T, r wazero.Runtime, program wazero.CompiledModule, x *execution) (o observation, count int64) {
	t.Helper()
	ctx := context.WithValue(t.Context(), executionKey{}, x)
	m, err := r.InstantiateModule(ctx, program, wazero.NewModuleConfig().WithName("").WithStartFunctions(StartExport))
	if err == nil {
		defer m.Close(ctx)
		x.fuel, _ = m.ExportedGlobal(FuelExport).(api.MutableGlobal)
		run := m.ExportedFunction("run")
		for i := uint64(0); i < 2 && err == nil; i++ {
			var results []uint64
			results, err = run.Call(ctx, i*7, i<<40+3)
			o.Results = append(o.Results, results...)
		}
		memory, _ := m.Memory().Read(0, m.Memory().Size())
		o.Pages, o.Memory = m.Memory().Size()/pageBytes, sha256.Sum256(memory)
		for i, name := range []string{"g0", "g1", "g2"} {
			o.Globals[i] = m.ExportedGlobal(name).Get()
		}
		if g := m.ExportedGlobal("count"); g != nil {
			count = int64(g.Get())
		}
	}
	switch {
	case errors.Is(err, errOutOfFuel):
		o.Trap = errOutOfFuel.Error()
	case err != nil: // the names of functions in the text differ
		_, trap, _ := strings.Cut(err.Error(), "wasm error: ")
		o.Trap, _, _ = strings.Cut(trap, "\n")
	}
	o.Noted = x.noted
	return o, count
}

// sameProgram compares what a program does as it is and metered, and reports whether it ended without a trap. The fuel
// is the same for slices of any size, and not below the cost that an independent instrumentation counts. A limit ends
// the program at the same place.
func sameProgram(t *testing.T, r wazero.Runtime, choices []byte) (ended bool) {
	t.Helper()
	compile := func(wasm []byte) wazero.CompiledModule {
		t.Helper()
		return expect.Value(r.CompileModule(t.Context(), wasm))(t)
	}
	metered := func(p policy) wazero.CompiledModule {
		t.Helper()
		return compile(expect.Value(instrument(newProgram(choices, false), DefaultLimits(), p))(t).Wasm)
	}
	plain, counted := compile(newProgram(choices, false)), compile(newProgram(choices, true))
	defer plain.Close(t.Context())
	defer counted.Close(t.Context())
	want, _ := execute(t, r, plain, &execution{})
	same := func(what string, slice int64, got observation) {
		t.Helper()
		expect.Must(t, reflect.DeepEqual(got, want), "%s, with slices of %d: %+v, want %+v", what, slice, got, want)
	}
	counting, cost := execute(t, r, counted, &execution{})
	same("counted", 0, counting)

	// With a charge for each instruction, what a program burns is exactly the cost of what ran.
	p := defaultPolicy()
	p.maxBlock, p.valuesPerUnit = 1, 0
	exact := metered(p)
	defer exact.Close(t.Context())
	x := &execution{fuelSupply: fuelSupply{slice: 100}, limit: math.MaxInt64}
	got, _ := execute(t, r, exact, x)
	same("charged one by one", x.slice, got)
	expect.Must(t, want.Trap != "" || x.burned() == cost, "%d units burned with a charge for each instruction, %d ran",
		x.burned(), cost)

	guest := metered(defaultPolicy())
	defer guest.Close(t.Context())
	var burned int64
	for i, slice := range []int64{math.MaxInt64, 25_000, 250, 17, 2, 1} {
		x := &execution{fuelSupply: fuelSupply{slice: slice}, limit: math.MaxInt64}
		got, _ := execute(t, r, guest, x)
		same("metered", slice, got)
		if want.Trap != "" {
			continue // a trap loses fuel that a local caches
		}
		if i == 0 {
			burned = x.burned()
		}
		expect.Must(t, x.burned() == burned && burned >= cost,
			"%d units burned with slices of %d, %d with an unlimited one, %d ran", x.burned(), slice, burned, cost)
	}
	if want.Trap != "" {
		return false
	}
	for _, limit := range []int64{burned, burned - 1, burned / 2, burned / 7} {
		for i, slice := range []int64{math.MaxInt64, 250, 1} {
			got, _ := execute(t, r, guest, &execution{fuelSupply: fuelSupply{slice: slice}, limit: limit})
			if i == 0 && limit < burned {
				want = got // up to the place where the first one ended
			}
			same("limited", slice, got)
		}
	}
	return true
}

// TestProgramsBehaveTheSame runs random programs, with a fixed seed.
func TestProgramsBehaveTheSame(t *testing.T) {
	t.Parallel()
	r, random := newProgramRuntime(t), rand.New(rand.NewPCG(1, 2))
	const programs = 20 // FuzzPrograms tries more
	ended := 0
	for range programs {
		choices := make([]byte, random.IntN(600))
		for i := range choices {
			choices[i] = byte(random.Uint32())
		}
		if sameProgram(t, r, choices) {
			ended++
		}
	}
	expect.That(t, ended >= programs/2, "%d of %d programs ended without a trap, so the test proves little", ended,
		programs)
	t.Logf("%d of %d programs ended without a trap", ended, programs)
}

func FuzzPrograms(f *testing.F) {
	random := rand.New(rand.NewPCG(3, 4))
	for n := range 8 {
		choices := make([]byte, 75*n)
		for i := range choices {
			choices[i] = byte(random.Uint32())
		}
		f.Add(choices)
	}
	r := newProgramRuntime(f)
	f.Fuzz(func(t *testing.T, choices []byte) {
		if len(choices) <= 2000 {
			sameProgram(t, r, choices)
		}
	})
}

// checkInstrument checks that Instrument does not panic, that errors have a place, and that the engine accepts the
// instrumented module if and only if it accepts the original. It reports whether the engine accepts the original.
func checkInstrument(t *testing.T, rt wazero.Runtime, wasm []byte) (accepted bool) {
	t.Helper()
	m, err := Instrument(wasm, DefaultLimits())
	if err != nil {
		e := new(Error)
		expect.Must(t, errors.As(err, &e) && e.Offset >= 0 && e.Offset <= len(wasm) && e.Section != "" &&
			e.Reason != "", "error without a place: %#v", err)
		return false
	}
	ctx := context.Background()
	plain, plainErr := rt.CompileModule(ctx, wasm)
	if plainErr == nil {
		plain.Close(ctx)
	}
	metered, meteredErr := rt.CompileModule(ctx, m.Wasm)
	if meteredErr == nil {
		metered.Close(ctx)
	}
	dropped := plainErr != nil && strings.Contains(plainErr.Error(), "custom") // instrumentation drops custom sections
	expect.Must(t, (plainErr == nil) == (meteredErr == nil) || dropped,
		"the engine reports %v for the original, %v for the instrumented module", plainErr, meteredErr)
	return plainErr == nil
}

// TestBitFlips corrupts a valid module at random, with a fixed seed.
func TestBitFlips(t *testing.T) {
	t.Parallel()
	rt, wasm, random := newRuntime(t, compiler()), everything(), rand.New(rand.NewPCG(1, 2))
	const tries = 1000 // FuzzInstrument tries more
	accepted := 0
	for range tries {
		bad := bytes.Clone(wasm)
		for range 1 + random.IntN(3) {
			bad[8+random.IntN(len(bad)-8)] = byte(random.Uint32())
		}
		if checkInstrument(t, rt, bad) {
			accepted++
		}
	}
	expect.That(t, accepted != 0 && accepted != tries, "%d of %d accepted, so the test proves nothing", accepted, tries)
}

func FuzzInstrument(f *testing.F) {
	f.Add(everything())
	f.Add(fibonacci())
	f.Add(callTree())
	f.Add(withMemory(endless()...))
	f.Add(function("", "", 0x41, 0, 0x0e, 1, 0, 0))
	rt := newRuntime(f, compiler())
	f.Fuzz(func(t *testing.T, wasm []byte) { checkInstrument(t, rt, wasm) })
}
