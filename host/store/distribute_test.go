package store

import (
	"testing"
)

func noProgress(int, int, string) {}

func TestDistributeNeedsCitus(t *testing.T) {
	t.Parallel()
	if onCitus() {
		t.Skip("this test needs a database without Citus")
	}
	for _, dry := range []bool{false, true} {
		steps, err := newStore(t, nil).Distribute(t.Context(), dry, noProgress)
		wantError(t, "distributing without Citus", err, ErrNoCitus)
		expect(t, "steps", len(steps), 0)
	}
}
