package sandbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"assay/host/check"
	"assay/registry"
	"assay/registry/expect"
)

// faulty returns a guest that fails according to config.mode: x traps, l loops, r recurses, e exits, g grows its memory
// and traps, f returns a failure, s sends a signal that its manifest does not declare. Otherwise it scores 10.
func faulty() *guest {
	g := newGuest().importing(wasiExitImport)
	const fnExit, fnRecurse = fnLog + 1, fnScore + 2
	mode := func(letter byte, then ...[]byte) []byte {
		return concat(i32Const(bufferAt), opLoadByte, i32Const(int(letter)), opEqual, ifTrue(then...))
	}
	g.scoring(i32Const(bufferAt), i32Const(0), opStore, g.fact("config.mode", 16), opDrop,
		mode('x', g.log("about to trap"), opUnreachable), mode('l', g.log("about to loop"), endless()),
		mode('r', callFunc(fnRecurse)), mode('e', i32Const(0), callFunc(fnExit)),
		mode('g', i32Const(1), opMemoryGrow, opDrop, opUnreachable), mode('f', i32Const(2), opReturn),
		mode('s', g.signal(100, "test:signal:forged", "Forged")), g.signal(10, codeOne, "Because"), returnScored)
	return g.with(guestFunction{body: callFunc(fnRecurse)})
}

// counts returns the number of idle instances, and of those that exist or are being created.
func (p *pool) counts() (idle, all int) { return len(p.idle), len(p.slots) }

// idleInstance returns an instance that is idle.
func (p *Plugin) idleInstance() *instance {
	in := <-p.pool.idle
	p.pool.idle <- in
	return in
}

// A failure changes the answer for its value alone: however often a layer fails, other calls return what they return on
// a quiet host, and the instance is restored, so that nothing is initialised again outside of a call.
func TestFailureChangesNoOtherCall(t *testing.T) {
	t.Parallel()
	type openFunc = func(context.Context, registry.Module) (*Plugin, error)
	for isolation, open := range map[string]func(*Sandbox) openFunc{
		"restored": func(s *Sandbox) openFunc { return s.Open },
		"shared":   func(s *Sandbox) openFunc { return s.OpenShared },
	} {
		for name, test := range map[string]struct {
			mode         string
			reason       check.FailureReason
			text, output string
		}{
			"unreachable":  {"x", check.Trap, "unreachable", "about to trap\n"},
			"endless loop": {"l", check.Exhausted, "", "about to loop\n"},
			"recursion":    {"r", check.Trap, "nested too deeply", ""},
			"exit":         {"e", check.Trap, "exited with code 0", ""},
			"memory":       {"g", check.Trap, "unreachable", ""},
			"failure":      {"f", check.Trap, "returned 2", ""},
			"forged":       {"s", check.Refused, "declares no signal code", ""},
		} {
			t.Run(isolation+"/"+name, func(t *testing.T) {
				t.Parallel()
				// The budget is time for deep recursion under the race detector.
				m := hostileGuest{wasm: faulty().encode, fuel: 5_000_000}.module()
				p := expect.Value(open(sandboxOf(t, 1))(t.Context(), m))(t)
				t.Cleanup(func() { closePlugin(t, p) })
				p.bounds.time = patience
				quiet := expect.Value(p.Score(t.Context(), facts("example.org", "")))(t)
				expect.Equal(t, "the score", quiet.Score, 10)
				before, started := p.idleInstance(), starts(p)
				for range 5 {
					failure := failureOf(t, expect.ErrorOf(p.Score(t.Context(), facts("example.org", test.mode))))
					expect.Must(t, failure.Reason == test.reason && strings.Contains(failure.Err.Error(), test.text) &&
						failure.Output.Text == test.output, "%v with output %q, want %s with %q", failure,
						failure.Output.Text, test.reason, test.text)
					other := expect.Value(p.Score(t.Context(), facts("example.org", "")))(t)
					expect.NoDiff(t, "another call", quiet, other)
				}
				expect.Equal(t, "the instance", p.idleInstance(), before)
				expect.Equal(t, "instances that were started", started.Load(), 0)
			})
		}
	}
}

func TestPoolSizeIsLimited(t *testing.T) {
	t.Parallel()
	var created atomic.Int64
	p := newPool(3, func(context.Context) (*instance, error) {
		created.Add(1)
		return &instance{}, nil
	}, func(error) {})
	expect.NoError(t, p.warm(t.Context(), 1))
	var held []*instance
	for range 3 {
		held = append(held, expect.Value(p.acquire(t.Context()))(t))
	}
	expect.Error(t, "a fourth instance", expect.ErrorOf(p.acquire(pastDeadline(t))), context.DeadlineExceeded)
	for _, in := range held {
		p.release(in)
	}
	if idle, all := p.counts(); created.Load() != 3 || idle != 3 || all != 3 {
		t.Errorf("%d created, %d idle of %d, want 3", created.Load(), idle, all)
	}
}

// An instance that cannot be created does not occupy a slot: the next call tries again.
func TestPoolRecoversFromFailedReplacements(t *testing.T) {
	t.Parallel()
	broken := errors.New("made to fail")
	var fail atomic.Bool
	reported := make(chan error, 1)
	plugin := openIn(t, sandboxOf(t, 1), sevenPoints(t))
	p := newPool(1, func(ctx context.Context) (*instance, error) {
		if fail.Load() {
			return nil, broken
		}
		return plugin.instantiate(ctx)
	}, func(err error) { reported <- err })
	in := expect.Value(p.acquire(t.Context()))(t)
	fail.Store(true)
	p.discard(in)
	select {
	case err := <-reported:
		expect.Error(t, "reported", err, broken)
	case <-time.After(patience):
		t.Fatal("the failed replacement was not reported")
	}
	expect.Error(t, "acquiring", expect.ErrorOf(p.acquire(t.Context())), broken)
	fail.Store(false)
	in = expect.Value(p.acquire(t.Context()))(t)
	p.release(in)
	p.close()
	expect.That(t, in.module.IsClosed(), "the pool left an instance open")
}

// Many callers share few instances, some of which trap. Each gets the result of its own call.
func TestConcurrentCallsAreIsolated(t *testing.T) {
	t.Parallel()
	// The guest repeats its entity after reading the second fact, so it would show a mixture of two calls.
	g := newGuest()
	echo := concat(g.fact("entity.value", 200), localSet(0), i32Const(1), g.text(codeOne), i32Const(bufferAt),
		localGet(0), callFunc(fnSignal))
	trap := concat(g.text("config.mode"), i32Const(bufferAt+512), i32Const(16), callFunc(fnFact), opDrop,
		i32Const(bufferAt+512), opLoadByte, i32Const('x'), opEqual, ifTrue(opUnreachable))
	p := openIn(t, sandboxOf(t, 4), pack(t, g.scoring(echo, trap, returnScored).encode(), manifest()))
	var scored atomic.Int64
	var wg sync.WaitGroup
	for caller := range 64 {
		wg.Go(func() {
			for i := range 60 {
				value, mode := fmt.Sprintf("caller-%d.call-%d.example", caller, i), "-"
				if (caller+i)%17 == 0 {
					mode = "x"
				}
				result, err := p.Score(t.Context(), facts(value, mode))
				var failure *check.Failure
				switch {
				case mode == "x":
					expect.That(t, errors.As(err, &failure) && failure.Reason == check.Trap, "%+v, %v, want a trap",
						result, err)
				case err != nil:
					t.Error(err)
				case len(result.Signals) != 1 || result.Signals[0].Text != value:
					t.Errorf("called with %s, got %+v", value, result)
				default:
					scored.Add(1)
				}
			}
		})
	}
	wg.Wait()
	expect.That(t, scored.Load() != 0, "no call returned a score")
	expect.Until(t, "the pool is full again", func() bool {
		idle, all := p.pool.counts()
		return idle == all && all >= 1 && all <= 4
	})
}

// A pool gives back the instances that a burst of calls needed, once calls need fewer, and keeps one.
func TestTrimClosesUnneededInstances(t *testing.T) {
	t.Parallel()
	p := openIn(t, sandboxOf(t, 4), sevenPoints(t)).pool
	take := func(n int) (taken []*instance) {
		for range n {
			taken = append(taken, expect.Value(p.acquire(t.Context()))(t))
		}
		return taken
	}
	calls := func(n int) {
		for _, in := range take(n) {
			p.release(in)
		}
	}
	want := func(when string, n int) {
		t.Helper()
		idle, all := p.counts()
		expect.That(t, idle == n && all == n, "%s: %d of %d instances are idle, want %d of %d", when, idle, all, n, n)
	}
	want("after the start", 1)
	calls(4)
	p.trim()
	want("just after a burst of 4", 4)
	calls(2)
	p.trim()
	want("after calls of 2", 2)
	p.trim()
	want("without calls", 1)
	p.trim()
	want("without calls for long", 1)
	busy := take(1)
	p.trim()
	calls(3)
	p.release(busy[0])
	want("after another burst of 4", 4)
}
