package main

import (
	"strings"
	"testing"

	"assay/host/entity"
	"assay/plugins/casebook"
	"assay/plugins/wordlist"
	"assay/sdk"
)

func TestCases(t *testing.T) {
	t.Parallel()
	casebook.Open(t, ".").Check(t, Score)
}

func TestManifest(t *testing.T) {
	t.Parallel()
	casebook.Open(t, ".").Declarations(t, "patterns", "domain", "email")
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

func TestAbstainsWithoutAName(t *testing.T) {
	t.Parallel()
	if got := sdk.Run(Score, sdk.Facts{"domain.suffix": "github.io"}); got.Outcome != sdk.Abstained {
		t.Errorf("Score = %+v, want it to abstain", got)
	}
}

// Each word of a pair alone must say nothing beyond what the name's shape says: single common words are honest.
func TestWordsScoreInCombination(t *testing.T) {
	t.Parallel()
	plain := sdk.Run(Score, facts(t, entity.Domain, "blumenwiese-blumen.com")).Score
	for _, word := range []string{"login", "wallet", "parcel", "refund", "profit", "support", "gift", "bank", "jobs", "sale"} {
		one := sdk.Run(Score, facts(t, entity.Domain, "blumenwiese-"+word+".com")).Score
		two := sdk.Run(Score, facts(t, entity.Domain, "blumenwiese-"+word+"-verify.com")).Score
		if one > plain+25 || two < one+25 {
			t.Errorf("%s scores %d alone and %d with verify, %d without either", word, one, two, plain)
		}
	}
}

// Weak signs must stay far from a reason to block: one of a name in good standing, and all together.
func TestShapeIsBounded(t *testing.T) {
	t.Parallel()
	for name, most := range map[string]int{
		"baeckerei-mueller.de": 0, "google.com": 0, "example.org": 0, "blumenwiese.github.io": 0, "landschaftsgaertnerei.de": 0,
		"blumenwiese.com": 10, "blumenwiese.weebly.com": 30, "blumenwiese.cyou": 32, "a.b.c.x9qz7xkqzvwrjtp4711-claim-airdrop-token.cyou": 60,
	} {
		points := 0
		for _, s := range sdk.Run(Score, facts(t, entity.Domain, name)).Signals {
			if s.Code == "patterns:shape:weak" {
				points = s.Points
			}
		}
		if points > most {
			t.Errorf("the shape of %s is worth %d points, more than %d", name, points, most)
		}
	}
}

func TestHonestSearchable(t *testing.T) {
	t.Parallel()
	if fault := wordlist.Fault(honest); fault != "" {
		t.Errorf("the list breaks at %q", fault)
	}
}

func TestRarity(t *testing.T) {
	t.Parallel()
	plain := []string{"mueller", "schneider", "paczkowski", "zhongguancun", "dienstleistungen", "vergelijken", "beaulieu"}
	for _, word := range plain {
		if got := rarityOf(word); got >= 20 {
			t.Errorf("rarityOf(%q) = %d, as for random letters", word, got)
		}
	}
	for _, letters := range []string{"wvvmfxkx", "hjkqzd", "xkqzvwrjtp"} {
		if got := rarityOf(letters); got < 20 {
			t.Errorf("rarityOf(%q) = %d, as for a word", letters, got)
		}
	}
}

// Signals must be ones the host takes, whatever the facts hold.
func FuzzScore(f *testing.F) {
	book := casebook.Open(f, ".")
	for _, c := range book.Cases {
		facts := facts(f, c.Type, c.Value)
		f.Add(facts["domain.name"], facts["domain.subdomain"], facts["domain.suffix"])
	}
	f.Fuzz(func(t *testing.T, name, subdomain, suffix string) {
		for _, kind := range []string{"icann", "private"} {
			book.Answer(t, sdk.Run(Score, sdk.Facts{
				"domain.ascii": subdomain + "." + name + "." + suffix, "domain.registrable": name + "." + suffix,
				"domain.name": name, "domain.subdomain": subdomain, "domain.suffix_kind": kind,
			}))
		}
	})
}

func BenchmarkScore(b *testing.B) {
	for name, value := range map[string]string{
		"honest":    "baeckerei-mueller.de",
		"lures":     "paypa1-secure-login.xyz",
		"longest":   strings.Repeat("login-"+strings.Repeat("verify-", 8)+"a.", 3) + strings.Repeat("wallet-", 7) + "net.top",
		"unspoken":  "xkqzvwrjtp.top",
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
