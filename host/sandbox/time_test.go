package sandbox

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"assay/host/check"
	"assay/registry/expect"
)

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

// hourly returns a clock that advances by an hour whenever it is read, as if the system suspended the thread for that
// long before.
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
		p := busy(t, 1)
		result, err := score(p)
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
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
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
	expect.Each(t, map[string]bool{"busy": false, "being replaced": true}, func(t *testing.T, replaced bool) {
		p := openIn(t, sandboxOf(t, 1), sevenPoints(t))
		create, blocked := p.pool.create, make(chan struct{})
		p.pool.create = func(ctx context.Context) (*instance, error) {
			<-blocked
			return create(ctx)
		}
		in := expect.Value(p.pool.acquire(t.Context()))(t)
		if replaced {
			p.pool.discard(in)
		}
		_, err := p.Score(pastDeadline(t), facts("x", ""))
		expect.Error(t, "the call", refusalOf(t, err), context.DeadlineExceeded)
		close(blocked)
		if !replaced {
			p.pool.release(in)
		}
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
