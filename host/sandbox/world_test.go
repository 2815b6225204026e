package sandbox

import (
	"strings"
	"testing"

	"assay/host/check"
	"assay/registry"
)

// A layer built by Go sees a clock that stands still, randomness that is none, and nothing else of the world: in every
// call of every instance the same.
func TestGuestsSeeNothingOfTheWorld(t *testing.T) {
	t.Parallel()
	wasm, err := registry.CompileGo(t.Context(), "testdata/oracle")
	if err != nil {
		t.Fatal(err)
	}
	m, err := registry.OpenModule(wasm)
	if err != nil {
		t.Fatal(err)
	}
	box := sandboxOf(t, 1)
	type answer struct {
		seen string
		fuel int64
	}
	var answers [2][3]answer
	for plugin := range answers { // each with an instance of its own
		p := openIn(t, box, m)
		for call := range answers[plugin] {
			result, err := p.Score(t.Context(), facts("example.org", ""))
			if err != nil {
				t.Fatal(lossOf(t, err).Output, err)
			}
			if len(result.Signals) != 1 {
				t.Fatalf("%+v", result)
			}
			answers[plugin][call] = answer{result.Signals[0].Text, result.Fuel}
			const want = "time 2000-01-01T00:00:00Z, passed 0s, environment 0, map order "
			if !strings.HasPrefix(result.Signals[0].Text, want) {
				t.Errorf("seen %q, want %q", result.Signals[0].Text, want)
			}
		}
	}
	for _, same := range answers {
		for _, got := range same {
			if got != answers[0][0] {
				t.Errorf("answers %v, want the same in every call of every instance", answers)
			}
		}
	}
}

// The same module asked the same gives the same, also in what it burns.
func TestAnswersAreDeterministic(t *testing.T) {
	t.Parallel()
	g := newGuest()
	p := opened(t, g.scoring(times(5000, i32c(1), drop()), g.signal(10, codeOne, "Because"), i32c(0)))
	var first check.Result
	for i := range 50 {
		result, err := p.Score(t.Context(), facts("example.org", ""))
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = result
		}
		if result.Fuel != first.Fuel || result.Score != first.Score || result.Fuel < 5000 {
			t.Fatalf("call %d: score %d for %d units, the first %d for %d", i, result.Score, result.Fuel, first.Score,
				first.Fuel)
		}
	}
}
