package meter

import (
	"context"
	"math"
	"testing"

	"assay/registry/expect"
)

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
