package spelling

import (
	"math"
	"strings"
	"testing"

	"assay/registry/expect"
)

func TestOf(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		host, suffix string
		want         Domain
		ok           bool
	}{
		"plain":          {"example.com", "com", Domain{Label: "example", Suffix: "com"}, true},
		"under a host":   {"a.b.example.co.uk", "co.uk", Domain{Label: "example", Left: "a.b", Suffix: "co.uk"}, true},
		"suffix alone":   {"co.uk", "co.uk", Domain{}, false},
		"another suffix": {"example.com", "net", Domain{}, false},
		"no suffix":      {"example.com", "", Domain{}, false},
		"suffix in name": {"examplecom", "com", Domain{}, false},
		"empty":          {"", "", Domain{}, false},
		"too long": {strings.Repeat("a", 64) + ".com", "com",
			Domain{Label: strings.Repeat("a", 64), Suffix: "com"}, false},
	} {
		d, ok := Of(tc.host, tc.suffix)
		expect.That(t, d == tc.want && ok == tc.ok, "%s: Of(%q, %q) = %+v, %v", name, tc.host, tc.suffix, d, ok)
	}
}

// TestFeaturesDependOnAllParts checks that changing any part of a domain changes its features.
func TestFeaturesDependOnAllParts(t *testing.T) {
	t.Parallel()
	domains := []Domain{
		{"example", "", "com"}, {"exemple", "", "com"}, {"example", "", "net"}, {"example", "mail", "com"},
		{"example", "post", "com"}, {"example", "a.b", "com"}, {"ex-ample", "", "com"}, {"examp1e", "", "com"},
		{"example", "", "co.uk"}, {"example", "", "me.uk"},
	}
	seen := map[string]Domain{}
	for _, d := range domains {
		var key strings.Builder
		for _, f := range d.Features(nil) {
			key.WriteRune(rune(f.Slot))
		}
		other, found := seen[key.String()]
		expect.That(t, !found, "%+v and %+v have the same features", d, other)
		seen[key.String()] = d
	}
}

func TestEncode(t *testing.T) {
	t.Parallel()
	weights := make([]float64, Slots)
	for i := range weights {
		weights[i] = float64(i%90-45) * Quantum
	}
	weights[0], weights[1], weights[2] = 1000, -1000, 0.4*Quantum
	coded := Encode(weights)
	expect.Equal(t, "steps of out-of-range and tiny weights", [3]int{coded.At(0), coded.At(1), coded.At(2)},
		[3]int{highest - zero, lowest - zero, 0})
	for i := 3; i < Slots; i++ {
		got := float64(coded.At(uint16(i))) * Quantum
		expect.Must(t, math.Abs(got-weights[i]) <= Quantum/2, "slot %d decodes to %v, want %v", i, got, weights[i])
	}
	expect.That(t, Weights("").At(7) == 0 && Weights("").Sum([]Feature{{Slot: 9}}) == 0,
		"empty weights do not read as 0")
}

func FuzzFeatures(f *testing.F) {
	f.Add("mail.example.co.uk", "co.uk")
	f.Add(strings.Repeat("a-1.", 62)+"com", "com")
	f.Add("\xff.\x00.com", "com")
	f.Fuzz(func(t *testing.T, host, suffix string) {
		d, ok := Of(host, suffix)
		if !ok {
			return
		}
		features := d.Features(nil)
		expect.Must(t, len(features) <= MaxFeatures, "%d features", len(features))
		for _, feature := range features {
			expect.Must(t, feature.Start <= feature.End && int(feature.End) <= len(d.Label), "feature %+v of %+v",
				feature, d)
		}
	})
}
