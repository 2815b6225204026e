package main

import (
	"strconv"
	"strings"

	"assay/plugins/internal/quote"
	"assay/sdk"
)

// The points by length and distance: each about 20 times, at the layer's default weight of 5, the log of how much more
// often reported names have such a neighbour than benign ones do, between what was counted with half of all reports
// left out and with the largest list of them. The longest reach a review by themselves, at a bias of -4, and none a
// block.
const (
	pointsShort    = 20 // 7 to 9 letters
	pointsMiddling = 42 // 10 to 12
	pointsLong     = 60 // 13 to 15
	pointsLonger   = 76
	pointsOneOff   = 36 // of 10 to 12 letters, one differs
	pointsNear     = 60
	pointsUser     = 15
	namesThreat    = 40
)

// Score judges how near the entity's name is to a known scam's.
func Score(c *sdk.Check) sdk.Outcome {
	part := c.Get("similar.part")
	distance, errDistance := strconv.Atoi(c.Get("similar.distance"))
	letters, errLetters := strconv.Atoi(c.Get("similar.letters"))
	if part == "" || errDistance != nil || errLetters != nil || distance < 0 || c.Get("feed.good") != "" {
		return sdk.Scored // scams are made to be like what a good list holds
	}
	nearest, category := quote.Of(c.Get("similar.nearest")), sdk.Threat(c.Get("similar.category"))
	if !known(category) {
		category = ""
	}
	by := ", which " + quote.Of(c.Get("similar.list")) + " lists"
	if category != "" {
		by += " as " + strings.ReplaceAll(string(category), "_", " ")
	}
	points := worth(distance, letters)
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
	if points >= namesThreat && category != "" {
		c.Threat(category)
	}
	return sdk.Scored
}

func worth(distance, letters int) int {
	switch {
	case distance == 0 && letters < 10:
		return pointsShort
	case distance == 0 && letters < 13:
		return pointsMiddling
	case distance == 0 && letters < 16:
		return pointsLong
	case distance == 0:
		return pointsLonger
	case letters < 13:
		return pointsOneOff
	}
	return pointsNear
}

func edits(n int) string {
	if n == 1 {
		return "1 letter"
	}
	return strconv.Itoa(n) + " letters"
}

func known(category sdk.Threat) bool {
	for _, t := range sdk.Threats() {
		if t == category {
			return true
		}
	}
	return false
}
