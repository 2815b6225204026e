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
	for want, hosts := range map[Relation]string{
		Owned:     "blumen.co.uk blumen.xn--fiqs8s blumen-shop.com shop.example.net", // any suffix, and what is listed
		Plausible: "blumen-musterstadt.de",                                           // a local branch
		// Risky, shared, open and sold suffixes, slips of suffixes, small countries and territories; other names.
		Unrelated: "blumen.top blumen.cm blumen.weebly.com blumen.wine blumen.ge blumen.cc blumen.re " +
			"blumenwiese.com xblumen.com",
	} {
		for host := range strings.FieldsSeq(hosts) {
			expect.Equal(t, host, b.RelationTo(hostOf(t, host)), want)
		}
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
	for want, hosts := range map[string]string{
		"PayPal": "paypalobjects.com paypal.de paypal.github.io", // listed, any suffix, the own name on a shared one
		"Google": "google.com mail.google.com", "zendesk.com": "zendesk.com www.zendesk.com",
		// Risky, shared and open suffixes, local branches, customers of brands and sites, a site's name in Egypt.
		"": "paypal.top paypal.weebly.com paypal.wine dhl-musterstadt.de acme.sharepoint.com acme.zendesk.com " +
			"zendesk.eg blumen.de",
	} {
		for host := range strings.FieldsSeq(hosts) {
			expect.Equal(t, host, OwnerName(hostOf(t, host)), want)
		}
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
