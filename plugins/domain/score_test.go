package main

import (
	"strings"
	"testing"

	"assay/host/entity"
	"assay/plugins/internal/brand"
	"assay/plugins/internal/wordlist"
	"assay/registry/layertest"
	"assay/sdk"
)

func TestCases(t *testing.T) {
	t.Parallel()
	layertest.Open(t, ".").RunCases(t, Score)
}

func TestManifest(t *testing.T) {
	t.Parallel()
	layertest.Open(t, ".").CheckManifest(t, "domain", "domain", "email")
}

// facts parses value as the host does.
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
		"nothing known": {},
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

// Every brand's own domains must score 0, whatever other brand they resemble.
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

// A well-known site must be spared whatever it resembles, and so must its name under another country.
func TestSitesAreSpared(t *testing.T) {
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

func TestOrdinaryWordsAreSpared(t *testing.T) {
	t.Parallel()
	for word := range strings.FieldsSeq(ordinaryWords) {
		for _, s := range sdk.Run(Score, facts(t, entity.Domain, word+".org")).Signals {
			if s.Code == "domain:brand:typo" {
				t.Errorf("%s: %+v", word, s)
			}
		}
	}
}

// The directory must hold every name where search looks for it: letter for letter, and with any slip it is told to
// forgive.
func TestIndexFindsEveryName(t *testing.T) {
	t.Parallel()
	for name := range index.count {
		b, skeleton := index.brand(name), index.skeletonOf(name)
		if len(skeleton) < 3 || len(skeleton) > maxNameLetters || string(skeleton) != skeletonOf(b.Key) {
			t.Errorf("%s folds to %q, of no length that fits", b.Key, skeleton)
			continue
		}
		found := false
		k := prefixBucket(skeleton[0], skeleton[1], skeleton[2])
		for _, at := range index.brandsByPrefix[index.prefixStarts[k]:index.prefixStarts[k+1]] {
			found = found || int(at) == name
		}
		if !found && b.Kind() != brand.Site {
			t.Errorf("%s is not found by how it begins", b.Key)
		}
		for _, typo := range editedTexts(skeleton, int(index.names[name].editLimit)) {
			var s prefixHashes
			s.compute(typo)
			found := false
			index.candidates(typo, &s, 0, len(typo), func(at int) { found = found || at == name })
			if !found {
				t.Errorf("%s is not found by %q", b.Key, typo)
			}
		}
	}
}

// slips returns texts that up to so many edits make of text: at every place another letter, one less, one more, or two
// swapped, and at every fifth place the same again of what that made.
func editedTexts(text []byte, edits int) [][]byte {
	if edits == 0 {
		return nil
	}
	var all [][]byte
	for i := range text {
		head, tail := text[:i:i], text[i:]
		one := [][]byte{
			append(append(head, 'z'), tail[1:]...), append(head, tail[1:]...), append(append(head, 'z'), tail...),
		}
		if len(tail) > 1 {
			one = append(one, append(append(head, tail[1], tail[0]), tail[2:]...))
		}
		all = append(all, one...)
		if i%5 == edits {
			for _, typo := range one {
				all = append(all, editedTexts(typo, edits-1)...)
			}
		}
	}
	return all
}

func TestOrdinaryWordsSearchable(t *testing.T) {
	t.Parallel()
	if fault := wordlist.Fault(ordinaryWords); fault != "" {
		t.Errorf("the list cannot be searched: %q", fault)
	}
}

func TestSignalTexts(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ value, want string }{
		"digit":           {"paypa1-secure-login.xyz", "paypa1 looks like PayPal: digit 1 for letter l"},
		"pair":            {"rnicrosoft-wiese.com", "rnicrosoft looks like Microsoft: letters rn for letter m"},
		"foreign":         {"pаypal.com", "pаypal looks like PayPal: character а (U+0430) for letter a"},
		"swapped letters": {"faceboko-wiese.com", "faceboko is close to Facebook: letters ok swapped"},
		"doubled":         {"nettflix.com", "nettflix is close to Netflix: letter t doubled"},
		"missing":         {"instagrm-wiese.com", "instagrm is close to Instagram: letter a missing"},
		"extra":           {"instyagram-wiese.com", "instyagram is close to Instagram: extra letter y"},
		"lure words":      {"paypa1-secure-login.xyz", "sets PayPal beside words that bait: secure, login"},
		"name of the key": {"steamcomunitty.com",
			"steamcomunitty is close to steamcommunity (Steam): 2 letters differ"},
		"to the eye": {"dlscotd.com", "dlscotd is close to Discord: letter t for letter r"},
		"hyphen":     {"facebo-ok.com", "facebo-ok is close to Facebook: a hyphen inside"},
		"no dots": {"httpfacebook.com",
			"httpfacebook reads as an address of Facebook with its punctuation left out"},
		"pair in a short": {"arnazon.com", "arnazon looks like Amazon: letters rn for letter m"},
		"scripts":         {"gаrdening.com", "gаrdening mixes Latin and Cyrillic letters: а (U+0430) looks like a"},
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
			t.Errorf("%s: no signal says %q: %+v", tt.value, tt.want, result.Signals)
		})
	}
}

// A customer's address under a brand's domain has nothing of the brand's good name.
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

func TestEachDifference(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ written, key, want string }{
		"none":            {"pay-pal", "paypal", ""},
		"digit":           {"paypa1", "paypal", "1>l "},
		"pair":            {"rnicrosoft", "microsoft", "rn>m "},
		"pair twice":      {"cliscorcl", "discord", "cl>d cl>d "},
		"pair with digit": {"discorc1", "discord", "c1>d "},
		"for a pair":      {"iowafambureau", "iowafarnbureau", "m>rn "},
		"foreign":         {"pаypаl", "paypal", "а>a а>a "},
		"ligature":        {"phœnix", "phoenix", "œ>oe "},
		"eszett as drawn": {"coinßase", "coinbase", "ß>b "},
		"eszett as spelt": {"meßenger", "messenger", "ß>ss "},
		"mark":            {"pạypal", "paypal", "̣> "},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ""
			eachDifference(tt.written, tt.key, func(_ int, mine, theirs string) bool {
				got += mine + ">" + theirs + " "
				return true
			})
			if got != tt.want {
				t.Errorf("differences(%q, %q) are %q, want %q", tt.written, tt.key, got, tt.want)
			}
		})
	}
}

func TestHasStrayHyphen(t *testing.T) {
	t.Parallel()
	for written, want := range map[struct{ written, name string }]bool{
		{"facebook", "Facebook"}: false, {"face-book", "Facebook"}: false, {"facebo-ok", "Facebook"}: true,
		{"f-acebook", "Facebook"}: true, {"face--book", "Facebook"}: true, {"t-mobile", "T-Mobile"}: false,
		{"tm-obile", "T-Mobile"}: true, {"la-poste", "La Poste"}: false, {"m-bank", "mBank"}: false,
	} {
		m := match{Brand: &brand.Brand{Name: written.name}, label: written.written, end: len(written.written)}
		if m.hasStrayHyphen() != want {
			t.Errorf("%s for %s: broken %v, want %v", written.written, written.name, !want, want)
		}
	}
}

func TestDistance(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		a, b       string
		most, want int
	}{
		"equal":          {"paypal", "paypal", 2, 0},
		"swap":           {"payapl", "paypal", 2, 1},
		"insert":         {"payypal", "paypal", 2, 1},
		"drop":           {"papal", "paypal", 2, 1},
		"change":         {"paybal", "paypal", 2, 1},
		"two":            {"pybal", "paypal", 2, 2},
		"beyond":         {"kraken", "paypal", 2, 3},
		"against empty":  {"", "ab", 3, 2},
		"swap and drop":  {"stecmommunity", "steamcommunity", 3, 2},
		"last row first": {"ab", "", 1, 2},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := distance([]byte(tt.a), []byte(tt.b), tt.most); got != tt.want {
				t.Errorf("distance(%q, %q, %d) = %d, want %d", tt.a, tt.b, tt.most, got, tt.want)
			}
		})
	}
}

func TestSkeletonOf(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ label, want string }{
		"digits":        {"g00g1e", "google"},
		"pairs":         {"rnicrosoft", "mlcrosoft"},
		"hyphens":       {"pay-pal", "paypal"},
		"accents":       {"zürîch", "zurlch"},
		"ligatures":     {"æther", "aether"},
		"Cyrillic":      {"раураl", "paypal"},
		"Greek":         {"gοοgle", "google"},
		"no look-alike": {"a例b", "a\x00b"},
		"invalid":       {"a\xffb", "a\x00b"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := skeletonOf(tt.label); got != tt.want {
				t.Errorf("fold(%q) = %q, want %q", tt.label, got, tt.want)
			}
		})
	}
}

func TestSkeletonIsBounded(t *testing.T) {
	t.Parallel()
	if got := len(skeletonOf(strings.Repeat("æ", 4*maxLetters))); got != 2*maxLetters {
		t.Errorf("a label of ligatures folds to %d letters, want %d", got, 2*maxLetters)
	}
}

// Signals must be ones the host takes, whatever the facts hold.
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
				"domain.ascii": "xn--." + subdomain + "." + name + "." + suffix, "domain.registrable": name + "." +
					suffix,
				"domain.suffix_kind": kind, "domain.name": name, "domain.subdomain": subdomain,
			}))
		}
	})
}

func BenchmarkScore(b *testing.B) {
	for name, value := range map[string]string{
		"honest":    "baeckerei-mueller.de",
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
