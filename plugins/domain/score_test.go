package main

import (
	"strings"
	"testing"

	"assay/host/check"
	"assay/host/entity"
	"assay/plugins/internal/brand"
	"assay/registry/layertest"
	"assay/sdk"
)

func TestCases(t *testing.T) {
	t.Parallel()
	layertest.Open(t, ".").RunCases(t, Score)
}

// TestVerdicts tests which names the layer can bring to review or block without the other layers.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	suite := layertest.Open(t, ".")
	for value, want := range map[string]check.Verdict{
		"paypa1-secure-login.xyz": check.Block,
		"pаypal.com":              check.Block, // Cyrillic а
		"paypa1.com":              check.Review,
		"wwwpaypal.com":           check.Review,
		"nettflix.com":            check.Allow,
		"paypal-secure-login.com": check.Allow,
		"paypal.cyou":             check.Allow,
	} {
		suite.CheckVerdict(t, want, sdk.Run(Score, facts(t, entity.Domain, value)).Score)
	}
}

// facts returns the facts that the host parses from value.
func facts(t testing.TB, kind entity.Type, value string) sdk.Facts {
	t.Helper()
	e, err := entity.Parse(kind, value, "")
	if err != nil {
		t.Fatalf("parsing %q: %v", value, err)
	}
	return sdk.Facts(e.Facts)
}

func TestAbstainsWithoutName(t *testing.T) {
	t.Parallel()
	for name, facts := range map[string]sdk.Facts{
		"no facts":      {},
		"public suffix": {"domain.ascii": "github.io", "domain.suffix": "github.io", "domain.tld": "io"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := sdk.Run(Score, facts); got.Outcome != sdk.Abstained || len(got.Signals) != 0 {
				t.Errorf("Score(%v) = %+v, want it to abstain", facts, got)
			}
		})
	}
}

// A brand's own domains score 0, even if they resemble another brand.
func TestOwnDomainsScoreZero(t *testing.T) {
	t.Parallel()
	for i := range brand.Count() {
		b := brand.At(i)
		for own := range strings.FieldsSeq(b.Domains) {
			if stem, everywhere := strings.CutSuffix(own, ".*"); everywhere {
				own = stem + ".com"
			}
			own = strings.ReplaceAll(own, "*", "musterstadt")
			result := sdk.Run(Score, facts(t, entity.Domain, own))
			for _, s := range result.Signals {
				if s.Points > 0 && !strings.HasPrefix(s.Code, "domain:suffix:") {
					t.Errorf("%s of %s: %+v", own, b.Name, s)
				}
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
				if s.Points > 0 && s.Code != "domain:suffix:risky" {
					t.Errorf("%s: %+v", value, s)
				}
			}
		}
	}
}

func TestOrdinaryWordsAreNotTypos(t *testing.T) {
	t.Parallel()
	for word := range strings.FieldsSeq(ordinaryWords) {
		for _, s := range sdk.Run(Score, facts(t, entity.Domain, word+".org")).Signals {
			if s.Code == "domain:brand:typo" {
				t.Errorf("%s: %+v", word, s)
			}
		}
	}
}

func TestSignalTexts(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ value, want string }{
		"digit":           {"paypa1-secure-login.xyz", "paypa1 looks like PayPal: digit 1 for letter l"},
		"two letters":     {"rnicrosoft-wiese.com", "rnicrosoft looks like Microsoft: letters rn for letter m"},
		"foreign":         {"pаypal.com", "pаypal looks like PayPal: character а (U+0430) for letter a"},
		"swapped letters": {"faceboko-wiese.com", "faceboko is close to Facebook: letters ok swapped"},
		"doubled":         {"nettflix.com", "nettflix is close to Netflix: letter t doubled"},
		"missing":         {"instagrm-wiese.com", "instagrm is close to Instagram: letter a missing"},
		"extra":           {"instyagram-wiese.com", "instyagram is close to Instagram: extra letter y"},
		"bait words":      {"paypa1-secure-login.xyz", "sets PayPal beside words that bait: secure, login"},
		"key of a brand": {"steamcomunitty.com",
			"steamcomunitty is close to steamcommunity (Steam): 2 letters differ"},
		"skeletons": {"dlscotd.com", "dlscotd is close to Discord: letter t for letter r"},
		"hyphen":    {"facebo-ok.com", "facebo-ok is close to Facebook: a hyphen inside"},
		"dotless address": {"httpfacebook.com",
			"httpfacebook reads as an address of Facebook with its punctuation left out"},
		"short name": {"arnazon.com", "arnazon looks like Amazon: letters rn for letter m"},
		"scripts":    {"gаrdening.com", "gаrdening mixes Latin and Cyrillic letters: а (U+0430) looks like a"},
		"slash": {"blumenノwiese.com",
			"blumenノwiese mixes Latin and Katakana letters: ノ (U+30CE) looks like a dot or a slash"},
		"whole script": {"осехур.com",
			"осехур is written in Cyrillic, yet reads as Latin letters throughout: ocexyp"},
		"rare letter": {"ɡarden.com",
			"ɡarden is spelt with ɡ (U+0261), a letter of hardly any language's spelling that looks like g"},
		"suffix": {"paypa1-secure-login.xyz", "ends in .xyz, a suffix with many reported domains"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result := sdk.Run(Score, facts(t, entity.Domain, tt.value))
			for _, s := range result.Signals {
				if s.Text == tt.want {
					return
				}
			}
			t.Errorf("%s: no signal has the text %q: %+v", tt.value, tt.want, result.Signals)
		})
	}
}

// A customer's address under a brand's domain is not one of the brand's own.
func TestCustomersAreNotTheBrand(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]bool{
		"sharepoint.com": true, "www.sharepoint.com": true, "mail.google.com": true, "google.com": true,
		"blumenwiese.sharepoint.com": false, "sites.google.com": false, "google.wine": false,
	} {
		result := sdk.Run(Score, facts(t, entity.Domain, value))
		official := false
		for _, s := range result.Signals {
			official = official || s.Code == "domain:brand:official"
		}
		if official != want {
			t.Errorf("%s: official %v, want %v: %+v", value, official, want, result.Signals)
		}
	}
}

// FuzzScore checks that the host would accept every result, whatever the facts hold.
func FuzzScore(f *testing.F) {
	suite := layertest.Open(f, ".")
	for _, c := range suite.Cases {
		facts := facts(f, c.Type, c.Value)
		f.Add(facts["domain.name"], facts["domain.subdomain"], facts["domain.suffix"])
	}
	f.Add("phœnix", "cœ.œther.steamœ.œsteam", "com")
	f.Fuzz(func(t *testing.T, name, subdomain, suffix string) {
		for _, kind := range []string{"icann", "private"} {
			suite.CheckResult(t, sdk.Run(Score, sdk.Facts{
				"domain.ascii":       "xn--." + subdomain + "." + name + "." + suffix,
				"domain.registrable": name + "." + suffix,
				"domain.suffix_kind": kind, "domain.name": name, "domain.subdomain": subdomain,
			}))
		}
	})
}

func BenchmarkScore(b *testing.B) {
	for name, value := range map[string]string{
		"ordinary":  "baeckerei-mueller.de",
		"official":  "login.microsoftonline.com",
		"lookalike": "paypa1-secure-login.xyz",
		"longest": strings.Repeat("steam-"+strings.Repeat("comunity", 7)+".", 3) +
			strings.Repeat("discrod-", 7) + "net.top",
	} {
		b.Run(name, func(b *testing.B) {
			facts := facts(b, entity.Domain, value)
			b.ReportAllocs()
			for b.Loop() {
				sdk.Run(Score, facts)
			}
		})
	}
}
