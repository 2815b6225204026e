package sandbox

import (
	"errors"
	"testing"
	"time"

	"github.com/tetratelabs/wazero/api"

	"assay/host/sandbox/meter"
)

// fakeGauge is a gauge without a guest.
type fakeGauge struct {
	api.MutableGlobal
	units uint64
}

func (g *fakeGauge) Get() uint64  { return g.units }
func (g *fakeGauge) Set(v uint64) { g.units = v }

// TestCeilingIsExact has a guest burn all that it may, and no more: that is not too much, wherever its slices end.
func TestCeilingIsExact(t *testing.T) {
	t.Parallel()
	gauge := &fakeGauge{}
	tank := fuelTank{limit: 1000}
	tank.fill(gauge, guestStack{})
	for _, units := range []uint64{600, 399} {
		gauge.units -= units
		tank.refill(tank.started)
	}
	gauge.units -= 1
	tank.refill(tank.started)
	if tank.burned() != 1000 || gauge.units != 0 {
		t.Errorf("%d units burned, %d left", tank.burned(), gauge.units)
	}
	gauge.units--
	defer func() {
		if err, _ := recover().(error); !errors.Is(err, errFuelLimit) {
			t.Errorf("one unit more: %v", err)
		}
	}()
	tank.refill(tank.started)
}

// TestSlicesShrink has slices end where a slow guest would meet its deadline.
func TestSlicesShrink(t *testing.T) {
	t.Parallel()
	began := time.Now()
	tank := fuelTank{deadline: began.Add(time.Hour), started: began}
	gauge := &fakeGauge{}
	tank.fill(gauge, guestStack{})
	for left, want := range map[time.Duration]int64{
		time.Hour: meter.Slice, meter.Slice * slowestUnit: meter.Slice, 1000 * slowestUnit: 1000, 1: minSlice,
	} {
		tank.refill(tank.deadline.Add(-left))
		if got := int64(gauge.Get()); got != want {
			t.Errorf("%v before the deadline: %d units, want %d", left, got, want)
		}
	}
}
