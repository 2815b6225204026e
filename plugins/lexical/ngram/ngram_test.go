package ngram_test

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"

	"assay/plugins/internal/suffix"
	"assay/plugins/lexical/ngram"
	"assay/registry/expect"
)

func TestOf(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		host suffix.Host
		want ngram.Address
	}{
		"own domain": {suffix.Host{Name: "example", Subdomain: "a.b", Suffix: "co.uk", TLD: "uk"},
			ngram.Address{Name: "example", Suffix: "co.uk", TLD: "uk"}},
		"shared host": {suffix.Host{Name: "site", Suffix: "pages.dev", TLD: "dev", Private: true},
			ngram.Address{Name: "site", Suffix: "pages.dev", TLD: "dev", Hosted: true}},
		"long name": {suffix.Host{Name: "a" + strings.Repeat("ü", 60), Suffix: "de", TLD: "de"},
			ngram.Address{Name: "a" + strings.Repeat("ü", 31), Suffix: "de", TLD: "de"}},
	} {
		expect.Equal(t, name, ngram.Of(&tt.host), tt.want)
	}
}

// addresses are those at the limits of what the features read.
var addresses = map[string]ngram.Address{
	"empty":    {},
	"shortest": {Name: "a", Suffix: "b", TLD: "b"},
	"ordinary": {Name: "konto-24", Suffix: "co.uk", TLD: "uk"},
	"longest":  {Name: strings.Repeat("a1", 32), Suffix: strings.Repeat("c", 200), TLD: "c", Hosted: true},
	"bytes":    {Name: "\xff\xfe-\x00", Suffix: "\xff", TLD: "\xff"},
}

// words are the vocabulary of the tests.
func words(t *testing.T) *ngram.Words {
	t.Helper()
	table := ngram.EncodeWords([]string{"kon", "konto", "to"}, []uint8{100, 120, 90}, ngram.WordBits)
	return expect.Value(ngram.OpenWords(table, ngram.WordBits))(t)
}

// No address may have more than MaxFeatures, and the sums must be those of its features.
func TestSum(t *testing.T) {
	t.Parallel()
	var pieces [ngram.Pieces][]byte
	for i := range pieces {
		pieces[i] = make([]byte, ngram.Slots/ngram.Pieces)
		for at := range pieces[i] {
			pieces[i][at] = byte(at*7 + at>>9 + i)
		}
	}
	table := expect.Value(ngram.Open(string(ngram.Head{Points: 0.25, Bias: 3, Bar: 92}.Encode()), pieces[:]...))(t)
	expect.Each(t, addresses, func(t *testing.T, a ngram.Address) {
		reader := &ngram.Reader{Words: words(t)}
		reader.Read(&ngram.Address{Name: strings.Repeat("konto-", 10), Suffix: "com"}) // leaves something behind
		list := reader.Read(&a)
		var want [ngram.Parts]int
		for _, f := range list {
			slot, each := ngram.Slot(f.Hash), uint32(ngram.Slots/ngram.Pieces)
			want[f.Part] += int(int8(pieces[slot/each][slot%each]))
			expect.That(t, f.From <= f.To && int(f.To) <= len(a.Name),
				"a feature is about the bytes %d to %d of %q", f.From, f.To, a.Name)
		}
		var sums ngram.Sums
		for range 2 { // the second time over what the first left
			table.Sum(list, &sums)
		}
		for part, w := range want {
			want[part] = int(math.Round(float64(w) * 0.25 * ngram.Unit / math.Sqrt(float64(len(list)))))
		}
		expect.Equal(t, "sums", sums.Parts, want)
		expect.Equal(t, "bias", sums.Bias, 3*ngram.Unit)
	})
}

// Features keep the hashes that the weights were learned for. They may only change with the version in magic.
func TestFeaturesAreStable(t *testing.T) {
	t.Parallel()
	a := addresses["ordinary"]
	var all uint32
	list := (&ngram.Reader{Words: words(t)}).Read(&a)
	for _, f := range list {
		all = all*31 + f.Hash
	}
	expect.That(t, len(list) == wantFeatures && all == wantHash, "%d features with hash %#x, want %d with %#x",
		len(list), all, wantFeatures, uint32(wantHash))
}

const (
	wantFeatures = 88
	wantHash     = 0x518296d3
)

// A name is cut into the words with the smallest sum of costs.
func TestSegment(t *testing.T) {
	t.Parallel()
	var segments ngram.Segments
	for name, want := range map[string][]uint8{"konto": {5}, "kontokon": {5, 8}, "kom": {1, 2, 3}, "tokon": {2, 5},
		"": {}} {
		got := words(t).Segment(name, &segments)
		expect.That(t, bytes.Equal(got, want), "%q is cut at %v, want %v", name, got, want)
	}
}

func TestOpenRejects(t *testing.T) {
	t.Parallel()
	head, piece := string(ngram.Head{Points: 1, Bar: 92}.Encode()), make([]byte, ngram.Slots/ngram.Pieces)
	expect.Value(ngram.Open(head, piece, piece))(t)
	for name, tt := range map[string]struct {
		head   string
		pieces [][]byte
	}{
		"no head":         {"", [][]byte{piece, piece}},
		"other version":   {"assay.lexical/2\n" + head[16:], [][]byte{piece, piece}},
		"no scale":        {string(ngram.Head{Bar: 92}.Encode()), [][]byte{piece, piece}},
		"no bar":          {string(ngram.Head{Points: 1}.Encode()), [][]byte{piece, piece}},
		"no number":       {string(ngram.Head{Points: 1, Bias: math.NaN(), Bar: 92}.Encode()), [][]byte{piece, piece}},
		"one piece":       {head, [][]byte{piece}},
		"truncated piece": {head, [][]byte{piece, piece[1:]}},
	} {
		_, err := ngram.Open(tt.head, tt.pieces...)
		expect.That(t, errors.As(err, new(ngram.FaultError)), "%s: Open returns %v", name, err)
	}
	_, err := ngram.OpenWords(piece, ngram.WordBits)
	expect.That(t, errors.As(err, new(ngram.FaultError)), "OpenWords returns %v", err)
}
