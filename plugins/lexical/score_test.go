package main

import (
	"slices"
	"strings"
	"testing"

	"assay/host/check"
	"assay/host/entity"
	"assay/plugins/internal/quote"
	"assay/plugins/lexical/ngram"
	"assay/registry"
	"assay/registry/expect"
	"assay/registry/layertest"
	"assay/sdk"
)

// TestVerdicts runs the cases, and checks that style blocks only with the points for which the manifest has the proof.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	suite := layertest.Open(t, ".")
	suite.RunCases(t, Score)
	suite.CheckVerdict(t, check.Allow, lowest, 0)
	suite.CheckVerdict(t, check.Review, cautious)
	suite.CheckVerdict(t, check.Block, highest)
	expect.Equal(t, "the lowest score that may block", suite.Manifest.Blocks.From, cautious+1)
}

// facts returns the facts that the host parses from value.
func facts(t testing.TB, value string) sdk.Facts {
	return layertest.Facts(t, registry.Case{Type: "domain", Value: value})
}

// points returns the score of a domain.
func points(t testing.TB, value string) int { return sdk.Run(Score, facts(t, value)).Score }

func TestTableOpens(t *testing.T) {
	t.Parallel()
	expect.Must(t, tableErr == nil, "%v", tableErr)
	expect.Must(t, wordsErr == nil, "%v", wordsErr)
}

// The manifest repeats the threats of the bait words.
func TestLuresMatchManifest(t *testing.T) {
	t.Parallel()
	declared := map[string]sdk.Threat{}
	for _, s := range layertest.Open(t, ".").Manifest.Signals {
		declared[s.Code] = s.Threat
	}
	for theme, lure := range lures {
		expect.That(t, declared[lure.code] == lure.threat, "theme %d names %s, the manifest %s", theme, lure.threat,
			declared[lure.code])
	}
}

// An ordinary name clears less as a mail domain, and a name that looks reported accuses as much.
func TestMailDomainsClearLess(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]int{"berlinbakery.de": lowestMail, "paypa1-secure-login.xyz": highest,
		"google.com": lowest} {
		mail := facts(t, name)
		mail["email.domain"] = name
		if got := sdk.Run(Score, mail).Score; got != want || points(t, name) > want {
			t.Errorf("%s has %d points as a mail domain and %d as a site, want %d and no more", name, got,
				points(t, name), want)
		}
	}
}

func TestAbstains(t *testing.T) {
	t.Parallel()
	layertest.Abstains(t, Score, map[string]sdk.Facts{
		"nothing known": {},
		"public suffix": {"domain.ascii": "github.io", "domain.suffix": "github.io", "domain.tld": "io"},
		"mailbox provider": {"domain.ascii": "gmail.com", "domain.registrable": "gmail.com",
			"domain.suffix_kind": "icann", "email.provider": "google"},
	})
}

// Machines of an owner's own domain do not raise its score, whatever their names, unless they are bait words.
func TestSubdomainsOfOwnersDoNotCount(t *testing.T) {
	t.Parallel()
	for _, owner := range []string{"holzbau-wiesental.ch", "baeckerei-wiesental.de", "northwind-consulting.co.uk"} {
		plain := points(t, owner)
		for _, machine := range []string{"mail", "shop", "www2", "x7-prod-eu1", "a.b.c.d", "autodiscover",
			"m.intranet"} {
			got := points(t, machine+"."+owner)
			expect.That(t, got == plain, "%s.%s scores %d, and %s %d", machine, owner, got, owner, plain)
		}
	}
	expect.That(t, points(t, "login-verify.blumenwiese.com") > points(t, "blumenwiese.com"),
		"bait words left of a name do not count")
}

// A name with the accents of a language is judged as the one without. Accents that no language combines are left.
func TestAccentsDoNotCount(t *testing.T) {
	t.Parallel()
	for accented, plain := range map[string]string{
		"café-des-arts.fr": "cafe-des-arts.fr", "bébé-coquelicot.com": "bebe-coquelicot.com",
		"maçonnerie-léger.fr": "maconnerie-leger.fr", "œuvre-forêt.org": "ouvre-foret.org", "noël.be": "noel.be",
		"bäckerei-jürgens.de": "backerei-jurgens.de", "fußpflege-krüger.de": "fuspflege-kruger.de",
		"pingüino-niños.com": "pinguino-ninos.com", "construção.com.br": "construcao.com.br",
		"bålstad-måleri.se": "balstad-maleri.se", "rødgrød.dk": "rodgrod.dk", "kjærlighet.no": "kjarlighet.no",
		"květinářství-růže.cz": "kvetinarstvi-ruze.cz", "księgowość-łódź.pl": "ksiegowosc-lodz.pl",
		"könyvelő-győr.hu": "konyvelo-gyor.hu", "çiçekçi-gül.com": "cicekci-gul.com",
		"șoferi-brașov.ro": "soferi-brasov.ro",
		"tiếngviệt.vn":     "tiengviet.vn", "đại-dươngxanh.com": "dai-duongxanh.com", "città-così.it": "citta-cosi.it",
	} {
		got, want := points(t, accented), points(t, plain)
		expect.That(t, got == want, "%s scores %d, and %s %d", accented, got, plain, want)
	}
	expect.That(t, points(t, "ṿàmḟõre.com") > points(t, "vamfore.com"), "accents of no language do not count")
}

// A suffix alone must not make an ordinary site suspicious: style asks for a review from 47 points on.
func TestSuffixAloneIsNoReason(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"freshbread.shop", "gardentools.shop", "bookcorner.info",
		"pottery.store", "musicschool.online", "hikingclub.site", "violins.xyz"} {
		got := points(t, value)
		expect.That(t, got < 47, "%s scores %d", value, got)
	}
}

// Texts must quote the evidence, in whole words if possible.
func TestTextsNameTheEvidence(t *testing.T) {
	t.Parallel()
	for want, value := range map[string]string{
		"Spelled like reported names: “paypa1-secure-login”":                   "paypa1-secure-login.xyz",
		"Names like this are often reported under “.xyz”":                      "paypa1-secure-login.xyz",
		"Name shape typical of reported names (length 19, 2 hyphens, 1 digit)": "paypa1-secure-login.xyz",
		"Contains account security bait words: “secure”, “login”":              "paypa1-secure-login.xyz",
		"Names like this are often reported on the shared host “weebly.com”":   "wallet-connect-rectify.weebly.com",
		"Spelled like names of long-established sites: “baeckerei-mueller”":    "baeckerei-mueller.de",
		"Listed as a site of Coinbase":                                         "coinbase.com",
		"Contains “-com”, a part of another web address":                       "blumen-wiese-com.info",
		"Contains “com-”, a part of another web address":                       "blumen-com-wiese.net",
		"“9f3ac01be47d22” is a hexadecimal number":                             "9f3ac01be47d22.com",
	} {
		got := sdk.Run(Score, facts(t, value)).Signals
		expect.That(t, slices.ContainsFunc(got, func(s sdk.Signal) bool { return s.Text == want }),
			"%s: no signal says %q: %+v", value, want, got)
	}
}

func TestSplitPoints(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		points int
		parts  shares
		want   shares
	}{
		"one part":                 {80, shares{3000, -1000, -2000}, shares{80}},
		"in proportion":            {90, shares{2000, 0, 1000, -1000}, shares{60, 0, 30}},
		"remainder to the largest": {100, shares{1000, 1000, 1000}, shares{34, 33, 33}},
		"small parts":              {70, shares{100, 0, 4000, 200}, shares{0, 0, 67, 3}},
	} {
		expect.Equal(t, name, tt.parts.points(tt.points), tt.want)
	}
}

// The heaviest runs are returned from left to right. Runs that grew to whole words are not part of later ones.
func TestStrongest(t *testing.T) {
	t.Parallel()
	type testCase struct {
		s       string
		weights map[byte]int32
		want    string
	}
	expect.Each(t, map[string]testCase{
		"two of three": {"login-xsecurex-nigol",
			map[byte]int32{'l': 10, 'o': 10, 'g': 10, 'i': 10, 'n': 9, 's': 20, 'e': 20, 'c': 20, 'u': 20, 'r': 20,
				'x': -90}, "“login”, “xsecurex”"},
		"little weight": {"abc--------def", map[byte]int32{'a': 1, 'b': 1, 'c': 1, 'd': 9, 'e': 9, 'f': 9, '-': -5},
			"“def”"},
		"too short": {"ab-------def", map[byte]int32{'a': 9, 'b': 9, 'd': 5, 'e': 5, 'f': 5, '-': -9}, "“def”"},
		"nothing":   {"abc", map[byte]int32{'a': -1}, ""},
	}, func(t *testing.T, tt testCase) {
		weights := make([]int32, len(tt.s))
		for i := range tt.s {
			weights[i] = tt.weights[tt.s[i]]
		}
		var p pieces
		found := p.strongest(tt.s, weights, maxSpans)
		if got := p.end(); got != tt.want || found != (got != "") {
			t.Errorf("strongest adds %q and returns %t, want %q", got, found, tt.want)
		}
	})
}

func TestDecimal(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0", 7: "7", 10: "10", 63: "63", 253: "253"} {
		var p pieces
		p.decimal(n)
		got := p.end()
		expect.That(t, got == want, "decimal(%d) = %q", n, got)
	}
}

// Letters in a rare order must stand out from the consonants of any language.
func TestRareLetters(t *testing.T) {
	t.Parallel()
	var segments ngram.Segments
	for word, want := range map[string]bool{"mueller": false, "schneider": false, "paczkowski": false,
		"krzysztof": false, "zhongguancun": false, "dienstleistungen": false, "beaulieu": false, "wvvmfxkx": true,
		"xkqzvwrjtp": true} {
		got := words.Cost(word, &segments)
		expect.That(t, got >= rareCost == want, "the letters of %q cost %d each, random: %t", word, got, !want)
	}
}

func TestGrowToWords(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		s          string
		start, end int
		want       string
	}{
		"grows to both ends":         {"reset-365online", 1, 13, "reset-365online"},
		"too far from the ends":      {"zuverlaessigkeit", 5, 9, "laes"},
		"hyphens are trimmed":        {"a-secure-b", 1, 9, "a-secure-b"},
		"grows to a whole character": {"zürich-verkehrsbetriebe", 2, 6, "zürich"},
		"grows to a hyphen":          {"verify-konto-anmeldung", 7, 11, "konto"},
		"only a hyphen":              {"abcdefgh-ijklmnop", 8, 9, ""},
		"the whole text":             {"login", 0, 5, "login"},
		"ends inside characters":     {"日本語日本語", 4, 8, "日本語"},
	} {
		start, end := growToWords(tt.s, tt.start, tt.end)
		start, end = trim(tt.s, start, end)
		expect.Equal(t, name, tt.s[start:end], tt.want)
	}
}

// FuzzScore checks that the host would accept every result, and that its signals add up to the score.
func FuzzScore(f *testing.F) {
	suite := layertest.Open(f, ".")
	for _, c := range suite.Cases {
		e := expect.Value(entity.Parse(entity.Type(c.Type), c.Value, c.Country))(f)
		f.Add(e.Facts["domain.name"], e.Facts["domain.subdomain"], e.Facts["domain.suffix"])
	}
	f.Add(strings.Repeat("ü-", 90), strings.Repeat("login.", 40), "pages.dev")
	f.Add("a\xff-\x00\u202eb", "\xf0\x9f", "x\x7f")
	f.Fuzz(func(t *testing.T, name, subdomain, suffix string) {
		for _, kind := range []string{"icann", "private"} {
			got := sdk.Run(Score, sdk.Facts{
				"domain.ascii": subdomain + "." + name + "." + suffix, "domain.registrable": name + "." + suffix,
				"domain.name": name, "domain.subdomain": subdomain, "domain.suffix_kind": kind,
			})
			suite.CheckResult(t, got)
			sum := 0
			for _, s := range got.Signals {
				if sum += s.Points; s.Points < 0 && len(got.Signals) > 1 {
					t.Errorf("a signal among others subtracts %d points: %+v", -s.Points, got.Signals)
				}
			}
			expect.Equal(t, "signals add up to", sum, got.Score)
		}
	})
}

func BenchmarkScore(b *testing.B) { layertest.Open(b, ".").Benchmark(b, Score) }

// A part with odd characters, which is quoted already, has one pair of quotation marks.
func TestQuote(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"login": "“login”", "a:b": quote.Of("a:b")} {
		var p pieces
		p.quote(text)
		expect.Equal(t, text, p.end(), want)
	}
}
