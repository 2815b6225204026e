package bait

import (
	"cmp"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"assay/plugins/internal/generated"
	"assay/plugins/internal/table"
	"assay/registry/expect"
)

// TestWords fails if words.bin does not follow from the lexicon and ASSAY_UPDATE does not ask for a new one.
func TestWords(t *testing.T) {
	t.Parallel()
	want := wordsOf(t)
	generated.Check(t, "words.bin", want.file())
	expect.That(t, reflect.DeepEqual(openWords(string(want.file())), want), "the words that are read differ")
}

// wordsOf returns the words of the lexicon.
func wordsOf(t *testing.T) *words {
	t.Helper()
	type lettered struct {
		word string
		entry
	}
	var buckets [1 << bucketBits][]lettered
	x := &words{starts: []uint16{0}, pairs: make([]Class, 36*36), secondLetters: make([]uint64, 37)}
	eachEntry(t, func(word string, class Class, oneEdge bool) {
		first, second := int(letterNumber[word[0]]), int(letterNumber[word[1]])
		expect.Must(t, first != 36 && second != 36, "%q does not begin with two letters or digits", word)
		x.secondLetters[first] |= 1 << second
		if len(word) == 2 {
			x.pairs[first*36+second] |= class
			return
		}
		b := &buckets[bucket(headOf(word))]
		if k := slices.IndexFunc(*b, func(e lettered) bool { return e.word == word }); k >= 0 {
			(*b)[k].class |= class
		} else {
			*b = append(*b, lettered{word, entry{headOf(word), class, 0, uint8(len(word)),
				uint8(8 * max(headBytes-len(word), 0)), oneEdge}})
		}
	})
	for _, b := range buckets {
		slices.SortStableFunc(b, func(a, b lettered) int { return cmp.Compare(len(b.word), len(a.word)) })
		for _, e := range b {
			if rest := e.word[min(len(e.word), headBytes):]; rest != "" {
				at := strings.Index(x.tails, rest)
				if at < 0 {
					at = len(x.tails)
					x.tails += rest
				}
				e.tail = uint16(at)
			}
			x.entries = append(x.entries, e.entry)
		}
		x.starts = append(x.starts, uint16(len(x.entries)))
	}
	return x
}

// file returns the file that openWords reads.
func (x *words) file() []byte {
	var w table.Writer
	table.AddNumbers(&w, x.starts)
	w.Len(len(x.entries))
	for _, e := range x.entries {
		w.Number(8, e.head)
		w.Number(4, uint64(e.class))
		w.Number(2, uint64(e.tail))
		w.Number(1, uint64(e.length))
		w.Number(1, uint64(e.shift))
		oneEdge := uint64(0)
		if e.oneEdge {
			oneEdge = 1
		}
		w.Number(1, oneEdge)
	}
	w.Text(x.tails)
	table.AddNumbers(&w, x.pairs)
	table.AddNumbers(&w, x.secondLetters)
	return w
}

// classNames are the headings of lexicon.txt, in the order of the classes. Words under "harmless" have none.
const classNames = "login verify secure account urgent bank pay refund parcel fee official prize crypto connect " +
	"invest support work romance shop cheat gaming software gamble loan goods pets filler"

// eachEntry calls visit for every word of lexicon.txt in order, and for a word with several classes once per class.
func eachEntry(t *testing.T, visit func(word string, class Class, oneEdge bool)) {
	t.Helper()
	class := harmless
	for line := range strings.Lines(string(expect.Value(os.ReadFile("lexicon.txt"))(t))) {
		if heading, ok := strings.CutPrefix(strings.TrimSpace(line), "["); ok {
			class = harmless
			if heading != "harmless]" {
				class = 1 << slices.Index(strings.Fields(classNames), strings.TrimSuffix(heading, "]"))
			}
			continue
		}
		if line[0] == '#' {
			continue
		}
		for text := range strings.FieldsSeq(line) {
			word, oneEdge := strings.CutSuffix(text, "+")
			visit(word, class, oneEdge)
		}
	}
}
