package meter

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// behaviour is everything that a host can see of some calls.
type behaviour struct {
	Results [][]uint64
	Traps   []bool
	Heard   []string
	Memory  []byte
	Globals map[string]uint64
}

type guestCall struct {
	name string
	args []uint64
}

func observe(t *testing.T, w *world, wasm []byte, globals []string, calls []guestCall) behaviour {
	t.Helper()
	m, err := w.start(wasm)
	if err != nil {
		t.Fatal(err)
	}
	var b behaviour
	for _, c := range calls {
		results, err := m.ExportedFunction(c.name).Call(context.Background(), c.args...)
		b.Results, b.Traps = append(b.Results, results), append(b.Traps, err != nil)
		if errors.Is(err, errStopped) {
			t.Fatal(err)
		}
	}
	if m.Memory() != nil {
		memory, _ := m.Memory().Read(0, m.Memory().Size())
		b.Memory = append(b.Memory, memory...)
	}
	b.Globals = map[string]uint64{}
	for _, name := range globals {
		b.Globals[name] = m.ExportedGlobal(name).Get()
	}
	b.Heard = w.heard
	return b
}

// sameBehaviour runs the original and the rewritten module on the same calls, the latter with slices from the smallest
// up.
func sameBehaviour(t *testing.T, smallest int64, wasm []byte, globals []string, calls []guestCall) {
	t.Helper()
	want := observe(t, newWorld(t, compiler(), &supply{}), wasm, globals, calls)
	burned := int64(-1)
	for _, slice := range []int64{smallest, math.MaxInt32} {
		m, err := Instrument(wasm, DefaultLimits())
		if err != nil {
			t.Fatal(err)
		}
		fuel := &supply{slice: slice, refills: -1}
		got := observe(t, newWorld(t, compiler(), fuel), m.Wasm, globals, calls)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("metered with slices of %d, the guest behaves otherwise (-plain +metered):\n%.2000s", slice, diff)
		}
		if slices.Contains(want.Traps, true) {
			continue // a trap loses what a local had not stored yet
		}
		if burned >= 0 && fuel.burned() != burned {
			t.Errorf("slices of %d: %d units burned, with smaller slices %d", slice, fuel.burned(), burned)
		}
		burned = fuel.burned()
		if burned <= 0 {
			t.Errorf("slices of %d: %d units burned", slice, burned)
		}
	}
}

func calls(name string, args ...uint64) (list []guestCall) {
	for _, a := range args {
		list = append(list, guestCall{name, []uint64{a}})
	}
	return list
}

func TestBehaviourOfEverything(t *testing.T) {
	t.Parallel()
	for _, c := range calls("run", 0, 1, 2, 77, 1<<31) {
		sameBehaviour(t, 1, everything(), []string{"counter"}, []guestCall{c})
	}
	sameBehaviour(t, 1, everything(), []string{"counter"}, calls("run", 1, 1)) // traps: its segments are dropped
}

func TestBehaviourOfEverythingInterpreted(t *testing.T) {
	t.Parallel()
	c := wazero.NewRuntimeConfigInterpreter().WithCoreFeatures(api.CoreFeaturesV2)
	m, err := Instrument(everything(), DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	want := observe(t, newWorld(t, c, &supply{}), everything(), nil, calls("run", 3, 4))
	got := observe(t, newWorld(t, c, &supply{slice: 100, refills: -1}), m.Wasm, nil, calls("run", 3, 4))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
}

// TestRestore proves that the exported globals are all that a host needs besides memory.
func TestRestore(t *testing.T) {
	t.Parallel()
	m, err := Instrument(everything(), DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	want := []Global{{"assay.global.0", I32}, {"assay.global.1", I64}, {"assay.global.2", F32},
		{"assay.global.4", FuncRef},
		{"assay.global.5", ExternRef}}
	if diff := cmp.Diff(want, m.Globals); diff != "" {
		t.Fatal(diff)
	}
	guest, err := newWorld(t, compiler(), &supply{slice: 1000, refills: -1}).start(m.Wasm)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range m.Globals {
		x, ok := guest.ExportedGlobal(g.Name).(api.MutableGlobal)
		if !ok || ValueType(x.Type()) != g.Type {
			t.Fatalf("%s is not a mutable %s: %v", g.Name, g.Type, x)
		}
		old := x.Get()
		if g.Type != FuncRef && g.Type != ExternRef {
			x.Set(old + 1)
			if x.Get() != old+1 {
				t.Errorf("%s cannot be set", g.Name)
			}
		}
		x.Set(old)
		if x.Get() != old {
			t.Errorf("%s cannot be restored", g.Name)
		}
	}
}

func TestSummary(t *testing.T) {
	t.Parallel()
	got := mustVet(t, everything())
	fact := Signature{[]ValueType{I32, I32, I32, I32}, []ValueType{I32}}
	want := &Summary{
		Imports: []Import{{"assay", "fact", fact}},
		Exports: []Export{{"run", Function, Signature{[]ValueType{I32}, []ValueType{I64}}},
			{Name: "memory", Kind: MemoryKind},
			{Name: "counter", Kind: GlobalKind}, {Name: "table", Kind: TableKind}, {"fact", Function, fact}},
		Functions: 6, HasMemory: true, MemoryMin: 1, MemoryMax: DefaultLimits().MemoryPages, HasStart: true,
		Tables: []Table{{FuncRef, 16, DefaultLimits().TableEntries}, {FuncRef, 8, 8}},
		Unrestored: []string{"mutable v128 global", "data.drop", "table.init", "elem.drop", "table.copy", "table.grow",
			"table.fill",
			"table.set"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
	if text := got.Exports[0].Signature.String(); text != "(i32) -> (i64)" {
		t.Error(text)
	}
}
