package main

import (
	"assay/plugins/internal/suffix"
	"assay/plugins/patterns/feature"
	"assay/sdk"
)

// The sum of a name's odds, in tenths of the natural logarithm, gives one point for each tenth above silentOdds. Most
// honest names are below it. The points add up to the layer's score, 0 to 100; the layer alone never reaches review in
// the default lineup (TestVerdicts), because odd names are common.
const (
	silentOdds       = -5
	maxWeakPoints    = 60 // of weak signs together
	minPoints        = 3  // of a reason with its own signal; smaller ones are weak signs
	minWordPoints    = 10 // the same for a single bait word
	wordThreatPoints = 10 // from here on, bait words name their threat
	buildThreat      = 24 // from here on, the structure of a name is a threat
)

// Score scores the wording and the structure of a domain name, or of the domain of an email address.
func Score(c *sdk.Check) sdk.Outcome {
	h, ok := suffix.Read(c)
	if !ok {
		return sdk.Abstained
	}
	if !h.Private && suffix.Restricted(h.Suffix) {
		return sdk.Scored // public bodies and schools have long names with many words of trust
	}
	var n feature.Name
	n.Read(&h)
	scoreName(c, &n)
	return sdk.Scored
}

// scoreName adds up the odds of a name's features. It is not part of Score, so that names that need no score do not pay
// for its large stack frame.
func scoreName(c *sdk.Check, n *feature.Name) {
	var space [feature.MaxFeatures]feature.Feature
	var parts shares
	sum := int(odds[feature.Bias]) - silentOdds
	for _, f := range n.Features(&rarity, space[:0]) {
		o := int(odds[f.ID])
		parts[f.Part] += o
		sum += o
	}
	if sum > 0 {
		forWords := minPoints
		switch len(n.Words()) {
		case 0:
			forWords = 101 // padding words are not a reason: there is nothing to name
		case 1:
			forWords = minWordPoints
		}
		explain(c, n, &parts, parts.points(min(sum, 100), forWords))
	}
}

// shares holds odds, or points, by the part of the name that they belong to.
type shares [feature.Parts]int

// weak is the part that holds the points of all weak signs.
const weak = feature.Suffix

// points splits total among the parts that raised the odds, in proportion. Parts with fewer than minPoints, bait words
// with fewer than forWords, and the remainder of rounding become weak signs, at most maxWeakPoints.
func (s *shares) points(total, forWords int) *shares {
	raised, left := 0, total
	for _, o := range s {
		raised += max(o, 0)
	}
	split := new(shares)
	for p := range weak {
		share := max(s[p], 0) * total / max(raised, 1)
		if share >= minPoints && (p != feature.Words || share >= forWords) {
			split[p] = share
			left -= share
		}
	}
	split[weak] = min(left, maxWeakPoints)
	return split
}

// fold moves the points of weak signs to the reason with the most points, if there is one.
func (s *shares) fold() {
	largest := feature.Words
	for p := range weak {
		if s[p] > s[largest] {
			largest = p
		}
	}
	if s[largest] > 0 {
		s[largest] += s[weak]
		s[weak] = 0
	}
}
