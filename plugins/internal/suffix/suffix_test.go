package suffix

import (
	"testing"

	"assay/plugins/internal/wordlist"
	"assay/registry/expect"
	"assay/sdk"
)

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
	for _, list := range []string{risky, neutralSuffixes, tenantServices} {
		expect.Equal(t, "the list cannot be searched", wordlist.Fault(list), "")
	}
	for name, tt := range map[string]struct {
		has             func(string) bool
		members, others []string
	}{
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
