package main

import (
	"strconv"

	"assay/plugins/lure"
	"assay/plugins/suffix"
	"assay/sdk"
)

// The traits of a name tell little one by one and something together. Each is worth tenths of the natural logarithm of how
// much oftener reported names have it than honest ones: a logistic regression over some 270,000 names, in which every list
// of reports counts by the root of its length, checked on lists left out. What separates only one list from the rest was
// left out too.
var (
	lengthOdds = [...]int8{-30, -30, -30, -22, -15, -10, -5, -3, -3, -1, 2, 3, 4, 5, 8, 9, 9, 9, 9, 8}
	digitOdds  = [...]int8{-2, 8, 6, 4, 7, 7, 7, 8, 8, 20}
	hyphenOdds = [...]int8{0, 3, 4, 4, 4}
	labelOdds  = [...]int8{0, 10, 16, 20} // labels left of the registrable domain; less than counted, as the honest names had few
	lureOdds   = [...]int8{-3, 4, 16, 30} // lure words in the name
	// by the mean rarity of the pairs of letters, from rarityBase on
	rarityOdds = [...]int8{-5, -5, -5, -4, -3, 0, 2, 3, 5, 6, 8, 10, 12, 13, 15, 16}
)

const (
	rarityBase   = 11
	shapeBias    = 3
	suffixMost   = 16 // the domain layer counts risky suffixes too: a suffix alone must not lead to a block
	neutralOdds  = -26
	idnOdds      = 12
	subLureOdds  = 15
	leadingOdds  = -6 // of a digit
	trailingOdds = -3
)

// classOdds are those of lure words of a class beyond their number.
func classOdds(all lure.Class) int {
	odds := 0
	for _, c := range [...]struct {
		class lure.Class
		odds  int
	}{
		{lure.Verify, 14}, {lure.Crypto | lure.Gaming, 12}, {lure.Cheat, 8}, {lure.Prize, 5}, {lure.Connect | lure.Urgent, 3},
		{lure.Parcel | lure.Fee, -2}, {lure.Bank | lure.Pay | lure.Support, -4}, {lure.Secure | lure.Shop, -6}, {lure.Work, -12},
	} {
		if all&c.class != 0 {
			odds += c.odds
		}
	}
	return odds
}

const baiting = lure.Login | lure.Verify | lure.Secure | lure.Account | lure.Urgent | lure.Bank | lure.Pay | lure.Official |
	lure.Prize | lure.Crypto | lure.Connect

// shape weighs the traits together, in tenths of the natural logarithm of the odds.
func shape(h *suffix.Host, w *wording, b *build) int {
	odds := shapeBias
	switch {
	case !h.Private:
		odds += min(suffix.Odds(h.TLD), suffixMost) + at(labelOdds[:], b.labels)
	case h.Hosted():
		odds += suffix.HostedOdds(h.Suffix)
	default:
		odds += neutralOdds
	}
	odds += at(lengthOdds[:], b.length) + at(digitOdds[:], b.digits) + at(hyphenOdds[:], b.hyphens)
	if len(b.letters) >= 5 {
		odds += at(rarityOdds[:], b.rarity-rarityBase)
	}
	if b.digits > 0 {
		if isFigure(h.Name[0]) {
			odds += leadingOdds
		}
		if isFigure(h.Name[len(h.Name)-1]) {
			odds += trailingOdds
		}
	}
	if b.length != len(h.Name) && b.letters != "" { // names wholly of other letters are at home somewhere
		odds += idnOdds
	}
	odds += at(lureOdds[:], w.inName) + classOdds(w.nameClasses)
	if w.leftClasses&baiting != 0 {
		odds += subLureOdds
	}
	return odds
}

// The odds are worth a point for each tenth above shapeFree, under which most honest names are, up to shapeMost.
const (
	shapeFree = -5
	shapeMost = 60
)

// weigh signals what the traits amount to.
func weigh(c *sdk.Check, h *suffix.Host, w *wording, b *build) {
	if points := min(shape(h, w, b)-shapeFree, shapeMost); points > 0 {
		c.Signal(points, "patterns:shape:weak", "small signs that reported names show more often: "+traits(h, w, b))
	}
}

// traits names the telling ones.
func traits(h *suffix.Host, w *wording, b *build) string {
	list := ""
	add := func(text string) {
		if list != "" {
			list += ", "
		}
		list += text
	}
	switch {
	case h.Hosted():
		add("a site on shared hosting")
	case !h.Private && suffix.Odds(h.TLD) > 3:
		add("the suffix ." + h.TLD)
	}
	if b.labels > 0 && !h.Private {
		add("labels left of the registered name")
	}
	if len(b.letters) >= 5 && at(rarityOdds[:], b.rarity-rarityBase) >= 5 {
		add("unusual letters")
	}
	if b.digits > 0 {
		add("digits")
	}
	if w.inName > 0 {
		add("words that bait")
	}
	if len(list) == 0 || at(lengthOdds[:], b.length) >= 5 {
		add("a name of " + strconv.Itoa(b.length) + " characters")
	}
	return list
}

// at returns odds[i], the nearest where i is outside.
func at(odds []int8, i int) int { return int(odds[min(max(i, 0), len(odds)-1)]) }
