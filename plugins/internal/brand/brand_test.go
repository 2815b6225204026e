package brand

import (
	"slices"
	"strings"
	"testing"

	"assay/plugins/internal/suffix"
	"assay/plugins/internal/wordlist"
	"assay/registry"
	"assay/registry/expect"
	"assay/registry/layertest"
	"assay/sdk"
)

// hostOf returns the host of a domain as layers read it.
func hostOf(t *testing.T, domain string) *suffix.Host {
	t.Helper()
	var h suffix.Host
	sdk.Run(func(c *sdk.Check) sdk.Outcome {
		h, _ = suffix.Read(c)
		return sdk.Scored
	}, layertest.Facts(t, registry.Case{Type: "domain", Value: domain}))
	return &h
}

func TestRelationTo(t *testing.T) {
	t.Parallel()
	b := Brand{Key: "blumen", Domains: "blumen.* blumen-shop.com blumen-*.de shop.example.net"}
	for name, tt := range map[string]struct {
		host string
		want Relation
	}{
		"any suffix":          {"blumen.co.uk", Owned},
		"risky suffix":        {"blumen.top", Unrelated},
		"typo of a suffix":    {"blumen.cm", Unrelated},
		"shared suffix":       {"blumen.weebly.com", Unrelated},
		"open suffix":         {"blumen.wine", Unrelated},
		"small country":       {"blumen.ge", Unrelated},
		"sold suffix":         {"blumen.cc", Unrelated},
		"French territory":    {"blumen.re", Unrelated},
		"country's script":    {"blumen.xn--fiqs8s", Owned},
		"listed":              {"blumen-shop.com", Owned},
		"local branch":        {"blumen-musterstadt.de", Plausible},
		"full name":           {"shop.example.net", Owned},
		"longer name":         {"blumenwiese.com", Unrelated},
		"suffix of the label": {"xblumen.com", Unrelated},
	} {
		expect.Equal(t, name, b.RelationTo(hostOf(t, tt.host)), tt.want)
	}
}

func TestTables(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for i := range Count() {
		b := At(i)
		expect.That(t, !seen[b.Key], "%s has two entries", b.Key)
		seen[b.Key] = true
		expect.That(t, strings.Trim(b.Key, "abcdefghijklmnopqrstuvwxyz0123456789") == "" && len(b.Key) >= 3,
			"the key %q is not lower-case ASCII of three letters or more", b.Key)
		expect.That(t, len(b.Key) >= 5 || b.Kind() == Short, "%s has %d letters and would match inside words", b.Key,
			len(b.Key))
		expect.That(t, b.Domains != "" && b.Name != "", "%s has no name or no domain of its own", b.Key)
	}
}

func TestSiteAt(t *testing.T) {
	t.Parallel()
	var labels []string
	for start := 0; start < len(Sites); {
		site := SiteAt(start)
		var label string
		label, start = NextSite(start)
		want := (Brand{strings.ReplaceAll(label, "-", ""), site.Name, Site, label + ".* " + site.Name})
		expect.That(t, *site == want, "site %+v, want %+v", *site, want)
		labels = append(labels, site.Name)
	}
	expect.Equal(t, "NextSite skips some sites", strings.Join(labels, "\n")+"\n", Sites)
}

func TestOwnerName(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ host, want string }{
		"listed":                    {"paypalobjects.com", "PayPal"},
		"any suffix":                {"paypal.de", "PayPal"},
		"risky suffix":              {"paypal.top", ""},
		"brand's own name":          {"google.com", "Google"},
		"subdomain":                 {"mail.google.com", "Google"},
		"local branch":              {"dhl-musterstadt.de", ""},
		"shared suffix":             {"paypal.weebly.com", ""},
		"own name on shared suffix": {"paypal.github.io", "PayPal"},
		"site":                      {"zendesk.com", "zendesk.com"},
		"site's www":                {"www.zendesk.com", "zendesk.com"},
		"customer of a brand":       {"acme.sharepoint.com", ""},
		"open suffix":               {"paypal.wine", ""},
		"customer of a site":        {"acme.zendesk.com", ""},
		"site's name in Egypt":      {"zendesk.eg", ""},
		"stranger":                  {"blumen.de", ""},
	} {
		expect.Equal(t, name, OwnerName(hostOf(t, tt.host)), tt.want)
	}
}

func TestLookup(t *testing.T) {
	t.Parallel()
	brands := map[string]int{}
	for i := range Count() {
		brands[At(i).Key] = i
	}
	type testCase struct {
		host, candidate, owner string // the candidate is a brand's key
		how                    Relation
	}
	expect.Each(t, map[string]testCase{
		"listed":           {"paypal.de", "paypal", "PayPal", Owned},
		"other brand":      {"paypay.ne.jp", "paypal", "PayPay", Owned},
		"open suffix":      {"paypal.wine", "paypal", "", Unrelated},
		"all countries":    {"google.tn", "google", "Google", Owned},
		"local branch":     {"dhl-musterstadt.de", "dhl", "DHL", Plausible},
		"service":          {"sharepoint.com", "sharepoint", "SharePoint", Owned},
		"brand's own host": {"mail.google.com", "google", "Google", Owned},
		"stranger":         {"blumen.de", "paypal", "", Unrelated},
	}, func(t *testing.T, tt testCase) {
		b, relation := Lookup(hostOf(t, tt.host), brands[tt.candidate])
		got := ""
		if b != nil {
			got = b.Name
		}
		expect.That(t, got == tt.owner && relation == tt.how, "Lookup(%s, %s) = %q, %d, want %q, %d", tt.host,
			tt.candidate, got, relation, tt.owner, tt.how)
	})
}

func TestListsSearchable(t *testing.T) {
	t.Parallel()
	for _, list := range []string{Sites, markets, secondLevelMarkets, smallMarkets, publishingHosts} {
		expect.Equal(t, "the list cannot be searched", wordlist.Fault(list), "")
	}
}

// Brands are not trusted under suffixes that anybody can register for what they spell.
func TestOpenSuffixesAreNotOwned(t *testing.T) {
	t.Parallel()
	for i := range Count() {
		b := At(i)
		for _, open := range strings.Fields("cc ws su ly me to ge mk tk pw") {
			name := b.Key + "." + open
			h := suffix.Host{ASCII: name, Registrable: name, Suffix: open, TLD: open, Name: b.Key}
			if owner := OwnerName(&h); owner != "" && !slices.Contains(strings.Fields(b.Domains), name) {
				t.Errorf("%s is trusted as a domain of %s", name, owner)
			}
		}
	}
}
