package bait

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"

	"assay/registry/expect"
)

// found returns the words that a function finds in a label.
func found(find func(string, []Match) []Match, label string) string {
	var words []string
	for _, f := range find(label, nil) {
		words = append(words, label[f.Start:f.End])
	}
	return strings.Join(words, " ")
}

func TestFind(t *testing.T) {
	t.Parallel()
	for label, want := range map[string]string{
		"verify-my-account": "verify my account", "secureaccountverify": "secure account verify",
		"blumenverification": "verification", // inside other letters
		// A short word needs two edges: a hyphen, another word or a digit, of which a dropped word is none.
		"pay-blumen": "pay", "paynow": "pay now", "pay24": "pay 24", "pay-müller": "pay", "papayas": "", "paynter": "",
		"xpaynow":     "",
		"tokenblumen": "token", "utokener": "", // one of five letters needs one
		"accounts": "accounts", "wallets-blumen": "wallets", // the longest first, as plurals are
		"walletsync":        "wallet sync",                    // but the s begins the next word
		"blumenpartnership": "", "partnership-login": "login", // harmless words
		"": "", "a": "",
	} {
		expect.Equal(t, label, found(Find, label), want)
	}
	appended := Find("partnership-login", []Match{{Start: 1, End: 2, Class: Work}})
	want := []Match{{Start: 1, End: 2, Class: Work}, {Start: 12, End: 17, Class: Login}}
	expect.NoDiff(t, "appended", want, appended, cmpopts.IgnoreUnexported(Match{}))
}

// One edge suffices for words marked with a plus, while other short words still need two.
func TestFindLoosely(t *testing.T) {
	t.Parallel()
	for label, want := range map[string]struct{ strictly, loosely string }{
		"gamecoin": {"", "coin"}, "coinwiese": {"", "coin"}, "xcoinx": {}, "payette": {},
		"swap-wiese": {"swap", "swap"}, "wiesegiftcoin": {"", "gift coin"},
	} {
		expect.Equal(t, label, found(Find, label), want.strictly)
		expect.Equal(t, label+", loosely", found(FindLoosely, label), want.loosely)
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
