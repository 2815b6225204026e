package excerpt_test

import (
	"strings"
	"testing"

	"assay/plugins/excerpt"
	"assay/sdk"
)

func TestOf(t *testing.T) {
	t.Parallel()
	cases := map[string]struct{ in, want string }{
		"short ascii is kept": {"example.com", "example.com"},
		"empty":               {"", ""},
		"exactly the bound":   {strings.Repeat("a", excerpt.MaxBytes), strings.Repeat("a", excerpt.MaxBytes)},
		"one byte over is cut": {strings.Repeat("a", excerpt.MaxBytes+1), strings.Repeat("a", excerpt.MaxBytes) +
			"…"},
		"cut between two characters": {strings.Repeat("a", excerpt.MaxBytes-1) + "éb",
			strings.Repeat("a", excerpt.MaxBytes-1) + "…"},
		"control":                  {"a\nb\x7fc", "a?b?c"},
		"bidi control":             {"a\u202eb\u2066c", "a?b?c"},
		"not utf-8":                {"a\xffb", "a?b"},
		"letters of other scripts": {"пример.рф", "пример.рф"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := excerpt.Of(tc.in); got != tc.want {
				t.Errorf("Of(%q) = %q, want %q", tc.in, got, tc.want)
			}
		})
	}
}

func FuzzOf(f *testing.F) {
	f.Add("example.com")
	f.Add("a\xff\u202e\x00" + strings.Repeat("é", 40))
	f.Fuzz(func(t *testing.T, s string) {
		got := excerpt.Of(s)
		if len(got) > excerpt.MaxBytes+len("…") {
			t.Errorf("Of(%q) is %d bytes", s, len(got))
		}
		if got != "" && sdk.ValidText(got) != nil {
			t.Errorf("Of(%q) = %q: %v", s, got, sdk.ValidText(got))
		}
	})
}
