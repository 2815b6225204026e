package ngram_test

import (
	"errors"
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
		"own domain": {
			suffix.Host{Name: "example", Subdomain: "a.b", Suffix: "co.uk", TLD: "uk"},
			ngram.Address{Name: "example", Suffix: "co.uk", TLD: "uk"},
		},
		"shared host": {
			suffix.Host{Name: "site", Suffix: "pages.dev", TLD: "dev", Private: true},
			ngram.Address{Name: "site", Suffix: "pages.dev", TLD: "dev", Hosted: true},
		},
		"long name": {
			suffix.Host{Name: "a" + strings.Repeat("ü", 60), Suffix: "de", TLD: "de"},
			ngram.Address{Name: "a" + strings.Repeat("ü", 31), Suffix: "de", TLD: "de"},
		},
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

// No address may have more than MaxFeatures, and the sums must be those of its features.
func TestSum(t *testing.T) {
	t.Parallel()
	var levels [ngram.Levels]int32
	for i := range levels {
		levels[i] = int32(1000*i - 1000*i*i/9)
	}
	var piece [2]strings.Builder
	for i := range ngram.Slots / 2 {
		piece[i/(ngram.Slots/4)].WriteByte(byte(i*7 + i>>9))
	}
	table, err := ngram.Open(string(ngram.EncodeLevels(levels)), []byte(piece[0].String()), []byte(piece[1].String()))
	expect.NoError(t, err)
	for name, a := range addresses {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			list := a.Features(nil)
			if len(list) > ngram.MaxFeatures {
				t.Errorf("%d features, want at most %d", len(list), ngram.MaxFeatures)
			}
			want := int32(0)
			for _, h := range list {
				slot := ngram.Slot(h)
				want += levels[piece[slot/(ngram.Slots/2)].String()[slot%(ngram.Slots/2)/2]>>(slot%2*4)&0xf]
			}
			var sums ngram.Sums
			for range 2 { // the second time over what the first left
				table.Sum(&a, &sums)
				if got := sums.Parts[ngram.Name] + sums.Parts[ngram.Suffix] + sums.Parts[ngram.Shape]; got != want {
					t.Errorf("the weights add up to %d, want %d", got, want)
				}
			}
		})
	}
}

// TestFeaturesAreStable checks that features keep the hashes that the weights were learned for. They may only change
// with the version in magic.
func TestFeaturesAreStable(t *testing.T) {
	t.Parallel()
	a := addresses["ordinary"]
	var all uint32
	list := a.Features(nil)
	for _, h := range list {
		all = all*31 + h
	}
	if len(list) != wantFeatures || all != wantHash {
		t.Errorf("%d features with hash %#x, want %d with %#x", len(list), all, wantFeatures, uint32(wantHash))
	}
}

const (
	wantFeatures = 66
	wantHash     = 0xfceed067
)

func TestOpenRejects(t *testing.T) {
	t.Parallel()
	head := string(ngram.EncodeLevels([ngram.Levels]int32{}))
	piece := make([]byte, ngram.Slots/4)
	expect.Value(ngram.Open(head, piece, piece))(t)
	for name, tt := range map[string]struct {
		head   string
		pieces [][]byte
	}{
		"no head":         {"", [][]byte{piece, piece}},
		"another version": {strings.Replace(head, "/2\n", "/0\n", 1), [][]byte{piece, piece}},
		"a longer head":   {head + "\x00", [][]byte{piece, piece}},
		"a piece missing": {head, [][]byte{piece}},
		"a piece cut":     {head, [][]byte{piece, piece[1:]}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var fault ngram.FaultError
			if _, err := ngram.Open(tt.head, tt.pieces...); !errors.As(err, &fault) {
				t.Errorf("Open returned %v, want a FaultError", err)
			}
		})
	}
}
