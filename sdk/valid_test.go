//go:build !wasip1

package sdk_test

import (
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"assay/registry/expect"
	"assay/sdk"
)

// validity says whether a text is valid.
type validity struct {
	name, text string
	ok         bool
}

func checkAll(t *testing.T, valid func(string) error, cases []validity) {
	t.Helper()
	for _, c := range cases {
		expect.Equal(t, c.name+": "+c.text, valid(c.text) == nil, c.ok)
	}
}

func TestValidText(t *testing.T) {
	t.Parallel()
	checkAll(t, sdk.ValidText, []validity{
		{"a sentence", "paypa1 looks like paypal: digit 1 for letter l", true},
		{"beyond ASCII", "пример — 例え 👍", true}, {"markup is text", "<b>&amp;</b>", true},
		{"no-break space", "a\u00a0b", true}, {"240 bytes", strings.Repeat("x", 240), true},
		{"241 bytes", strings.Repeat("x", 241), false},
		{"242 bytes of two each", strings.Repeat("é", 121), false},
		{"empty", "", false}, {"NUL", "a\x00b", false},
		{"tab", "a\tb", false}, {"line end", "a\nb", false},
		{"terminal escape", "\x1b[31mred", false}, {"delete", "a\x7fb", false},
		{"first of C1", "a\u0080b", false}, {"last of C1", "a\u009fb", false},
		{"line separator", "a\u2028b", false}, {"right-to-left override", "a\u202eb", false},
		{"last isolate", "a\u2069b", false},
		{"line break of punctuation and narrow space", "a\u2027\u202fb", true},
		{"soft hyphen", "pay\u00adpal", false}, {"zero width space", "pay\u200bpal", false},
		{"zero width joiner in Latin", "pay\u200dpal", false},
		{"zero width non-joiner in Latin", "pay\u200cpal", false},
		{"zero width non-joiner in Persian", "نامه\u200cای", true},
		{"zero width joiner in Hindi", "क्\u200dष", true},
		{"joiner after a virama", "क्\u200d", true}, {"two joiners", "क्\u200d\u200dष", false},
		{"non-joiner after a vowel sign", "بَ\u200cب", true},
		{"joiner between scripts", "क\u200dب", false}, {"left-to-right mark", "a\u200eb", false},
		{"word joiner", "a\u2060b", false}, {"unassigned", "a\u2065b", false},
		{"byte order mark", "\ufeffa", false}, {"interlinear annotation", "a\ufff9b", false},
		{"language tag", "a\U000e0001b", false}, {"variation selector", "a\ufe0fb", false},
		{"combining grapheme joiner", "a\u034fb", false},
		{"Hangul initial filler", "a\u115fb", false}, {"half-width Hangul filler", "a\uffa0b", false},
		{"Khmer inherent vowel", "a\u17b4b", false}, {"blank Braille pattern", "a\u2800b", false},
		{"musical format character", "a\U0001d173b", false}, {"private use", "a\ue000b", false},
		{"not a character", "a\uffffb", false}, {"spaces alone", " \u00a0\u3000", false},
		{"combining characters alone", "\u0301\u0308", false},
		{"combining character first", "\u0301a", false},
		{"space and combining character", " \u0301a", false},
		{"accents", "Zażółć gęślą jaźń, e\u0301", true}, {"Arabic with vowels", "مُحَمَّد", true},
		{"Hebrew", "שָׁלוֹם", true}, {"Hindi", "नमस्ते दुनिया", true},
		{"Tibetan", "བོད་སྐད།", true}, {"Korean", "한국어, ᄒ", true},
		{"Chinese and Japanese", "他们说，「日本語」のー", true},
		{"currency and arrows", "€ 5 → £4 ≈ ½ №1", true}, {"not UTF-8", "a\xffb", false},
		{"a surrogate", "a\xed\xa0\x80", false},
	})
}

// Nothing that a layer writes can be taken for a sentence of the host.
func TestTextsCannotImitateHost(t *testing.T) {
	t.Parallel()
	checkAll(t, sdk.ValidText, []validity{
		{"the beginning itself", "Assay: Nothing could be learned", false},
		{"without the space", "Assay:nothing", false},
		{"spaces before", "  \u00a0Assay: nothing", false},
		{"spaces between", "A s\u2009s a y : nothing", false},
		{"punctuation before", "» -Assay: nothing", false}, {"Cyrillic", "Аѕѕау: nothing", false},
		{"accents", "Ássày: nothing", false}, {"full width", "Ａｓｓａｙ： nothing", false},
		{"circled letters", "Ⓐⓢⓢⓐⓨ: nothing", false}, {"digits and symbols", "4$5@y: nothing", false},
		{"small capitals", "ᴀꜱꜱᴀʏ: nothing", false}, {"ratio", "Assay∶ nothing", false},
		{"Lisu tone letter", "Assayꓽ nothing", false}, {"semicolon", "Assay; nothing", false},
		{"dash", "Assay — nothing", false},
		{"the name of the checked domain", "assay.example looks like PayPal: digit 1", true},
		{"a name with a hyphen", "assay-office imitates an office", true},
		{"a quotation", "“assay: office” imitates an office", true},
		{"an address", "assay@example.com is disposable", true},
		{"another word", "Assayers: a trade", true}, {"another beginning", "As say: nothing", false},
		{"one letter less", "Assa: nothing", true},
		{"later in the text", "Listed by Assay: twice", true}, {"the word alone", "Assay", true},
	})
}

func TestThreatsAreDistinctWords(t *testing.T) {
	t.Parallel()
	seen := map[sdk.Threat]bool{}
	for _, threat := range sdk.Threats() {
		expect.That(t, !seen[threat] && sdk.ValidCode("a:b:"+string(threat)) == nil,
			"threat %q is listed twice or is not a word", threat)
		seen[threat] = true
		expect.That(t, threat.Published() && !(threat+"s").Published(), "%q is not published, or %[1]qs is", threat)
	}
	expect.That(t, !sdk.Threat("").Published(), "no threat is a published one")
	expect.That(t, len(seen) == 9, "%d threats are published", len(seen))
	sdk.Threats()[0] = "changed"
	expect.That(t, sdk.Threats()[0] == sdk.Phishing, "callers can change the published list")
}

var codePattern = regexp.MustCompile(`\A[a-z0-9_-]+(:[a-z0-9_-]+){2,}\z`)

func FuzzValidCode(f *testing.F) {
	for _, code := range []string{"a:b:c", "a:b", "a::c", "a:b:c:", "A:b:c", "", strings.Repeat("a:", 48), "abc",
		":b:c", "a:b:", "domain:brand:paypal", "a-z_0:9:x", "a:b:c:d", "a:b:" + strings.Repeat("c", 92),
		"a:b:" + strings.Repeat("c", 93), "a:b:C", "a:b:c d", "a:b:c.d", "a:b:c\n", "a:b:é", "a:b:\xff"} {
		f.Add(code)
	}
	f.Fuzz(func(t *testing.T, code string) {
		want := len(code) <= sdk.MaxCodeBytes && codePattern.MatchString(code)
		expect.Equal(t, code+" is valid", sdk.ValidCode(code) == nil, want)
	})
}

func TestCutText(t *testing.T) {
	t.Parallel()
	x := strings.Repeat("x", 300)
	for name, c := range map[string]struct{ text, want string }{
		"240 bytes":                 {x[:240], x[:240]},
		"241 bytes":                 {x[:241], x[:234] + "…"},
		"a character at the end":    {x[:233] + "日本語語語", x[:233] + "…"},
		"an open quotation":         {"Differs from “" + x + "”", "Differs from “" + x[:218] + "…”"},
		"a closed quotation":        {"“" + x[:100] + "” " + x, "“" + x[:100] + "” " + x[:127] + "…"},
		"an open plain quotation":   {`Differs from "` + x + `"`, `Differs from "` + x[:220] + `…"`},
		"a joiner where it was cut": {x[:228] + "क्\u200dक्\u200dष", x[:228] + "क्…"},
	} {
		expect.Equal(t, name, sdk.CutText(c.text), c.want)
		expect.Error(t, name, sdk.ValidText(c.want), nil)
	}
}

func FuzzValidText(f *testing.F) {
	for _, text := range []string{"text", "", "\x1b[0m", "a\u202eb", "\u2028", "\u0085", "\xff",
		strings.Repeat("x", 241), strings.Repeat("क्\u200dष", 30)} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		// A text is as valid as its parts: cutting a long one must not make it invalid.
		long := "Value: " + text + strings.Repeat("x", sdk.MaxTextBytes)
		if err := sdk.ValidText(sdk.CutText(long)); err != nil && sdk.ValidText("Value: "+text+"x") == nil {
			t.Errorf("%q is cut to an invalid text: %v", long, err)
		}
		err := sdk.ValidText(text)
		if err != nil {
			expect.That(t, utf8.ValidString(err.Error()) && !strings.ContainsFunc(err.Error(), unicode.IsControl),
				"the error %q repeats the refused text", err)
			return
		}
		expect.That(t, text != "" && len(text) <= sdk.MaxTextBytes && utf8.ValidString(text) &&
			!strings.ContainsFunc(text, unicode.IsControl) && !strings.HasPrefix(text, sdk.HostText),
			"%q is accepted", text)
	})
}
