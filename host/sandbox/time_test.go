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
	for name, score := range map[string]func(*Plugin) (check.Result, error){
		"suspended before every refill": func(p *Plugin) (check.Result, error) {
			p.clocks.wall = hourly()
			return scoreOf(p, testEntity)
		},
		"waiting for an instance": func(p *Plugin) (check.Result, error) {
			in := <-p.pool.idle
			time.AfterFunc(3*maxTime, func() { p.pool.release(in) })
			return scoreOf(p, testEntity)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := busy(t, 1)
			if result, err := score(p); err != nil || result.Score != 7 {
				t.Errorf("%+v, %v", result, err)
			}
			expect.Equal(t, "the call counts as a failure", p.breaker.failures, 0)
		})
	}
}

// A call that uses up its processor time is refused, and counts against the plugin.
func TestProcessorTimeRefuses(t *testing.T) {
	t.Parallel()
	p := busy(t, 1)
	var used atomic.Int64
	p.clocks = clocks{hourly(), func() time.Duration { return time.Duration(used.Add(int64(maxTime))) }}
	for i := range failureThreshold {
		if p.Suspended() {
			t.Fatalf("suspended after %d calls", i)
		}
		_, err := scoreOf(p, testEntity)
		if refused := refusalOf(t, err); !refused.fault || !errors.Is(err, errTimeLimit) {
			t.Errorf("%v, counted: %v", err, refused.fault)
		}
	}
	_, err := scoreOf(p, testEntity)
	if failure := failureOf(t, err); failure.Reason != check.Suspended {
		t.Errorf("%v, want %s", failure, check.Suspended)
	}
}

// A call past the deadline of its check, or one whose caller has gone, is refused, and does not count against the
// plugin.
func TestLateCallIsRefused(t *testing.T) {
	t.Parallel()
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		ctx  context.Context
		want error
	}{
		"past the deadline": {pastDeadline(t), context.DeadlineExceeded},
		"canceled":          {canceled, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := busy(t, 1)
			for range 2 * failureThreshold {
				p.pool.release(expect.Value(p.pool.acquire(t.Context()))(t)) // so that the next call finds an instance
				_, err := p.Score(c.ctx, facts(testEntity, ""))
				if refused := refusalOf(t, err); refused.fault || !errors.Is(err, c.want) {
					t.Errorf("%v, counted: %v, want %v", err, refused.fault, c.want)
				}
			}
			if p.Suspended() || p.breaker.failures != 0 {
				t.Errorf("suspended: %v, %d failures", p.Suspended(), p.breaker.failures)
			}
		})
	}
}

// A call that waits for an instance until its deadline is refused. That counts against the plugin if it broke an
// instance that is being replaced. It is load if other calls have all instances, or one was trapped at its deadline.
func TestWaitForInstance(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ replaced, fault bool }{
		"all instances are busy":                {},
		"a broken instance is being replaced":   {replaced: true, fault: true},
		"one trapped by load is being replaced": {replaced: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := openIn(t, sandboxOf(t, 1), sevenPoints(t))
			create, blocked := p.pool.create, make(chan struct{})
			p.pool.create = func(ctx context.Context) (*instance, error) {
				<-blocked
				return create(ctx)
			}
			in := expect.Value(p.pool.acquire(t.Context()))(t)
			if c.replaced {
				p.pool.discard(in, c.fault)
			}
			_, err := p.Score(pastDeadline(t), facts("x", ""))
			if refused := refusalOf(t, err); refused.fault != c.fault || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v, counted: %v", err, refused.fault)
			}
			expect.Equal(t, "counted as a failure", p.breaker.failures == 1, c.fault)
			close(blocked)
			if !c.replaced {
				p.pool.release(in)
			}
			wantScore(t, p, 7) // which waits for the instance, and does not count
		})
	}
}

// A call for which no instance can be created is refused. That does not count against the plugin, unless its
// initialisation used up its processor time.
func TestFailedCreationIsRefused(t *testing.T) {
	t.Parallel()
	for err, counts := range map[error]bool{errors.New("out of memory"): false, errTimeLimit: true} {
		p := openIn(t, sandboxOf(t, 1), sevenPoints(t))
		expect.Value(p.pool.acquire(t.Context()))(t).close()
		<-p.pool.slots
		create := p.pool.create
		p.pool.create = func(context.Context) (*instance, error) { return nil, err }
		_, got := scoreOf(p, testEntity)
		if refused := refusalOf(t, got); refused.fault != counts || !errors.Is(got, err) {
			t.Errorf("%v, counted: %v", got, refused.fault)
		}
		p.pool.create = create
		wantScore(t, p, 7)
	}
}
