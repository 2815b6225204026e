package main

import (
	"assay/plugins/internal/suffix"
	"assay/plugins/patterns/feature"
	"assay/sdk"
)

// The odds are worth a point for each tenth beyond silent, under which most honest names are.
const (
	silent   = -5
	weakMost = 60 // of small signs alone: they must not lead to a block
	least    = 3  // points of a reason that is told by itself; what is worth less goes to the small signs
	leastOne = 10 // and of one that is a single word
	names    = 10 // points of words from which on they name the threat
	builds   = 24 // points of the build from which on it does
)

// Score judges the wording and the build of a domain's name, or of an email's mail domain.
func Score(c *sdk.Check) sdk.Outcome {
	h, ok := suffix.Read(c)
	if !ok {
		return sdk.Abstained
	}
	if !h.Private && suffix.Restricted(h.Suffix) {
		return sdk.Scored // public bodies and schools have long names that hold many words of trust
	}
	var n feature.Name
	n.Read(&h)
	judge(c, &n)
	return sdk.Scored
}

// judge weighs the traits of a name. It is apart from Score so that its large frame is not cleared before it is needed.
func judge(c *sdk.Check, n *feature.Name) {
	var space [feature.MaxFeatures]feature.Feature
	var parts shares
	sum := int(odds[feature.Bias]) - silent
	for _, f := range n.Features(&rarity, space[:0]) {
		o := int(odds[f.ID])
		parts[f.Part] += o
		sum += o
	}
	if sum > 0 {
		words := least
		switch len(n.Words()) {
		case 0:
			words = 101 // what only pads a name is no reason: there is nothing to name
		case 1:
			words = leastOne
		}
		explain(c, n, &parts, parts.points(min(sum, 100), words))
	}
}

// shares are odds, or points, by the part of the name that they speak of.
type shares [feature.Parts]int

// weak is the part that holds the points of all small signs.
const weak = feature.Suffix

// points splits points among the parts that raised the odds, in proportion. What is worth too little for a reason of
// its own, the words below the given points, and what rounding leaves, are small signs.
func (s *shares) points(points, words int) *shares {
	raised, left := 0, points
	for _, o := range s {
		raised += max(o, 0)
	}
	split := new(shares)
	for p := range weak {
		share := max(s[p], 0) * points / max(raised, 1)
		if share >= least && (p != feature.Words || share >= words) {
			split[p] = share
			left -= share
		}
	}
	split[weak] = min(left, weakMost)
	return split
}

// fold gives the points of small signs that cannot be named to the largest reason, where there is one.
func (s *shares) fold() {
	most := feature.Words
	for p := range weak {
		if s[p] > s[most] {
			most = p
		}
	}
	if s[most] > 0 {
		s[most] += s[weak]
		s[weak] = 0
	}
}
