package rollout_test

import (
	"testing"

	"assay/host/cli/rollout"
	"assay/registry/expect"
)

// A change is forced by an operator who says why.
func TestForced(t *testing.T) {
	t.Parallel()
	for reason, forced := range map[string]bool{"": false, " ": false, "a test": true} {
		expect.That(t, rollout.Forced(true, reason) == forced && !rollout.Forced(false, reason), "the reason %q",
			reason)
	}
}

// A share is in whole percent.
func TestPercent(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]rollout.Percent{"5%": 5, " 50% ": 50, "1%": 1, "0%": 0, "51%": 0, "5": 0,
		"0.5%": 0, "": 0, "-1%": 0} {
		var p rollout.Percent
		err := p.UnmarshalText([]byte(text))
		expect.That(t, (err == nil) == (want != 0) && (err != nil || p == want), "%q is %v: %v", text, p, err)
	}
}
