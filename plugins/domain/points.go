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
	shareSpelled   = 43 // percent
	shareTypo      = 60
	shareLookalike = 100
)

// share returns what part of v's points the layer adds beside others, in percent.
func (f *finding) share() int {
	switch f.code {
	case "domain:brand:lookalike", "domain:homograph:brand", "domain:brand:missing_dot", "domain:brand:address_inside":
		return shareLookalike
	case "domain:brand:typo":
		return shareTypo
	}
	return shareSpelled
}

// part returns percent of points.
func scale(points, percent int) int { return (points*percent + 50) / 100 }

// verdict is the strongest borrowing of a brand that the layer found.
type finding struct {
	points     int // of the borrowing itself
	baitPoints int // for lure words beside it
	code       string
	match      match
}

// judge weighs a brand in the label next to the suffix.
func scoreMatch(h *host, m *match) finding {
	f := finding{match: *m}
	switch {
	case m.form == exact && m.isWholeLabel() && m.Kind() != brand.Short && len(m.Key) >= 5 && m.hasStrayHyphen():
		f.code, f.points = "domain:brand:typo", 60
		return f
	case m.Kind() == brand.Site:
		f.scoreSite(h)
		return f
	case m.form == exact && m.Kind() != brand.Short && m.isDotlessAddress():
		f.code, f.points = "domain:brand:missing_dot", 80
		if m.Kind() == brand.Word && len(m.Key) < 7 {
			f.points = 50
		}
		return f
	case m.form == exact:
		f.scoreExact(h)
	case m.form == misspelt:
		f.code = "domain:brand:typo"
		f.points = typoPoints(h, m)
	default:
		f.code = "domain:brand:lookalike"
		if m.foreign {
			f.code = "domain:homograph:brand"
		}
		if m.form == substituted {
			f.points = substitutedPoints(m)
		} else {
			f.points = lookalikePoints(m)
		}
	}
	if m.form != exact && m.hasStrongBait() && f.points > 0 {
		f.baitPoints = 25
	}
	switch {
	case !h.Private || f.points == 0 || m.isWholeLabel():
	case h.OnSharedHosting():
		f.points = min(f.points+10, 100)
	case m.form == exact:
		f.points, f.baitPoints = f.points/3, f.baitPoints/3 // developers name the services that they work with
	}
	return f
}

// judgePlain weighs a brand spelt letter for letter.
func (f *finding) scoreExact(h *host) {
	m, r := &f.match, &f.match.around
	letters, strong := len(m.Key), m.hasStrongBait()
	f.code = "domain:brand:inside"
	switch {
	case m.isWholeLabel():
		f.code = "domain:brand:suffix"
		f.points = otherSuffixPoints(h, m)
	case m.Kind() == brand.Short:
		switch {
		case !m.delimited:
		case strong && r.onlyBait:
			f.points, f.baitPoints = 40, 35
		default:
			f.points = 30
		}
	case m.Kind() == brand.Word:
		switch {
		case strong && r.onlyBait && (m.delimited || letters >= 6):
			f.points, f.baitPoints = 40, 35
		case strong && m.delimited:
			f.points, f.baitPoints = 20, 25
		case m.delimited && r.onlyBait && (h.risk > 0 || h.OnSharedHosting()):
			f.points = 45
		case (m.delimited || strong && letters >= 6) && (h.risk > 0 || h.OnSharedHosting()):
			f.points = 30
		}
	case strong && r.onlyBait:
		f.points, f.baitPoints = 50, 40
	case strong && (m.delimited || letters >= 7):
		f.points, f.baitPoints = 45, 30
	case r.onlyBait && r.classes&weakBait != 0:
		f.points, f.baitPoints = 40, 20
	case r.onlyBait && (m.delimited || letters >= 6):
		f.points = 55
	case m.delimited:
		f.points = 55
	case keyEditLimit(m.Key) == 0: // little of it but a common tail, as in jsatmobile
	case isOrdinary(m.label):
	case letters >= 8:
		f.points = 35
	case letters >= 6 && m.start == 0:
		f.points = 30
	case letters >= 6 && m.end == len(m.label):
		f.points = 25
	}
	if f.baitPoints > 0 {
		f.code = "domain:brand:combined"
	}
}

// disguisedPoints weighs a brand with digits or foreign letters in the place of its own.
func substitutedPoints(m *match) int {
	letters, glued := len(m.Key), !m.delimited
	switch {
	case m.Kind() == brand.Short:
		if m.delimited && m.hasStrongBait() && m.around.onlyBait {
			return 40
		}
		return 0
	case m.Kind() == brand.Word && glued, letters < 5, glued && letters < 6, isOrdinary(m.written()):
		return 0
	case letters < 6 && m.changes > 1 && !m.foreign:
		return 0
	case m.Kind() == brand.Word && m.foreign:
		return 85
	case m.Kind() == brand.Word:
		return 65
	case glued:
		return 70
	}
	return 90
}

// twistedPoints weighs a brand with other Latin letters in the place of its own.
func lookalikePoints(m *match) int {
	letters := len(m.Key)
	switch {
	case m.Kind() == brand.Short || letters < 5 || isOrdinary(m.written()) || letters < 8 && m.changes > 1:
		return 0
	case m.Kind() == brand.Word:
		if m.delimited && letters >= 6 {
			return 45
		}
		return 0
	case !m.delimited && letters >= 8:
		return 75
	case !m.delimited:
		return 0
	case letters >= 7:
		return 85
	case letters == 6:
		return 75
	}
	return 55
}

// judgeSite weighs a well-known site's label, which is matched as a whole.
func (f *finding) scoreSite(h *host) {
	m := &f.match
	letters := len(m.Key)
	switch {
	case m.form == exact && m.isDotlessAddress():
		f.code, f.points = "domain:brand:missing_dot", 75
	case m.form == exact && m.isWholeLabel():
		f.code = "domain:brand:suffix"
		if !h.Private {
			f.points = suffix.TypoPoints(h.Suffix)
		}
	case m.form == exact:
	case !m.isWholeLabel() && !m.isDotlessAddress():
	case m.form != misspelt:
		f.code, f.points = "domain:brand:lookalike", 60
		if letters >= 7 {
			f.points = 75
		}
		if m.foreign {
			f.code = "domain:homograph:brand"
		}
	default:
		f.code, f.points = "domain:brand:typo", typoPoints(h, m)
	}
	if h.Private {
		f.points /= 2
	}
}

// typoPoints weighs a misspelling: the longer the key, the surer that it is meant.
func typoPoints(h *host, m *match) int {
	letters, baited := len(m.Key), m.hasStrongBait()
	written := m.written()
	natural := m.edits == 1 && m.typo.likely
	head := written[0] == m.Key[0]
	tail := written[len(written)-1] == m.Key[letters-1]
	switch {
	case m.Kind() != brand.Coined && m.Kind() != brand.Site:
		switch {
		case !natural || letters < 6:
			return 0
		case h.OnSharedHosting():
			return 50
		case baited:
			return 30
		case letters >= 8 && head && m.isWholeLabel() && m.Kind() == brand.Word:
			return 45
		}
		return 0
	case letters < 8 && m.isSplitByHyphen():
		return 0 // two words that resemble one name by chance
	case m.edits == 1:
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
		case letters == 6 && m.isWholeLabel() && m.Kind() == brand.Coined && natural != head:
			return 35
		case letters < 7 && (!m.delimited || !(natural && head) && !baited):
			return 0
		case !natural && m.typo.multiple && (m.Kind() == brand.Site && letters < 12 || letters < 10):
			return 0
		case !head && !natural && m.typo.substitution && letters < 9:
			return 0
		case !head && letters < 9:
			points -= 30
		case !natural && m.typo.multiple:
			points -= 30
		case !natural:
			points -= 15
		}
		return max(points, 0)
	case m.Kind() == brand.Site && strings.Contains(written, "-") && strings.IndexByte(m.Name, '-') < 0:
		return 0 // two words that resemble one name by chance
	case m.edits == 3 && letters >= 14 && written[:2] == m.Key[:2]:
		return 60
	case !head || !tail && !baited:
		return 0
	case m.edits == 2 && letters >= 11:
		return 80
	case m.edits == 2:
		return 40
	case written[:2] != m.Key[:2]:
		return 0
	}
	return 60
}

// elsewhere weighs a label that is nothing but the brand, under a suffix that is not known to be the brand's.
func otherSuffixPoints(h *host, m *match) int {
	slip := 0
	if !h.Private {
		slip = suffix.TypoPoints(h.Suffix)
	}
	switch {
	case m.Kind() != brand.Short && slip > 0:
		if m.Kind() == brand.Word {
			return slip / 2
		}
		return slip
	case m.Kind() != brand.Coined, h.Private && !h.OnSharedHosting():
		return 0
	case h.Private, h.risk > 0:
		return 60
	case !strings.Contains(m.Domains, ".*"):
		return 45
	}
	return 0
}

// judgeLeft weighs a brand in a label left of the registrable domain; after is what stands between them.
func scoreSubdomainMatch(h *host, m *match, after string) finding {
	if m.Kind() == brand.Site && m.form != exact {
		return finding{match: *m} // people name their machines as they like
	}
	f := scoreMatch(h, m)
	if m.form != exact {
		return f
	}
	following := h.Name
	if after != "" {
		following = after
	}
	f = finding{match: *m, code: "domain:brand:subdomain"}
	switch {
	case m.isWholeLabel() && continuesAddress(m.Brand, following, after == ""):
		f.code, f.points = "domain:brand:address_inside", 90
	case m.Kind() == brand.Coined && m.hasStrongBait() && m.around.onlyBait:
		f.points, f.baitPoints = 60, 25
	case brand.IsCustomer(&h.Host): // brands are customers too
	case m.Kind() == brand.Coined && m.isWholeLabel() && (h.risk > 0 || h.OnSharedHosting()):
		f.points = 65
	case m.Kind() == brand.Coined && m.isWholeLabel():
		f.points = 45 // companies name their own servers after the software on them
	case m.Kind() == brand.Coined && m.delimited:
		f.points = 40
	case m.Kind() == brand.Word && m.isWholeLabel() && h.risk > 0:
		f.points = 45
	}
	if f.points > 0 && f.baitPoints == 0 && baitClasses(h.Name)&(strongBait&^bait.Support) != 0 {
		f.baitPoints = 20
	}
	return f
}

func baitClasses(label string) bait.Class {
	var space [16]bait.Match
	var all bait.Class
	for _, f := range bait.Find(label, space[:0]) {
		all |= f.Class
	}
	return all
}

// posesAsSuffix says whether following, right of a brand's label, begins as the suffix of one of the brand's addresses
// would: ".com." and ".com-" in paypal.com.example.net and paypal.com-id.net.
func continuesAddress(b *brand.Brand, following string, last bool) bool {
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
	return b.OwnsUnder(token)
}
