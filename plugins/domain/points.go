package main

import (
	"strings"

	"assay/plugins/internal/bait"
	"assay/plugins/internal/brand"
	"assay/plugins/internal/suffix"
)

// finding is a brand found in a name, with its points. The points of each kind of imitation grow with how much more
// often reported names use it than legitimate names do.
type finding struct {
	points     int    // for the imitation; 0 if the match is harmless
	baitPoints int    // for bait words next to the brand
	code       string // of the signal for points
	match      match
}

func (f *finding) total() int { return f.points + f.baitPoints }

// The layers lexical and patterns learn from the wording of names, so they score part of the same evidence: most of a
// brand that is spelled out, less of a typo, and nothing of a lookalike, which they take for an ordinary name. This
// layer therefore adds only a share of its points, in percent.
const (
	shareSpelled   = 43
	shareTypo      = 60
	shareLookalike = 100
)

// share returns the share of f's points that the layer adds, in percent.
func (f *finding) share() int {
	switch f.code {
	case "domain:brand:lookalike", "domain:homograph:brand", "domain:brand:missing_dot", "domain:brand:address_inside":
		return shareLookalike
	case "domain:brand:typo":
		return shareTypo
	}
	return shareSpelled
}

// scale returns percent of points, rounded to the nearest integer.
func scale(points, percent int) int { return (points*percent + 50) / 100 }

// scoreMatch scores a brand in the label next to the suffix.
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
	case m.form == misspelled:
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
		f.points, f.baitPoints = f.points/3, f.baitPoints/3 // developers name the services they work with
	}
	return f
}

// scoreExact scores a brand spelled letter for letter.
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
	case keyEditLimit(m.Key) == 0: // short apart from a common ending, as atmobile in jsatmobile
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

// substitutedPoints returns the points for a brand with digits or non-ASCII letters in place of its own.
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

// lookalikePoints returns the points for a brand with other Latin letters in place of its own.
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

// scoreSite scores the label of a well-known site, which matches only as a whole.
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
	case m.form != misspelled:
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

// typoPoints returns the points for a misspelling. Longer keys score higher, because fewer other names are near them.
func typoPoints(h *host, m *match) int {
	letters, baited := len(m.Key), m.hasStrongBait()
	written := m.written()
	likely := m.edits == 1 && m.typo.likely
	sameFirst := written[0] == m.Key[0]
	sameLast := written[len(written)-1] == m.Key[letters-1]
	switch {
	case m.Kind() != brand.Coined && m.Kind() != brand.Site:
		switch {
		case !likely || letters < 6:
			return 0
		case h.OnSharedHosting():
			return 50
		case baited:
			return 30
		case letters >= 8 && sameFirst && m.isWholeLabel() && m.Kind() == brand.Word:
			return 45
		}
		return 0
	case letters < 8 && m.isSplitByHyphen():
		return 0 // two words that resemble the name by chance
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
		case letters == 6 && m.isWholeLabel() && m.Kind() == brand.Coined && likely != sameFirst:
			return 35
		case letters < 7 && (!m.delimited || !(likely && sameFirst) && !baited):
			return 0
		case !likely && m.typo.multiple && (m.Kind() == brand.Site && letters < 12 || letters < 10):
			return 0
		case !sameFirst && !likely && m.typo.substitution && letters < 9:
			return 0
		case !sameFirst && letters < 9:
			points -= 30
		case !likely && m.typo.multiple:
			points -= 30
		case !likely:
			points -= 15
		}
		return max(points, 0)
	case m.Kind() == brand.Site && strings.Contains(written, "-") && strings.IndexByte(m.Name, '-') < 0:
		return 0 // two words that resemble the name by chance
	case m.edits == 3 && letters >= 14 && written[:2] == m.Key[:2]:
		return 60
	case !sameFirst || !sameLast && !baited:
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

// otherSuffixPoints returns the points for a label that is exactly the brand, under a suffix where the brand is not
// known to own it.
func otherSuffixPoints(h *host, m *match) int {
	points := 0
	if !h.Private {
		points = suffix.TypoPoints(h.Suffix)
	}
	switch {
	case m.Kind() != brand.Short && points > 0:
		if m.Kind() == brand.Word {
			return points / 2
		}
		return points
	case m.Kind() != brand.Coined, h.Private && !h.OnSharedHosting():
		return 0
	case h.Private, h.risk > 0:
		return 60
	case !strings.Contains(m.Domains, ".*"):
		return 45
	}
	return 0
}

// scoreSubdomainMatch scores a brand in a label left of the registrable domain. after holds the labels between the two.
func scoreSubdomainMatch(h *host, m *match, after string) finding {
	if m.Kind() == brand.Site && m.form != exact {
		return finding{match: *m} // machine names resemble sites by chance
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
	case brand.IsCustomer(&h.Host): // brands are customers of such services too
	case m.Kind() == brand.Coined && m.isWholeLabel() && (h.risk > 0 || h.OnSharedHosting()):
		f.points = 65
	case m.Kind() == brand.Coined && m.isWholeLabel():
		f.points = 45 // companies name their servers after the software on them
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

// baitClasses returns the classes of all bait words in label.
func baitClasses(label string) bait.Class {
	var space [16]bait.Match
	var all bait.Class
	for _, f := range bait.Find(label, space[:0]) {
		all |= f.Class
	}
	return all
}

// continuesAddress reports whether following, the name to the right of a brand's label, begins like the suffix of one
// of the brand's addresses: "com." in paypal.com.example.net or "com-" in paypal.com-id.net. last means that the label
// is the last one left of the registrable domain.
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
