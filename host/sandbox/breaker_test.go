package sandbox

import (
	"testing"
	"time"
)

// TestBreaker walks through failures and recoveries. Each step is a call at a time: refused, good, bad or abandoned.
func TestBreaker(t *testing.T) {
	t.Parallel()
	type step struct {
		at      time.Duration
		call    string // what becomes of the call if it is allowed
		refused bool
	}
	bad := func(n int, at time.Duration) []step {
		steps := make([]step, n)
		for i := range steps {
			steps[i] = step{at: at, call: "bad"}
		}
		return steps
	}
	cases := map[string]struct {
		steps   []step
		resting bool
	}{
		"four failures are borne": {append(bad(4, 0), step{at: 0, call: "good"}), false},
		"a good call starts the count anew": {append(append(bad(4, 0), step{at: 0, call: "good"}), bad(4, 0)...),
			false},
		"the fifth is one too many": {append(bad(5, 0), step{at: time.Second - 1, refused: true}), true},
		"after a second it is tried": {append(bad(5, 0), step{at: time.Second, call: "good"},
			step{at: time.Second, call: "good"}), false},
		"one failed try rests it for two": {append(bad(5, 0), step{at: time.Second, call: "bad"},
			step{at: 3*time.Second - 1, refused: true}, step{at: 3 * time.Second, call: "good"}), false},
		"an abandoned try lets the next in": {append(bad(5, 0), step{at: time.Second, call: "abandoned"},
			step{at: time.Second, call: "good"}), false},
		"one try at a time": {append(bad(5, 0), step{at: time.Second, call: "under way"},
			step{at: 2 * time.Second, refused: true}), true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var b circuitBreaker
			start := time.Unix(1_000_000, 0)
			for i, s := range c.steps {
				now := start.Add(s.at)
				if allowed := b.allow(now); allowed == s.refused {
					t.Fatalf("step %d: allowed is %v", i, allowed)
				}
				switch s.call {
				case "good", "bad":
					b.record(s.call == "good", now)
				case "abandoned":
					b.cancel()
				}
			}
			if b.isOpen() != c.resting {
				t.Errorf("resting is %v", b.isOpen())
			}
		})
	}
}

func TestBreakerRestsAMinuteAtMost(t *testing.T) {
	t.Parallel()
	var b circuitBreaker
	now := time.Unix(1_000_000, 0)
	for range 40 {
		b.record(false, now)
		now = b.retryAt
	}
	if b.cooldown != maxCooldown {
		t.Errorf("it rests for %v", b.cooldown)
	}
}
