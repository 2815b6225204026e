package wordlist_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"assay/plugins/internal/wordlist"
	"assay/registry/expect"
)

func TestHas(t *testing.T) {
	t.Parallel()
	const list = "alpha beta\ndelta gamma\nomega "
	for word, want := range map[string]bool{
		"alpha": true, "delta": true, "omega": true, // the first, one in the middle, the last
		"aa": false, "cc": false, "zz": false, // before all, between two, after all
		"gam": false, "amma": false, "betas": false, "alpha beta": false, "": false, // parts of one, and more than one
	} {
		expect.Equal(t, "the list has "+word, wordlist.Has(list, word), want)
	}
	expect.Equal(t, "an empty list has a word", wordlist.Has("", "alpha"), false)
	expect.Equal(t, "a list of one word has it", wordlist.Has("alpha\n", "alpha"), true)
}

func TestFault(t *testing.T) {
	t.Parallel()
	for list, want := range map[string]string{
		"a b\nc\n": "", "": "", "b a\n": "a?", "a a\n": "a?", // sorted, empty, out of order, repeated
		"a  b\n": "?", "a\tb\n": "a?", "a b": "b?", // two blanks, a tab, not ended
	} {
		expect.Equal(t, strconv.Quote(list), wordlist.Fault(list), want)
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
