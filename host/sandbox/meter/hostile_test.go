package meter

import (
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
