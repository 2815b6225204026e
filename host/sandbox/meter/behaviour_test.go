package meter

import (
	"context"
	"crypto/sha256"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"assay/registry/expect"
)

// behaviour is everything that a host can observe of a series of calls.
type behaviour struct {
	Results [][]uint64
	Traps   []bool
	Signals []string
	Memory  [sha256.Size]byte
	Globals map[string]uint64
}

type guestCall struct {
	name string
	args []uint64
}

func calls(name string, args ...uint64) (list []guestCall) {
	for _, a := range args {
		list = append(list, guestCall{name, []uint64{a}})
	}
	return list
}

func observe(t *testing.T, h *testHost, wasm []byte, globals []string, calls []guestCall) behaviour {
	t.Helper()
	m := h.mustStart(t, wasm)
	b := behaviour{Globals: map[string]uint64{}}
	for _, c := range calls {
		results, err := m.ExportedFunction(c.name).Call(context.Background(), c.args...)
		b.Results, b.Traps = append(b.Results, results), append(b.Traps, err != nil)
		expect.Must(t, !errors.Is(err, errOutOfFuel), "%v", err)
	}
	if m.Memory() != nil {
		memory, _ := m.Memory().Read(0, m.Memory().Size())
		b.Memory = sha256.Sum256(memory)
	}
	for _, name := range globals {
		b.Globals[name] = m.ExportedGlobal(name).Get()
	}
	b.Signals = h.signals
	return b
}

// sameBehaviour runs the original and the instrumented module on the same calls, the latter with slices of the smallest
// size and with large ones.
func sameBehaviour(t *testing.T, smallest int64, wasm []byte, globals []string, calls []guestCall) {
	t.Helper()
	want := observe(t, newHost(t, compiler(), &fuelSupply{}), wasm, globals, calls)
	metered := mustInstrument(t, wasm).Wasm
	config := compiler().WithCompilationCache(wazero.NewCompilationCache())
	burned := int64(-1)
	for _, slice := range []int64{smallest, math.MaxInt32} {
		fuel := &fuelSupply{slice: slice, refills: -1}
		got := observe(t, newHost(t, config, fuel), metered, globals, calls)
		diff := cmp.Diff(want, got)
		expect.Must(t, diff == "",
			"with slices of %d, the metered guest behaves differently (-plain +metered):\n%.2000s", slice, diff)
		if slices.Contains(want.Traps, true) {
			continue // a trap loses fuel that a local caches
		}
		expect.That(t, burned < 0 || fuel.burned() == burned, "slices of %d: %d units burned, with smaller slices %d",
			slice, fuel.burned(), burned)
		burned = fuel.burned()
		expect.That(t, burned > 0, "slices of %d: %d units burned", slice, burned)
	}
}

func TestBehaviourOfEverything(t *testing.T) {
	t.Parallel()
	for _, c := range calls("run", 0, 1, 2, 77, 1<<31) {
		sameBehaviour(t, 1, everything(), []string{"counter"}, []guestCall{c})
	}
	// The second call traps because the first one drops segments.
	sameBehaviour(t, 1, everything(), []string{"counter"}, calls("run", 1, 1))
}

// TestGlobalsCanBeRestored checks that a host can set every mutable global except those in Unrestored.
func TestGlobalsCanBeRestored(t *testing.T) {
	t.Parallel()
	m := mustInstrument(t, everything())
	want := []Global{{"assay.global.0", I32}, {"assay.global.1", I64}, {"assay.global.2", F32},
		{"assay.global.4", FuncRef}, {"assay.global.5", ExternRef}}
	if diff := cmp.Diff(want, m.Globals); diff != "" {
		t.Fatal(diff)
	}
	guest := newHost(t, compiler(), &fuelSupply{slice: 1000, refills: -1}).mustStart(t, m.Wasm)
	for _, g := range m.Globals {
		x, ok := guest.ExportedGlobal(g.Name).(api.MutableGlobal)
		expect.Must(t, ok && ValueType(x.Type()) == g.Type, "%s is not a mutable %s: %v", g.Name, g.Type, x)
		old := x.Get()
		if g.Type != FuncRef && g.Type != ExternRef {
			x.Set(old + 1)
			expect.Equal(t, g.Name, x.Get(), old+1)
		}
		x.Set(old)
		expect.Equal(t, g.Name, x.Get(), old)
	}
}

func TestModuleDescribesOriginal(t *testing.T) {
	t.Parallel()
	got := mustInstrument(t, everything())
	got.Wasm, got.Globals = nil, nil
	fact := Signature{[]ValueType{I32, I32, I32, I32}, []ValueType{I32}}
	want := &Module{
		Imports: []Import{{"assay", "fact", fact}},
		Exports: []Export{{"run", FunctionKind, Signature{[]ValueType{I32}, []ValueType{I64}}},
			{Name: "memory", Kind: MemoryKind}, {Name: "counter", Kind: GlobalKind}, {Name: "table", Kind: TableKind},
			{"fact", FunctionKind, fact}}, MemoryMin: 1, MemoryMax: DefaultLimits().MemoryPages,
		Unrestored: []string{"mutable v128 global", "data.drop", "table.init", "elem.drop", "table.copy", "table.grow",
			"ref.func", "table.fill", "table.set"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
	if text := got.Exports[0].Signature.String(); text != "(i32) -> (i64)" {
		t.Error(text)
	}
}
