package meter

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/tetratelabs/wazero/api"

	"assay/registry/expect"
)

// TestEndless checks that a refill that panics stops endless code soon after its slice is used up. TestFuelChecks shows
// that each kind of fuel check is needed.
func TestEndless(t *testing.T) {
	t.Parallel()
	type testCase struct {
		wasm []byte
		args []uint64
	}
	expect.Each(t, map[string]testCase{
		"loop":                 {withMemory(endless()...), []uint64{0}},
		"loop with parameters": {function("", "", 0x41, 0, 0x03, 1, 0x0c, 0, 0x0b, 0x1a), nil},
		"loop by br_table":     {withMemory(0x03, 0x40, 0x41, 0, 0x0e, 1, 0, 0, 0x0b), []uint64{0}},
		"call tree":            {callTree(), nil},
		"fibonacci of 90":      {fibonacci(), []uint64{90}},
		"memory.grow":          {withMemory(endless(0x41, 1, 0x40, 0, 0x1a)...), []uint64{0}},
		"memory.fill": {withMemory(endless(0x41, 0, 0x41, 1, 0x41, 0x80, 0x80, 4, opMisc, memoryFill, 0)...),
			[]uint64{0}},
		"memory.copy": {withMemory(endless(0x41, 0, 0x41, 1, 0x41, 0x80, 0x80, 3, opMisc, memoryCopy, 0, 0)...),
			[]uint64{0}},
	}, func(t *testing.T, c testCase) {
		const slice, refills, maxOverdraft = 10_000, 20, 70_000
		fuel := &fuelSupply{slice: slice, refills: refills}
		err := run(startMetered(t, c.wasm, defaultPolicy(), fuel), c.args...)
		expect.Must(t, errors.Is(err, errOutOfFuel), "ended with %v", err)
		expect.That(t, fuel.granted <= (refills+1)*(slice+maxOverdraft), "%d slices of %d paid for %d units",
			refills, slice, fuel.granted)
	})
}

// TestFuelChecks counts fuel checks and fuel with and without each rule of the policy.
func TestFuelChecks(t *testing.T) {
	t.Parallel()
	straight := function(i32, "", repeat(100_000, 0x20, 0, 0x1a)...)
	// descend calls itself down to 0, and continues after each call.
	descend := function(i32, "", cat([]byte{0x20, 0, 0x04, 0x40, 0x20, 0, 0x41, 1, 0x6b, opCall, 0, 0x0b},
		repeat(50, 0x20, 0, 0x1a))...)
	loads := withMemory(repeat(5000, 0x41, 0, 0x28, 2, 0, 0x1a)...)
	fill := withMemory(0x41, 0, 0x41, 1, 0x41, 0x80, 0x80, 4, opMisc, memoryFill, 0)
	grow := withMemory(0x20, 0, 0x40, 0, 0x1a)
	noBulk := func(p *policy) { p.chargeBulk = false }
	type testCase struct {
		wasm      []byte
		arg       uint64
		disable   func(*policy)
		minBurned int64 // with the rule
		minChecks int   // with the rule: refills with slices of one unit
		burnsLess bool  // without the rule less fuel is burned, instead of checked less often
	}
	expect.Each(t, map[string]testCase{
		"entry": {descend, 1000, func(p *policy) { p.checkEntry = false }, 100_000, 2000, false},
		"calls": {descend, 1000, func(p *policy) { p.checkAfterCalls = false }, 100_000, 2000, false},
		"loop":  {countdown(), 1000, func(p *policy) { p.checkLoops = false }, 6000, 1000, false},
		"straight line": {straight, 0, func(p *policy) { p.maxDistance, p.maxBlock = math.MaxUint32, math.MaxUint32 },
			200_000, 48, false},
		"loads":         {loads, 0, func(p *policy) { p.accessDistance = 1 }, 15_000, 18, false},
		"bulk":          {fill, 0, noBulk, 65536 / 64, 1, true},
		"grow":          {grow, 3, noBulk, 3 * 1024, 1, true},
		"grow too much": {grow, math.MaxUint32, noBulk, math.MaxUint32 * 1024, 1, true},
	}, func(t *testing.T, c testCase) {
		measure := func(p policy) (checks int, burned int64) {
			fuel := &fuelSupply{slice: 1, refills: -1}
			expect.NoError(t, run(startMetered(t, c.wasm, p, fuel), c.arg))
			return fuel.calls, fuel.burned()
		}
		checks, burned := measure(defaultPolicy())
		expect.That(t, checks >= c.minChecks && burned >= c.minBurned,
			"%d checks, want %d; %d units burned, want %d", checks, c.minChecks, burned, c.minBurned)
		p := defaultPolicy()
		c.disable(&p)
		checks, burned = measure(p)
		expect.That(t, (!c.burnsLess || burned < c.minBurned) && (c.burnsLess || checks < c.minChecks),
			"without the rule the same: %d checks, %d units", checks, burned)
	})
}

// TestStartIsMetered checks that an endless start function or _initialize can be stopped.
func TestStartIsMetered(t *testing.T) {
	t.Parallel()
	types := section(idType, sig("", ""))
	code := section(idCode, fn(nil, endless()...))
	for name, wasm := range map[string][]byte{
		"start": module(types, section(idFunction, u(0)), rawSection(idStart, u(0)), code),
		"_initialize": module(types, section(idFunction, u(0)),
			section(idExport, export("_initialize", FunctionKind, 0)), code),
	} {
		fuel := &fuelSupply{slice: 1000, refills: 3}
		_, err := newHost(t, compiler(), fuel).start(mustInstrument(t, wasm).Wasm)
		expect.That(t, errors.Is(err, errOutOfFuel) && fuel.calls == 4, "%s: after %d refills: %v", name, fuel.calls,
			err)
	}
}

// TestGrowth checks that memory and tables grow to their limits but not beyond.
func TestGrowth(t *testing.T) {
	t.Parallel()
	limits := DefaultLimits()
	limits.MemoryPages, limits.TableEntries = 3, 20
	grow := func(table, memory []byte, code ...byte) []byte {
		return module(section(idType, sig(i32, i32)), section(idFunction, u(0)), section(idTable, table),
			section(idMemory, memory), section(idExport, export("run", FunctionKind, 0)),
			section(idCode, fn(nil, code...)))
	}
	growMemory := func(limits ...byte) []byte {
		return grow([]byte{0x70, 0, 1}, limits, 0x20, 0, 0x40, 0)
	}
	tableUpTo255 := grow([]byte{0x70, 1, 1, 0xff, 1}, []byte{0, 1}, 0xd0, 0x70, 0x20, 0, 0xfc, 15, 0)
	for name, c := range map[string]struct {
		wasm []byte
		by   uint64
		want int32
	}{
		"memory without maximum, to the limit":   {growMemory(0, 1), 2, 1},
		"memory without maximum, beyond it":      {growMemory(0, 1), 3, -1},
		"memory with a large maximum, beyond it": {growMemory(1, 1, 9), 3, -1},
		"memory with a small maximum, beyond it": {growMemory(1, 1, 2), 2, -1},
		"memory by 65535 pages":                  {growMemory(0, 1), 65535, -1},
		"table with a large maximum, to limit":   {tableUpTo255, 19, 1},
		"table with a large maximum, beyond it":  {tableUpTo255, 20, -1},
		"table by 2^31 entries, with a maximum":  {tableUpTo255, 1 << 31, -1},
	} {
		m := expect.Value(Instrument(c.wasm, limits))(t)
		guest := newHost(t, compiler(), &fuelSupply{slice: 1 << 40, refills: -1}).mustStart(t, m.Wasm)
		got := expect.Value(guest.ExportedFunction("run").Call(t.Context(), c.by))(t)
		expect.Equal(t, name, api.DecodeI32(got[0]), c.want)
	}
}

// exactPolicy charges for every instruction separately and for nothing else, so the charge is what really ran.
func exactPolicy() policy {
	return policy{maxBlock: 1, maxDistance: math.MaxUint32, chargeBulk: true, checkEntry: true, checkLoops: true,
		checkAfterCalls: true}
}

func burnedBy(t *testing.T, wasm []byte, p policy, c guestCall) int64 {
	t.Helper()
	fuel := &fuelSupply{slice: 1 << 40, refills: -1}
	guest := startMetered(t, wasm, p, fuel)
	before := fuel.burned()
	expect.Value(guest.ExportedFunction(c.name).Call(context.Background(), c.args...))(t)
	return fuel.burned() - before
}

// TestFuelIsAnUpperBound compares the charge without surcharges with what really ran. It must not be less.
func TestFuelIsAnUpperBound(t *testing.T) {
	t.Parallel()
	type testCase struct {
		wasm     []byte
		call     guestCall
		maxRatio float64 // of the charge to what ran
	}
	expect.Each(t, map[string]testCase{
		"loop":       {hashLoop(), guestCall{"run", []uint64{1000}}, 1.01},
		"recursion":  {fibonacci(), guestCall{"run", []uint64{15}}, 1.3},
		"everything": {everything(), guestCall{"run", []uint64{7}}, 1.2},
	}, func(t *testing.T, c testCase) {
		ran := burnedBy(t, c.wasm, exactPolicy(), c.call)
		p := defaultPolicy()
		p.entryCost, p.valuesPerUnit, p.iterationCost, p.importCost = 0, 0, 0, 0
		charged := burnedBy(t, c.wasm, p, c.call)
		expect.That(t, charged >= ran && float64(charged) <= c.maxRatio*float64(ran),
			"%d instructions ran, %d charged", ran, charged)
	})
}

// TestCosts compares the fuel of small functions with the costs in doc.go. Entering each costs 3.
func TestCosts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		wasm []byte
		arg  uint64
		want int64
	}{
		"nothing":                 {withMemory(), 0, 3},
		"two instructions":        {withMemory(0x20, 0, 0x1a), 0, 5},
		"loop of three, 10 times": {countdown(), 10, 3 + 10*(1+5)},
		"if taken":                {withMemory(0x20, 0, 0x04, 0x40, 0x01, 0x01, 0x0b), 1, 3 + 2 + 2},
		"fill of 6400 bytes": {withMemory(0x41, 0, 0x41, 1, 0x41, 0x80, 0x32, opMisc, memoryFill, 0), 0,
			3 + 4 + 100},
		"grow by a page": {withMemory(0x41, 1, 0x40, 0, 0x1a), 0, 3 + 3 + 1024},
	} {
		fuel := &fuelSupply{slice: 1, refills: -1}
		expect.NoError(t, run(startMetered(t, c.wasm, defaultPolicy(), fuel), c.arg))
		expect.Equal(t, name, fuel.burned(), c.want)
	}
}

// TestFuelDoesNotDependOnSlices runs functions that cache the fuel in a local, because they have a loop, and that end
// with a call. The fuel of the called function must not be lost, wherever the code before the call is split.
func TestFuelDoesNotDependOnSlices(t *testing.T) {
	t.Parallel()
	loop := []byte{opLoop, emptyBlock, opEnd}
	work := fn(nil, repeat(4000, 0x01)...)
	expect.Each(t, map[string][]byte{
		"call":             {opCall, 1},
		"call and return":  {opCall, 1, opReturn},
		"indirect call":    {opI32Const, 0, opCallIndirect, 0, 0},
		"call in a branch": {opI32Const, 1, opIf, emptyBlock, opCall, 1, opReturn, opEnd},
		"call in both": {opI32Const, 0, opIf, emptyBlock, opCall, 1, opReturn, opElse, opCall, 1, opReturn,
			opEnd},
		"call before a block": {opBlock, emptyBlock, opCall, 1, opEnd},
	}, func(t *testing.T, ending []byte) {
		for _, nops := range []int{0, 400, 509, 510, 511, 512, 513, 4090, 4093, 4094, 4095, 4096, 4097, 8190} {
			wasm := module(section(idType, sig("", "")), section(idFunction, u(0), u(0)),
				section(idTable, []byte{byte(FuncRef), 0, 1}), section(idExport, export("run", FunctionKind, 0)),
				section(idElement, cat([]byte{0, opI32Const, 0, opEnd}, vec(u(1)))),
				section(idCode, fn(nil, cat(loop, repeat(nops, 0x01), ending)...), work))
			var want int64
			for _, slice := range []int64{1 << 40, 25_000, 250, 1} {
				fuel := &fuelSupply{slice: slice, refills: -1}
				expect.NoError(t, run(startMetered(t, wasm, defaultPolicy(), fuel)))
				if want == 0 {
					want = fuel.burned()
				}
				got := fuel.burned()
				expect.That(t, got == want && got >= int64(nops+4000),
					"%d nops: %d units burned with slices of %d, %d with an unlimited one", nops, got, slice, want)
			}
		}
	})
}
