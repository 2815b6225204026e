package main

import (
	"testing"

	"assay/host/check"
	"assay/registry/layertest"
	"assay/sdk"
)

func TestCases(t *testing.T) {
	t.Parallel()
	layertest.Open(t, ".").RunCases(t, Score)
}

// TestVerdicts checks the verdicts that the points are meant to cause when every other layer scores 0.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	suite := layertest.Open(t, ".")
	suite.CheckVerdict(t, check.Block, pointsExact+pointsAnother, pointsMailDomain+pointsAnother)
	suite.CheckVerdict(t, check.Review, pointsExact, pointsMailDomain, pointsParent+pointsAnother)
	suite.CheckVerdict(t, check.Allow, pointsParent, pointsDisposable, pointsPage+maxAnother*pointsAnother)
}

func TestSignalText(t *testing.T) {
	t.Parallel()
	got := sdk.Run(Score, sdk.Facts{
		"feed.listed": "URLhaus, CERT Polska", "feed.lists": "2", "feed.match": "exact",
		"feed.category": "investment_scam", "feed.days": "12",
	})
	if want := "listed by URLhaus, CERT Polska as investment scam, for 12 days"; got.Signals[0].Text != want {
		t.Errorf("text %q, want %q", got.Signals[0].Text, want)
	}
}

// FuzzScore checks that the host would accept every result, whatever the facts contain.
func FuzzScore(f *testing.F) {
	suite := layertest.Open(f, ".")
	f.Add("URLhaus", "1", "exact", "malware", "12", "Tranco", "exact")
	f.Add("\xff\n", "-1", "page", "\u202e", "999999", "a", "parent")
	f.Fuzz(func(t *testing.T, listed, lists, match, category, days, good, goodMatch string) {
		suite.CheckResult(t, sdk.Run(Score, sdk.Facts{
			"feed.listed": listed, "feed.lists": lists, "feed.match": match, "feed.category": category,
			"feed.days": days, "feed.good": good, "feed.good_match": goodMatch,
		}))
	})
}
