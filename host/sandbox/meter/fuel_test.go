package meter

import (
	"context"
	"math"
	"testing"
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
	if _, err := guest.ExportedFunction(c.name).Call(context.Background(), c.args...); err != nil {
		t.Fatal(err)
	}
	return fuel.burned() - before
}

// TestFuelIsAnUpperBound compares the charge without surcharges with what really ran. It must not be less.
func TestFuelIsAnUpperBound(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		wasm     []byte
		call     guestCall
		maxRatio float64 // of the charge to what ran
	}{
		"loop":       {hashLoop(), guestCall{"run", []uint64{1000}}, 1.01},
		"recursion":  {fibonacci(), guestCall{"run", []uint64{15}}, 1.3},
		"everything": {everything(), guestCall{"run", []uint64{7}}, 1.2},
		"Go":         {goGuest(t), guestCall{"work", []uint64{20}}, 1.3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ran := burnedBy(t, c.wasm, exactPolicy(), c.call)
			p := defaultPolicy()
			p.entryCost, p.valuesPerUnit, p.iterationCost, p.importCost = 0, 0, 0, 0
			charged := burnedBy(t, c.wasm, p, c.call)
			if charged < ran || float64(charged) > c.maxRatio*float64(ran) {
				t.Errorf("%d instructions ran, %d charged", ran, charged)
			}
			t.Logf("%d ran, %d charged", ran, charged)
		})
	}
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
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fuel := &fuelSupply{slice: 1, refills: -1}
			if err := run(startMetered(t, c.wasm, defaultPolicy(), fuel), c.arg); err != nil {
				t.Fatal(err)
			}
			if got := fuel.burned(); got != c.want {
				t.Errorf("%d units burned, want %d", got, c.want)
			}
		})
	}
}
