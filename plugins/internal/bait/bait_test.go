package bait

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"

	"assay/registry/expect"
)

func TestFind(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		label string
		want  []string
	}{
		"between hyphens":                  {"verify-my-account", []string{"verify", "my", "account"}},
		"joined":                           {"secureaccountverify", []string{"secure", "account", "verify"}},
		"inside other letters":             {"blumenverification", []string{"verification"}},
		"short next to a hyphen":           {"pay-blumen", []string{"pay"}},
		"short next to another word":       {"paynow", []string{"pay", "now"}},
		"short next to a digit":            {"pay24", []string{"pay", "24"}},
		"short inside a word":              {"papayas", nil},
		"short at the start of a word":     {"paynter", nil},
		"five letters with one edge":       {"tokenblumen", []string{"token"}},
		"five letters with none":           {"utokener", nil},
		"longest first":                    {"accounts", []string{"accounts"}},
		"plural s begins the next word":    {"walletsync", []string{"wallet", "sync"}},
		"plural":                           {"wallets-blumen", []string{"wallets"}},
		"harmless word":                    {"blumenpartnership", nil},
		"harmless word before a bait word": {"partnership-login", []string{"login"}},
		"letters outside ASCII":            {"pay-müller", []string{"pay"}},
		"empty":                            {"", nil},
		"one letter":                       {"a", nil},
		"dropped word is not an edge":      {"xpaynow", nil},
	} {
		var got []string
		for _, f := range Find(tt.label, nil) {
			got = append(got, tt.label[f.Start:f.End])
		}
		expect.NoDiff(t, name, tt.want, got)
	}
	appended := Find("partnership-login", []Match{{Start: 1, End: 2, Class: Work}})
	want := []Match{{Start: 1, End: 2, Class: Work}, {Start: 12, End: 17, Class: Login}}
	expect.NoDiff(t, "appended", want, appended, cmpopts.IgnoreUnexported(Match{}))
}

// One edge suffices for words marked with a plus, while other short words still need two.
func TestFindLoosely(t *testing.T) {
	t.Parallel()
	for label, tt := range map[string]struct{ strictly, loosely []string }{
		"gamecoin":      {nil, []string{"coin"}},
		"coinwiese":     {nil, []string{"coin"}},
		"xcoinx":        {nil, nil},
		"payette":       {nil, nil},
		"swap-wiese":    {[]string{"swap"}, []string{"swap"}},
		"wiesegiftcoin": {nil, []string{"gift", "coin"}},
	} {
		for _, read := range []struct {
			how  func(string, []Match) []Match
			want []string
		}{{Find, tt.strictly}, {FindLoosely, tt.loosely}} {
			var got []string
			for _, f := range read.how(label, nil) {
				got = append(got, label[f.Start:f.End])
			}
			expect.NoDiff(t, label, read.want, got)
		}
	}
}

func TestClasses(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]Class{
		"login": Login, "airdrop": Prize | Crypto, "partnership": harmless,
		"blumen": 0, "logi": 0, "loginx": 0, "": 0, "a": 0,
	} {
		expect.Equal(t, "Classes of "+word, Classes(word), want)
	}
}

// Every word must be valid in a label and found on its own, with its class.
func TestLexicon(t *testing.T) {
	t.Parallel()
	eachEntry(t, func(word string, class Class, _ bool) {
		expect.That(t, len(word) >= 2 && strings.Trim(word, "abcdefghijklmnopqrstuvwxyz0123456789-") == "",
			"%q is not valid in a label", word)
		if f := longestAt(word, 0); f.End != len(word) || f.Class&class != class {
			t.Errorf("looking up %q finds %d letters of class %b", word, f.End, f.Class)
		}
	})
}

func FuzzFind(f *testing.F) {
	f.Add("secureaccountverify-24")
	f.Add("paypäl-wallets\xff")
	f.Fuzz(func(t *testing.T, label string) {
		at := 0
		for _, found := range Find(label, nil) {
			expect.Must(t, found.Start >= at && found.End > found.Start && found.End <= len(label) &&
				found.Class != harmless, "Find(%q) finds %+v after %d", label, found, at)
			at = found.End
		}
	})
}
