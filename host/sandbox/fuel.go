package sandbox

import (
	"context"
	"errors"
	"time"

	"github.com/tetratelabs/wazero/api"

	"assay/host/sandbox/meter"
)

// errDeadline ends a guest whose time is up. It is a context.DeadlineExceeded to those who ask.
var errDeadline = fuelError{"the time budget ran out", context.DeadlineExceeded}

// errCeiling ends a guest that has burned all the fuel that a call may.
var errCeiling = fuelError{"the fuel ran out", nil}

type fuelError struct {
	text  string
	cause error
}

func (e fuelError) Error() string { return e.text }
func (e fuelError) Unwrap() error { return e.cause }

// fuelTank is what one call may burn.
type fuelTank struct {
	gauge    api.MutableGlobal // the guest's own counter, by meter's contract
	granted  int64             // what has been put in, debts included
	ceiling  int64             // what may be put in at most; 0 is without a limit
	deadline time.Time
}

// fill puts the first slice in.
func (t *fuelTank) fill(gauge api.MutableGlobal) {
	t.gauge, t.granted = gauge, 0
	t.gauge.Set(0)
	t.refill()
}

// refill puts another slice in, or panics, which traps the guest. The guest may have burned more than it had: that counts.
func (t *fuelTank) refill() {
	debt := -int64(t.gauge.Get())
	slice := int64(meter.Slice)
	if t.ceiling > 0 {
		slice = min(slice, t.ceiling-t.granted-debt)
		if slice <= 0 {
			panic(errCeiling)
		}
	}
	t.granted += slice + debt
	t.gauge.Set(uint64(slice))
}

// burned is what the call has used so far: the same number on every machine and in every run.
func (t *fuelTank) burned() int64 {
	if t.gauge == nil {
		return 0
	}
	return t.granted - int64(t.gauge.Get())
}

// hostRefill is called by a guest whose fuel is used up.
func hostRefill(ctx context.Context, m api.Module, _ []uint64) {
	t := &callOf(ctx).fuel
	if time.Now().After(t.deadline) {
		panic(errDeadline)
	}
	t.find(m)
	t.refill()
}

// charge takes fuel for work that the host does for a guest; the guest looks at what is left soon after.
func (t *fuelTank) charge(units int64) { t.gauge.Set(uint64(int64(t.gauge.Get()) - units)) }

// find looks the gauge up for a start function, which runs before anybody else could.
func (t *fuelTank) find(m api.Module) {
	if t.gauge != nil {
		return
	}
	gauge, ok := m.ExportedGlobal(meter.FuelExport).(api.MutableGlobal)
	if !ok {
		panic(errNoGauge)
	}
	t.gauge = gauge
}

var errNoGauge = errors.New("the guest exports no fuel gauge")
