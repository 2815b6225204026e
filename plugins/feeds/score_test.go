package main

import (
	"maps"
	"testing"

	"assay/host/check"
	"assay/registry/expect"
	"assay/registry/layertest"
	"assay/sdk"
)

// TestVerdicts runs the cases, and checks which verdicts the points cause when every other layer scores 0.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	suite := layertest.Open(t, ".")
	suite.RunCases(t, Score)
	suite.CheckVerdict(t, check.Block, pointsExact)
	suite.CheckVerdict(t, check.Review, pointsPage+maxAnother*pointsAnother)
	expect.That(t, suite.Verdict(t, pointsReview) != check.Allow, "%d points are allowed", pointsReview)
}

func TestSignalText(t *testing.T) {
	t.Parallel()
	facts := func(more sdk.Facts) sdk.Facts {
		all := sdk.Facts{"feed.listed": "URLhaus, CERT Polska", "feed.match": "exact",
			"feed.category": "investment_scam", "feed.days": "12", "feed.fresh": "yes"}
		maps.Copy(all, more)
		return all
	}
	for want, facts := range map[string]sdk.Facts{
		"Listed by URLhaus, CERT Polska as investment scam for 12 days": facts(nil),
		"Listed by URLhaus, CERT Polska as investment scam for 1 day, but the list is out of date": facts(sdk.Facts{
			"feed.fresh": "no", "feed.days": "1"}),
		"Listed by URLhaus, CERT Polska as investment scam for 12 days, but good according to Suppliers": facts(
			sdk.Facts{"feed.good": "Suppliers", "feed.good_match": "exact"}),
		"Mail domain listed by A as investment scam for 12 days": facts(sdk.Facts{"feed.match": "mail_domain",
			"feed.listed": "A"}),
		"Mail domain listed as disposable by A": facts(sdk.Facts{"feed.match": "mail_domain", "feed.listed": "A",
			"feed.days": "0", "feed.category": "disposable"}),
		"Belongs to a domain listed by A": facts(sdk.Facts{"feed.match": "parent", "feed.listed": "A", "feed.days": "0",
			"feed.category": ""}),
		"Has pages listed by A as malware for 3 days": facts(sdk.Facts{"feed.match": "page", "feed.listed": "A",
			"feed.category": "malware", "feed.days": "3"}),
	} {
		got := sdk.Run(Score, facts).Signals[0].Text
		expect.That(t, got == want && len(got) <= 100, "text %q, want %q", got, want)
	}
}

// FuzzScore checks that the host would accept every result, whatever the facts contain.
func FuzzScore(f *testing.F) {
	suite := layertest.Open(f, ".")
	f.Add("URLhaus", "1", "exact", "malware", "12", "Suppliers", "exact", "yes")
	f.Add("\xff\n", "-1", "page", "\u202e", "999999", "a", "parent", "no")
	f.Fuzz(func(t *testing.T, listed, lists, match, category, days, good, goodMatch, fresh string) {
		suite.Check(t, Score, sdk.Facts{
			"feed.listed": listed, "feed.lists": lists, "feed.match": match, "feed.category": category,
			"feed.days": days, "feed.good": good, "feed.good_match": goodMatch, "feed.fresh": fresh,
		})
	})
}
