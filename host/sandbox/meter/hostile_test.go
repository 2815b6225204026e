package meter

import (
	"bytes"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/tetratelabs/wazero/api"

	"assay/registry/expect"
)

// TestEndless checks that a refill that panics stops endless code soon after its slice is used up. Of start functions
// and _initialize, TestHostileGuestsNextToHealthy in package sandbox does.
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
		expect.Error(t, "the end", run(startMetered(t, c.wasm, defaultPolicy(), fuel), c.args...), errOutOfFuel)
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
	countdown := function(i32, "", 0x03, 0x40, 0x20, 0, 0x41, 1, 0x6b, 0x22, 0, 0x0d, 0, 0x0b)
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
		"loop":  {countdown, 1000, func(p *policy) { p.checkLoops = false }, 6000, 1000, false},
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

// TestFuelIsKeptWhenFunctionReturns checks that no way out of a function loses the fuel that its loop burned.
func TestFuelIsKeptWhenFunctionReturns(t *testing.T) {
	t.Parallel()
	expect.Each(t, map[string][]byte{ // what follows the loop
		"end":                       nil,
		"return":                    {opReturn},
		"br":                        {opBr, 0},
		"br_if":                     {0x41, 1, opBrIf, 0, opUnreachable},
		"br_table, default":         {0x41, 1, opBrTable, 0, 0},
		"br_table, first label":     {opBlock, emptyBlock, 0x41, 0, opBrTable, 1, 1, 0, opEnd, opUnreachable},
		"br_table, last of labels":  {opBlock, emptyBlock, 0x41, 1, opBrTable, 2, 0, 1, 0, opEnd, opUnreachable},
		"br_table, default in many": {opBlock, emptyBlock, 0x41, 9, opBrTable, 2, 0, 0, 1, opEnd, opUnreachable},
	}, func(t *testing.T, way []byte) {
		// Before the way out, a loop runs 1000 times.
		code := cat([]byte{opLoop, emptyBlock, 0x20, 0, 0x41, 1, 0x6b, 0x22, 0, opBrIf, 0, opEnd}, way)
		fuel := &fuelSupply{slice: Slice, refills: -1}
		expect.NoError(t, run(startMetered(t, function(i32, "", code...), defaultPolicy(), fuel), 1000))
		expect.That(t, fuel.burned() >= 1000, "%d units burned", fuel.burned())
	})
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
	growMemory := func(limits ...byte) []byte { return grow([]byte{0x70, 0, 1}, limits, 0x20, 0, 0x40, 0) }
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

const (
	bulkMemory  = 8 * 65536
	bulkSegment = 200_000
)

// pattern returns n random bytes, so that moved content differs.
func pattern(n int) []byte {
	b, random := make([]byte, n), rand.New(rand.NewPCG(uint64(n), 1))
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	return b
}

// bulkModule exports each bulk memory instruction with its operands as parameters, and data.drop.
func bulkModule() []byte {
	get := []byte{0x20, 0, 0x20, 1, 0x20, 2}
	return module(section(idType, sig(i32+i32+i32, "")), section(idFunction, u(0), u(0), u(0), u(0)),
		section(idMemory, cat([]byte{1}, u(bulkMemory>>16), u(bulkMemory>>16))),
		section(idExport, export("fill", FunctionKind, 0), export("copy", FunctionKind, 1),
			export("init", FunctionKind, 2), export("drop", FunctionKind, 3), export("memory", MemoryKind, 0)),
		rawSection(idDataCount, u(2)), section(idCode, fn(nil, cat(get, []byte{opMisc, memoryFill, 0})...),
			fn(nil, cat(get, []byte{opMisc, memoryCopy, 0, 0})...),
			fn(nil, cat(get, []byte{opMisc, memoryInit, 1, 0})...), fn(nil, opMisc, 9, 1)),
		section(idData, cat(u(1), sized([]byte("another"))), cat(u(1), sized(pattern(bulkSegment)))))
}

// bulkGuests are a plain and a metered instance of bulkModule.
type bulkGuests struct {
	plain, metered api.Module
	fuel           *fuelSupply
}

func newBulkGuests(t testing.TB, slice int64) *bulkGuests {
	t.Helper()
	fuel := &fuelSupply{slice: slice, refills: -1}
	g := &bulkGuests{
		plain:   newHost(t, compiler(), &fuelSupply{}).mustStart(t, bulkModule()),
		metered: startMetered(t, bulkModule(), defaultPolicy(), fuel),
		fuel:    fuel,
	}
	g.plain.Memory().Write(0, pattern(bulkMemory))
	g.metered.Memory().Write(0, pattern(bulkMemory))
	return g
}

// compare runs an instruction in both instances and reports whether it trapped.
func (g *bulkGuests) compare(t testing.TB, name string, target, source, size uint32) (trapped bool) {
	t.Helper()
	args := []uint64{uint64(target), uint64(source), uint64(size)}
	_, want := g.plain.ExportedFunction(name).Call(context.Background(), args...)
	_, got := g.metered.ExportedFunction(name).Call(context.Background(), args...)
	expect.Must(t, (want == nil) == (got == nil), "%s %d, %d, %d: %v, plain %v", name, target, source, size, got, want)
	a, _ := g.plain.Memory().Read(0, bulkMemory)
	b, _ := g.metered.Memory().Read(0, bulkMemory)
	expect.Must(t, bytes.Equal(a, b), "%s %d, %d, %d: the memories differ", name, target, source, size)
	return got != nil
}

// TestChunksAtBounds compares bulk memory instructions with the engine's around chunk and memory bounds.
func TestChunksAtBounds(t *testing.T) {
	t.Parallel()
	const chunk, top, end = chunkBytes, math.MaxUint32, bulkMemory
	g := newBulkGuests(t, 100)
	for _, c := range []struct {
		name                 string
		target, source, size uint32
		traps                bool
	}{
		{"fill", 0, 7, 0, false}, {"fill", end, 7, 0, false}, {"fill", end + 1, 7, 0, true},
		{"fill", top, 7, 0, true}, {"fill", 1, 7, chunk - 1, false}, {"fill", 3, 8, chunk, false},
		{"fill", 5, 9, chunk + 1, false}, {"fill", 7, 0x1ff, 3*chunk + 11, false}, {"fill", 9, 0, 2 * chunk, false},
		{"fill", 0, 0xffffff01, end, false}, {"fill", end - 2*chunk, 3, 2 * chunk, false},
		{"fill", end - 2*chunk, 3, 2*chunk + 1, true}, {"fill", 0, 3, end + 1, true}, {"fill", 1, 3, end, true},
		{"fill", 1, 3, top, true}, {"fill", top, 3, chunk + 1, true}, {"fill", top - chunk, 3, chunk + 1, true},
		{"fill", top, 3, top, true},

		{"copy", 0, 0, 0, false}, {"copy", end, end, 0, false}, {"copy", end + 1, 0, 0, true},
		{"copy", 0, end + 1, 0, true}, {"copy", 0, 4 * chunk, chunk, false},
		{"copy", 0, 4 * chunk, chunk + 1, false}, {"copy", 4 * chunk, 0, 3*chunk + 5, false},
		{"copy", 5, 5, 3 * chunk, false}, {"copy", 1, 0, 3*chunk + 5, false}, {"copy", 0, 1, 3*chunk + 5, false},
		{"copy", chunk, 0, 3*chunk + 5, false}, {"copy", 0, chunk, 3*chunk + 5, false},
		{"copy", chunk + 1, 0, 3 * chunk, false}, {"copy", 0, chunk + 1, 3 * chunk, false},
		{"copy", chunk - 1, 0, 5 * chunk, false}, {"copy", 0, chunk - 1, 5 * chunk, false},
		{"copy", 0, 1, end - 1, false}, {"copy", 1, 0, end - 1, false}, {"copy", 1, 0, end, true},
		{"copy", 0, 1, end, true}, {"copy", 0, end - chunk, chunk + 1, true},
		{"copy", end - chunk, 0, chunk + 1, true}, {"copy", 0, top, chunk + 1, true},
		{"copy", top, 0, chunk + 1, true}, {"copy", top, top, top, true}, {"copy", 0, top - chunk, chunk + 1, true},

		{"init", 0, 0, 0, false}, {"init", end, bulkSegment, 0, false}, {"init", 0, bulkSegment + 1, 0, true},
		{"init", end + 1, 0, 0, true}, {"init", 3, 5, chunk, false}, {"init", 3, 5, chunk + 1, false},
		{"init", 3, 5, 3 * chunk, false}, {"init", 9, 0, bulkSegment, false}, {"init", 0, 1, bulkSegment, true},
		{"init", 0, 0, bulkSegment + 1, true}, {"init", end - bulkSegment, 0, bulkSegment, false},
		{"init", end - bulkSegment + 1, 0, bulkSegment, true}, {"init", 0, top, chunk + 1, true},
		{"init", top, 0, chunk + 1, true}, {"init", 0, top - chunk, chunk + 1, true}, {"drop", 0, 0, 0, false},
		{"init", 0, 0, 0, false}, {"init", end, 0, 0, false}, {"init", 0, 0, 1, true},
		{"init", 0, 0, chunk + 1, true}, {"init", 0, 1, 0, true},
	} {
		expect.That(t, g.compare(t, c.name, c.target, c.source, c.size) == c.traps, "%s %d, %d, %d: trapped: %v",
			c.name, c.target, c.source, c.size, !c.traps)
	}
}

func FuzzChunks(f *testing.F) {
	g := newBulkGuests(f, 1000)
	f.Add(byte(1), uint32(1), uint32(0), uint32(3*chunkBytes))
	f.Fuzz(func(t *testing.T, which byte, target, source, size uint32) {
		g.compare(t, []string{"fill", "copy", "init"}[which%3], target, source, size)
	})
}

// TestChunksCheckFuel traps each instruction between two chunks.
func TestChunksCheckFuel(t *testing.T) {
	t.Parallel()
	sources := map[string]uint64{"fill": 1, "copy": 4 * chunkBytes, "init": 0}
	expect.EachNamed(t, sources, func(t *testing.T, name string, source uint64) {
		g := newBulkGuests(t, 1)
		g.fuel.refills = 2
		_, err := g.metered.ExportedFunction(name).Call(context.Background(), 0, source, 3*chunkBytes)
		expect.Must(t, errors.Is(err, errOutOfFuel), "%v", err)
		memory, _ := g.metered.Memory().Read(0, bulkMemory)
		for i, changed := range []bool{true, true, false} {
			here := memory[i*chunkBytes:][:chunkBytes]
			expect.That(t, bytes.Equal(here, pattern(bulkMemory)[i*chunkBytes:][:chunkBytes]) != changed,
				"chunk %d changed: %v", i, !changed)
		}
	})
}
