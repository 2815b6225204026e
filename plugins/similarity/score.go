package main

import (
	"slices"
	"strconv"
	"strings"

	"assay/plugins/internal/quote"
	"assay/sdk"
)

// The points, by the number of letters and the distance to the nearest reported name. They are proportional to the log
// of how much more often reported names have such a neighbour than honest ones do. Honest names resemble reported ones
// by chance, so the layer alone never reaches review in the default lineup (TestVerdicts).
const (
	pointsShort   = 20 // 7 to 9 letters
	pointsMedium  = 42 // 10 to 12
	pointsLong    = 60 // 13 to 15
	pointsLongest = 76 // 16 and more
	pointsOneOff  = 36 // not the same, 10 to 12 letters
	pointsNear    = 60 // not the same, 13 letters and more
	pointsUser    = 15
	minThreat     = 40 // the fewest points that name a threat
)

// Score scores an entity's name by its distance to the nearest reported one, from the similar.* facts.
func Score(c *sdk.Check) sdk.Outcome {
	part := c.Get("similar.part")
	distance, errDistance := strconv.Atoi(c.Get("similar.distance"))
	letters, errLetters := strconv.Atoi(c.Get("similar.letters"))
	if part == "" || errDistance != nil || errLetters != nil || distance < 0 || c.Get("feed.good") != "" {
		return sdk.Scored // reported names often imitate those on good lists
	}
	nearest, category := quote.Of(c.Get("similar.nearest")), sdk.Threat(c.Get("similar.category"))
	if !known(category) {
		category = ""
	}
	by := ", which " + quote.Of(c.Get("similar.list")) + " lists"
	if category != "" {
		by += " as " + strings.ReplaceAll(string(category), "_", " ")
	}
	points := domainPoints(distance, letters)
	switch {
	case part == "user":
		points = pointsUser
		c.Signal(points, "similarity:user:near", "the mailbox is nearly that of an address"+by)
	case distance == 0:
		c.Signal(points, "similarity:domain:same", "the same name as "+nearest+by+
			", but for hyphens, digits or the suffix")
	default:
		c.Signal(points, "similarity:domain:near", "nearly the same name as "+nearest+by+", but for "+edits(distance)+
			" of "+strconv.Itoa(letters))
	}
	if points >= minThreat && category != "" {
		c.Threat(category)
	}
	return sdk.Scored
}

// domainPoints returns the points of a name with a number of letters at a distance from a reported name. The host
// reports no distance above 0 for names of fewer than 10 letters.
func domainPoints(distance, letters int) int {
	switch {
	case distance == 0 && letters < 10:
		return pointsShort
	case distance == 0 && letters < 13:
		return pointsMedium
	case distance == 0 && letters < 16:
		return pointsLong
	case distance == 0:
		return pointsLongest
	case letters < 13:
		return pointsOneOff
	}
	return pointsNear
}

// edits formats a number of letters.
func edits(n int) string {
	if n == 1 {
		return "1 letter"
	}
	return strconv.Itoa(n) + " letters"
}

// known reports whether category is one of the threats that a layer may name.
func known(category sdk.Threat) bool {
	return slices.Contains(sdk.Threats(), category)
}
