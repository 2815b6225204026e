package quote_test

import (
	"strings"
	"testing"

	"assay/plugins/internal/quote"
	"assay/registry/expect"
	"assay/sdk"
)

// most is the most bytes of a quotation without the ellipsis.
const most = sdk.MaxQuoteBytes

func TestOf(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ in, want string }{
		"short ascii is kept":        {"example.com", "example.com"},
		"empty":                      {"", ""},
		"exactly the bound":          {strings.Repeat("a", most), strings.Repeat("a", most)},
		"one byte over is cut":       {strings.Repeat("a", most+1), strings.Repeat("a", most) + "…"},
		"cut between two characters": {strings.Repeat("a", most-1) + "éb", strings.Repeat("a", most-1) + "…"},
		"control":                    {"a\nb\x7fc", "“a?b?c”"},
		"bidi control":               {"a\u202eb\u2066c", "“a?b?c”"},
		"not utf-8":                  {"a\xffb", "“a?b”"},
		"variation selector":         {"a\ufe0fb", "“a?b”"},
		"joiners":                    {"نامه\u200cای", "“نامهای”"},
		"like a sentence's start":    {"assay:office", "“assay:office”"},
		"a letter like a colon":      {"assayːoffice", "“assayːoffice”"},
		"long and in quotes":         {"=" + strings.Repeat("a", most), "“=" + strings.Repeat("a", most-7) + "…”"},
		"letters of other scripts":   {"пример.рф", "пример.рф"},
	} {
		expect.Equal(t, name, quote.Of(tc.in), tc.want)
	}
}

func FuzzOf(f *testing.F) {
	f.Add("example.com")
	f.Add("a\xff\u202e\x00" + strings.Repeat("é", 40))
	f.Fuzz(func(t *testing.T, s string) {
		got := quote.Of(s)
		expect.That(t, len(got) <= most+len("…”"), "Of(%q) is %d bytes", s, len(got))
		expect.That(t, got == "" || sdk.ValidText(got) == nil, "Of(%q) = %q: %v", s, got, sdk.ValidText(got))
	})
}
