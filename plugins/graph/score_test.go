package main

import (
	"testing"

	"assay/host/check"
	"assay/registry/expect"
	"assay/registry/layertest"
	"assay/sdk"
)

// TestVerdicts runs the cases, and checks that the layer alone never reaches review.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	suite := layertest.Open(t, ".")
	suite.RunCases(t, Score)
	suite.CheckVerdict(t, check.Allow, maxBlocked+maxNeighbours)
}

// TestMonotone checks that more customers never lower the score, and that blocked checks alone stay within their limit.
func TestMonotone(t *testing.T) {
	t.Parallel()
	last := 0
	for _, n := range []string{"3", "5", "10", "20", "50", "100", "1000"} {
		got := sdk.Run(Score, sdk.Facts{"graph.customers": n, "graph.blocked_share": "100"}).Score
		expect.That(t, got >= last, "%s customers score %d, fewer customers score %d", n, got, last)
		last = got
	}
	expect.That(t, last <= maxBlocked, "blocked checks alone score %d, want at most %d", last, maxBlocked)
}

// TestTextOfReports checks that a report of fraud is not called a block.
func TestTextOfReports(t *testing.T) {
	t.Parallel()
	for reported, want := range map[string]string{
		"0":  "Blocked in 80% of the checks of at least 5 customers within 90 days",
		"60": "Blocked or reported as fraud in 80% of the checks of at least 5 customers within 90 days",
		"80": "Reported as fraud by 80% of at least 5 customers within 90 days",
	} {
		got := sdk.Run(Score, sdk.Facts{"graph.customers": "5", "graph.blocked_share": "80",
			"graph.reported_share": reported})
		expect.That(t, len(got.Signals) == 1 && got.Signals[0].Text == want, "reported by %s%%: %+v, want %q", reported,
			got.Signals, want)
	}
}

// FuzzScore checks that the host would accept every result, whatever the facts contain.
func FuzzScore(f *testing.F) {
	suite := layertest.Open(f, ".")
	f.Add("domain", "3", "100", "5", "100")
	f.Add("\xff", "999999999999999999", "1000000000", "1000000000", "1000000000")
	f.Fuzz(func(t *testing.T, kind, customers, share, neighbours, risk string) {
		suite.Check(t, Score, sdk.Facts{
			"entity.type": kind, "graph.customers": customers, "graph.blocked_share": share,
			"graph.neighbours": neighbours, "graph.neighbour_risk": risk,
		})
	})
}
