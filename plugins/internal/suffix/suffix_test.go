package suffix

import (
	"strings"
	"testing"

	"golang.org/x/net/publicsuffix"

	"assay/plugins/internal/wordlist"
	"assay/registry/expect"
	"assay/sdk"
)

func TestTypoPoints(t *testing.T) {
	t.Parallel()
	for suffix, want := range map[string]int{"cm": 75, "om": 75, "ne": 75, "co": 60, "com": 0, "de": 0, "": 0} {
		expect.Equal(t, "TypoPoints of "+suffix, TypoPoints(suffix), want)
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	type testCase struct {
		facts sdk.Facts
		want  Host
		ok    bool
	}
	expect.Each(t, map[string]testCase{
		"plain": {sdk.Facts{"domain.ascii": "blumen.co.uk", "domain.registrable": "blumen.co.uk",
			"domain.suffix_kind": "icann"}, Host{ASCII: "blumen.co.uk", Registrable: "blumen.co.uk", Suffix: "co.uk",
			TLD: "uk", Name: "blumen"}, true},
		"below": {sdk.Facts{"domain.ascii": "a.b.blumen.de", "domain.registrable": "blumen.de"},
			Host{ASCII: "a.b.blumen.de", Registrable: "blumen.de", Suffix: "de", TLD: "de", Name: "blumen",
				Subdomain: "a.b"}, true},
		"internationalised": {sdk.Facts{"domain.ascii": "xn--a-1.xn--b-1.de", "domain.registrable": "xn--b-1.de",
			"domain.name": "ü", "domain.subdomain": "ö"}, Host{ASCII: "xn--a-1.xn--b-1.de", Registrable: "xn--b-1.de",
			Suffix: "de", TLD: "de", Name: "ü", Subdomain: "ö"}, true},
		"shared": {sdk.Facts{"domain.ascii": "blumen.github.io", "domain.registrable": "blumen.github.io",
			"domain.suffix_kind": "private"}, Host{ASCII: "blumen.github.io", Registrable: "blumen.github.io",
			Suffix: "github.io", TLD: "io", Name: "blumen", Private: true}, true},
		"free host": {sdk.Facts{"domain.ascii": "a.blumen.weebly.com", "domain.registrable": "weebly.com",
			"domain.suffix_kind": "icann"}, Host{ASCII: "a.blumen.weebly.com", Registrable: "blumen.weebly.com",
			Suffix: "weebly.com", TLD: "com", Name: "blumen", Subdomain: "a", Private: true}, true},
		"public suffix": {sdk.Facts{"domain.ascii": "github.io"}, Host{ASCII: "github.io"}, false},
		"nothing known": {sdk.Facts{}, Host{}, false},
	}, func(t *testing.T, tt testCase) {
		var got Host
		var ok bool
		sdk.Run(func(c *sdk.Check) sdk.Outcome {
			got, ok = Read(c)
			return sdk.Scored
		}, tt.facts)
		expect.That(t, got == tt.want && ok == tt.ok, "Read(%v) = %+v, %v", tt.facts, got, ok)
	})
}

func TestLists(t *testing.T) {
	t.Parallel()
	for _, list := range []string{risky, neutralSuffixes, siteBuilders, tenantServices} {
		expect.Equal(t, "the list cannot be searched", wordlist.Fault(list), "")
	}
	for _, host := range strings.Fields(siteBuilders + tenantServices) {
		registrable := expect.Value(publicsuffix.EffectiveTLDPlusOne("site." + host))(t)
		expect.Equal(t, "the registrable domain of a site", registrable, host) // nothing else finds the entry
	}
	expect.That(t, !IsShared("weebly.com", "") && !IsShared("zendesk.com", "www"), "a service's own site is shared")
	for name, tt := range map[string]struct {
		has             func(string) bool
		members, others []string
	}{
		"IsShared": {func(host string) bool { return IsShared(host, "blumenwiese") },
			[]string{"weeblysite.com", "blogspot.de", "blogspot.co.uk", "zendesk.com"}, []string{"example.com", "blog.com", ""}},
		"HasTenants": {HasTenants, []string{"zendesk.com"}, []string{"endesk.com", "google.com", ""}},
		"IsRisky":    {IsRisky, []string{"cyou", "xyz"}, []string{"you", "to", "com", "co.uk", ""}},
		"Neutral": {Neutral, []string{"github.io", "eu-west-1.elb.amazonaws.com"},
			[]string{"s3.amazonaws.com", "weebly.com", "github.io gitlab.io", "hub.io", ""}},
		"Restricted": {Restricted, []string{"gov", "gov.uk", "gob.es", "ac.at", "int", "go.jp"},
			[]string{"ac", "government", "co.uk", ""}},
	} {
		for _, member := range tt.members {
			expect.That(t, tt.has(member), "%s lacks %q", name, member)
		}
		for _, other := range tt.others {
			expect.That(t, !tt.has(other), "%s has %q", name, other)
		}
	}
}

func TestSplitSite(t *testing.T) {
	t.Parallel()
	for what, tt := range map[string]struct {
		registrable, subdomain string
		name, rest             string
		ok                     bool
	}{
		"site":             {"weebly.com", "blumenwiese", "blumenwiese", "", true},
		"blog":             {"wordpress.com", "blumenwiese", "blumenwiese", "", true},
		"deeper":           {"weebly.com", "a.b.blumenwiese", "blumenwiese", "a.b", true},
		"builder itself":   {"weebly.com", "", "", "", false},
		"its home page":    {"weebly.com", "www", "www", "", false},
		"other domain":     {"example.com", "blumenwiese", "", "", false},
		"no domain":        {"", "blumenwiese", "", "", false},
		"two entries":      {"weebly.com glitch.me", "a", "", "", false},
		"empty label":      {"weebly.com", "a.", "", "a", false},
		"part of an entry": {"eebly.com", "a", "", "", false},
	} {
		name, rest, ok := SplitSite(tt.registrable, tt.subdomain)
		expect.That(t, name == tt.name && rest == tt.rest && ok == tt.ok, "%s: SplitSite(%q, %q) = %q, %q, %v", what,
			tt.registrable, tt.subdomain, name, rest, ok)
	}
}
