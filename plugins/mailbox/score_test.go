package main

import (
	"strings"
	"testing"

	"assay/plugins/internal/wordlist"
	"assay/registry/expect"
	"assay/registry/layertest"
	"assay/sdk"
)

func TestCases(t *testing.T) {
	t.Parallel()
	layertest.Open(t, ".").RunCases(t, Score)
	layertest.Abstains(t, Score, map[string]sdk.Facts{"email": {"entity.type": "email", "email.local": "info"}})
}

// TestListsSearchable checks that binary search finds every word of the lists.
func TestListsSearchable(t *testing.T) {
	t.Parallel()
	for name, list := range map[string]string{"roles": roles, "groupWords": groupWords} {
		if fault := wordlist.Fault(list); fault != "" || list != strings.ToLower(list) {
			t.Errorf("%s is out of order at %q, or has upper-case letters", name, fault)
		}
	}
}

// TestRandomCountsMoreAtUnlistedDomains compares a machine-made name at a provider and at a domain on no list.
func TestRandomCountsMoreAtUnlistedDomains(t *testing.T) {
	t.Parallel()
	added := func(facts sdk.Facts) int {
		facts["email.local"] = "jane.doe"
		person := sdk.Run(Score, facts)
		facts["email.local"] = "x8k2p9q4z"
		return sum(sdk.Run(Score, facts)) - sum(person)
	}
	provider := added(sdk.Facts{"email.domain": "gmx.de", "email.provider": "gmx"})
	unlisted := added(sdk.Facts{"email.domain": "fastgift24.xyz", "domain.suffix": "xyz"})
	expect.That(t, provider > 0 && unlisted > provider, "%d points at a provider and %d elsewhere, want more there",
		provider, unlisted)
}

func sum(r sdk.Result) (n int) {
	for _, s := range r.Signals {
		n += s.Points
	}
	return n
}

func FuzzScore(f *testing.F) {
	suite := layertest.Open(f, ".")
	f.Add("jane.doe", "mailinator.com", "", "com")
	f.Add("x8k2p9q4z", "gmail.com", "google", "com")
	f.Add("www.\xff\u202e", "gmai1l.\x00con", "", "\x00con")
	f.Add(strings.Repeat("a1", 32), "a-b.c", "qq", "c")
	f.Fuzz(func(t *testing.T, local, host, provider, suffix string) {
		suite.Check(t, Score, sdk.Facts{
			"email.local": local, "email.domain": host, "email.provider": provider, "domain.suffix": suffix,
		})
	})
}

func BenchmarkScore(b *testing.B) { layertest.Open(b, ".").Benchmark(b, Score) }
