package main

import (
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
	if part == "" {
		return sdk.Scored
	}
	distance, hasDistance := c.Count("similar.distance")
	letters, hasLetters := c.Count("similar.letters")
	if !hasDistance || !hasLetters || c.Get("feed.good") != "" {
		return sdk.Scored // reported names often imitate those on good lists
	}
	category := sdk.Threat(c.Get("similar.category"))
	as, named := " lists as ", strings.ReplaceAll(string(category), "_", " ")
	if !category.Published() {
		category, as, named = "", " lists", ""
	}
	list := quote.Of(c.Get("similar.list"))
	points := domainPoints(distance, letters)
	if part == "user" {
		points = pointsUser
		c.Signal(points, "similarity:user:near", sdk.Join("the mailbox is nearly that of an address, which ", list, as,
			named))
	} else if nearest := quote.Of(c.Get("similar.nearest")); distance == 0 {
		c.Signal(points, "similarity:domain:same", sdk.Join("the same name as ", nearest, ", which ", list, as, named,
			", but for hyphens, digits or the suffix"))
	} else {
		c.Signal(points, "similarity:domain:near", sdk.Join("nearly the same name as ", nearest, ", which ", list, as,
			named, ", but for ", edits(distance), " of ", strconv.Itoa(letters)))
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
