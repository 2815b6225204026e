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
	minThreat     = 40 // the fewest points for which the layer names a threat
	maxRank       = 100_000
)

// Score scores an entity's name by its distance to the nearest reported one, from the similar.* facts.
func Score(c *sdk.Check) sdk.Outcome {
	part := c.Get(sdk.SimilarPart)
	if part == "" {
		return sdk.Scored
	}
	distance, hasDistance := c.Count(sdk.SimilarDistance)
	letters, hasLetters := c.Count(sdk.SimilarLetters)
	if !hasDistance || !hasLetters || imitated(c) {
		return sdk.Scored
	}
	category := sdk.Threat(c.Get(sdk.SimilarCategory))
	as, named := " as ", strings.ReplaceAll(string(category), "_", " ")
	if !category.Published() {
		category, as, named = "", "", ""
	}
	list := quote.Of(c.Get(sdk.SimilarList))
	points := domainPoints(distance, letters)
	if part == "user" {
		points = pointsUser
		c.Signal(points, signalUserNear, sdk.Join("Mailbox nearly equals that of an address listed by ", list,
			as, named))
	} else if nearest := quote.Of(c.Get(sdk.SimilarNearest)); distance == 0 {
		c.Signal(points, signalDomainSame, sdk.Join("Differs only in hyphens, digits or suffix from ", nearest,
			", listed by ", list, as, named))
	} else {
		c.Signal(points, signalDomainNear, sdk.Join("Differs in ", strconv.Itoa(distance), " of ",
			strconv.Itoa(letters), " letters from ", nearest, ", listed by ", list, as, named))
	}
	if points >= minThreat && category != "" {
		c.Threat(category)
	}
	return sdk.Scored
}

// imitated reports whether the entity is so well known that reported names probably imitate it.
func imitated(c *sdk.Check) bool {
	rank, ranked := c.Count(sdk.FeedRank)
	return c.Has(sdk.FeedGood) || ranked && rank <= maxRank
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
