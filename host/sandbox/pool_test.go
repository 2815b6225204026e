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
)

// moody is a guest that does what the lineup's mode says: x traps, d divides by zero, o reads outside, l loops, r
// recurses, e ends itself, f fails; everything else scores 10.
func moody() *guest {
	g := newGuest()
	g.imports = append(g.imports, guestImport{module: "wasi_snapshot_preview1", name: "proc_exit",
		params: []byte{wI32}})
	const exit, own = callOwn, callOwn + 1
	mode := func(letter byte, then ...[]byte) []byte {
		return join(i32c(bufAt), loadByte(), i32c(int32(letter)), whenEqual(then...))
	}
	g.scoring(i32c(bufAt), i32c(0), store(), g.fact("config.mode", 16), drop(),
		mode('x', g.log("about to trap"), unreachable()),
		mode('d', i32c(1), i32c(0), []byte{0x6d}, drop()),
		mode('o', i32c(-4), load(), drop()),
		mode('l', g.log("about to loop"), forever()),
		mode('r', invoke(own+1)),
		mode('e', i32c(0), invoke(exit)),
		mode('f', i32c(2), []byte{0x0f}),
		g.signal(10, codeOne, "Because"), i32c(0))
	g.functions = append(g.functions, guestFunction{body: invoke(own + 1)})
	return g
}

// counts returns how many instances are idle, and how many exist or are being made.
func (p *pool) counts() (idle, all int) { return len(p.idle), len(p.slots) }

// A broken instance is never used again, whatever broke it: another takes its place.
func TestBrokenInstanceIsReplaced(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		mode   string
		reason check.FailureReason
		or     check.FailureReason
		why    string
		output string
		keeps  bool // the instance is not broken
	}{
		"unreachable":      {mode: "x", reason: check.Trap, why: "unreachable", output: "about to trap\n"},
		"division by zero": {mode: "d", reason: check.Trap, why: "divide by zero"},
		"load outside":     {mode: "o", reason: check.Trap, why: "out of bounds"},
		"endless loop":     {mode: "l", reason: check.Timeout, output: "about to loop\n"},
		"recursion":        {mode: "r", reason: check.Trap, or: check.Timeout}, // the stack's end or the budget's, whichever is sooner
		"exit":             {mode: "e", reason: check.Trap, why: "exited with code 0"},
		"failure":          {mode: "f", reason: check.Trap, why: "returned 2", keeps: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			described := manifest()
			described["budget_ms"] = 20
			p := openIn(t, sandboxOf(t, 1), pack(t, moody().encode(), described))
			before := <-p.pool.idle
			p.pool.idle <- before
			_, err := p.Score(t.Context(), facts("example.org", test.mode))
			lost := lossOf(t, err)
			if lost.Reason != test.reason && lost.Reason != test.or ||
				!strings.Contains(lost.Error(), test.why) || lost.Output != test.output {
				t.Errorf("%v with output %q, want %s with %q", lost, lost.Output, test.reason, test.why)
			}
			until(t, "the pool is whole again", func() bool {
				idle, all := p.pool.counts()
				return idle == 1 &&
					all == 1
			})
			after := <-p.pool.idle
			p.pool.idle <- after
			if (after == before) != test.keeps || before.module.IsClosed() == test.keeps {
				t.Errorf("the instance was kept: %v, and closed: %v", after == before, before.module.IsClosed())
			}
			if result, err := p.Score(t.Context(), facts("example.org", "")); err != nil || result.Score != 10 ||
				len(result.Signals) != 1 {
				t.Errorf("the next call: %+v, %v", result, err)
			}
		})
	}
}

// The context's deadline ends a call too, when it comes before the budget's.
func TestDeadlineEndsACall(t *testing.T) {
	t.Parallel()
	p := opened(t, moody())
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer cancel()
	_, err := p.Score(ctx, facts("x", "l"))
	if lost := lossOf(t, err); lost.Reason != check.Timeout {
		t.Errorf("%v, want a timeout", lost)
	}
}

// A pool whose instances are all busy makes callers wait until their time is up.
func TestBusyPoolTimesOut(t *testing.T) {
	t.Parallel()
	p := openIn(t, sandboxOf(t, 1), pack(t, scores(1).encode(), manifest()))
	in, err := p.pool.acquire(t.Context(), time.Now().Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err = p.Score(ctx, facts("x", ""))
	if lost := lossOf(t, err); lost.Reason != check.Timeout ||
		!strings.Contains(lost.Error(), "waiting for a free instance") {
		t.Errorf("%v, want a timeout", lost)
	}
	p.pool.release(in)
	if result, err := p.Score(t.Context(), facts("x", "")); err != nil || result.Score != 1 {
		t.Errorf("%+v, %v", result, err)
	}
}

func TestPoolGrowsToItsSizeOnly(t *testing.T) {
	t.Parallel()
	made := 0
	var mu sync.Mutex
	p := newPool(3, func(context.Context) (*instance, error) {
		mu.Lock()
		defer mu.Unlock()
		made++
		return &instance{}, nil
	}, func(error) {})
	if err := p.warm(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	var held []*instance
	for range 3 {
		in, err := p.acquire(t.Context(), time.Now().Add(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, in)
	}
	if _, err := p.acquire(t.Context(), time.Now()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a fourth instance: %v", err)
	}
	for _, in := range held {
		p.release(in)
	}
	if idle, all := p.counts(); made != 3 || idle != 3 || all != 3 {
		t.Errorf("%d made, %d idle of %d, want 3", made, idle, all)
	}
}

// An instance that cannot be made takes no slot for good: the next call tries again.
func TestPoolRecoversFromFailedReplacements(t *testing.T) {
	t.Parallel()
	broken := errors.New("made to fail")
	fail := false
	var mu sync.Mutex
	told := make(chan error, 1)
	box := sandboxOf(t, 1)
	plugin := openIn(t, box, pack(t, scores(1).encode(), manifest()))
	p := newPool(1, func(ctx context.Context) (*instance, error) {
		mu.Lock()
		defer mu.Unlock()
		if fail {
			return nil, broken
		}
		return plugin.instantiate(ctx)
	}, func(err error) { told <- err })
	in, err := p.acquire(t.Context(), time.Now().Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	fail = true
	mu.Unlock()
	p.discard(in)
	select {
	case err := <-told:
		if !errors.Is(err, broken) {
			t.Errorf("told of %v", err)
		}
	case <-time.After(patience):
		t.Fatal("nobody was told that the replacement failed")
	}
	if _, err := p.acquire(t.Context(), time.Now().Add(time.Minute)); !errors.Is(err, broken) {
		t.Errorf("acquiring: %v, want the reason", err)
	}
	mu.Lock()
	fail = false
	mu.Unlock()
	in, err = p.acquire(t.Context(), time.Now().Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	p.release(in)
	p.close()
	if !in.module.IsClosed() {
		t.Error("the pool left an instance open")
	}
}

// Many callers share few instances, and some of them break: nobody gets what is another's.
func TestHammer(t *testing.T) {
	t.Parallel()
	described := manifest()
	// A guest that tells whom it was asked about: it would show a mix of two calls.
	g := newGuest()
	p1 := join(g.fact("entity.value", 200), localSet(0), i32c(1), g.text(codeOne), i32c(bufAt), localGet(0),
		invoke(callSignal))
	trap := join(g.text("config.mode"), i32c(bufAt+512), i32c(16), invoke(callFact), drop(), i32c(bufAt+512),
		loadByte(), i32c('x'), whenEqual(unreachable()))
	p := openIn(t, sandboxOf(t, 4), pack(t, g.scoring(p1, trap, i32c(0)).encode(), described))
	var answered atomic.Int64
	var wg sync.WaitGroup
	for caller := range 64 {
		wg.Go(func() {
			for i := range 60 {
				value := fmt.Sprintf("caller-%d.call-%d.example", caller, i)
				mode := "-"
				if (caller+i)%17 == 0 {
					mode = "x"
				}
				result, err := p.Score(t.Context(), facts(value, mode))
				var lost *check.Failure
				switch {
				case errors.As(err, &lost) && lost.Reason == check.Timeout: // 64 callers wait for 4 instances
				case mode == "x":
					if lost == nil || lost.Reason != check.Trap {
						t.Errorf("a call that was to trap: %+v, %v", result, err)
					}
				case err != nil:
					t.Error(err)
				case len(result.Signals) != 1 || result.Signals[0].Text != value:
					t.Errorf("asked about %s, answered %+v", value, result)
				default:
					answered.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if answered.Load() == 0 {
		t.Error("no call was answered")
	}
	until(t, "the pool is whole again", func() bool {
		idle, all := p.pool.counts()
		return idle == all && all >= 1 &&
			all <= 4
	})
}
