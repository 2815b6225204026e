package sandbox

import (
	"context"
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
	began    time.Time
	stack    guestStack
}

// A slice is what meter.Slice says, and less towards the deadline: what a guest can be sure to burn in the time that is
// left, one whose every few units touch memory that the system must find first. A guest that hurries for long and then
// slows down is noticed as soon as any other.
const (
	slowestUnit = 800 * time.Nanosecond
	leastSlice  = 250
)

// fill puts the first slice in.
func (t *fuelTank) fill(gauge api.MutableGlobal, stack guestStack) {
	t.gauge, t.stack, t.granted = gauge, stack, 0
	t.gauge.Set(0)
	t.refill(t.began)
}

// refill puts another slice in, or panics, which traps the guest. The guest may have burned more than it had: that
// counts.
func (t *fuelTank) refill(now time.Time) {
	debt := -int64(t.gauge.Get())
	slice := min(max(int64(t.deadline.Sub(now)/slowestUnit), leastSlice), meter.Slice)
	if t.ceiling > 0 {
		slice = min(slice, t.ceiling-t.granted-debt)
		if slice < 0 {
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
func hostRefill(ctx context.Context, _ api.Module, _ []uint64) {
	t := &callOf(ctx).fuel
	now := time.Now()
	if now.After(t.deadline) {
		panic(errDeadline)
	}
	if t.stack.bytes() > mostStack {
		panic(errDeep)
	}
	t.refill(now)
}

// charge takes fuel for work that the host does for a guest; the guest looks at what is left soon after.
func (t *fuelTank) charge(units int64) { t.gauge.Set(uint64(int64(t.gauge.Get()) - units)) }
