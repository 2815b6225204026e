package meter

import (
	"context"
	"math"
	"testing"
)

// exact is a scheme that charges every instruction by itself, where it stands, and nothing else: what really ran.
func exact() scheme {
	return scheme{segment: 1, spacing: math.MaxUint32, bulk: true, atEntry: true, atLoop: true, afterCall: true}
}

func burn(t *testing.T, wasm []byte, s scheme, c guestCall) int64 {
	t.Helper()
	fuel := &supply{slice: 1 << 40, refills: -1}
	guest, _ := metered(t, wasm, s, fuel)
	before := fuel.granted - int64(guest.ExportedGlobal(FuelExport).Get())
	if _, err := guest.ExportedFunction(c.name).Call(context.Background(), c.args...); err != nil {
		t.Fatal(err)
	}
	return fuel.granted - int64(guest.ExportedGlobal(FuelExport).Get()) - before
}

// TestFuelIsAnUpperBound compares what is charged with what really ran. Without surcharges it may be more, never less.
func TestFuelIsAnUpperBound(t *testing.T) {
	t.Parallel()
	guest, err := goGuest()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		wasm   []byte
		call   guestCall
		excess float64 // most that may be charged for each unit that ran
	}{
		"loop":       {tight(), guestCall{"run", []uint64{1000}}, 1.01},
		"recursion":  {fib(), guestCall{"run", []uint64{15}}, 1.3},
		"everything": {everything(), guestCall{"run", []uint64{7}}, 1.2},
		"Go":         {guest, guestCall{"work", []uint64{20}}, 1.3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ran := burn(t, c.wasm, exact(), c.call)
			s := defaultScheme()
			s.entry, s.frame, s.loop, s.hostCall = 0, 0, 0, 0
			charged := burn(t, c.wasm, s, c.call)
			if charged < ran || float64(charged) > c.excess*float64(ran) {
				t.Errorf("%d instructions ran, %d charged", ran, charged)
			}
			t.Logf("%d ran, %d charged", ran, charged)
		})
	}
}

// TestUnits counts some costs by hand: 3 for the entry, and what doc.go says.
func TestUnits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		wasm []byte
		arg  uint64
		want int64
	}{
		"nothing":          {one(nil), 0, 3},
		"two instructions": {one(nil, 0x20, 0, 0x1a), 0, 5},
		"loop of three, 10 times": {function(i32, "", 0x03, 0x40, 0x20, 0, 0x41, 1, 0x6b, 0x22, 0, 0x0d, 0, 0x0b), 10,
			3 + 10*(1+5)},
		"if taken":           {one(nil, 0x20, 0, 0x04, 0x40, 0x01, 0x01, 0x0b), 1, 3 + 2 + 2},
		"fill of 6400 bytes": {one(nil, 0x41, 0, 0x41, 1, 0x41, 0x80, 0x32, 0xfc, 11, 0), 0, 3 + 4 + 100},
		"grow by a page":     {one(nil, 0x41, 1, 0x40, 0, 0x1a), 0, 3 + 3 + 1024},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fuel := &supply{slice: 1, refills: -1}
			guest, _ := metered(t, c.wasm, defaultScheme(), fuel)
			if _, err := guest.ExportedFunction("run").Call(context.Background(), c.arg); err != nil {
				t.Fatal(err)
			}
			if got := fuel.granted - int64(guest.ExportedGlobal(FuelExport).Get()); got != c.want {
				t.Errorf("%d units burned, want %d", got, c.want)
			}
		})
	}
}
