package suffix

import (
	"strconv"
	"strings"
	"testing"
)

func TestRisk(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		tld  string
		want int
	}{
		"much reported":           {"cyou", 27},
		"reported":                {"xyz", 14},
		"common":                  {"com", 0},
		"country":                 {"de", 0},
		"internationalised":       {"xn--p1ai", 0},
		"empty":                   {"", 0},
		"part of a listed suffix": {"you", 0},
		"start of a listed one":   {"to", 0},
		"an entry as written":     {"top:22", 0},
		"two entries":             {"cyou:27 shop", 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Risk(tt.tld); got != tt.want {
				t.Errorf("Risk(%q) = %d, want %d", tt.tld, got, tt.want)
			}
		})
	}
}

func TestRiskNeverReachesReviewAlone(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for entry := range strings.FieldsSeq(risky) {
		tld, digits, _ := strings.Cut(entry, ":")
		points, err := strconv.Atoi(digits)
		if err != nil || points < 1 || points > 30 {
			t.Errorf("%s is not worth 1 to 30 points", entry)
		}
		if Risk(tld) != points || seen[tld] {
			t.Errorf("Risk(%q) = %d, want %d once", tld, Risk(tld), points)
		}
		seen[tld] = true
	}
}

func TestNeutral(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		suffix string
		want   bool
	}{
		"projects":         {"github.io", true},
		"load balancers":   {"eu-west-1.elb.amazonaws.com", true},
		"buckets":          {"s3.amazonaws.com", false},
		"site builder":     {"weebly.com", false},
		"two entries":      {"github.io gitlab.io", false},
		"part of an entry": {"hub.io", false},
		"absent":           {"", false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Neutral(tt.suffix); got != tt.want {
				t.Errorf("Neutral(%q) = %v, want %v", tt.suffix, got, tt.want)
			}
		})
	}
}

func TestRestricted(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		suffix string
		want   bool
	}{
		"United States":       {"gov", true},
		"under a country":     {"gov.uk", true},
		"Spanish":             {"gob.es", true},
		"Austrian schools":    {"ac.at", true},
		"treaty bodies":       {"int", true},
		"Ascension":           {"ac", false},
		"Japanese ministries": {"go.jp", true},
		"interior of a word":  {"government", false},
		"commercial":          {"co.uk", false},
		"absent":              {"", false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Restricted(tt.suffix); got != tt.want {
				t.Errorf("Restricted(%q) = %v, want %v", tt.suffix, got, tt.want)
			}
		})
	}
}

func TestSite(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		registrable, subdomain string
		name, rest             string
		ok                     bool
	}{
		"site":          {"weebly.com", "blumenwiese", "blumenwiese", "", true},
		"deeper":        {"weebly.com", "a.b.blumenwiese", "blumenwiese", "a.b", true},
		"host itself":   {"weebly.com", "", "", "", false},
		"its front":     {"weebly.com", "www", "www", "", false},
		"another":       {"example.com", "blumenwiese", "", "", false},
		"not known":     {"", "blumenwiese", "", "", false},
		"with a blank":  {"weebly.com glitch.me", "a", "", "", false},
		"empty label":   {"weebly.com", "a.", "", "a", false},
		"part of a one": {"eebly.com", "a", "", "", false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			name, rest, ok := Site(tt.registrable, tt.subdomain)
			if name != tt.name || rest != tt.rest || ok != tt.ok {
				t.Errorf("Site(%q, %q) = %q, %q, %v", tt.registrable, tt.subdomain, name, rest, ok)
			}
		})
	}
}
