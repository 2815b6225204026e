package starter

import (
	"testing"

	"assay/sdk"
)

// These tests run natively, within a second. `assay plugin test` runs cases.jsonl in the sandbox.
func TestScore(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		facts  sdk.Facts
		score  int
		text   string // of the first signal
		threat sdk.Threat
	}{
		{"few digits", sdk.Facts{"domain.registrable": "shop24.de"}, 0, "", ""},
		{"digits", sdk.Facts{"domain.registrable": "shop20245.com"}, 20, "Contains the number “20245”", ""},
		{"new", sdk.Facts{"domain.registrable": "a.de", "rdap.age_days": "1"}, 30, "Registered 1 day ago", ""},
		{"not so new", sdk.Facts{"domain.registrable": "a.de", "rdap.age_days": "30"}, 0, "", ""},
		{"both", sdk.Facts{"domain.registrable": "1-2024.com", "rdap.age_days": "0"}, 50,
			"Contains the number “2024”", sdk.Scam},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := sdk.Run(Score, c.facts)
			if got.Refused != nil || got.Outcome != sdk.Scored || got.Score != c.score || got.Threat != c.threat {
				t.Errorf("got %+v, want the score %d and the threat %q", got, c.score, c.threat)
			}
			if len(got.Signals) > 0 && got.Signals[0].Text != c.text {
				t.Errorf("the text is %q, want %q", got.Signals[0].Text, c.text)
			}
		})
	}
	if got := sdk.Run(Score, sdk.Facts{}); got.Outcome != sdk.Abstained {
		t.Errorf("without facts, got %+v", got)
	}
}
