package main

import (
	"testing"

	"assay/host/check"
	"assay/registry/expect"
	"assay/registry/layertest"
	"assay/sdk"
)

// TestVerdicts runs the cases, and checks that the layer alone never reaches review.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	suite := layertest.Open(t, ".")
	suite.RunCases(t, Score)
	suite.CheckVerdict(t, check.Allow, pointsLongest)
}

// TestMonotone checks that a nearer or longer name never scores less.
func TestMonotone(t *testing.T) {
	t.Parallel()
	for distance := range 4 {
		for letters := 7; letters < 63; letters++ {
			expect.That(t, domainPoints(distance, letters) <= domainPoints(distance, letters+1),
				"distance %d scores more with %d letters than with one more", distance, letters)
			expect.That(t, distance <= 0 || letters <= 9 || domainPoints(distance, letters) <= domainPoints(distance-1,
				letters), "distance %d with %d letters scores more than a smaller distance", distance, letters)
		}
	}
}

// FuzzScore checks that the host would accept every result, whatever the facts contain.
func FuzzScore(f *testing.F) {
	suite := layertest.Open(f, ".")
	f.Add("domain", "paypa1.com", "1", "7", "phishing", "A", "")
	f.Add("user", "\xff\n", "-1", "1e9", "\u202e", "\x00", "x")
	f.Fuzz(func(t *testing.T, part, nearest, distance, letters, category, list, good string) {
		suite.Check(t, Score, sdk.Facts{
			"similar.part": part, "similar.nearest": nearest, "similar.distance": distance, "similar.letters": letters,
			"similar.category": category, "similar.list": list, "feed.good": good, "feed.rank": letters,
		})
	})
}
