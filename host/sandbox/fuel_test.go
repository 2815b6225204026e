package sandbox

import (
	"errors"
	"testing"
	"time"

	"github.com/tetratelabs/wazero/api"

	"assay/host/check"
	"assay/host/sandbox/meter"
)

// fakeCounter is a fuel counter without a guest.
type fakeCounter struct {
	api.MutableGlobal
	units uint64
}

func (c *fakeCounter) Get() uint64  { return c.units }
func (c *fakeCounter) Set(v uint64) { c.units = v }

// A call may burn exactly its limit, wherever its slices end, and not one unit more.
func TestFuelLimitIsExact(t *testing.T) {
	t.Parallel()
	counter := &fakeCounter{}
	tank := fuelTank{limit: 1000}
	tank.fill(counter, guestStack{})
	for _, units := range []uint64{600, 399} {
		counter.units -= units
		tank.refill(tank.started)
	}
	counter.units--
	tank.refill(tank.started)
	if tank.burned() != 1000 || counter.units != 0 {
		t.Errorf("%d units burned, %d left", tank.burned(), counter.units)
	}
	counter.units--
	defer func() {
		if err, _ := recover().(error); !errors.Is(err, errFuelLimit) {
			t.Errorf("one unit more: %v", err)
		}
	}()
	tank.refill(tank.started)
}

func TestSlicesShrinkTowardsDeadline(t *testing.T) {
	t.Parallel()
	started := time.Now()
	tank := fuelTank{deadline: started.Add(time.Hour), started: started}
	counter := &fakeCounter{}
	tank.fill(counter, guestStack{})
	for left, want := range map[time.Duration]int64{
		time.Hour: meter.Slice, meter.Slice * slowestUnit: meter.Slice, 1000 * slowestUnit: 1000, 1: minSlice,
	} {
		tank.refill(tank.deadline.Add(-left))
		if got := int64(counter.Get()); got != want {
			t.Errorf("%v before the deadline: %d units, want %d", left, got, want)
		}
	}
}

// The fuel limit of the manifest ends a call before its time budget does.
func TestFuelLimit(t *testing.T) {
	t.Parallel()
	work := scoring(repeat(100_000, i32Const(1), opDrop), returnScored)
	for name, c := range map[string]struct {
		guest   *guest
		maxFuel int64
		want    check.FailureReason
	}{
		"endless loop":      {scoring(endless(), returnScored), 1_000_000, check.Exhausted},
		"limit exceeded":    {work, 500_000, check.Exhausted},
		"limit not reached": {work, 2_000_000, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := manifest()
			m["budget_fuel"] = c.maxFuel
			p := openIn(t, sandboxOf(t, 1), pack(t, c.guest.encode(), m))
			_, err := p.Score(t.Context(), facts("example.org", ""))
			if c.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if failure := failureOf(t, err); failure.Reason != c.want {
				t.Errorf("%v, want %s", failure, c.want)
			}
		})
	}
}

// Host functions charge fuel for the maximum work that one call can cause.
func TestHostFunctionsChargeFuel(t *testing.T) {
	t.Parallel()
	box := sandboxOf(t, 1)
	for name, c := range map[string]struct {
		function guestImport
		code     []byte
		fuel     int64
	}{
		"random bytes": {wasiRandomGetImport, concat(i32Const(0), i32Const(64<<10)), 64 << 10 / 64},
		"buffers": {wasiWriteImport, concat(i32Const(1), i32Const(64), i32Const(1024), i32Const(0)),
			16 * 1024},
		"subscriptions": {wasiPollImport, concat(i32Const(64), i32Const(1<<16), i32Const(1024), i32Const(0)),
			16 * 1024},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGuest().importing(c.function).
				scoring(i32Const(1), opMemoryGrow, opDrop, c.code, callFunc(fnLog+1))
			p := openIn(t, box, hostileGuest{wasm: g.encode}.module())
			result, err := scoreWithRetry(p, testEntity)
			if err != nil || result.Fuel < c.fuel || result.Fuel > c.fuel+2000 {
				t.Errorf("%d units, %v, want at least %d and little more", result.Fuel, err, c.fuel)
			}
		})
	}
}
