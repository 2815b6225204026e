package sandbox

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tetratelabs/wazero/api"

	"assay/host/check"
	"assay/host/sandbox/meter"
	"assay/registry"
	"assay/registry/expect"
)

// fakeCounter is a fuel counter without a guest.
type fakeCounter struct {
	api.MutableGlobal
	units uint64
}

func (c *fakeCounter) Get() uint64  { return c.units }
func (c *fakeCounter) Set(v uint64) { c.units = v }

// tankOf returns a tank with the given bounds and clocks.
func tankOf(t testing.TB, b bounds, c clocks) (*fuelTank, *fakeCounter) {
	t.Helper()
	counter, tank := &fakeCounter{}, &fuelTank{bounds: b, clocks: c}
	tank.fill(counter, guestStack{reflect.ValueOf([]byte{})})
	t.Cleanup(tank.stop)
	return tank, counter
}

// refused returns the error with which a refill traps the guest, or nil.
func (t *fuelTank) refused(ctx context.Context) (err error) {
	defer func() { err, _ = recover().(error) }()
	t.refill(ctx)
	return nil
}

// A call may burn exactly its budget, wherever its slices end, and not one unit more.
func TestFuelLimitIsExact(t *testing.T) {
	t.Parallel()
	tank, counter := tankOf(t, bounds{2000, time.Hour}, clocks{time.Now, threadTime})
	for _, units := range []uint64{1600, 399, 1} {
		counter.units -= units
		expect.NoError(t, tank.refused(t.Context()))
	}
	expect.That(t, tank.burned() == 2000 && counter.units == 0 && tank.overrun() == nil, "%d units burned, %d left",
		tank.burned(), counter.units)
	counter.units--
	expect.Error(t, "one unit more", tank.refused(t.Context()), errFuelLimit)
}

// A call that returns before the guest checks its fuel has burned too much all the same.
func TestFuelLimitHoldsAtReturn(t *testing.T) {
	t.Parallel()
	g := scoring(bytes.Repeat(concat(i32Const(1), opDrop), 1000), returnScored) // 2,000 units without a check
	for budget, want := range map[int]check.FailureReason{1500: check.Exhausted, 3000: ""} {
		p := openIn(t, sandboxOf(t, 1), hostileGuest{wasm: g.encode, fuel: budget}.module())
		p.clocks.wall = func() time.Time {
			t.Error("the guest checked its fuel")
			return time.Now()
		}
		var got check.FailureReason
		if _, err := p.Score(t.Context(), facts("x", "")); err != nil {
			got = failureOf(t, err).Reason
		}
		expect.That(t, got == want, "budget of %d units: %q, want %q", budget, got, want)
	}
}

// The first slice is granted without a look at a clock, and the thread's clock is not read in the first millisecond.
func TestSmallCallsAreNotTimed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		m    registry.Module
		wall bool // the time may be read
	}{
		"first slice":       {sevenPoints(t), false},
		"first millisecond": {hostileGuest{wasm: slow(100_000)}.module(), true},
	} {
		p := openIn(t, sandboxOf(t, 1), c.m)
		p.clocks.thread = func() time.Duration {
			t.Errorf("%s: the thread's clock was read", name)
			return 0
		}
		p.clocks.wall = func() time.Time {
			expect.That(t, c.wall, "%s: the time was read", name)
			return time.Unix(1_000_000, 0)
		}
		wantScore(t, p, 7)
	}
}

func TestSlicesShrinkWithTimeLeft(t *testing.T) {
	t.Parallel()
	const limit = time.Hour
	wall, thread := time.Unix(1_000_000, 0), time.Minute
	tank, counter := tankOf(t, bounds{1 << 40, limit},
		clocks{func() time.Time { return wall }, func() time.Duration { return thread }})
	refill := func(want int64) {
		t.Helper()
		if err := tank.refused(t.Context()); err != nil || int64(counter.Get()) != want {
			t.Errorf("%d units, %v, want %d", int64(counter.Get()), err, want)
		}
	}
	expect.Equal(t, "the first slice", int64(counter.Get()), firstSlice)
	refill(meter.Slice) // the first refill, from which on time counts
	wall = wall.Add(untimed - 1)
	refill(meter.Slice)
	counter.units -= 10_000
	wall = wall.Add(24 * time.Hour) // suspended for longer than the limit
	refill(meter.Slice)
	used := untimed - 1 + 10_000*slowestUnit
	expect.That(t, tank.used == used, "10,000 units count as %v", tank.used-untimed+1)
	for left, want := range map[time.Duration]int64{
		limit - used: meter.Slice, meter.Slice * slowestUnit: meter.Slice, 1000 * slowestUnit: 1000, 1: minSlice,
	} {
		thread = time.Minute + limit - used - left
		refill(want)
	}
	thread = time.Minute + limit - used
	expect.Error(t, "at the limit", tank.refused(t.Context()), errTimeLimit)
}

// The processor time of a call follows from its budget of fuel.
func TestTimeLimitFollowsFromFuel(t *testing.T) {
	t.Parallel()
	for budget, want := range map[int64]time.Duration{
		registry.MinBudget: 5*time.Millisecond + 20*time.Microsecond,
		1_000_000:          25 * time.Millisecond,
		4_750_000:          100 * time.Millisecond,
		registry.MaxBudget: 100 * time.Millisecond,
		1 << 62:            100 * time.Millisecond,
	} {
		got := boundsOf(budget)
		expect.That(t, got.time == want && got.fuel == budget, "%d units: %+v, want %v", budget, got, want)
	}
}

// Host functions charge fuel for the maximum work that one call can cause.
func TestHostFunctionsChargeFuel(t *testing.T) {
	t.Parallel()
	box := sandboxOf(t, 1)
	type testCase struct {
		function guestImport
		code     []byte
		fuel     int64
	}
	expect.Each(t, map[string]testCase{
		"random bytes": {wasiRandomGetImport, concat(i32Const(0), i32Const(64<<10)), 64 << 10 / 64},
		"buffers":      {wasiWriteImport, concat(i32Const(1), i32Const(64), i32Const(1024), i32Const(0)), 16 * 1024},
		"subscriptions": {wasiPollImport, concat(i32Const(64), i32Const(1<<16), i32Const(1024), i32Const(0)),
			16 * 1024},
	}, func(t *testing.T, c testCase) {
		g := newGuest().importing(c.function).scoring(i32Const(1), opMemoryGrow, opDrop, c.code, callFunc(fnLog+1))
		result, err := scoreOf(openIn(t, box, hostileGuest{wasm: g.encode}.module()), testEntity)
		expect.That(t, err == nil && result.Fuel >= c.fuel && result.Fuel <= c.fuel+2000,
			"%d units, %v, want at least %d and little more", result.Fuel, err, c.fuel)
	})
}

// busy returns a plugin whose calls burn more than the first slice and then score 7.
func busy(t testing.TB, instances int) *Plugin {
	t.Helper()
	p := openIn(t, sandboxOf(t, instances), hostileGuest{wasm: slow(100_000)}.module())
	p.bounds.time = maxTime
	return p
}

// pastDeadline returns a context whose deadline has passed.
func pastDeadline(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	t.Cleanup(cancel)
	return ctx
}

// hourly returns a clock that advances by an hour whenever it is read, as if the system had suspended the thread.
func hourly() func() time.Time {
	var hours atomic.Int64
	return func() time.Time { return time.Unix(0, 0).Add(time.Duration(hours.Add(1)) * time.Hour) }
}

// A call that the system suspends again and again, or that waits long for an instance, returns its score.
func TestTimeNeverDecides(t *testing.T) {
	t.Parallel()
	expect.Each(t, map[string]func(*Plugin) (check.Result, error){
		"suspended before every refill": func(p *Plugin) (check.Result, error) {
			p.clocks.wall = hourly()
			return scoreOf(p, testEntity)
		},
		"waiting for an instance": func(p *Plugin) (check.Result, error) {
			in := <-p.pool.idle
			time.AfterFunc(3*maxTime, func() { p.pool.release(in) })
			return scoreOf(p, testEntity)
		},
	}, func(t *testing.T, score func(*Plugin) (check.Result, error)) {
		result, err := score(busy(t, 1))
		expect.That(t, err == nil && result.Score == 7, "%+v, %v", result, err)
	})
}

// A call that uses up its processor time is refused each time, and is not a failure of the layer.
func TestProcessorTimeRefuses(t *testing.T) {
	t.Parallel()
	p := busy(t, 1)
	var used atomic.Int64
	p.clocks = clocks{hourly(), func() time.Duration { return time.Duration(used.Add(int64(maxTime))) }}
	for range 10 {
		expect.Error(t, "the call", refusalOf(t, expect.ErrorOf(scoreOf(p, testEntity))), errTimeLimit)
	}
}

// A call past the deadline of its check, or one whose caller has gone, is refused and does not cost an instance.
func TestLateCallIsRefused(t *testing.T) {
	t.Parallel()
	canceled := expect.Ended(t)
	type testCase struct {
		ctx  context.Context
		want error
	}
	expect.Each(t, map[string]testCase{
		"past the deadline": {pastDeadline(t), context.DeadlineExceeded},
		"canceled":          {canceled, context.Canceled},
	}, func(t *testing.T, c testCase) {
		p := busy(t, 1)
		before := p.idleInstance()
		for range 10 {
			p.pool.release(expect.Value(p.pool.acquire(t.Context()))(t)) // so that the next call finds an instance
			expect.Error(t, "the call", refusalOf(t, expect.ErrorOf(p.Score(c.ctx, facts(testEntity, "")))), c.want)
		}
		expect.Equal(t, "the instance", p.idleInstance(), before)
		wantScore(t, p, 7)
	})
}

// A call that waits until its deadline for an instance, which another call has or which is being created, is refused.
func TestWaitForInstance(t *testing.T) {
	t.Parallel()
	type testCase struct{ before, after func(*pool, *instance) }
	nothing := func(*pool, *instance) {}
	expect.Each(t, map[string]testCase{
		"busy":           {nothing, (*pool).release},
		"being replaced": {(*pool).discard, nothing},
		"being created":  {func(p *pool, in *instance) { in.close(); <-p.slots }, nothing},
	}, func(t *testing.T, c testCase) {
		p := openIn(t, sandboxOf(t, 1), sevenPoints(t))
		create, blocked := p.pool.create, make(chan struct{})
		p.pool.create = func(ctx context.Context) (*instance, error) {
			<-blocked
			return create(ctx)
		}
		in := expect.Value(p.pool.acquire(t.Context()))(t)
		c.before(p.pool, in)
		_, err := p.Score(pastDeadline(t), facts("x", ""))
		expect.Error(t, "the call", refusalOf(t, err), context.DeadlineExceeded)
		close(blocked)
		c.after(p.pool, in)
		wantScore(t, p, 7) // which waits for the instance
	})
}

// A call for which no instance can be created is refused, and the next one tries again.
func TestFailedCreationIsRefused(t *testing.T) {
	t.Parallel()
	p := openIn(t, sandboxOf(t, 1), sevenPoints(t))
	for _, err := range []error{errors.New("out of memory"), errTimeLimit} {
		expect.Value(p.pool.acquire(t.Context()))(t).close()
		<-p.pool.slots
		create := p.pool.create
		p.pool.create = func(context.Context) (*instance, error) { return nil, err }
		_, got := scoreOf(p, testEntity)
		expect.Error(t, "the call", refusalOf(t, got), err)
		p.pool.create = create
		wantScore(t, p, 7)
	}
}
