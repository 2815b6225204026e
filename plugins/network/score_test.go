package main

import (
	"maps"
	"math"
	"strings"
	"testing"

	"assay/host/check"
	"assay/registry"
	"assay/registry/expect"
	"assay/registry/layertest"
	"assay/sdk"
)

// TestVerdicts runs the cases, and checks that what a person can verify reaches review alone, and several lists block.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	suite := layertest.Open(t, ".")
	suite.RunCases(t, Score)
	layertest.Abstains(t, Score, map[string]sdk.Facts{
		"a domain": layertest.Facts(t, registry.Case{Type: "domain", Value: "example.com"}),
		"an email": layertest.Facts(t, registry.Case{Type: "email", Value: "jane@example.com"}),
	})
	suite.CheckVerdict(t, check.Block, listedMore.points)
	for _, points := range []int{noDomain.points, refusesMail.points, held.points, listed.points} {
		expect.That(t, suite.Verdict(t, points) != check.Allow, "%d points are allowed", points)
	}
	suite.CheckVerdict(t, check.Allow, parkedMail.points)
	suite.CheckVerdict(t, check.Review, ages[0].points+parkedMail.points+forgeable.points)
}

// positive returns the sum of the points that speak against an entity.
func positive(r sdk.Result) (sum int) {
	for _, s := range r.Signals {
		sum += max(s.Points, 0)
	}
	return sum
}

// TestAbsentFactsAreNotRisky checks that dropping a fact of a case never adds points against it.
func TestAbsentFactsAreNotRisky(t *testing.T) {
	t.Parallel()
	for _, c := range layertest.Open(t, ".").Cases {
		all := layertest.Facts(t, c)
		limit := positive(sdk.Run(Score, all))
		for name := range c.Facts {
			less := maps.Clone(all)
			delete(less, name)
			got := positive(sdk.Run(Score, less))
			expect.That(t, got <= limit, "%s scores %d points without %s, %d with it", c.Name, got, name, limit)
		}
	}
}

// TestOlderScoresLess checks that points fall as a registration gets older.
func TestOlderScoresLess(t *testing.T) {
	t.Parallel()
	for i := 1; i < len(ages); i++ {
		expect.That(t, ages[i].days > ages[i-1].days && ages[i].points < ages[i-1].points,
			"%v follows %v, want more days and fewer points", ages[i], ages[i-1])
	}
}

// TestEntriesAreFound checks that lookups find every entry of the lists, and nothing else.
func TestEntriesAreFound(t *testing.T) {
	t.Parallel()
	for name, list := range map[string][]company{"registrars": registrars[:], "nameServers": nameServers[:],
		"systems": systems[:]} {
		for _, entry := range list {
			if n := points(list, entry.name); n != entry.points || n < 2 || n > 6 {
				t.Errorf("%s: %s has %d points, want %d, of 2 to 6", name, entry.name, n, entry.points)
			}
			expect.That(t, name != "registrars" || registrarPoints(strings.ToUpper(entry.name)+" Ltd.") == entry.points,
				"%s is not found", entry.name)
		}
	}
	for _, list := range [][]string{parkers[:], suspenders[:]} {
		for _, name := range list {
			expect.Equal(t, "is not found", served(list, "ns1.example ns1.x."+name+" ns2.example"), name)
		}
	}
	for _, name := range []string{"", " ", ":", "dynadot:6", "dynado", "ynadot", "dynadot "} {
		n := points(registrars[:], name)
		expect.That(t, n == 0, "%q has %d points, want 0", name, n)
	}
	for _, name := range []string{"", "Dynado", "Another Dynadot", "-"} {
		n := registrarPoints(name)
		expect.That(t, n == 0, "the registrar %q has %d points, want 0", name, n)
	}
}

func FuzzScore(f *testing.F) {
	suite := layertest.Open(f, ".")
	f.Add("example.com", "ok", "ok", "loopback", "a.b", "ns1.sedoparking.com", "12", "null", "none", "3",
		"2026-05-01", "Gname", "client_hold", "AS1 AS2", "z=1 y=2")
	f.Add(strings.Repeat("x", 300), "nxdomain", "nxdomain", "\xff", "\u202e", strings.Repeat("a.b ", 99),
		"99999999999999999999", "x", "pass_all", "-1", "\x00", "\xff", "pending_delete", "AS205759", "=")
	f.Fuzz(func(t *testing.T, host, status, zone, special, alias, ns, networks, mx, policy, age, created,
		registrar, states, asn, listed string) {
		for _, kind := range []string{"domain", "email"} {
			suite.Check(t, Score, sdk.Facts{
				"entity.type": kind, "domain.ascii": host, "domain.registrable": host, "dns.status": status,
				"dns.zone": zone, "dns.special": special, "dns.alias": alias, "dns.ns": ns, "dns.networks": networks,
				"dns.mx": mx, "dns.spf": policy, "dns.dmarc": policy, "rdap.found": "yes",
				"rdap.age_days": age, "rdap.created": created, "rdap.registrar": registrar, "rdap.status": states,
				"net.asn": asn, "net.listed": listed, "net.domain_listed": listed,
			})
		}
	})
}

// TestLabelledAges compares the points of young registrations with their log-likelihood ratio: reported domains against
// a zone in which 198,444 of 3,824,289 domains are less than a quarter old, evenly (.eu in EURid's report on the first
// quarter of 2018).
func TestLabelledAges(t *testing.T) {
	t.Parallel()
	reported := layertest.ReportedAges(t)
	for _, c := range []struct{ from, to, points int }{
		{0, 31, ages[1].points}, {31, 91, ages[2].points}, {91, 181, ages[3].points}, {181, 366, ages[4].points},
	} {
		share, n := 198_444.0/3_824_289*float64(c.to-c.from)/90, 0
		for _, days := range reported {
			if days >= c.from && days < c.to {
				n++
			}
		}
		ratio := math.Log(float64(n) / float64(len(reported)) / share)
		t.Logf("%d to %d days: %d of %d, log-likelihood ratio %.2f, points %d", c.from, c.to, n, len(reported), ratio,
			c.points)
		worth := float64(c.points) / 11
		expect.That(t, math.Abs(worth-ratio) <= 0.6,
			"%d to %d days: %d points are worth %.2f, the log-likelihood ratio is %.2f", c.from, c.to, c.points, worth,
			ratio)
	}
}
