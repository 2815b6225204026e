package main

import (
	"strings"
	"testing"

	"assay/registry/expect"
)

func TestSkeleton(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ label, want string }{
		"digits":        {"g00g1e", "google"},
		"pairs":         {"rnicrosoft", "mlcrosoft"},
		"hyphens":       {"pay-pal", "paypal"},
		"accents":       {"zürîch", "zurlch"},
		"ligatures":     {"æther", "aether"},
		"Cyrillic":      {"раураl", "paypal"},
		"Greek":         {"gοοgle", "google"},
		"no look-alike": {"a例b", "a\x00b"},
		"invalid":       {"a\xffb", "a\x00b"},
	} {
		expect.Equal(t, name, skeletonString(tt.label), tt.want)
	}
}

func TestSkeletonIsBounded(t *testing.T) {
	t.Parallel()
	if got := len(skeletonString(strings.Repeat("æ", 4*maxLetters))); got != 2*maxLetters {
		t.Errorf("the skeleton of a label of ligatures has %d letters, want %d", got, 2*maxLetters)
	}
}

// skeletonString returns the skeleton of label.
func skeletonString(label string) string {
	var s skeleton
	readSkeleton(label, &s)
	return string(s.text[:s.n])
}
