//go:build !race

package meter

// With the race detector, compiling the guest takes many times longer, and nothing here is concurrent.

import (
	"slices"
	"testing"
)

func TestBehaviourOfGo(t *testing.T) {
	t.Parallel()
	wasm := goGuest(t)
	if m := mustInstrument(t, wasm); len(m.Unrestored) != 0 {
		t.Errorf("unrestored: %v", m.Unrestored)
	}
	sameBehaviour(t, 5000, wasm, nil, slices.Concat(calls("score", 1, 2), calls("work", 10), calls("loop", 0, 5000)))
}

func TestFuelOfGoIsAnUpperBound(t *testing.T) {
	t.Parallel()
	isUpperBound(t, goGuest(t), guestCall{"work", []uint64{20}}, 1.3)
}
