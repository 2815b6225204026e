package sandbox

import (
	"testing"
	"time"

	"assay/host/check"
	"assay/registry/expect"
)

// TestCircuitBreaker makes calls one at a time.
func TestCircuitBreaker(t *testing.T) {
	t.Parallel()
	type step struct {
		at      time.Duration
		call    string // outcome of the call if it is allowed: success, failure, canceled or pending
		refused bool
	}
	failures := func(n int) []step {
		steps := make([]step, n)
		for i := range steps {
			steps[i] = step{call: "failure"}
		}
		return steps
	}
	for name, c := range map[string]struct {
		steps []step
		open  bool
	}{
		"four failures keep it closed": {append(failures(4), step{call: "success"}), false},
		"a success resets the count":   {append(append(failures(4), step{call: "success"}), failures(4)...), false},
		"five failures open it":        {append(failures(5), step{at: time.Second - 1, refused: true}), true},
		"a success after the cooldown closes it": {append(failures(5), step{at: time.Second, call: "success"},
			step{at: time.Second, call: "success"}), false},
		"a failed probe doubles the cooldown": {append(failures(5), step{at: time.Second, call: "failure"},
			step{at: 3*time.Second - 1, refused: true}, step{at: 3 * time.Second, call: "success"}), false},
		"a canceled probe allows another": {append(failures(5), step{at: time.Second, call: "canceled"},
			step{at: time.Second, call: "success"}), false},
		"one probe at a time": {append(failures(5), step{at: time.Second, call: "pending"},
			step{at: 2 * time.Second, refused: true}), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			start := time.Unix(1_000_000, 0)
			now := start
			b := circuitBreaker{now: func() time.Time { return now }}
			for i, s := range c.steps {
				now = start.Add(s.at)
				if allowed := b.allow(); allowed == s.refused {
					t.Fatalf("step %d: allowed is %v", i, allowed)
				}
				switch s.call {
				case "success", "failure":
					b.record(s.call == "success")
				case "canceled":
					b.cancel()
				}
			}
			expect.Equal(t, "open", b.isOpen(), c.open)
		})
	}
}

func TestCooldownIsLimited(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	b := circuitBreaker{now: func() time.Time { return now }}
	for range 40 {
		b.record(false)
		now = b.retryAt
	}
	expect.Equal(t, "the cooldown", b.cooldown, maxCooldown)
}

// A plugin that fails every third call stays in service. One that fails five times in a row is suspended.
func TestFailingPluginIsSuspended(t *testing.T) {
	t.Parallel()
	box := sandboxOf(t, 2)
	p := openIn(t, box, hostileGuest{wasm: trapIfX}.module())
	other := openIn(t, box, hostileGuest{wasm: healthy().encode}.module())
	reason := func(value string) check.FailureReason {
		if _, err := scoreOf(p, value); err != nil {
			return failureOf(t, err).Reason
		}
		return ""
	}
	for i := range 300 {
		if fails := i%3 == 0; fails && reason("x") != check.Trap || !fails && reason("y") != "" {
			t.Fatalf("call %d, with every third failing", i)
		}
	}
	for range failureThreshold {
		if p.Suspended() {
			t.Fatal("suspended too early")
		}
		if got := reason("x"); got != check.Trap {
			t.Fatalf("failure %q", got)
		}
	}
	if got := reason("y"); got != check.Suspended || !p.Suspended() {
		t.Errorf("after five failures: failure %q, suspended %v", got, p.Suspended())
	}
	if result, err := scoreOf(other, testEntity); result.Score != len(testEntity) {
		t.Errorf("the other plugin: %+v, %v", result, err)
	}
}

// In shadow and in a canary, a plugin is suspended too, without consequences for the checks that it counts in.
func TestPluginIsSuspendedSeparately(t *testing.T) {
	t.Parallel()
	p := openIn(t, sandboxOf(t, 1), hostileGuest{wasm: trapIfX}.module())
	for name, layer := range map[string]check.Layer{"shadow": p.InShadow(), "canary": p.InCanary()} {
		for i := range 2 * failureThreshold {
			want := check.Trap
			if i >= failureThreshold {
				want = check.Suspended
			}
			_, err := layer.Score(t.Context(), facts("x", ""))
			if got := failureOf(t, err).Reason; got != want {
				t.Fatalf("%s: call %d: failure %q, want %q", name, i, got, want)
			}
		}
	}
	if _, err := scoreOf(p, "y"); err != nil || p.Suspended() {
		t.Errorf("suspended: %v, %v", p.Suspended(), err)
	}
}

// The plugins of a measurement are called however often they fail.
func TestMeasuredPluginIsNeverSuspended(t *testing.T) {
	t.Parallel()
	box := New(Config{Instances: 1, Logger: discard(), NeverSuspend: true})
	p := openIn(t, box, hostileGuest{wasm: trapIfX}.module())
	for range 3 * failureThreshold {
		_, err := scoreOf(p, "x")
		if failure := failureOf(t, err); failure.Reason != check.Trap || p.Suspended() {
			t.Fatalf("%v, suspended: %v", failure, p.Suspended())
		}
	}
}

// A layer that traps in every third call makes the host start new instances. If they cost much more than its calls, it
// is suspended after a few of them, although it never fails five times in a row.
func TestCostlyRestartsSuspend(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		iterations int // of the loop that initialises
		budget     int // of a call
		calls      int
		suspended  bool
		maxStarts  int64
	}{
		"costly":              {iterations: 6_000_000, budget: 10_000, calls: 60, suspended: true, maxStarts: 8},
		"costly but paid for": {iterations: 1_000_000, budget: 10_000_000, calls: 150, maxStarts: 50},
		"cheap":               {iterations: 10, budget: 10_000, calls: 150, maxStarts: 50},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := faulty().initialising(repeat(c.iterations, i32Const(1), opDrop))
			p := openIn(t, sandboxOf(t, 1), hostileGuest{wasm: g.encode, fuel: c.budget}.module())
			now := time.Unix(1_000_000, 0)
			p.breaker.now = func() time.Time { return now }
			started := starts(p)
			for i := range c.calls {
				mode := ""
				if i%3 == 2 {
					mode = "x"
				}
				_, err := p.Score(t.Context(), facts(testEntity, mode))
				if err != nil && mode == "" && failureOf(t, err).Reason != check.Suspended {
					t.Fatalf("call %d: %v", i, err)
				}
			}
			expect.Equal(t, "suspended", p.Suspended(), c.suspended)
			if n := started.Load(); n > c.maxStarts {
				t.Errorf("%d instances were started for %d calls, want at most %d", n, c.calls, c.maxStarts)
			}
			if !c.suspended {
				return
			}
			// After each cooldown one failure suspends it again, for twice as long.
			for cooldown := minCooldown; cooldown < maxCooldown; cooldown *= 2 {
				now = now.Add(cooldown)
				if _, err := p.Score(t.Context(), facts(testEntity, "")); err != nil {
					t.Fatalf("after %s: %v", cooldown, err)
				}
				if _, err := p.Score(t.Context(), facts(testEntity, "x")); failureOf(t, err).Reason != check.Trap {
					t.Fatalf("after %s: %v", cooldown, err)
				}
				if !p.Suspended() {
					t.Fatalf("not suspended after another start, %s later", cooldown)
				}
			}
		})
	}
}
