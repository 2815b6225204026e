package main

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"assay/host/entity"
	"assay/plugins/internal/brand"
	"assay/plugins/internal/wordlist"
	"assay/registry"
	"assay/registry/expect"
	"assay/registry/layertest"
	"assay/sdk"
)

func TestCases(t *testing.T) {
	t.Parallel()
	layertest.Open(t, ".").RunCases(t, Score)
	layertest.Abstains(t, Score, map[string]sdk.Facts{
		"no facts":      {},
		"public suffix": {"domain.ascii": "github.io", "domain.suffix": "github.io", "domain.tld": "io"},
	})
}

// A word more, before, after or left of a name with a finding, keeps the band that the finding warrants or raises it.
// So does another suffix under which anybody can register names.
func TestMoreWordsKeepTheBand(t *testing.T) {
	t.Parallel()
	for i := range brand.Count() {
		b := brand.At(i)
		if !isCoined(b) || wordlist.Has(widelyNamed, b.Key) {
			continue
		}
		last := len(b.Key) - 1
		slip := b.Key[:last] + b.Key[last:] + b.Key[last:] // doubled
		for _, name := range []string{b.Key + "-login", "verify-account-" + b.Key, slip + "-refund", "www" + b.Key,
			b.Key + "-blumenwiese", b.Key + "verify"} {
			want := warrantedBy(t, name+".com")
			for _, word := range []string{"offen", "wiese", "jetzt", "qxv"} {
				for _, more := range []string{name + "-" + word + ".com", name + "-" + word + ".info",
					word + "-" + name + ".com", word + "." + name + ".com"} {
					got := warrantedBy(t, more)
					expect.That(t, got >= want, "%s has %d points, %s.com %d", more, got, name, want)
				}
			}
		}
	}
}

// warrantedBy returns the points of a domain's findings, up to those that warrant a block.
func warrantedBy(t *testing.T, domain string) int {
	most := 0
	for _, s := range sdk.Run(Score, facts(t, entity.Domain, domain)).Signals {
		if s.Points >= reviewPoints {
			most = max(most, s.Points)
		}
	}
	return most
}

// facts returns the facts that the host parses from value.
func facts(t testing.TB, kind entity.Type, value string) sdk.Facts {
	return layertest.Facts(t, registry.Case{Type: string(kind), Value: value})
}

// A brand's own domains score 0, even if they resemble another brand.
func TestOwnDomainsScoreZero(t *testing.T) {
	t.Parallel()
	for i := range brand.Count() {
		b := brand.At(i)
		for own := range strings.FieldsSeq(b.Domains) {
			if stem, _, markets := strings.Cut(own, ".*"); markets {
				own = stem + ".com"
			}
			own = strings.ReplaceAll(own, "*", "musterstadt")
			for _, s := range sdk.Run(Score, facts(t, entity.Domain, own)).Signals {
				expect.That(t, s.Points <= 0, "%s of %s: %+v", own, b.Name, s)
			}
		}
	}
}

// A well-known site scores 0, even if it resembles a brand, and so does its name under another country's suffix.
func TestSitesScoreZero(t *testing.T) {
	t.Parallel()
	for site := range strings.FieldsSeq(brand.Sites) {
		name, _, _ := strings.Cut(site, ".")
		for _, value := range []string{site, "www." + site, name + ".de"} {
			for _, s := range sdk.Run(Score, facts(t, entity.Domain, value)).Signals {
				expect.That(t, s.Points <= 0, "%s: %+v", value, s)
			}
		}
	}
}

func TestOrdinaryWordsAreNotTypos(t *testing.T) {
	t.Parallel()
	for word := range strings.FieldsSeq(ordinaryWords) {
		for _, s := range sdk.Run(Score, facts(t, entity.Domain, word+".org")).Signals {
			expect.That(t, s.Code != "domain:brand:typo", "%s: %+v", word, s)
		}
	}
}

func TestSignalTexts(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		"paypa1.xyz":                 "Imitates PayPal: digit “1” in place of “l”",
		"paypa1-secure-login.xyz":    "Imitates PayPal: digit “1” in place of “l”, next to “secure”, “login”",
		"rnicrosoft-wiese.com":       "Imitates Microsoft: “rn” in place of “m”",
		"pаypal.com":                 "Imitates PayPal: “а” (U+0430) in place of “a”",
		"faceboko-wiese.com":         "One letter away from Facebook: “ok” swapped",
		"nettflix.com":               "One letter away from Netflix: “t” doubled",
		"facebok.com":                "One letter away from Facebook: “o” missing",
		"instyagram-wiese.com":       "One letter away from Instagram: extra “y”",
		"netfliz.com":                "One letter away from Netflix: “z” in place of “x”",
		"steamcomunitty.com":         "Two letters away from steamcommunity (Steam): “steamcomunitty”",
		"dlscotd.com":                "Resembles Discord: “t” in place of “r”",
		"facebo-ok.com":              "Spells Facebook with a hyphen inside: “facebo-ok”",
		"httpfacebook.com":           "Address of Facebook without its dots: “httpfacebook”",
		"paypal.com.evil.com":        "Address of PayPal inside another domain: “evil.com”",
		"paypal-login.com":           "PayPal with bait words, not a known domain of it: “login”",
		"netflix.verify-billing.com": "Netflix left of another domain: “verify-billing.com”",
		"netflixblumenwiese.com":     "Contains the name Netflix, not a known domain of it",
		"netflix-blumenwiese.com":    "Netflix next to other words, not a known domain of it: “netflix-blumenwiese”",
		"cita.gob-mx.info":           "Suffix of a government inside another domain: “gob-mx”",
		"netflix.icu":                "Netflix is not known to own “netflix.icu”",
		"coinbase.cm":                "Address of Coinbase with a slip in its suffix: “coinbase.cm”",
		"paypal.de":                  "Known domain of PayPal",
		"apple-tax-support.gov.uk":   "Suffix that only public bodies and schools are given: “.gov.uk”",
		"gаrdening.com":              "Mixes Latin and Cyrillic letters: “а” (U+0430) looks like “a”",
		"blumenノwiese.com":           "Mixes Latin and Katakana letters: “ノ” (U+30CE) looks like a dot or a slash",
		"осехур.com":                 "Written in Cyrillic letters that read as “ocexyp”",
		"ɡarden.com":                 "Uses a letter of hardly any language: “ɡ” (U+0261) looks like “g”",
	} {
		got := sdk.Run(Score, facts(t, entity.Domain, value)).Signals
		expect.That(t, slices.ContainsFunc(got, func(s sdk.Signal) bool { return s.Text == want }),
			"%s: no signal has the text %q: %+v", value, want, got)
	}
}

// A customer's address under a brand's domain is not one of the brand's own.
func TestCustomersAreNotTheBrand(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]bool{
		"sharepoint.com": true, "www.sharepoint.com": true, "mail.google.com": true, "google.com": true,
		"blumenwiese.sharepoint.com": false, "sites.google.com": false, "google.wine": false, "paypal.cc": false,
	} {
		result := sdk.Run(Score, facts(t, entity.Domain, value))
		official := slices.ContainsFunc(result.Signals, func(s sdk.Signal) bool {
			return s.Code == signalBrandOfficial
		})
		expect.That(t, official == want, "%s: official %v, want %v: %+v", value, official, want, result.Signals)
	}
}

// FuzzScore checks that the host would accept every result, whatever the facts hold.
func FuzzScore(f *testing.F) {
	suite := layertest.Open(f, ".")
	for _, c := range suite.Cases {
		facts := facts(f, entity.Type(c.Type), c.Value)
		f.Add(facts["domain.name"], facts["domain.subdomain"], facts["domain.suffix"])
	}
	f.Add("phœnix", "cœ.œther.steamœ.œsteam", "com")
	f.Fuzz(func(t *testing.T, name, subdomain, suffix string) {
		for _, kind := range []string{"icann", "private"} {
			result := suite.Check(t, Score, sdk.Facts{
				"domain.ascii":       "xn--." + subdomain + "." + name + "." + suffix,
				"domain.registrable": name + "." + suffix,
				"domain.suffix_kind": kind, "domain.name": name, "domain.subdomain": subdomain,
			})
			for _, s := range result.Signals {
				n := utf8.RuneCountInString(s.Text)
				expect.That(t, n <= 160, "%q has %d characters", s.Text, n)
			}
		}
	})
}

func BenchmarkScore(b *testing.B) { layertest.Open(b, ".").Benchmark(b, Score) }
