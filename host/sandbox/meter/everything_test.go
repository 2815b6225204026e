package meter

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"assay/registry/expect"
)

// everything returns a module with every section, all forms of elements and data, references, bulk operations, SIMD
// with each immediate, and each way out of a function. The result of its "run" depends on all of these.
func everything() []byte {
	const fnType, hostType, swap, runType = 0, 1, 2, 3
	offset := func(n int64) []byte { return cat([]byte{0x41}, s(n), []byte{opEnd}) }
	ref := func(n uint32) []byte { return cat([]byte{opRefFunc}, u(n), []byte{opEnd}) }
	null := []byte{0xd0, 0x70, opEnd}
	return module(
		section(idType, sig(i32, i32), sig(i32+i32+i32+i32, i32), sig(i32+i64, i64+i32), sig(i32, i64), sig("", "")),
		section(idImport, cat(str("assay"), str("fact"), []byte{0}, u(hostType))),
		section(idFunction, u(fnType), u(fnType), u(swap), u(runType), u(4), u(fnType)),
		section(idTable, []byte{0x70, 0, 16}, []byte{0x70, 1, 8, 8}),
		section(idMemory, []byte{0, 1}),
		section(idGlobal, cat([]byte{0x7f, 1}, offset(5)), cat([]byte{0x7e, 1, 0x42}, s(-9), []byte{opEnd}),
			[]byte{0x7d, 1, 0x43, 0, 0, 0x80, 0x3f, opEnd}, []byte{0x7c, 0, 0x44, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f, opEnd},
			cat([]byte{0x70, 1}, ref(1)), []byte{0x6f, 1, 0xd0, 0x6f, opEnd},
			cat([]byte{0x7b, 1, 0xfd, 0x0c}, make([]byte, 16), []byte{opEnd}), []byte{0x70, 0, 0xd2, 2, opEnd}),
		section(idExport, export("run", FunctionKind, 4), export("memory", MemoryKind, 0),
			export("counter", GlobalKind, 0), export("table", TableKind, 0), export("fact", FunctionKind, 0)),
		rawSection(idStart, u(5)),
		section(idElement, cat(u(0), offset(0), vec(u(1), u(2), u(6))), cat(u(1), []byte{0}, vec(u(2), u(1))),
			cat(u(2), u(1), offset(0), []byte{0}, vec(u(1))), cat(u(3), []byte{0}, vec(u(3), u(0))),
			cat(u(4), offset(4), vec(ref(2), null)), cat(u(5), []byte{0x70}, vec(ref(1), null, ref(2))),
			cat(u(6), u(1), offset(2), []byte{0x70}, vec(ref(6))), cat(u(7), []byte{0x70}, vec(ref(4), ref(5)))),
		rawSection(idDataCount, u(3)),
		section(idCode,
			// 1: double, by br out of a block
			fn(nil, 0x02, 0x7f, 0x20, 0, 0x20, 0, 0x6a, 0x0c, 0, 0x0b, opReturn),
			// 2: a loop that adds 0 to n-1, then br_if to the function's label
			fn(locals(2, I32), 0x20, 0, 0x45, 0x04, 0x40, 0x41, 0, 0x0f, 0x0b,
				0x03, 0x40, 0x20, 1, 0x20, 2, 0x6a, 0x21, 1, 0x20, 2, 0x41, 1, 0x6a, 0x22, 2, 0x20, 0, 0x49,
				0x0d, 0, 0x0b, 0x20, 1, 0x20, 1, 0x0d, 0, 0x41, 1, 0x6a),
			// 3: swap
			fn(nil, 0x20, 1, 0x20, 0),
			// 4: run
			fn(slices.Concat(locals(1, I64), locals(1, I32)), runCode()...),
			// 5: start
			fn(nil, 0x41, 10, 0x24, 0),
			// 6: br_table with three targets, in and out of a loop, and return
			fn(locals(1, I32), 0x03, 0x7f, 0x20, 0, 0x41, 1, 0x6b, 0x21, 0, 0x02, 0x40, 0x02, 0x40, 0x02, 0x40,
				0x20, 0, 0x41, 3, 0x71, 0x0e, 3, 0, 1, 2, 3, 0x0b, 0x20, 1, 0x41, 7, 0x6a, 0x0f, 0x0b,
				0x20, 1, 0x41, 3, 0x6a, 0x21, 1, 0x0c, 1, 0x0b,
				0x20, 1, 0x41, 11, 0x6a, 0x21, 1, 0x20, 0, 0x04, 0x40, 0x0c, 1, 0x05, 0x20, 1, 0x0f, 0x0b,
				0x20, 1, 0x0b),
		),
		section(idData, cat(u(0), offset(8), sized([]byte("hello"))), cat(u(1), sized([]byte("passive data"))),
			cat(u(2), u(0), offset(64), sized([]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}))),
		rawSection(0, cat(str("name"), []byte("\x00\x02\x01x"))),
	)
}

// add returns code that sets the accumulator to accumulator*31 + the i32 that code pushes.
func add(code ...byte) []byte       { return cat(code, []byte{0xad, 0x20, 1, 0x42, 31, 0x7e, 0x7c, 0x21, 1}) }
func vectorLoad(offset byte) []byte { return []byte{0x41, 0, 0xfd, 0x00, 4, offset} }
func lane0(code ...byte) []byte     { return add(cat(code, []byte{0xfd, 0x1b, 0})...) }
func call0(index, arg byte) []byte  { return add(0x41, arg, opCall, index) }
func through(table, at byte) []byte { return add(0x41, 5, 0x41, at, opCallIndirect, 0, table) }
func three(a, b, c int64) []byte {
	return cat([]byte{0x41}, s(a), []byte{0x41}, s(b), []byte{0x41}, s(c))
}
func stored(op byte, at int64) []byte { return add(cat([]byte{0x41}, s(at), []byte{op, 0, 0})...) }

// runCode returns the body of run. Local 0 is the argument, local 1 the i64 accumulator, local 2 an i32.
func runCode() []byte {
	return cat(
		// bulk memory: init, drop, copy, fill, grow, size
		three(100, 0, 12), []byte{0xfc, 8, 1, 0}, []byte{0xfc, 9, 1}, stored(0x2d, 104),
		[]byte{0x41, 0xa0, 1}, []byte{0x41, 8, 0x41, 5, 0xfc, 10, 0, 0},
		[]byte{0x41, 0xa8, 1, 0x41, 0x55, 0x41, 9, 0xfc, 11, 0},
		add(0x41, 0xa1, 1, 0x28, 0, 0), add(0x41, 0xac, 1, 0x28, 0, 0),
		add(0x41, 1, 0x40, 0), add(0x3f, 0), add(0x41, 0xff, 0xff, 3, 0x40, 0),
		// tables: init, drop, copy, grow, size, fill, get, set, null, and calls through both
		three(8, 0, 2), []byte{0xfc, 12, 1, 0}, []byte{0xfc, 13, 1}, three(10, 0, 3), []byte{0xfc, 12, 5, 0},
		three(5, 0, 1), []byte{0xfc, 14, 0, 1}, add(0xd0, 0x70, 0x41, 2, 0xfc, 15, 1), add(0xfc, 16, 0),
		[]byte{0x41, 14, opRefFunc, 2, 0x41, 2, 0xfc, 17, 0}, []byte{0x41, 13, 0x41, 0, 0x25, 0, 0x26, 0},
		add(0x41, 11, 0x25, 0, 0xd1), []byte{0x41, 6, opRefFunc, 6, 0x26, 0},
		through(0, 0), through(0, 1), through(0, 2), through(0, 4), through(0, 6), through(0, 8), through(0, 14),
		through(1, 0), through(1, 2), call0(6, 23), call0(2, 17), call0(2, 0),
		// the import, directly
		add(0x41, 0, 0x41, 0, 0x41, 0xc0, 1, 0x41, 32, opCall, 0), add(0x41, 0xc0, 1, 0x28, 0, 0),
		// multi-value: block with parameters and results, loop with parameters
		[]byte{0x20, 0, 0x42, 3, 0x02, 2, opCall, 3, 0x0b}, add(), []byte{0x20, 1, 0x7c, 0x21, 1},
		[]byte{0x41, 9, 0x03, 0, 0x41, 1, 0x6b, 0x22, 2, 0x20, 2, 0x0d, 0, 0x0b}, add(),
		// saturating truncation and sign extension
		add(0x43, 0, 0, 0xc0, 0x7f, 0xfc, 0), add(0x41, 0xff, 1, 0xc0), []byte{0x42, 0xff, 1, 0xc2, 0x20, 1, 0x7c,
			0x21, 1},
		// select with a type, drop, globals
		add(0x41, 1, 0x41, 2, 0x20, 0, 0x1c, 1, 0x7f), []byte{0x20, 0, 0x1a}, add(0x23, 0),
		[]byte{0x23, 0, 0x41, 1, 0x6a, 0x24, 0},
		// SIMD: load, shuffle, splat, lanes, lane load and store, zero load, comparison, two-byte opcodes
		lane0(vectorLoad(64)...),
		lane0(cat(vectorLoad(64), vectorLoad(64), []byte{0xfd, 0x0d, 15, 31, 14, 30, 13, 29, 12, 28, 11, 27, 10, 26, 9,
			25, 8, 24})...), lane0(0x41, 7, 0xfd, 0x11), lane0(cat(vectorLoad(64), []byte{0xfd, 0xa0, 1})...),
		lane0(cat(vectorLoad(64), vectorLoad(64), []byte{0xfd, 0xb5, 1})...),
		lane0(cat([]byte{0x41, 0}, []byte{0xfd, 0x0c}, make([]byte, 16), []byte{0xfd, 0x56, 2, 68, 0})...),
		[]byte{0x41, 0}, vectorLoad(64), []byte{0xfd, 0x5a, 2, 0xd0, 1, 1}, add(0x41, 0xd0, 1, 0x28, 0, 0),
		lane0(0x41, 0, 0xfd, 0x5c, 2, 64), lane0(cat(vectorLoad(64), []byte{0x41, 99, 0xfd, 0x1c, 0})...),
		add(cat(vectorLoad(64), []byte{0xfd, 0x53})...),
		// code after an unreachable end
		[]byte{0x02, 0x40, 0x0c, 0, 0x03, 0x40, 0x0c, 1, 0x0b, 0x20, 0, 0x1a, 0x0b}, []byte{0x20, 1},
	)
}

// TestBehaviourOfEverything runs the original and the instrumented module on the same calls, the latter with slices of
// the smallest size and with large ones. A second call traps because the first one drops segments.
func TestBehaviourOfEverything(t *testing.T) {
	t.Parallel()
	metered := mustInstrument(t, everything()).Wasm
	config := compiler().WithCompilationCache(wazero.NewCompilationCache())
	for _, calls := range [][]uint64{{0}, {1}, {2}, {77}, {1 << 31}, {1, 1}} {
		observe := func(wasm []byte, fuel *fuelSupply) (seen []any) {
			m := newHost(t, config, fuel).mustStart(t, wasm)
			for _, argument := range calls {
				results, err := m.ExportedFunction("run").Call(t.Context(), argument)
				expect.Must(t, !errors.Is(err, errOutOfFuel), "%v", err)
				seen = append(seen, results, err != nil)
			}
			memory, _ := m.Memory().Read(0, m.Memory().Size())
			return append(seen, sha256.Sum256(memory), m.ExportedGlobal("counter").Get())
		}
		want, burned := observe(everything(), &fuelSupply{}), int64(0)
		for _, slice := range []int64{1, math.MaxInt32} {
			fuel := &fuelSupply{slice: slice, refills: -1}
			expect.NoDiff(t, fmt.Sprintf("calls %v in slices of %d", calls, slice), want, observe(metered, fuel))
			if len(calls) > 1 {
				continue // a trap loses fuel that a local caches
			}
			expect.That(t, fuel.burned() > 0 && (burned == 0 || fuel.burned() == burned),
				"slices of %d: %d units burned, with smaller slices %d", slice, fuel.burned(), burned)
			burned = fuel.burned()
		}
	}
}

// TestGlobalsCanBeRestored checks that a host can set every mutable global except those in Unrestored.
func TestGlobalsCanBeRestored(t *testing.T) {
	t.Parallel()
	m := mustInstrument(t, everything())
	want := []Global{{"assay.global.0", I32}, {"assay.global.1", I64}, {"assay.global.2", F32},
		{"assay.global.4", FuncRef}, {"assay.global.5", ExternRef}}
	expect.NoDiff(t, "globals", want, m.Globals)
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
	expect.NoDiff(t, "the module", want, got)
	expect.Equal(t, "the signature", got.Exports[0].Signature.String(), "(i32) -> (i64)")
}
