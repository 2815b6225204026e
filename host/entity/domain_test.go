package entity

import (
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/publicsuffix"

	"assay/registry/expect"
)

func TestDomainFacts(t *testing.T) {
	t.Parallel()
	checkFacts(t, Domain, map[string]parsed{
		"three labels": {"login.secure.example.co.uk", "login.secure.example.co.uk", Facts{
			"entity.type": "domain", "entity.country": "EU", "domain.ascii": "login.secure.example.co.uk",
			"domain.unicode": "login.secure.example.co.uk", "domain.registrable": "example.co.uk",
			"domain.suffix": "co.uk", "domain.suffix_kind": "icann", "domain.tld": "uk", "domain.name": "example",
			"domain.subdomain": "login.secure", "domain.scripts": "Latin.Latin.Latin.Latin.Latin"}},
		"look-alike": {"pаypal.com", "xn--pypal-4ve.com", Facts{
			"domain.unicode": "pаypal.com", "domain.name": "pаypal", "domain.scripts": "Cyrillic+Latin.Latin",
			"domain.subdomain": ""}},
		"the same in A-labels": {"XN--PYPAL-4VE.com", "xn--pypal-4ve.com", Facts{"domain.unicode": "pаypal.com"}},
		"Japanese": {"ドラクエ10は楽.jp", "xn--10-4b4asj8a9kyiu504b.jp", Facts{
			"domain.scripts": "Han+Hiragana+Katakana.Latin"}},
		"no letters":    {"123-4.com", "123-4.com", Facts{"domain.scripts": "Common.Latin"}},
		"suffix itself": {"co.uk", "co.uk", Facts{"domain.registrable": "", "domain.name": "", "domain.subdomain": ""}},
		"shared host": {"shop.jane.github.io", "shop.jane.github.io", Facts{"domain.suffix": "github.io",
			"domain.suffix_kind": "private", "domain.registrable": "jane.github.io", "domain.name": "jane",
			"domain.subdomain": "shop"}},
		"unlisted shared host": {"a.jane.weebly.com", "a.jane.weebly.com", Facts{"domain.suffix": "weebly.com",
			"domain.suffix_kind": "private", "domain.tld": "com", "domain.registrable": "jane.weebly.com",
			"domain.name": "jane", "domain.subdomain": "a"}},
		"a host's own name":  {"weebly.com", "weebly.com", Facts{"domain.suffix": "com", "domain.name": "weebly"}},
		"a host's home page": {"a.www.weebly.com", "a.www.weebly.com", Facts{"domain.registrable": "weebly.com"}},
		"like a host":        {"a.blogspot.cyou", "a.blogspot.cyou", Facts{"domain.registrable": "blogspot.cyou"}},
		"unlisted suffix": {"host.internalx", "host.internalx", Facts{"domain.suffix": "internalx",
			"domain.suffix_kind": "unlisted", "domain.registrable": "host.internalx"}},
		"IDN suffix": {"пример.рф", "xn--e1afmkfd.xn--p1ai", Facts{
			"domain.tld": "xn--p1ai", "domain.registrable": "xn--e1afmkfd.xn--p1ai"}},
		"capital sharp s":       {"FAẞ.de", "xn--fa-hia.de", nil},
		"sharp s kept":          {"faß.de", "xn--fa-hia.de", Facts{"domain.unicode": "faß.de"}},
		"fullwidth":             {"ＥＸＡＭＰＬＥ．ｃｏｍ", "example.com", nil},
		"ideographic full stop": {"例え。jp", "xn--r8jz45g.jp", nil},
		"soft hyphen":           {"pay\u00adpal.com", "paypal.com", nil},
		"trailing dot":          {"example.com.", "example.com", nil},
		"white space around":    {" \texample.com\n", "example.com", nil},
		"hyphens in 3 and 4":    {"r3---sn-abc.example.com", "r3---sn-abc.example.com", nil},
		"underscore left":       {"_dmarc.example.com", "_dmarc.example.com", nil},
		"underscore, shared":    {"foo_bar.github.io", "foo_bar.github.io", nil},
		"URL":                   {"https://www.example.com/login?to=//b.de#x", "www.example.com", nil},
		"URL with port":         {"HTTP://example.com:8080", "example.com", nil},
		"@ in the path":         {"https://example.com/@jane", "example.com", nil},
		"no scheme":             {"//example.com/a", "example.com", nil},
		"query":                 {"example.com?next=http://b.de", "example.com", nil},
		"host and port":         {"example.com:443", "example.com", nil},
		"longest label":         {strings.Repeat("a", 63) + ".com", strings.Repeat("a", 63) + ".com", nil},
		"longest name":          {longName(253), longName(253), nil},
		"longest name, dot":     {longName(253) + ".", longName(253), nil},
	})
}

// Each shared host can be found, and the Public Suffix List lacks it.
func TestSharedHosts(t *testing.T) {
	t.Parallel()
	expect.That(t, slices.IsSorted(sharedHosts), "hosts.txt is not sorted by bytes")
	for _, host := range sharedHosts {
		expect.Equal(t, "by the list", expect.Value(publicsuffix.EffectiveTLDPlusOne("jane."+host))(t), host)
	}
}

// longName returns a valid name of n characters.
func longName(n int) string {
	name := strings.Repeat("a", 59) + ".com"
	for len(name)+64 <= n {
		name = strings.Repeat("b", 63) + "." + name
	}
	if left := n - len(name) - 1; left > 0 {
		name = strings.Repeat("c", left) + "." + name
	}
	return name
}

func TestDomainRefused(t *testing.T) {
	t.Parallel()
	checkRefused(t, Domain, map[string]refused{
		"single label":                 {"localhost", "", "has no dot"},
		"only a dot":                   {".", "", "is empty"},
		"two trailing dots":            {"example.com..", "", "empty label"},
		"label of 64":                  {strings.Repeat("a", 64) + ".com", "", "longer than 63"},
		"U-label over 63":              {strings.Repeat("ü", 60) + ".com", "", "longer than 63"},
		"name of 254":                  {longName(254), "", "longer than 253"},
		"leading hyphen":               {"-a.com", "", "hyphen"},
		"undecodable Punycode":         {"xn--a.com", "", "internationalised"},
		"empty Punycode":               {"xn--.com", "", "empty label"},
		"ASCII in Punycode":            {"xn--example-.com", "", "internationalised"},
		"decomposes to '='":            {"exa≠mple.com", "", "not valid Punycode"},
		"leading digit next to Hebrew": {"1a.אב.com", "", "internationalised"}, // the bidi rule spans labels
		"mixed directions":             {"אבa.com", "", "internationalised"},
		"joiner out of context":        {"a\u200db.com", "", "internationalised"},
		"combining mark first":         {"\u0301a.com", "", "internationalised"},
		"unassigned":                   {"a\U000e0080b.com", "", "internationalised"},
		"IPv4 fullwidth":               {"１２７.0.0.１", "", "IP address"},
		"IPv4 in hexadecimal":          {"0x7f.0x1", "", "IP address"},
		"numeric top level":            {"example.123", "", "ends in a number"},
		"IPv6":                         {"::1", "", "IPv6"},
		"IPv6 in a URL":                {"http://[2001:db8::1]/", "", "IPv6"},
		"user information":             {"https://bank.example@evil.example/", "", "user information"},
		"other scheme":                 {"ftp://example.com", "", "scheme other than http"},
		"script":                       {"javascript:alert(1)", "", "not followed by a port"},
		"port too large":               {"example.com:65536", "", "not followed by a port"},
		"port of six digits":           {"example.com:000080", "", "not followed by a port"},
		"no host":                      {"http:///path", "", "without a host"},
		"backslash":                    {`https://good.example\@evil.example`, "", "backslash"},
		"percent escape":               {"example%2ecom", "", "percent escape"},
		"wildcard":                     {"*.example.com", "", "wildcard"},
		"no-break space":               {"exam\u00a0ple.com", "", "contains a space"},
		"quote":                        {"'; DROP TABLE checks;--.com", "", `contains '\'', which`},
		"fullwidth slash":              {"example.com／x.de", "", "contains a character"},
		"underscore, co.uk":            {"www.a_b.co.uk", "", "underscore"},
		"underscore top level":         {"example.c_m", "", "underscore"},
	})
}

// A name of 253 bytes has longer facts. None is longer than the SDKs' buffers.
func TestLongestFacts(t *testing.T) {
	t.Parallel()
	label := "xn--j50i" + strings.Repeat("a", 53) + "." // 54 times U+20000
	e := expect.Value(Parse(Domain, strings.Repeat(label, 3)+"example.com", ""))(t)
	n := len(e.Facts["domain.subdomain"])
	expect.That(t, n > 600, "the longest subdomain has %d bytes", n)
	checkLengths(t, e)
}

func FuzzDomain(f *testing.F) {
	for _, s := range []string{"example.com", "pаypal.com", "xn--pypal-4ve.com", "https://a.b:80/x",
		"foo_bar.github.io", "faß.de",
		"a。b", "exa≠mple.com", "☃.net", "אב.com", "১.com", "xn--0-.com", "a\u200c.com", "ǅ.com", "İ.com", "ﷺ.com"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) { checkParse(t, Domain, raw, "") })
}
