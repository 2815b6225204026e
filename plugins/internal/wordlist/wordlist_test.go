package wordlist_test

import (
	"slices"
	"strings"
	"testing"

	"assay/plugins/internal/wordlist"
	"assay/registry/expect"
)

func TestHas(t *testing.T) {
	t.Parallel()
	const list = "alpha beta\ndelta gamma\nomega "
	for name, tc := range map[string]struct {
		list, word string
		want       bool
	}{
		"first":            {list, "alpha", true},
		"middle":           {list, "delta", true},
		"last":             {list, "omega", true},
		"before all":       {list, "aa", false},
		"between":          {list, "cc", false},
		"after all":        {list, "zz", false},
		"beginning of one": {list, "gam", false},
		"end of one":       {list, "amma", false},
		"longer than one":  {list, "betas", false},
		"two words":        {list, "alpha beta", false},
		"empty word":       {list, "", false},
		"empty list":       {"", "alpha", false},
		"one word":         {"alpha\n", "alpha", true},
	} {
		expect.Equal(t, name, wordlist.Has(tc.list, tc.word), tc.want)
	}
}

func TestFault(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ list, want string }{
		"sorted":       {"a b\nc\n", ""},
		"empty":        {"", ""},
		"out of order": {"b a\n", "a?"},
		"repeated":     {"a a\n", "a?"},
		"two blanks":   {"a  b\n", "?"},
		"tab":          {"a\tb\n", "a?"},
		"not ended":    {"a b", "b?"},
	} {
		expect.Equal(t, name, wordlist.Fault(tc.list), tc.want)
	}
}

func FuzzHas(f *testing.F) {
	f.Add("b a c", "b")
	f.Fuzz(func(t *testing.T, text, word string) {
		words := slices.Compact(slices.Sorted(strings.FieldsSeq(text)))
		list := ""
		for _, w := range words {
			list += w + "\n"
		}
		if wordlist.Fault(list) != "" {
			return // a word contains a control character
		}
		got := wordlist.Has(list, word)
		expect.That(t, got == slices.Contains(words, word), "Has(%q, %q) = %v", list, word, got)
		for _, w := range words {
			expect.That(t, wordlist.Has(list, w), "%q is not found in %q", w, list)
		}
	})
}
