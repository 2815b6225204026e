package sandbox

import (
	"context"
	"time"

	"github.com/tetratelabs/wazero/api"

	"assay/host/sandbox/meter"
)

var (
	// errDeadline traps a guest at its deadline. It wraps context.DeadlineExceeded.
	errDeadline = fuelError{"the time budget ran out", context.DeadlineExceeded}
	// errFuelLimit traps a guest that has burned its fuel limit.
	errFuelLimit = fuelError{"the fuel ran out", nil}
)

type fuelError struct {
	text  string
	cause error
}

func (e fuelError) Error() string { return e.text }
func (e fuelError) Unwrap() error { return e.cause }

// fuelTank accounts for the fuel and time of one call. The guest decrements its counter as it runs, and calls the host
// for another slice when the counter is below zero (package meter).
type fuelTank struct {
	counter  api.MutableGlobal // the fuel left, a global of the guest
	granted  int64             // total of all slices, overdrafts included
	limit    int64             // maximum of granted; 0: unlimited
	deadline time.Time
	started  time.Time
	stack    guestStack
}

// A slice has meter.Slice units, and fewer close to the deadline: as many as the slowest guest burns in the time left.
// The slowest guest keeps touching new pages of memory, which the kernel must allocate. Thus a guest that suddenly
// slows down does not overrun its deadline by more than any other.
const (
	slowestUnit = 800 * time.Nanosecond
	minSlice    = 250
)

// fill grants the first slice.
func (t *fuelTank) fill(counter api.MutableGlobal, stack guestStack) {
	t.counter, t.stack, t.granted = counter, stack, 0
	t.counter.Set(0)
	t.refill(t.started)
}

// refill grants another slice. If the limit is reached it panics, which traps the guest. Fuel that the guest burned
// beyond its last slice counts against the limit.
func (t *fuelTank) refill(now time.Time) {
	overdraft := -int64(t.counter.Get())
	slice := min(max(int64(t.deadline.Sub(now)/slowestUnit), minSlice), meter.Slice)
	if t.limit > 0 {
		slice = min(slice, t.limit-t.granted-overdraft)
		if slice < 0 {
			panic(errFuelLimit)
		}
	}
	t.granted += slice + overdraft
	t.counter.Set(uint64(slice))
}

// burned returns the fuel that the call has used so far. It is the same on every machine and in every run.
func (t *fuelTank) burned() int64 {
	if t.counter == nil {
		return 0
	}
	return t.granted - int64(t.counter.Get())
}

// hostRefill is the import that a guest calls when its fuel is used up.
func hostRefill(ctx context.Context, _ api.Module, _ []uint64) {
	t := &callOf(ctx).fuel
	now := time.Now()
	if now.After(t.deadline) {
		panic(errDeadline)
	}
	if t.stack.bytes() > maxStack {
		panic(errStackTooDeep)
	}
	t.refill(now)
}

// charge burns fuel for work that the host does for the guest. The guest checks its counter soon after the call.
func (t *fuelTank) charge(units int64) { t.counter.Set(uint64(int64(t.counter.Get()) - units)) }
