package main

import (
	"slices"
	"strings"
	"testing"

	"assay/host/check"
	"assay/host/entity"
	"assay/plugins/lexical/ngram"
	"assay/registry/layertest"
	"assay/sdk"
)

func TestCases(t *testing.T) {
	t.Parallel()
	layertest.Open(t, ".").RunCases(t, Score)
}

// TestVerdicts checks that only a name near the top of the scale reaches review by itself, and that none is blocked.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	suite := layertest.Open(t, ".")
	suite.CheckVerdict(t, check.Allow, threatPoints)
	suite.CheckVerdict(t, check.Review, 95, 100)
}

// facts returns the facts that the host parses from value.
func facts(t testing.TB, value string) sdk.Facts {
	t.Helper()
	e, err := entity.Parse(entity.Domain, value, "")
	if err != nil {
		t.Fatalf("parsing %q: %v", value, err)
	}
	return sdk.Facts(e.Facts)
}

func TestTableOpens(t *testing.T) {
	t.Parallel()
	if tableErr != nil {
		t.Fatal(tableErr)
	}
	if size := len(head) + len(piece0) + len(piece1) + len(piece2); size > 1_000_000 {
		t.Errorf("the model has %d bytes, want at most 1 MB", size)
	}
}

func TestAbstainsWithoutAName(t *testing.T) {
	t.Parallel()
	for name, facts := range map[string]sdk.Facts{
		"nothing known": {},
		"public suffix": {"domain.ascii": "github.io", "domain.suffix": "github.io", "domain.tld": "io"},
		"mailbox provider": {
			"domain.ascii": "gmail.com", "domain.registrable": "gmail.com", "domain.suffix_kind": "icann",
			"email.provider": "google",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := sdk.Run(Score, facts); got.Outcome != sdk.Abstained || len(got.Signals) != 0 {
				t.Errorf("Score(%v) = %+v, want abstained without signals", facts, got)
			}
		})
	}
}

// Names under an owner's domain are the owner's, except those that customers choose.
func TestOwnersAreKnown(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ value, want string }{
		"brand":           {"coinbase.com", "Coinbase"},
		"below":           {"login.coinbase.com", "Coinbase"},
		"site":            {"stackoverflow.com", "stackoverflow.com"},
		"local branch":    {"sparkasse-musterstadt.de", ""},
		"on shared host":  {"coinbase.pages.dev", ""},
		"blog":            {"coinbase.wordpress.com", ""},
		"customer's desk": {"coinbase.zendesk.com", ""},
		"forgery":         {"coinbase-login.com", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := sdk.Run(Score, facts(t, tt.value))
			known := len(got.Signals) == 1 && got.Signals[0].Code == "lexical:name:known"
			if known != (tt.want != "") ||
				known && (got.Score != 0 || got.Signals[0].Text != "the domain is that of "+tt.want) {
				t.Errorf("%s: score %d, signals %+v, want owner %q", tt.value, got.Score, got.Signals, tt.want)
			}
		})
	}
}

// Texts must quote the evidence, in whole words if possible.
func TestTextsNameTheEvidence(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ value, code, want string }{
		"words":     {"paypa1-secure-login.xyz", "lexical:wording:reported", "secure-login"},
		"suffix":    {"paypa1-secure-login.xyz", "lexical:suffix:reported", ".xyz"},
		"host":      {"wallet-connect-rectify.pages.dev", "lexical:hosting:reported", "pages.dev"},
		"subdomain": {"allegrolokalnie.oferta-id48213377.shop", "lexical:subdomain:reported", "“allegrolokalnie”"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, s := range sdk.Run(Score, facts(t, tt.value)).Signals {
				if s.Code == tt.code && strings.Contains(s.Text, tt.want) {
					return
				}
			}
			t.Errorf("%s: no %s names %q: %+v", tt.value, tt.code, tt.want, sdk.Run(Score, facts(t, tt.value)).Signals)
		})
	}
}

func TestSplit(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		points int
		parts  [ngram.Parts]float32
		want   [ngram.Parts]int
	}{
		"one part":                 {80, [ngram.Parts]float32{3, -1, -2, 0}, [ngram.Parts]int{80, 0, 0, 0}},
		"in proportion":            {90, [ngram.Parts]float32{2, 0, 1, -1}, [ngram.Parts]int{60, 0, 30, 0}},
		"remainder to the largest": {100, [ngram.Parts]float32{1, 1, 1, 0}, [ngram.Parts]int{34, 33, 33, 0}},
		"small parts get nothing":  {70, [ngram.Parts]float32{0.1, 0, 4, 0.2}, [ngram.Parts]int{0, 0, 70, 0}},
		"no part raised them":      {70, [ngram.Parts]float32{-1, -2, -3, -4}, [ngram.Parts]int{70, 0, 0, 0}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := split(tt.points, tt.parts); got != tt.want {
				t.Errorf("split(%d, %v) = %v, want %v", tt.points, tt.parts, got, tt.want)
			}
		})
	}
}

// The heaviest runs must be returned from left to right, without runs of little weight; runs that grew to whole words
// must not become part of later ones.
func TestStrongest(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		s       string
		weights map[byte]float32
		want    []string
	}{
		"between two others": {"login-xsecurex-nigol",
			map[byte]float32{'l': 1, 'o': 1, 'g': 1, 'i': 1, 'n': 1, 's': 2, 'e': 2, 'c': 2, 'u': 2, 'r': 2, 'x': -9},
			[]string{"login", "xsecurex", "nigol"}},
		"little weight": {"abc--------def", map[byte]float32{'a': 1, 'b': 1, 'c': 1, 'd': 9, 'e': 9, 'f': 9, '-': -5},
			[]string{"def"}},
		"too short": {"ab-------def", map[byte]float32{'a': 9, 'b': 9, 'd': 5, 'e': 5, 'f': 5, '-': -9},
			[]string{"def"}},
		"nothing": {"abc", map[byte]float32{'a': -1}, []string{}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var features []ngram.Feature
			var weights []float32
			for i := range tt.s {
				features = append(features, ngram.Feature{Start: uint8(i), End: uint8(i + 1), Part: ngram.Name})
				weights = append(weights, tt.weights[tt.s[i]])
			}
			if got := strongest(tt.s, ngram.Name, features, weights); !slices.Equal(got, tt.want) {
				t.Errorf("strongest() = %q, want %q", got, tt.want)
			}
		})
	}
}

func TestGrowToWords(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
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
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			start, end := growToWords(tt.s, tt.start, tt.end)
			start, end = trim(tt.s, start, end)
			if got := tt.s[start:end]; got != tt.want {
				t.Errorf("%q from %d to %d became %q, want %q", tt.s, tt.start, tt.end, got, tt.want)
			}
		})
	}
}

// Rounding must keep the order of the points and limit them to 0 to 100.
func TestRound(t *testing.T) {
	t.Parallel()
	var got []int
	for _, points := range []float32{-30, 0, 0.4, 0.6, 49.6, 99.6, 140} {
		got = append(got, round(points))
	}
	if want := []int{0, 0, 0, 1, 50, 100, 100}; !slices.Equal(got, want) {
		t.Errorf("rounded to %v, want %v", got, want)
	}
}

// FuzzScore checks that the host would accept every result, whatever the facts contain, and that its signals add up to
// the score.
func FuzzScore(f *testing.F) {
	suite := layertest.Open(f, ".")
	for _, c := range suite.Cases {
		e, err := entity.Parse(c.Type, c.Value, c.Country)
		if err != nil {
			f.Fatal(err)
		}
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
				if sum += s.Points; s.Points < 0 {
					t.Errorf("a signal subtracts %d points: %+v", -s.Points, got.Signals)
				}
			}
			if sum != got.Score {
				t.Errorf("signals add up to %d, the score is %d", sum, got.Score)
			}
		}
	})
}

func BenchmarkScore(b *testing.B) {
	for name, value := range map[string]string{
		"honest":   "baeckerei-mueller.de",
		"reported": "paypa1-secure-login.xyz",
		"longest":  strings.Repeat("konto-", 10) + "abc." + strings.Repeat("sicherheit-", 5) + "online.top",
	} {
		b.Run(name, func(b *testing.B) {
			facts := facts(b, value)
			b.ReportAllocs()
			for b.Loop() {
				sdk.Run(Score, facts)
			}
		})
	}
}
