package layers

import (
	"context"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"assay/host/check"
	"assay/host/entity"
	"assay/host/installation"
	"assay/host/internal/terminal"
	lineups "assay/host/lineup"
	"assay/registry"
	"assay/registry/expect"
)

// known is a check.Collector of facts that a test changes between checks.
type known struct{ facts entity.Facts }

func (k *known) Collect(context.Context, string, entity.Entity, []string) (entity.Facts, []string, error) {
	return k.facts, nil, nil
}

// explainer returns a checker with the layers of the default lineup that read good evidence.
func explainer(t *testing.T) (*check.Checker, *known, registry.LineupDocument) {
	t.Helper()
	document := expect.Value(registry.DefaultLineup())(t)
	live, looked := &check.Live{}, &known{}
	live.Swap(check.NewLineup(1, lineups.ByType(document.Bias), check.Bands(document.Bands),
		members(t, "feeds", "graph", "network", "standing")))
	checker := installation.NewChecker(live, nil,
		installation.FailurePrinter{Terminal: &terminal.Terminal{Err: t.Output()}})
	checker.Collector, checker.Deadline = looked, time.Minute
	return checker, looked, document
}

// TestGoodEvidenceClears checks that each fact that speaks for an entity turns a review into an allow, with the real
// layers at their default weights. The bias is set so that without the fact the entity is just reviewed: so the test
// needs no other layers, and holds for any weights.
func TestGoodEvidenceClears(t *testing.T) {
	t.Parallel()
	checker, looked, document := explainer(t)
	bands := check.Bands(document.Bands)
	domain, email := check.Field{Type: entity.Domain, Value: "blumenwiese.de"}, check.Field{Type: entity.Email,
		Value: "jane@blumenwiese.de"}
	phone, iban := check.Field{Type: entity.Phone, Value: "+4930901820"}, check.Field{Type: entity.IBAN,
		Value: "DE89370400440532013000"}
	old := entity.Facts{"rdap.age_days": "6200", "rdap.created": "2009-12-01"}
	unchanged := entity.Facts{"rdap.age_days": "6200", "rdap.created": "2009-12-01", "rdap.unchanged_days": "412"}
	popular := entity.Facts{"feed.rank": "8410", "feed.rank_list": "Tranco"}
	good := entity.Facts{"feed.good": "Suppliers", "feed.good_match": "exact"}
	met := entity.Facts{"graph.customers": "20", "graph.blocked_share": "0", "graph.first_seen_days": "200"}
	protected := entity.Facts{"dns.mx": "mx.blumenwiese.de", "dns.spf": "fail", "dns.dmarc": "reject"}
	const layer = "standing"
	for name, tc := range map[string]struct {
		field  check.Field
		facts  entity.Facts // nil: the evidence is in the value
		points int          // that the fact is worth at least
		text   string       // that the layer says of it
	}{
		"age of a domain":         {domain, old, 45, "Registered since 2009"},
		"age of a mail domain":    {email, old, 22, "blumenwiese.de has been registered since 2009"},
		"consistency of a domain": {domain, unchanged, 55, "Name servers and registrar unchanged for 412 days"},
		"rank of a domain":        {domain, popular, 50, "On the Tranco list of popular sites (rank 8,410)"},
		"rank of a mail domain": {email, popular, 25,
			"blumenwiese.de is on the Tranco list of popular sites (rank 8,410)"},
		"good list of domains":     {domain, good, 45, "Listed as good by Suppliers"},
		"good list of addresses":   {email, good, 45, "Listed as good by Suppliers"},
		"good list of numbers":     {phone, good, 45, "Listed as good by Suppliers"},
		"good list of accounts":    {iban, good, 45, "Listed as good by Suppliers"},
		"tenure of a domain":       {domain, met, 18, "Known to at least 20 customers, for 200 days, never blocked"},
		"tenure of an address":     {email, met, 18, "Known to at least 20 customers, for 200 days, never blocked"},
		"tenure of a number":       {phone, met, 18, "Known to at least 20 customers, for 200 days, never blocked"},
		"tenure of an account":     {iban, met, 18, "Known to at least 20 customers, for 200 days, never blocked"},
		"bank code of an account":  {iban, nil, 15, "Bank code “37040044” belongs to a bank of DE"},
		"mail set-up of a domain":  {domain, protected, 8, "Has forged mail refused (DMARC reject, SPF)"},
		"mail set-up of a mailbox": {email, protected, 4, "blumenwiese.de has forged mail refused (DMARC reject, SPF)"},
	} {
		explain := func(facts entity.Facts) []check.Outcome {
			t.Helper()
			looked.facts = facts
			d := expect.Value(checker.Explain(t.Context(), tc.field, ""))(t)
			return d.Layers
		}
		without, with := explain(nil), explain(tc.facts)
		at := slices.IndexFunc(with, func(o check.Outcome) bool { return o.Layer == layer })
		if tc.facts == nil {
			without[at].Contribution = 0
		}
		bias := math.Log(float64(bands.Review)) - math.Log(float64(100-bands.Review))
		for _, o := range without {
			bias -= o.Contribution
		}
		before, after := check.Fuse(bias, bands, without), check.Fuse(bias, bands, with)
		expect.That(t, before.Verdict == check.Review && after.Verdict == check.Allow && after.Score < before.Score,
			"%s: %s (%d) without it and %s (%d) with it, want a review and an allow", name, before.Verdict,
			before.Score, after.Verdict, after.Score)
		item := slices.IndexFunc(document.Layers, func(l registry.LineupLayer) bool { return l.Layer == layer })
		worth := document.Layers[item].Weight.For(string(tc.field.Type)) * float64(tc.points) / 100
		expect.That(t, with[at].Contribution <= -worth+1e-9, "%s: the layer adds %.2f, want at most %.2f", name,
			with[at].Contribution, -worth)
		if !slices.ContainsFunc(with[at].Signals, func(s check.Signal) bool { return s.Text == tc.text }) {
			t.Errorf("%s: signals %+v, want %q", name, with[at].Signals, tc.text)
		}
	}
}

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
