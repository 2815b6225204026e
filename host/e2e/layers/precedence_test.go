package layers

import (
	"maps"
	"testing"

	"assay/host/check"
	"assay/host/entity"
	"assay/registry/expect"
)

// TestPrecedence checks in the default lineup that popularity and age, which a site on a shared host has from its host,
// do not clear a fresh listing of that very site, and that they do clear a listing that expired.
func TestPrecedence(t *testing.T) {
	t.Parallel()
	checker, looked, _ := explainer(t)
	good := entity.Facts{"feed.rank": "120", "feed.rank_list": "Tranco", "rdap.age_days": "6200",
		"rdap.created": "2009-12-01", "rdap.unchanged_days": "412", "graph.customers": "50", "graph.blocked_share": "0",
		"graph.first_seen_days": "400"}
	listed := func(fresh string) entity.Facts {
		facts := maps.Clone(good)
		maps.Copy(facts, entity.Facts{"feed.listed": "URLhaus", "feed.lists": "1", "feed.match": "exact",
			"feed.days": "200", "feed.fresh": fresh})
		return facts
	}
	for _, field := range []check.Field{
		{Type: entity.Domain, Value: "blumenwiese.de"}, {Type: entity.Email, Value: "jane@blumenwiese.de"},
		{Type: entity.Phone, Value: "+4930901820"}, {Type: entity.IBAN, Value: "DE89370400440532013000"},
	} {
		score := func(facts entity.Facts) *check.Decision {
			looked.facts = facts
			d := expect.Value(checker.Explain(t.Context(), field, ""))(t)
			return d
		}
		d := score(good)
		expect.That(t, d.Verdict == check.Allow, "%s, not listed: %s (%d)", field.Type, d.Verdict, d.Score)
		if d := score(listed("yes")); d.Verdict != check.Block {
			t.Errorf("%s, freshly listed: %s (%d), want a block", field.Type, d.Verdict, d.Score)
		}
		// Numbers and accounts have neither an age nor a rank, so little can clear them.
		if d := score(listed("no")); d.Verdict == check.Block && field.Type == entity.Domain {
			t.Errorf("%s, on a list that expired: %s (%d), want it cleared", field.Type, d.Verdict, d.Score)
		}
	}
}
