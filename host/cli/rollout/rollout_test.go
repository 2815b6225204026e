package rollout_test

import (
	"testing"

	"assay/host/cli/rollout"
)

// A change is forced by an operator who says why.
func TestForced(t *testing.T) {
	t.Parallel()
	for reason, forced := range map[string]bool{"": false, " ": false, "a test": true} {
		if rollout.Forced(true, reason) != forced || rollout.Forced(false, reason) {
			t.Errorf("the reason %q", reason)
		}
	}
}

// A share is in whole percent.
func TestPercent(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]rollout.Percent{"5%": 5, " 50% ": 50, "1%": 1, "0%": 0, "51%": 0, "5": 0,
		"0.5%": 0, "": 0, "-1%": 0} {
		var p rollout.Percent
		if err := p.UnmarshalText([]byte(text)); (err == nil) != (want != 0) || err == nil && p != want {
			t.Errorf("%q is %v: %v", text, p, err)
		}
	}
}
