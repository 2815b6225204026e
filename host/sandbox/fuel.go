package sandbox

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/tetratelabs/wazero/api"

	"assay/host/sandbox/meter"
	"assay/registry"
)

// The fuel limit decides whether a call fails: a call burns the same fuel on every machine and at any load. The limit
// on processor time protects the host from guests that are slow for their fuel, and the check's deadline prevents late
// answers. Both refuse the call instead of giving it a result, so that an answer never depends on time.
var (
	// errFuelLimit traps a guest that has burned its budget. This is a failure of the layer.
	errFuelLimit = errors.New("the fuel ran out")
	// errTimeLimit traps a guest that has used up its processor time.
	errTimeLimit = &refusal{errors.New("the call took more processor time than its budget of fuel allows")}
)

// bounds limits one call of a guest.
type bounds struct {
	fuel int64
	time time.Duration // of the processor
}

// The limit on a call's processor time follows from its fuel budget. A unit takes about a nanosecond, so a guest runs
// out of fuel long before it runs out of time, unless it does something that is slow for its fuel.
const (
	timeBase    = 5 * time.Millisecond
	timePerUnit = 20 * time.Nanosecond
	maxTime     = 100 * time.Millisecond
)

// boundsOf returns the limits of a call with the given budget of fuel.
func boundsOf(budget int64) bounds {
	// Beyond this budget, the time is at its maximum, and the product could overflow.
	const largest = int64((maxTime - timeBase) / timePerUnit)
	return bounds{fuel: budget, time: timeBase + time.Duration(min(budget, largest))*timePerUnit}
}

// Limits of each of the two functions that initialise an instance. The fuel is the largest budget of a call. Go's
// runtime starts with 700,000 units; the domain layer, which sorts its lists of brands, needs 18 million.
const (
	startFuel = registry.MaxBudget
	startTime = time.Second
)

// clocks are the wall clock and the processor-time clock of the current thread.
type clocks struct {
	wall   func() time.Time
	thread func() time.Duration
}

// fuelTank accounts for the fuel and processor time of one call. The guest decrements its counter as it runs, and calls
// the host for another slice when the counter is below zero (package meter).
type fuelTank struct {
	bounds
	clocks  clocks
	counter api.MutableGlobal // the fuel left, a global of the guest
	stack   guestStack
	granted int64 // total of all slices, overdrafts included

	first    time.Time     // of the first refill
	used     time.Duration // upper bound of the processor time from then to the last refill
	usedFuel int64         // the fuel burned until that refill
	timed    bool          // the goroutine is locked to its thread, whose clock counts from now on
	started  time.Duration // the thread's clock at the first refill, or earlier
}

// A slice has meter.Slice units, or when little time is left, only as many as the slowest guest burns in that time. The
// slowest guest keeps touching new pages of memory, which the kernel must allocate. So a guest that suddenly slows down
// overruns its time by no more than any other.
//
// The first slice is not timed, so that the smallest calls need no clock. The slowest guest burns it within a
// millisecond.
const (
	slowestUnit = 800 * time.Nanosecond
	firstSlice  = int64(time.Millisecond / slowestUnit)
	minSlice    = 250
)

// untimed is how long a call runs before refill reads the thread's clock, which takes a system call. Until then the
// elapsed time is an upper bound of the processor time.
const untimed = time.Millisecond

// fill grants the first slice.
func (t *fuelTank) fill(counter api.MutableGlobal, stack guestStack) {
	*t = fuelTank{bounds: t.bounds, clocks: t.clocks, counter: counter, stack: stack}
	t.granted = min(firstSlice, t.fuel)
	t.counter.Set(uint64(t.granted))
}

// grant adds a slice, or the rest of the budget if that is less. Fuel that the guest burned beyond its last slice
// counts against the budget.
func (t *fuelTank) grant(slice int64) {
	burned := t.burned()
	slice = min(slice, t.fuel-burned)
	t.granted = burned + slice
	t.counter.Set(uint64(slice))
}

// burned returns the fuel that the call has used so far. It is the same on every machine and in every run.
func (t *fuelTank) burned() int64 {
	if t.counter == nil {
		return 0
	}
	return t.granted - int64(t.counter.Get())
}

// overrun returns the error of a call that has exceeded a limit that does not depend on time.
func (t *fuelTank) overrun() error {
	switch {
	case t.stack.bytes() > maxStack:
		return errStackTooDeep
	case t.burned() > t.fuel:
		return errFuelLimit
	}
	return nil
}

// left returns the remaining time of the call: until its processor time runs out or the check's deadline passes.
func (t *fuelTank) left(ctx context.Context) (time.Duration, error) {
	now := t.clocks.wall()
	left := t.time - t.measure(now)
	if left <= 0 {
		return 0, errTimeLimit
	}
	err := ctx.Err()
	if deadline, ok := ctx.Deadline(); ok && err == nil {
		until := deadline.Sub(now)
		if left = min(left, until); until <= 0 {
			err = context.DeadlineExceeded
		}
	}
	if err != nil {
		return 0, &refusal{err}
	}
	return left, nil
}

// measure returns the processor time since the first refill, or a little more. A call that lasts longer than untimed
// may have been suspended for most of it. So from now on the thread's clock counts, and the time before now is taken to
// be at most what the slowest guest needs for the same fuel.
func (t *fuelTank) measure(now time.Time) time.Duration {
	burned := t.burned()
	switch elapsed := now.Sub(t.first); {
	case t.timed:
		t.used = t.clocks.thread() - t.started
	case t.first.IsZero():
		t.first = now
	case elapsed < untimed:
		t.used = elapsed
	default:
		t.used = min(elapsed, t.used+time.Duration(burned-t.usedFuel)*slowestUnit)
		t.timed = true
		runtime.LockOSThread()
		t.started = t.clocks.thread() - t.used
	}
	t.usedFuel = burned
	return t.used
}

// stop ends the timing of the call.
func (t *fuelTank) stop() {
	if t.timed {
		t.timed = false
		runtime.UnlockOSThread()
	}
}

// hostRefill is the import that a guest calls when its fuel is used up.
func hostRefill(ctx context.Context, _ api.Module, _ []uint64) { callOf(ctx).fuel.refill(ctx) }

// refill grants another slice. If the call must end, refill panics, which traps the guest.
func (t *fuelTank) refill(ctx context.Context) {
	if err := t.overrun(); err != nil {
		panic(err)
	}
	left, err := t.left(ctx)
	if err != nil {
		panic(err)
	}
	if !t.timed {
		left /= 2 // so that time remains even if this slice is charged at the slowest guest's rate
	}
	t.grant(min(max(int64(left/slowestUnit), minSlice), meter.Slice))
}

// charge burns fuel for work that the host does for the guest. The guest checks its counter soon after the call.
func (t *fuelTank) charge(units int64) { t.counter.Set(uint64(int64(t.counter.Get()) - units)) }
