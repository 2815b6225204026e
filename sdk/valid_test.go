//go:build !wasip1

package sdk_test

import (
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"assay/sdk"
)

func TestValidCode(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, code string
		ok         bool
	}{
		{"three words", "domain:brand:paypal", true},
		{"every kind of character", "a-z_0:9:x", true},
		{"one character each", "a:b:c", true},
		{"four words", "a:b:c:d", true},
		{"digits alone", "1:2:3", true},
		{"96 bytes", "a:b:" + strings.Repeat("c", 92), true},
		{"97 bytes", "a:b:" + strings.Repeat("c", 93), false},
		{"empty", "", false},
		{"one word", "abc", false},
		{"two words", "a:b", false},
		{"colons alone", "::", false},
		{"empty first word", ":b:c", false},
		{"empty second word", "a::c", false},
		{"empty last word", "a:b:", false},
		{"empty fourth word", "a:b:c:", false},
		{"capitals", "a:b:C", false},
		{"space", "a:b:c d", false},
		{"dot", "a:b:c.d", false},
		{"slash", "a/b:c:d", false},
		{"line end", "a:b:c\n", false},
		{"NUL", "a:b:c\x00", false},
		{"beyond ASCII", "a:b:é", false},
		{"not UTF-8", "a:b:\xff", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if err := sdk.ValidCode(c.code); (err == nil) != c.ok {
				t.Errorf("%q: %v", c.code, err)
			}
		})
	}
}

func TestValidText(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, text string
		ok         bool
	}{
		{"a sentence", "paypa1 looks like paypal: digit 1 for letter l", true},
		{"one character", "x", true},
		{"beyond ASCII", "пример — 例え 👍", true},
		{"markup is text", "<b>&amp;</b>", true},
		{"no-break space", "a\u00a0b", true},
		{"240 bytes", strings.Repeat("x", 240), true},
		{"240 bytes of two each", strings.Repeat("é", 120), true},
		{"241 bytes", strings.Repeat("x", 241), false},
		{"242 bytes of two each", strings.Repeat("é", 121), false},
		{"empty", "", false},
		{"NUL", "a\x00b", false},
		{"tab", "a\tb", false},
		{"line end", "a\nb", false},
		{"terminal escape", "\x1b[31mred", false},
		{"last of C0", "a\x1fb", false},
		{"delete", "a\x7fb", false},
		{"first of C1", "a\u0080b", false},
		{"last of C1", "a\u009fb", false},
		{"line separator", "a\u2028b", false},
		{"paragraph separator", "a\u2029b", false},
		{"first override", "a\u202ab", false},
		{"right-to-left override", "a\u202eb", false},
		{"first isolate", "a\u2066b", false},
		{"last isolate", "a\u2069b", false},
		{"just outside of the refused ranges", "\u2027\u202f\u2065\u206a", true},
		{"not UTF-8", "a\xffb", false},
		{"half a character", "a\xc3", false},
		{"a surrogate", "a\xed\xa0\x80", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if err := sdk.ValidText(c.text); (err == nil) != c.ok {
				t.Errorf("%q: %v", c.text, err)
			}
		})
	}
}

func TestThreatsAreDistinctWords(t *testing.T) {
	t.Parallel()
	seen := map[sdk.Threat]bool{}
	for _, threat := range sdk.Threats() {
		if seen[threat] || sdk.ValidCode("a:b:"+string(threat)) != nil {
			t.Errorf("threat %q is listed twice or is not a word", threat)
		}
		seen[threat] = true
	}
	if len(seen) != 9 {
		t.Errorf("%d threats are published", len(seen))
	}
	sdk.Threats()[0] = "changed"
	if sdk.Threats()[0] != sdk.Phishing {
		t.Error("callers can change the published list")
	}
}

var codePattern = regexp.MustCompile(`\A[a-z0-9_-]+(:[a-z0-9_-]+){2,}\z`)

func FuzzValidCode(f *testing.F) {
	for _, code := range []string{"a:b:c", "a:b", "a::c", "a:b:c:", "A:b:c", "", strings.Repeat("a:", 48)} {
		f.Add(code)
	}
	f.Fuzz(func(t *testing.T, code string) {
		want := len(code) <= sdk.MaxCodeBytes && codePattern.MatchString(code)
		if err := sdk.ValidCode(code); (err == nil) != want {
			t.Errorf("%q: %v, want valid %t", code, err, want)
		}
	})
}

func FuzzValidText(f *testing.F) {
	for _, text := range []string{"text", "", "\x1b[0m", "a\u202eb", "\u2028", "\u0085", "\xff",
		strings.Repeat("x", 241)} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		err := sdk.ValidText(text)
		if err != nil {
			if !utf8.ValidString(err.Error()) || strings.ContainsFunc(err.Error(), unicode.IsControl) {
				t.Errorf("the error %q repeats the refused text", err)
			}
			return
		}
		if text == "" || len(text) > sdk.MaxTextBytes || !utf8.ValidString(text) ||
			strings.ContainsFunc(text, unicode.IsControl) {
			t.Errorf("%q is accepted", text)
		}
	})
}
