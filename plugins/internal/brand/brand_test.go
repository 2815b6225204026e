package brand

import (
	"slices"
	"strings"
	"testing"

	"assay/plugins/internal/suffix"
	"assay/plugins/internal/wordlist"
	"assay/registry/expect"
)

func TestRelationTo(t *testing.T) {
	t.Parallel()
	b := Brand{Key: "blumen", Domains: "blumen.* blumen-shop.com blumen-*.de shop.example.net"}
	for name, tt := range map[string]struct {
		host suffix.Host
		want Relation
	}{
		"any suffix":       {suffix.Host{Registrable: "blumen.co.uk", Suffix: "co.uk", TLD: "uk"}, Owned},
		"risky suffix":     {suffix.Host{Registrable: "blumen.top", Suffix: "top", TLD: "top"}, Unrelated},
		"typo of a suffix": {suffix.Host{Registrable: "blumen.cm", Suffix: "cm", TLD: "cm"}, Unrelated},
		"shared suffix": {suffix.Host{Registrable: "blumen.weebly.com", Suffix: "weebly.com", TLD: "com",
			Private: true}, Unrelated},
		"open suffix":      {suffix.Host{Registrable: "blumen.wine", Suffix: "wine", TLD: "wine"}, Unrelated},
		"small country":    {suffix.Host{Registrable: "blumen.ge", Suffix: "ge", TLD: "ge"}, Unrelated},
		"sold suffix":      {suffix.Host{Registrable: "blumen.cc", Suffix: "cc", TLD: "cc"}, Unrelated},
		"French territory": {suffix.Host{Registrable: "blumen.re", Suffix: "re", TLD: "re"}, Unrelated},
		"country's script": {suffix.Host{Registrable: "blumen.xn--fiqs8s", Suffix: "xn--fiqs8s", TLD: "xn--fiqs8s"},
			Owned},
		"listed":       {suffix.Host{Registrable: "blumen-shop.com", Suffix: "com", TLD: "com"}, Owned},
		"local branch": {suffix.Host{Registrable: "blumen-musterstadt.de", Suffix: "de", TLD: "de"}, Plausible},
		"full name": {suffix.Host{ASCII: "shop.example.net", Registrable: "example.net", Suffix: "net",
			TLD: "net"}, Owned},
		"longer name":         {suffix.Host{Registrable: "blumenwiese.com", Suffix: "com", TLD: "com"}, Unrelated},
		"suffix of the label": {suffix.Host{Registrable: "xblumen.com", Suffix: "com", TLD: "com"}, Unrelated},
	} {
		expect.Equal(t, name, b.RelationTo(&tt.host), tt.want)
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
	for name, tt := range map[string]struct {
		host suffix.Host
		want string
	}{
		"listed":           {suffix.Host{Registrable: "paypalobjects.com", Suffix: "com", TLD: "com"}, "PayPal"},
		"any suffix":       {suffix.Host{Registrable: "paypal.de", Suffix: "de", TLD: "de"}, "PayPal"},
		"risky suffix":     {suffix.Host{Registrable: "paypal.top", Suffix: "top", TLD: "top"}, ""},
		"brand's own name": {suffix.Host{Registrable: "google.com", Suffix: "com", TLD: "com"}, "Google"},
		"subdomain": {suffix.Host{Registrable: "google.com", Suffix: "com", TLD: "com", Subdomain: "mail"},
			"Google"},
		"local branch": {suffix.Host{Registrable: "dhl-musterstadt.de", Suffix: "de", TLD: "de"}, ""},
		"shared suffix": {suffix.Host{Registrable: "paypal.weebly.com", Suffix: "weebly.com", TLD: "com",
			Private: true}, ""},
		"own name on shared suffix": {suffix.Host{Registrable: "paypal.github.io", Suffix: "github.io", TLD: "io",
			Private: true}, "PayPal"},
		"site": {suffix.Host{Registrable: "zendesk.com", Suffix: "com", TLD: "com"}, "zendesk.com"},
		"site's www": {suffix.Host{Registrable: "zendesk.com", Suffix: "com", TLD: "com", Subdomain: "www"},
			"zendesk.com"},
		"customer of a brand": {suffix.Host{Registrable: "sharepoint.com", Suffix: "com", TLD: "com",
			Subdomain: "acme"}, ""},
		"open suffix": {suffix.Host{Registrable: "paypal.wine", Suffix: "wine", TLD: "wine"}, ""},
		"customer of a site": {suffix.Host{Registrable: "zendesk.com", Suffix: "com", TLD: "com", Subdomain: "acme"},
			""},
		"site's name in Egypt": {suffix.Host{Registrable: "zendesk.eg", Suffix: "eg", TLD: "eg"}, ""},
		"stranger":             {suffix.Host{Registrable: "blumen.de", Suffix: "de", TLD: "de"}, ""},
	} {
		expect.Equal(t, name, OwnerName(&tt.host), tt.want)
	}
}

func TestLookup(t *testing.T) {
	t.Parallel()
	brands := map[string]int{}
	for i := range Count() {
		brands[At(i).Key] = i
	}
	type testCase struct {
		host      suffix.Host
		candidate string // a key
		want      string // the owner's name
		how       Relation
	}
	expect.Each(t, map[string]testCase{
		"listed": {suffix.Host{Registrable: "paypal.de", Suffix: "de", TLD: "de"}, "paypal", "PayPal", Owned},
		"other brand": {suffix.Host{Registrable: "paypay.ne.jp", Suffix: "ne.jp", TLD: "jp"}, "paypal", "PayPay",
			Owned},
		"open suffix": {suffix.Host{Registrable: "paypal.wine", Suffix: "wine", TLD: "wine"}, "paypal", "",
			Unrelated},
		"all countries": {suffix.Host{Registrable: "google.tn", Suffix: "tn", TLD: "tn"}, "google", "Google", Owned},
		"local branch": {suffix.Host{Registrable: "dhl-musterstadt.de", Suffix: "de", TLD: "de"}, "dhl", "DHL",
			Plausible},
		"service": {suffix.Host{Registrable: "sharepoint.com", Suffix: "com", TLD: "com"}, "sharepoint",
			"SharePoint", Owned},
		"brand's own host": {
			suffix.Host{ASCII: "mail.google.com", Registrable: "google.com", Suffix: "com", TLD: "com",
				Subdomain: "mail"},
			"google", "Google", Owned,
		},
		"stranger": {suffix.Host{Registrable: "blumen.de", Suffix: "de", TLD: "de"}, "paypal", "", Unrelated},
	}, func(t *testing.T, tt testCase) {
		b, relation := Lookup(&tt.host, brands[tt.candidate])
		got := ""
		if b != nil {
			got = b.Name
		}
		expect.That(t, got == tt.want && relation == tt.how, "Lookup(%+v, %s) = %q, %d, want %q, %d", tt.host,
			tt.candidate, got, relation, tt.want, tt.how)
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
