package main

import (
	"fmt"
	"hash/fnv"
	"strings"
	"testing"

	"assay/host/check"
	"assay/host/entity"
	"assay/plugins/internal/bait"
	"assay/plugins/patterns/feature"
	"assay/registry/layertest"
	"assay/sdk"
)

func TestCases(t *testing.T) {
	t.Parallel()
	layertest.Open(t, ".").RunCases(t, Score)
}

// TestVerdicts checks that the layer alone never reaches review.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	layertest.Open(t, ".").CheckVerdict(t, check.Allow, 100)
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

func TestAbstainsWithoutAName(t *testing.T) {
	t.Parallel()
	if got := sdk.Run(Score, sdk.Facts{"domain.suffix": "github.io"}); got.Outcome != sdk.Abstained {
		t.Errorf("Score = %+v, want it to abstain", got)
	}
}

// A single bait word must add little, because honest names have single bait words, but two together must add much.
func TestWordsScoreInCombination(t *testing.T) {
	t.Parallel()
	plain := sdk.Run(Score, facts(t, entity.Domain, "blumenwiese-blumen.com")).Score
	for _, word := range []string{"login", "wallet", "parcel", "refund", "profit", "support", "gift", "bank", "jobs",
		"sale"} {
		one := sdk.Run(Score, facts(t, entity.Domain, "blumenwiese-"+word+".com")).Score
		two := sdk.Run(Score, facts(t, entity.Domain, "blumenwiese-"+word+"-verify.com")).Score
		if one > plain+35 || two < one+25 {
			t.Errorf("%s scores %d alone and %d with verify; the name without both scores %d", word, one, two, plain)
		}
	}
}

// Weak signs of honest names must score little, and all weak signs together stay within maxWeakPoints.
func TestWeakSignsAreBounded(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]int{
		"baeckerei-mueller.de": 0, "google.com": 0, "example.org": 0, "blumenwiese.github.io": 0,
		"landschaftsgaertnerei.de": 0, "blumenwiese.com": 10, "blumenwiese.weebly.com": 30, "blumenwiese.cyou": 32,
		"a.b.c.x9qz7xkqzvwrjtp4711-claim-airdrop-token.cyou": maxWeakPoints,
	} {
		points := 0
		for _, s := range sdk.Run(Score, facts(t, entity.Domain, name)).Signals {
			if s.Code == "patterns:shape:weak" {
				points = s.Points
			}
		}
		if points > limit {
			t.Errorf("the weak signs of %s score %d, want at most %d", name, points, limit)
		}
	}
}

// The odds are indexed by the position of a word in the lexicon, so they are only valid for the lexicon that they were
// learned with.
func TestOddsFitLexicon(t *testing.T) {
	t.Parallel()
	sum, size := fnv.New64a(), feature.WordAt
	bait.Each(func(word string, class bait.Class) {
		fmt.Fprintln(sum, word, uint32(class))
		size++
	})
	if sum.Sum64() != uint64(lexicon) || size != len(odds) {
		t.Errorf("the lexicon has hash %#x and %d features, the odds were learned with %#x and %d: "+
			"run plugins/internal/train/patterns", sum.Sum64(), size, uint64(lexicon), len(odds))
	}
}

func TestRarity(t *testing.T) {
	t.Parallel()
	plain := []string{"mueller", "schneider", "paczkowski", "zhongguancun", "dienstleistungen", "vergelijken",
		"beaulieu"}
	for _, word := range plain {
		if got := rarity.Of(word); got >= 20 {
			t.Errorf("the rarity of %q is %d, want below 20", word, got)
		}
	}
	for _, letters := range []string{"wvvmfxkx", "hjkqzd", "xkqzvwrjtp"} {
		if got := rarity.Of(letters); got < 20 {
			t.Errorf("the rarity of %q is %d, want 20 or more", letters, got)
		}
	}
}

// Splitting must lose no points: small shares become weak signs, and fold moves weak signs to the largest reason.
func TestSplitPoints(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		odds          shares
		points, words int
		want, folded  shares
	}{
		"in proportion": {shares{feature.Words: 30, feature.Suffix: 10}, 20, minPoints,
			shares{feature.Words: 15, weak: 5}, shares{feature.Words: 20}},
		"one word": {shares{feature.Words: 10, feature.Suffix: 30}, 36, minWordPoints,
			shares{weak: 36}, shares{weak: 36}},
		"parts that lower the odds get nothing": {
			shares{feature.Words: -20, feature.Hyphens: 20, feature.Length: 20}, 10, minPoints,
			shares{feature.Hyphens: 5, weak: 5}, shares{feature.Hyphens: 10},
		},
		"weak signs are bounded": {shares{feature.Suffix: 90}, 90, minPoints, shares{weak: maxWeakPoints},
			shares{weak: maxWeakPoints}},
		"no part raised the odds": {shares{}, 4, minPoints, shares{weak: 4}, shares{weak: 4}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := tt.odds.points(tt.points, tt.words)
			if *got != tt.want {
				t.Errorf("points(%d, %d) = %v, want %v", tt.points, tt.words, *got, tt.want)
			}
			if got.fold(); *got != tt.folded {
				t.Errorf("after fold, points are %v, want %v", *got, tt.folded)
			}
		})
	}
}

// FuzzScore checks that the host would accept every result, whatever the facts contain.
func FuzzScore(f *testing.F) {
	suite := layertest.Open(f, ".")
	for _, c := range suite.Cases {
		facts := facts(f, c.Type, c.Value)
		f.Add(facts["domain.name"], facts["domain.subdomain"], facts["domain.suffix"])
	}
	f.Fuzz(func(t *testing.T, name, subdomain, suffix string) {
		for _, kind := range []string{"icann", "private"} {
			suite.CheckResult(t, sdk.Run(Score, sdk.Facts{
				"domain.ascii": subdomain + "." + name + "." + suffix, "domain.registrable": name + "." + suffix,
				"domain.name": name, "domain.subdomain": subdomain, "domain.suffix_kind": kind,
			}))
		}
	})
}

func BenchmarkScore(b *testing.B) {
	for name, value := range map[string]string{
		"honest": "baeckerei-mueller.de",
		"bait":   "paypa1-secure-login.xyz",
		"longest": strings.Repeat("login-"+strings.Repeat("verify-", 8)+"a.", 3) + strings.Repeat("wallet-", 7) +
			"net.top",
		"random":    "xkqzvwrjtp.top",
		"four deep": "a.b.c.d.blumenwiese.de",
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

// Padding words, such as app or start, must not be named as bait words, although they add points.
func TestPaddingIsNotBait(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"starts-trzzoncdn.wixstudio.com", "app-blockstreet.xyz",
		"startio-ledgreapps.wixstudio.com"} {
		got := sdk.Run(Score, facts(t, entity.Domain, name))
		if got.Score == 0 {
			t.Errorf("%s scores 0, so it does not test padding", name)
		}
		for _, s := range got.Signals {
			if strings.HasPrefix(s.Code, "patterns:lure:") {
				t.Errorf("%s: %s", name, s.Text)
			}
		}
	}
}
