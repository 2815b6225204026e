package main

import (
	"strings"

	"assay/plugins/internal/bait"
	"assay/plugins/internal/brand"
	"assay/plugins/internal/suffix"
)

// The points of each way to borrow a name come from how many reported names borrow so against honest ones, over 20,000
// names of 22 lists: 40 stands for some ten to one, 60 for thirty to one, 75 and more for those that hardly an honest
// name but the owner's shows.

// Of what a borrowing tells by itself, the layers that learn how names are worded tell some as well. They know a brand
// that is spelt out beside other words, a slip of the keyboard less, and a disguise they take for an ordinary name:
// these shares of the points are what the layer adds beside them.
const (
	spelledOut = 43 // percent
	slipped    = 60
	disguise   = 100
)

// share returns what part of v's points the layer adds beside others, in percent.
func (v *verdict) share() int {
	switch v.code {
	case "domain:brand:lookalike", "domain:homograph:brand", "domain:brand:missing_dot", "domain:brand:address_inside":
		return disguise
	case "domain:brand:typo":
		return slipped
	}
	return spelledOut
}

// part returns percent of points.
func part(points, percent int) int { return (points*percent + 50) / 100 }

// verdict is the strongest borrowing of a brand that the layer found.
type verdict struct {
	points int // of the borrowing itself
	extra  int // for lure words beside it
	code   string
	hit    hit
}

// judge weighs a brand in the label next to the suffix.
func judge(h *host, found *hit) verdict {
	v := verdict{hit: *found}
	switch {
	case found.form == plain && found.whole() && found.Kind() != brand.Short && len(found.Key) >= 5 && found.broken():
		v.code, v.points = "domain:brand:typo", 60
		return v
	case found.Kind() == brand.Site:
		v.judgeSite(h)
		return v
	case found.form == plain && found.Kind() != brand.Short && found.undotted():
		v.code, v.points = "domain:brand:missing_dot", 80
		if found.Kind() == brand.Word && len(found.Key) < 7 {
			v.points = 50
		}
		return v
	case found.form == plain:
		v.judgePlain(h)
	case found.form == misspelt:
		v.code = "domain:brand:typo"
		v.points = typoPoints(h, found)
	default:
		v.code = "domain:brand:lookalike"
		if found.foreign {
			v.code = "domain:homograph:brand"
		}
		if found.form == disguised {
			v.points = disguisedPoints(found)
		} else {
			v.points = twistedPoints(found)
		}
	}
	if found.form != plain && found.baited() && v.points > 0 {
		v.extra = 25
	}
	switch {
	case !h.Private || v.points == 0 || found.whole():
	case h.Hosted():
		v.points = min(v.points+10, 100)
	case found.form == plain:
		v.points, v.extra = v.points/3, v.extra/3 // developers name the services that they work with
	}
	return v
}

// judgePlain weighs a brand spelt letter for letter.
func (v *verdict) judgePlain(h *host) {
	found, r := &v.hit, &v.hit.rest
	letters, strong := len(found.Key), found.baited()
	v.code = "domain:brand:inside"
	switch {
	case found.whole():
		v.code = "domain:brand:suffix"
		v.points = elsewhere(h, found)
	case found.Kind() == brand.Short:
		switch {
		case !found.apart:
		case strong && r.covered:
			v.points, v.extra = 40, 35
		default:
			v.points = 30
		}
	case found.Kind() == brand.Word:
		switch {
		case strong && r.covered && (found.apart || letters >= 6):
			v.points, v.extra = 40, 35
		case strong && found.apart:
			v.points, v.extra = 20, 25
		case found.apart && r.covered && (h.risk > 0 || h.Hosted()):
			v.points = 45
		case (found.apart || strong && letters >= 6) && (h.risk > 0 || h.Hosted()):
			v.points = 30
		}
	case strong && r.covered:
		v.points, v.extra = 50, 40
	case strong && (found.apart || letters >= 7):
		v.points, v.extra = 45, 30
	case r.covered && r.lures&weakLures != 0:
		v.points, v.extra = 40, 20
	case r.covered && (found.apart || letters >= 6):
		v.points = 55
	case found.apart:
		v.points = 55
	case slack(found.Key) == 0: // little of it but a common tail, as in jsatmobile
	case ordinary(found.label):
	case letters >= 8:
		v.points = 35
	case letters >= 6 && found.start == 0:
		v.points = 30
	case letters >= 6 && found.end == len(found.label):
		v.points = 25
	}
	if v.extra > 0 {
		v.code = "domain:brand:combined"
	}
}

// disguisedPoints weighs a brand with digits or foreign letters in the place of its own.
func disguisedPoints(found *hit) int {
	letters, glued := len(found.Key), !found.apart
	switch {
	case found.Kind() == brand.Short:
		if found.apart && found.baited() && found.rest.covered {
			return 40
		}
		return 0
	case found.Kind() == brand.Word && glued, letters < 5, glued && letters < 6, ordinary(found.written()):
		return 0
	case letters < 6 && found.changes > 1 && !found.foreign:
		return 0
	case found.Kind() == brand.Word && found.foreign:
		return 85
	case found.Kind() == brand.Word:
		return 65
	case glued:
		return 70
	}
	return 90
}

// twistedPoints weighs a brand with other Latin letters in the place of its own.
func twistedPoints(found *hit) int {
	letters := len(found.Key)
	switch {
	case found.Kind() == brand.Short || letters < 5 || ordinary(found.written()) || letters < 8 && found.changes > 1:
		return 0
	case found.Kind() == brand.Word:
		if found.apart && letters >= 6 {
			return 45
		}
		return 0
	case !found.apart && letters >= 8:
		return 75
	case !found.apart:
		return 0
	case letters >= 7:
		return 85
	case letters == 6:
		return 75
	}
	return 55
}

// judgeSite weighs a well-known site's label, which is matched as a whole.
func (v *verdict) judgeSite(h *host) {
	found := &v.hit
	letters := len(found.Key)
	switch {
	case found.form == plain && found.undotted():
		v.code, v.points = "domain:brand:missing_dot", 75
	case found.form == plain && found.whole():
		v.code = "domain:brand:suffix"
		if !h.Private {
			v.points = suffix.Slip(h.Suffix)
		}
	case found.form == plain:
	case !found.whole() && !found.undotted():
	case found.form != misspelt:
		v.code, v.points = "domain:brand:lookalike", 60
		if letters >= 7 {
			v.points = 75
		}
		if found.foreign {
			v.code = "domain:homograph:brand"
		}
	default:
		v.code, v.points = "domain:brand:typo", typoPoints(h, found)
	}
	if h.Private {
		v.points /= 2
	}
}

// typoPoints weighs a misspelling: the longer the key, the surer that it is meant.
func typoPoints(h *host, found *hit) int {
	letters, lured := len(found.Key), found.baited()
	written := found.written()
	natural := found.edits == 1 && found.slip.natural
	head := written[0] == found.Key[0]
	tail := written[len(written)-1] == found.Key[letters-1]
	switch {
	case found.Kind() != brand.Coined && found.Kind() != brand.Site:
		switch {
		case !natural || letters < 6:
			return 0
		case h.Hosted():
			return 50
		case lured:
			return 30
		case letters >= 8 && head && found.whole() && found.Kind() == brand.Word:
			return 45
		}
		return 0
	case letters < 8 && found.parted():
		return 0 // two words that resemble one name by chance
	case found.edits == 1:
		points := 30
		switch {
		case letters >= 8:
			points = 85
		case letters == 7:
			points = 75
		case letters == 6:
			points = 45
		}
		switch {
		case letters == 6 && found.whole() && found.Kind() == brand.Coined && natural != head:
			return 35
		case letters < 7 && (!found.apart || !(natural && head) && !lured):
			return 0
		case !natural && found.slip.several && (found.Kind() == brand.Site && letters < 12 || letters < 10):
			return 0
		case !head && !natural && found.slip.other && letters < 9:
			return 0
		case !head && letters < 9:
			points -= 30
		case !natural && found.slip.several:
			points -= 30
		case !natural:
			points -= 15
		}
		return max(points, 0)
	case found.Kind() == brand.Site && strings.Contains(written, "-") && strings.IndexByte(found.Name, '-') < 0:
		return 0 // two words that resemble one name by chance
	case found.edits == 3 && letters >= 14 && written[:2] == found.Key[:2]:
		return 60
	case !head || !tail && !lured:
		return 0
	case found.edits == 2 && letters >= 11:
		return 80
	case found.edits == 2:
		return 40
	case written[:2] != found.Key[:2]:
		return 0
	}
	return 60
}

// elsewhere weighs a label that is nothing but the brand, under a suffix that is not known to be the brand's.
func elsewhere(h *host, found *hit) int {
	slip := 0
	if !h.Private {
		slip = suffix.Slip(h.Suffix)
	}
	switch {
	case found.Kind() != brand.Short && slip > 0:
		if found.Kind() == brand.Word {
			return slip / 2
		}
		return slip
	case found.Kind() != brand.Coined, h.Private && !h.Hosted():
		return 0
	case h.Private, h.risk > 0:
		return 60
	case !strings.Contains(found.Own, ".*"):
		return 45
	}
	return 0
}

// judgeLeft weighs a brand in a label left of the registrable domain; after is what stands between them.
func judgeLeft(h *host, found *hit, after string) verdict {
	if found.Kind() == brand.Site && found.form != plain {
		return verdict{hit: *found} // people name their machines as they like
	}
	v := judge(h, found)
	if found.form != plain {
		return v
	}
	following := h.Name
	if after != "" {
		following = after
	}
	v = verdict{hit: *found, code: "domain:brand:subdomain"}
	switch {
	case found.whole() && posesAsSuffix(found.Brand, following, after == ""):
		v.code, v.points = "domain:brand:address_inside", 90
	case found.Kind() == brand.Coined && found.baited() && found.rest.covered:
		v.points, v.extra = 60, 25
	case brand.Customer(&h.Host): // brands are customers too
	case found.Kind() == brand.Coined && found.whole() && (h.risk > 0 || h.Hosted()):
		v.points = 65
	case found.Kind() == brand.Coined && found.whole():
		v.points = 45 // companies name their own servers after the software on them
	case found.Kind() == brand.Coined && found.apart:
		v.points = 40
	case found.Kind() == brand.Word && found.whole() && h.risk > 0:
		v.points = 45
	}
	if v.points > 0 && v.extra == 0 && wordsOf(h.Name)&(strongLures&^bait.Support) != 0 {
		v.extra = 20
	}
	return v
}

func wordsOf(label string) bait.Class {
	var space [16]bait.Found
	var all bait.Class
	for _, f := range bait.In(label, space[:0]) {
		all |= f.Class
	}
	return all
}

// posesAsSuffix says whether following, right of a brand's label, begins as the suffix of one of the brand's addresses
// would: ".com." and ".com-" in paypal.com.example.net and paypal.com-id.net.
func posesAsSuffix(b *brand.Brand, following string, last bool) bool {
	label, _, more := strings.Cut(following, ".")
	token, _, hyphen := strings.Cut(label, "-")
	if !hyphen && last && !more {
		return false
	}
	if token == "com" || token == "net" || token == "org" {
		return true
	}
	if token == "" {
		return false
	}
	return b.EndsIn(token)
}
