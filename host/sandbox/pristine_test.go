package sandbox

import (
	"context"
	"testing"

	"assay/host/check"
	"assay/registry"
)

// Guests that answer with what they find of the call before: the points are 0 when nothing of it is left.
func rememberingGuests() map[string]*guest {
	const at = 4096
	inMemory := newGuest()
	inMemory.scoring(
		i32c(at), load(), inMemory.text(codeOne), inMemory.text("What the last call left"), invoke(callSignal),
		i32c(at), i32c(50), store(), i32c(0))
	inSize := newGuest() // memory.grow returns the size before, in pages; the guest begins with one
	inSize.scoring(
		i32c(1), growMemory(), i32c(-1), add(), inSize.text(codeOne), inSize.text("How much the last call grew"),
		invoke(callSignal), i32c(0))
	return map[string]*guest{"in its memory": inMemory, "in its memory's size": inSize}
}

// TestNothingIsLeftForTheNextCall: of an instance that is put back, and of nothing else.
func TestNothingIsLeftForTheNextCall(t *testing.T) {
	t.Parallel()
	open := map[string]func(*Sandbox, context.Context, registry.Module) (*Plugin, error){"put back": (*Sandbox).Open,
		"shared": (*Sandbox).OpenShared}
	for way, open := range open {
		for name, g := range rememberingGuests() {
			t.Run(way+", "+name, func(t *testing.T) {
				t.Parallel()
				p, err := open(sandboxOf(t, 1), t.Context(), pack(t, g.encode(), manifest()))
				if err != nil {
					t.Fatal(err)
				}
				defer closePlugin(t, p)
				var left bool
				for range 3 {
					result, err := p.Score(t.Context(), facts("example.org", ""))
					if err != nil {
						t.Fatal(err)
					}
					left = left || result.Score != 0
				}
				if shared := way == "shared"; left != shared {
					t.Errorf("a call finds what the one before left: %v", left)
				}
			})
		}
	}
}

// TestFuelIsTheSameEveryTime: on an instance that is put back, whatever ran before.
func TestFuelIsTheSameEveryTime(t *testing.T) {
	t.Parallel()
	g := newGuest()
	p := opened(t, g.scoring(times(1000, i32c(1), drop()), g.signal(10, codeOne, "Because"), i32c(0)))
	var first int64
	for i := range 20 {
		result, err := p.Score(t.Context(), facts("example.org", ""))
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = result.Fuel
		}
		if result.Fuel != first || result.Fuel < 1000 {
			t.Fatalf("call %d burned %d, the first %d", i, result.Fuel, first)
		}
	}
}

// TestFuelCeiling ends a call by what it burns, not by the clock.
func TestFuelCeiling(t *testing.T) {
	t.Parallel()
	work := func() *guest {
		g := newGuest()
		return g.scoring(times(100_000, i32c(1), drop()), i32c(0))
	}
	endless := newGuest()
	endless.scoring(forever(), i32c(0))
	for name, c := range map[string]struct {
		guest *guest
		most  int64
		lost  check.FailureReason
	}{
		"an endless loop":       {endless, 1_000_000, check.Exhausted},
		"a little too much":     {work(), 500_000, check.Exhausted},
		"enough":                {work(), 2_000_000, ""},
		"no ceiling, just time": {work(), 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := manifest()
			m["max_fuel"] = c.most
			p := openIn(t, sandboxOf(t, 1), pack(t, c.guest.encode(), m))
			_, err := p.Score(t.Context(), facts("example.org", ""))
			if c.lost == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if lost := lossOf(t, err); lost.Reason != c.lost {
				t.Errorf("lost by %v, want %s", lost, c.lost)
			}
		})
	}
}
