package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"assay/host/check"
	"assay/host/entity"
	"assay/host/sandbox"
)

// boxOf is a sandbox whose plugins have so many instances.
func boxOf(t *testing.T, instances int) *sandbox.Sandbox {
	t.Helper()
	box := sandbox.New(sandbox.Config{Instances: instances, Logger: quiet})
	t.Cleanup(func() {
		if err := box.Close(); err != nil {
			t.Error(err)
		}
	})
	return box
}

// opened is a specimen in a sandbox.
func (s specimen) opened(t *testing.T, box *sandbox.Sandbox) *sandbox.Plugin {
	t.Helper()
	p, err := box.Open(t.Context(), s.module())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func shut(t *testing.T, p *sandbox.Plugin) {
	t.Helper()
	if err := p.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

func ask(p *sandbox.Plugin, value string) (check.Result, error) {
	return p.Score(context.Background(), check.Input{Entity: entity.Facts{"entity.value": value}})
}

// answer asks again when only the time ran out: on a busy machine a new instance, or a processor, can be long in
// coming.
func answer(p *sandbox.Plugin, value string) (check.Result, error) {
	for {
		result, err := ask(p, value)
		if lost := (*check.Failure)(nil); !errors.As(err, &lost) || lost.Reason != check.Timeout {
			return result, err
		}
		p.WakeUp()
	}
}

// TestSameBytesTwice opens one file as two plugins and closes one of them under the other's callers (Z31): the engine
// keeps one copy of the code for both.
func TestSameBytesTwice(t *testing.T) {
	t.Parallel()
	box := boxOf(t, 2)
	s := specimen{wasm: healthy().encode, budgetMS: 100}
	stays := s.opened(t, box)
	defer shut(t, stays)
	for range 20 {
		goes := s.opened(t, box)
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				for range 50 {
					if result, err := answer(stays, asked); result.Score != len(asked) {
						t.Errorf("%+v, %v", result, err)
					}
				}
			})
		}
		if result, err := answer(goes, asked); result.Score != len(asked) {
			t.Errorf("%+v, %v", result, err)
		}
		shut(t, goes)
		wg.Wait()
	}
}

// TestRefusalLeavesTheOldVersion opens what cannot be opened beside a plugin at work (Z17).
func TestRefusalLeavesTheOldVersion(t *testing.T) {
	t.Parallel()
	box := boxOf(t, 2)
	old := specimen{wasm: healthy().encode, budgetMS: 100}.opened(t, box)
	defer shut(t, old)
	for _, s := range malformedGuests() {
		if strings.HasPrefix(s.name, "Z26/") || strings.HasPrefix(s.name, "Z27/") {
			continue // their size is tried in a process of their own
		}
		if p, err := box.Open(t.Context(), s.module()); err == nil {
			shut(t, p)
			t.Errorf("%s was opened", s.name)
		}
		if result, err := answer(old, asked); result.Score != len(asked) {
			t.Errorf("after %s: %+v, %v", s.name, result, err)
		}
	}
}

// TestFlipACoin asks a guest that scores by the clock and by chance ten thousand times (Z38), in several instances.
func TestFlipACoin(t *testing.T) {
	t.Parallel()
	box := boxOf(t, 2)
	var fuel atomic.Int64
	for range 2 {
		p := specimen{wasm: flipACoin, budgetMS: 100}.opened(t, box)
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				for range 2500 {
					result, err := answer(p, asked)
					fuel.CompareAndSwap(0, result.Fuel)
					if err != nil || result.Score != coin || result.Fuel != fuel.Load() {
						t.Errorf("%+v for %d units, %v", result, fuel.Load(), err)
						return
					}
				}
			})
		}
		wg.Wait()
		shut(t, p)
	}
}

// TestGrowNearLimit calls a guest that takes more memory with each call ten thousand times (Z41): it ends where the
// manifest says.
func TestGrowNearLimit(t *testing.T) {
	t.Parallel()
	p := specimen{wasm: growNearLimit, budgetMS: 100}.opened(t, boxOf(t, 1))
	defer shut(t, p)
	calls := 10_000
	if raceDetector {
		calls = 1000
	}
	for i := range calls {
		if result, err := answer(p, asked); err != nil || result.Score < 2 || result.Score > 16 {
			t.Fatalf("call %d: %d pages of 16, %v", i, result.Score, err)
		}
	}
}

// TestLogIsClipped looks at what is kept of a guest's log (Z35).
func TestLogIsClipped(t *testing.T) {
	t.Parallel()
	box := boxOf(t, 1)
	for name, c := range map[string]struct {
		wasm   func() []byte
		output string
	}{
		"format":    {logging("%s%n%!d(MISSING)", 0), "%s%n%!d(MISSING)\n"},
		"megabytes": {logging("", 10<<20), strings.Repeat("x", 4096) + fmt.Sprintf(" [%d bytes more]", 10<<20+1-4096)},
	} {
		t.Run(name, func(t *testing.T) {
			p := specimen{wasm: c.wasm, memoryMB: 64, budgetMS: 100}.opened(t, box)
			defer shut(t, p)
			var lost *check.Failure
			for lost == nil || lost.Reason == check.Timeout { // ten megabytes can take their time on a busy machine
				p.WakeUp()
				if _, err := ask(p, asked); !errors.As(err, &lost) {
					t.Fatal(err)
				}
			}
			if lost.Output != c.output {
				t.Errorf("%d bytes, beginning %.40q", len(lost.Output), lost.Output)
			}
		})
	}
}

// TestHostWorkBurnsFuel has the host do the most that it does for one call (Z18).
func TestHostWorkBurnsFuel(t *testing.T) {
	t.Parallel()
	box := boxOf(t, 1)
	for name, c := range map[string]struct {
		function imported
		code     []byte
		fuel     int64
	}{
		"random bytes":  {randomGet, cat(num(0), num(64<<10)), 64 << 10 / 64},
		"pieces":        {fdWrite, cat(num(1), num(64), num(1024), num(0)), 16 * 1024},
		"subscriptions": {pollOneoff, cat(num(64), num(1<<16), num(1024), num(0)), 16 * 1024},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := specimen{wasm: func() []byte {
				return newLayer().importing(c.function).scoring(num(1), growMemory, drop, c.code, call(log+1)).encode()
			}, budgetMS: 100}.opened(t, box)
			defer shut(t, p)
			if result, err := answer(p, asked); err != nil || result.Fuel < c.fuel || result.Fuel > c.fuel+2000 {
				t.Errorf("%d units, %v, want %d and a little", result.Fuel, err, c.fuel)
			}
		})
	}
}

// TestCrowd has fifty callers at two instances of a layer that is slow but legal (Z39): each gets its answer, or is
// told that its time ran out.
func TestCrowd(t *testing.T) {
	t.Parallel()
	p := specimen{wasm: slowButLegal(1_000_000), budgetMS: 20}.opened(t, boxOf(t, 2))
	defer shut(t, p)
	var answered atomic.Int64
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			for range 10 {
				result, err := ask(p, asked)
				var lost *check.Failure
				switch {
				case err == nil && result.Score == 7:
					answered.Add(1)
				case !errors.As(err, &lost) || lost.Reason != check.Timeout && lost.Reason != check.Unavailable:
					t.Errorf("%+v, %v", result, err)
				}
			}
		})
	}
	wg.Wait()
	p.WakeUp()
	if result, err := ask(p, asked); answered.Load() == 0 && err != nil {
		t.Errorf("nobody was answered, and then: %+v, %v", result, err)
	}
	t.Logf("%d of 500 were answered; resting: %v", answered.Load(), p.Suspended())
}

// failOnX traps when it is asked about an entity that begins with x (Z40).
func failOnX() []byte {
	l := newLayer()
	return l.scoring(l.text("entity.value"), num(buffer), num(200), call(fact), drop,
		num(buffer), loadByte, num('x'), op(0x46), when(unreachable), l.says(4, said, "well"), scored).encode()
}

// TestFailingPluginRests has a guest fail every third call, which is borne, and then five times in a row, which is not
// (Z40).
func TestFailingPluginRests(t *testing.T) {
	t.Parallel()
	box := boxOf(t, 2)
	p, beside := specimen{wasm: failOnX, budgetMS: 100}.opened(t, box),
		specimen{wasm: healthy().encode, budgetMS: 100}.opened(t, box)
	defer shut(t, p)
	defer shut(t, beside)
	reason := func(value string) check.FailureReason {
		for {
			var lost *check.Failure
			if _, err := ask(p, value); !errors.As(err, &lost) {
				return ""
			}
			if lost.Reason != check.Timeout { // nobody is blamed for waiting for a new instance
				return lost.Reason
			}
		}
	}
	for i := range 300 {
		if fails := i%3 == 0; fails && reason("x") != check.Trap || !fails && reason("y") != "" {
			t.Fatalf("call %d of those that fail every third time", i)
		}
	}
	for range 5 {
		if p.Suspended() {
			t.Fatal("it rests too soon")
		}
		if got := reason("x"); got != check.Trap {
			t.Fatalf("lost by %q", got)
		}
	}
	if got := reason("y"); got != check.Unavailable || !p.Suspended() {
		t.Errorf("after five failures: lost by %q, resting %v", got, p.Suspended())
	}
	if result, err := answer(beside, asked); result.Score != len(asked) {
		t.Errorf("the plugin beside: %+v, %v", result, err)
	}
}

// TestSwapUnderFire swaps lineups of a healthy pair of layers, and of one that never ends, under load (Z43): no check
// loses a healthy layer, and none sees two versions.
func TestSwapUnderFire(t *testing.T) {
	t.Parallel()
	const swaps, callers = 100, 2
	box := boxOf(t, callers)
	version := func(n int) *check.Lineup {
		s := specimen{wasm: saying(1+n%100, said, "version"), budgetMS: 100}
		return check.NewLineup(int64(n), 0, check.Bands{}, []check.Member{
			{Name: "first", Layer: s.opened(t, box)},
			{Name: "loop", Layer: specimen{wasm: loopForever, budgetMS: 1}.opened(t, box)},
			{Name: "second", Layer: s.opened(t, box)}})
	}
	var live check.Live
	lineup := version(0)
	live.Swap(lineup)
	ended := make(chan struct{})
	var checks atomic.Int64
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for {
				select {
				case <-ended:
					return
				default:
				}
				held := live.Acquire()
				for _, m := range held.Members {
					result, err := m.Layer.Score(context.Background(), check.Input{})
					if lost := (*check.Failure)(nil); m.Name == "loop" || errors.As(err, &lost) &&
						lost.Reason == check.Timeout {
						continue
					}
					if want := 1 + int(held.Revision%100); err != nil || result.Score != want {
						t.Errorf("revision %d: layer %s scored %d, %v", held.Revision, m.Name, result.Score, err)
					}
				}
				held.Release()
				checks.Add(1)
			}
		})
	}
	closing := func(old *check.Lineup, drained <-chan struct{}) {
		<-drained
		for _, m := range old.Members {
			shut(t, m.Layer.(*sandbox.Plugin))
		}
	}
	for n := 1; n <= swaps; n++ {
		next := version(n)
		closing(lineup, live.Swap(next))
		lineup = next
	}
	close(ended)
	wg.Wait()
	closing(lineup, live.Swap(nil))
	t.Logf("%d checks during %d swaps", checks.Load(), swaps)
}
