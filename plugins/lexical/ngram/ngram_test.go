package ngram_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"assay/plugins/internal/suffix"
	"assay/plugins/lexical/ngram"
)

func TestOf(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		host suffix.Host
		want ngram.Address
	}{
		"own domain": {
			suffix.Host{Name: "example", Subdomain: "a.b", Suffix: "co.uk", TLD: "uk"},
			ngram.Address{Name: "example", Left: "a.b", Suffix: "co.uk", TLD: "uk"},
		},
		"shared host": {
			suffix.Host{Name: "site", Suffix: "pages.dev", TLD: "dev", Private: true},
			ngram.Address{Name: "site", Suffix: "pages.dev", TLD: "dev", Hosted: true},
		},
		"www is dropped": {
			suffix.Host{Name: "example", Subdomain: "www", Suffix: "com", TLD: "com"},
			ngram.Address{Name: "example", Suffix: "com", TLD: "com"},
		},
		"www before another label is dropped": {
			suffix.Host{Name: "example", Subdomain: "www.login", Suffix: "com", TLD: "com"},
			ngram.Address{Name: "example", Left: "login", Suffix: "com", TLD: "com"},
		},
		"long name": {
			suffix.Host{Name: "a" + strings.Repeat("ü", 60), Suffix: "de", TLD: "de"},
			ngram.Address{Name: "a" + strings.Repeat("ü", 31), Suffix: "de", TLD: "de"},
		},
		"long left": {
			suffix.Host{Name: "n", Subdomain: strings.Repeat("ü", 60) + "a", Suffix: "de", TLD: "de"},
			ngram.Address{Name: "n", Left: strings.Repeat("ü", 19) + "a", Suffix: "de", TLD: "de"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := ngram.Of(&tt.host); got != tt.want {
				t.Errorf("Of() = %+v, want %+v", got, tt.want)
			}
		})
	}
}

// Features must stay within their text, and no address may have more than MaxFeatures.
func TestFeaturesBounded(t *testing.T) {
	t.Parallel()
	for name, a := range map[string]ngram.Address{
		"empty":    {},
		"shortest": {Name: "a", Suffix: "b", TLD: "b"},
		"longest": {Name: strings.Repeat("a1", 32), Left: strings.Repeat("b-", 20), Suffix: strings.Repeat("c", 200),
			TLD: "c"},
		"bytes": {Name: "\xff\xfe-\x00", Left: "\xff", Suffix: "\xff", TLD: "\xff"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			list := a.Features(make([]ngram.Feature, 0, ngram.MaxFeatures))
			if len(list) == 0 || len(list) > ngram.MaxFeatures {
				t.Fatalf("%d features, want 1 to %d", len(list), ngram.MaxFeatures)
			}
			for _, f := range list {
				limit := len(a.Name)
				if f.Part == ngram.Left {
					limit = len(a.Left)
				}
				if int(f.Start) > int(f.End) || int(f.End) > limit {
					t.Errorf("feature %+v lies outside %d bytes", f, limit)
				}
			}
		})
	}
}

// TestFeaturesAreStable checks that features keep the hashes that the weights were learned for. They may only change
// with the version in magic.
func TestFeaturesAreStable(t *testing.T) {
	t.Parallel()
	a := ngram.Address{Name: "konto-24", Left: "login", Suffix: "co.uk", TLD: "uk"}
	var all uint32
	list := a.Features(nil)
	for _, f := range list {
		all = all*31 + f.Hash
	}
	if len(list) != wantFeatures || all != wantHash {
		t.Errorf("%d features with hash %#x, want %d with %#x", len(list), all, wantFeatures, uint32(wantHash))
	}
}

const (
	wantFeatures = 91
	wantHash     = 0x4e483e8f
)

// smallTable returns a table of twelve slots with levels in steps of a half.
func smallTable() (head ngram.Head, pieces []string) {
	head = ngram.Head{Slots: 4 * ngram.Pieces, Scale: 10, Offset: 50}
	for i := range head.Levels {
		head.Levels[i] = float32(i) / 2
	}
	return head, []string{"\x10\x32", "\x54\x76", "\x98\xba"} // slot k holds level k
}

func TestWeight(t *testing.T) {
	t.Parallel()
	head, pieces := smallTable()
	table, err := ngram.Open(string(head.Encode()), pieces...)
	if err != nil {
		t.Fatal(err)
	}
	var got []float32
	for slot := range uint64(head.Slots) {
		hash := uint32((slot<<32 + 1<<31) / uint64(head.Slots)) // the middle of the hashes of this slot
		got = append(got, table.Weight(hash))
	}
	if want := head.Levels[:head.Slots]; !slices.Equal(got, want) {
		t.Errorf("weights by slot are %v, want %v", got, want)
	}
	if got := table.Points(-1.5); got != 35 {
		t.Errorf("Points(-1.5) = %v, want 35", got)
	}
	for _, hash := range []uint32{0, math.MaxUint32} {
		table.Weight(hash) // must not panic
	}
}

func TestOpenRejects(t *testing.T) {
	t.Parallel()
	tests := map[string]func(head *ngram.Head, text *string, pieces *[]string){
		"no head": func(_ *ngram.Head, text *string, _ *[]string) { *text = "" },
		"another version": func(_ *ngram.Head, text *string, _ *[]string) {
			*text = strings.Replace(*text, "/1\n", "/0\n", 1)
		},
		"a longer head":        func(_ *ngram.Head, text *string, _ *[]string) { *text += "\x00" },
		"no slots":             func(h *ngram.Head, _ *string, _ *[]string) { h.Slots = 0 },
		"odd slots":            func(h *ngram.Head, _ *string, _ *[]string) { h.Slots++ },
		"more slots":           func(h *ngram.Head, _ *string, _ *[]string) { h.Slots += 2 * ngram.Pieces },
		"a piece missing":      func(_ *ngram.Head, _ *string, p *[]string) { *p = (*p)[1:] },
		"a piece cut":          func(_ *ngram.Head, _ *string, p *[]string) { (*p)[2] = "\x00" },
		"a level not a number": func(h *ngram.Head, _ *string, _ *[]string) { h.Levels[3] = float32(math.NaN()) },
		"scale out of range":   func(h *ngram.Head, _ *string, _ *[]string) { h.Scale = float32(math.Inf(1)) },
	}
	for name, spoil := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			head, pieces := smallTable()
			var none string
			spoil(&head, &none, &pieces)
			text := string(head.Encode())
			spoil(&ngram.Head{}, &text, &[]string{"", "", ""})
			var fault ngram.FaultError
			if _, err := ngram.Open(text, pieces...); !errors.As(err, &fault) {
				t.Errorf("Open returned %v, want a FaultError", err)
			}
		})
	}
}
