package main

import (
	"maps"
	"math"
	"slices"
	"testing"

	"assay/host/entity"
	"assay/registry/expect"
	"assay/registry/layertest"
	"assay/sdk"
)

func TestCases(t *testing.T) {
	t.Parallel()
	layertest.Open(t, ".").RunCases(t, Score)
}

func TestSignalTexts(t *testing.T) {
	t.Parallel()
	type testCase struct {
		kind  entity.Type
		value string
		facts sdk.Facts
		want  []string
	}
	expect.Each(t, map[string]testCase{
		"a mailbox": {entity.Email, "jane@blumenwiese.de", sdk.Facts{
			"rdap.age_days": "6200", "rdap.unchanged_days": "412", "feed.rank": "1234567", "feed.rank_list": "Umbrella",
			"feed.good": "Suppliers", "feed.good_match": "mail_domain", "graph.customers": "10",
			"graph.blocked_share": "5", "graph.first_seen_days": "200", "dns.mx": "mx.blumenwiese.de",
			"dns.spf": "fail", "dns.dmarc": "reject",
		}, []string{
			"Known to at least 10 customers, for 200 days, rarely blocked",
			"The mail domain is listed as good by Suppliers",
			"blumenwiese.de is on the Umbrella list of popular sites (rank 1,234,567)",
			"blumenwiese.de has been registered for 16 years",
			"blumenwiese.de: name servers and registrar unchanged for 412 days",
			"blumenwiese.de has forged mail refused (DMARC reject, SPF)",
		}},
		"a domain that may have been bought": {entity.Domain, "blumenwiese.de", sdk.Facts{
			"rdap.age_days": "6200", "rdap.created": "2009-12-01", "rdap.unchanged_days": "12",
		}, []string{"Registered since 2009, but changed 12 days ago"}},
	}, func(t *testing.T, tc testCase) {
		facts := sdk.Facts(expect.Value(entity.Parse(tc.kind, tc.value, ""))(t).Facts)
		maps.Copy(facts, tc.facts)
		var got []string
		for _, s := range sdk.Run(Score, facts).Signals {
			got = append(got, s.Text)
		}
		expect.That(t, slices.Equal(got, tc.want), "texts\n%q, want\n%q", got, tc.want)
	})
}

// TestMonotone checks that more of what speaks for an entity never clears less.
func TestMonotone(t *testing.T) {
	t.Parallel()
	for _, steps := range [][]step{ages[:], unchanged[:], tenures[:]} {
		for i := 1; i < len(steps); i++ {
			expect.That(t, steps[i].from < steps[i-1].from && steps[i].points > steps[i-1].points,
				"%v after %v, want a lower number and fewer points", steps[i], steps[i-1])
		}
	}
	for i := 1; i < len(ranks); i++ {
		expect.That(t, ranks[i].from < ranks[i-1].from && ranks[i].points < ranks[i-1].points,
			"%v after %v, want a better rank and more points", ranks[i], ranks[i-1])
	}
}

// FuzzScore checks that the host would accept every result, whatever the facts contain.
func FuzzScore(f *testing.F) {
	suite := layertest.Open(f, ".")
	f.Add("domain", "shop", "blumenwiese.de", "6200", "2009-12-01", "412", "8410", "Tranco", "Suppliers", "exact", "20",
		"0", "200")
	f.Add("email", "\xff", "\u202e", "999999999999999999", "\x00\x00\x00\x00", "-1", "1000000000", "assay:", "\ufe0f",
		"parent", "1000000000", "-1", "1000000000")
	f.Fuzz(func(t *testing.T, kind, below, domain, age, created, unchanged, rank, list, good, match, customers, share,
		days string) {
		got := suite.Check(t, Score, sdk.Facts{
			"entity.type": kind, "domain.subdomain": below, "domain.registrable": domain, "domain.suffix_kind": "icann",
			"rdap.age_days": age, "rdap.created": created, "rdap.unchanged_days": unchanged, "feed.rank": rank,
			"feed.rank_list": list, "feed.good": good, "feed.good_match": match, "graph.customers": customers,
			"graph.blocked_share": share, "graph.first_seen_days": days, "dns.mx": "mx", "dns.spf": "fail",
			"dns.dmarc": "reject",
		})
		for _, s := range got.Signals {
			expect.That(t, s.Points <= 0, "%d points against the entity: %s", s.Points, s.Text)
		}
	})
}

// TestLabelledAges compares the points of old registrations with their log-likelihood ratio: reported domains against
// .fr, of which 42.9% had been registered for 3.25 years or more in March 2014 (Afnic, French Domain Industry Report).
// Sites that people visit are older: those among the most popular are spread evenly over 30 years (Lavasoft, Detecting
// Malicious URLs). So points for ten years and more lie between the two ratios.
func TestLabelledAges(t *testing.T) {
	t.Parallel()
	reported := layertest.ReportedAges(t)
	ratio := func(days int, honest float64) float64 {
		n := 0
		for _, age := range reported {
			if age >= days {
				n++
			}
		}
		r := math.Log(float64(n) / float64(len(reported)) / honest)
		t.Logf("%d days or more: %d of %d, log-likelihood ratio %.2f", days, n, len(reported), r)
		return r
	}
	const pointsPerLogOdd = 25
	registered := ratio(1187, 0.429)
	if worth := float64(points(ages[:], 5*365)) / pointsPerLogOdd; math.Abs(worth-registered) > 0.2 {
		t.Errorf("five years are worth %.2f, the log-likelihood ratio is %.2f", worth, registered)
	}
	visited := ratio(3650, 2.0/3)
	for _, days := range []int{10 * 365, 20 * 365} {
		if worth := float64(points(ages[:], days)) / pointsPerLogOdd; worth > registered || worth < visited {
			t.Errorf("%d days are worth %.2f, want %.2f to %.2f", days, worth, visited, registered)
		}
	}
}

// TestLabelledBanks compares the points of a bank code in use with their log-likelihood ratio among labelled IBANs.
func TestLabelledBanks(t *testing.T) {
	t.Parallel()
	var rows, inUse [2]float64
	type row struct {
		Value string
		Label int
	}
	layertest.Rows(t, "train_ibans.jsonl", func(row row) {
		e, err := entity.Parse(entity.IBAN, row.Value, "")
		if err != nil || e.Facts["iban.bank"] == "" || e.Facts["iban.check"] != "ok" ||
			e.Facts["iban.national"] == "wrong" {
			return
		}
		rows[row.Label]++
		inUse[row.Label] += float64(len(sdk.Run(Score, sdk.Facts(e.Facts)).Signals))
	})
	ratio := math.Log(inUse[1] / rows[1] / (inUse[0] / rows[0]))
	t.Logf("in use: %v of %v honest, %v of %v bad; log-likelihood ratio %.2f", inUse[0], rows[0], inUse[1], rows[1],
		ratio)
	worth := float64(pointsBank) / 25
	expect.That(t, worth >= ratio, "a bank code in use is worth %.2f, the log-likelihood ratio is %.2f", worth, ratio)
}
