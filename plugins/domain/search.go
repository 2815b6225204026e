package main

import (
	"strings"

	"assay/plugins/internal/bait"
	"assay/plugins/internal/brand"
)

// search finds the brands that the labels of a host contain, and keeps the finding with the most points. Its buffers
// serve one label after another.
type search struct {
	host *host
	best finding // its code is noCode if no brand was found

	label string
	left  bool   // label is left of the registrable domain
	after string // if left: the labels between label and the registrable domain

	isSite    bool   // the host has the name of a well-known site
	contained string // key of a coined brand that label spells exactly, at label[exactFrom:exactTo]
	exactFrom int
	exactTo   int

	skeleton skeleton
	hashes   prefixHashes
	bait     [16]bait.Match // bait words of the label, except next to brands

	around               surroundings // of label[aroundFrom:aroundTo]
	aroundFrom, aroundTo int
	described            int // parts of labels whose surroundings were read
}

// maxDescribed bounds the work for a host that names dozens of brands.
const maxDescribed = 12

// findImitation returns the finding with the most points in the name and the labels left of it. Its code is noCode if
// there is none.
func findImitation(h *host) finding {
	s := search{host: h}
	if !h.customer { // a customer does not choose the service's name
		s.searchLabel(h.Name)
	}
	if s.isSite && s.best.ownedBy == nil && !h.Private && !isSuffixSlip(h.Suffix) {
		s.best = finding{} // a well-known site's own name, whatever else it resembles
	}
	s.left = true
	for labels, rest, more := 0, h.Subdomain, h.Subdomain != ""; more && labels < 8 && !s.isDecided(); labels++ {
		var label string
		label, rest, more = strings.Cut(rest, ".")
		s.after = rest
		s.searchLabel(label)
	}
	return s.best
}

// searchLabel searches label for brands, exactly, with confusable characters or misspelled. A label with ß is read
// twice, because ß looks like b and spells ss.
func (s *search) searchLabel(label string) {
	s.label, s.contained, s.exactFrom, s.exactTo, s.aroundFrom, s.aroundTo = label, "", 0, 0, 0, -1
	s.searchReading()
	if s.skeleton.merged && !s.isDecided() { // in yournetflix, r and n belong to two words
		s.skeleton.apart = true
		s.searchReading()
		s.skeleton.apart = false
	}
	if s.skeleton.foreign && strings.Contains(label, "ß") {
		s.skeleton.sharpSAsB = true
		s.searchReading()
		s.skeleton.sharpSAsB = false
	}
}

func (s *search) searchReading() {
	readSkeleton(s.label, &s.skeleton)
	text := s.skeleton.text[:s.skeleton.n]
	letters := uint32(0)
	for i, c := range text {
		letters = letters>>8 | uint32(c)<<16
		if i < 2 {
			continue
		}
		k := prefixBucket(letters)
		for at := index.prefixStarts[k]; at < index.prefixStarts[k+1]; at++ {
			name, from := int(index.brandsByPrefix[at]), i-2
			n := int(index.names[name].length)
			if n <= len(text)-from && skeletonOf(name) == string(text[from:from+n]) {
				s.visitExact(name, from)
			}
		}
	}
	if s.contained != "" && !s.left {
		if owner, relation := s.best.owner(s.host); relation == brand.Owned {
			s.best.ownedBy = owner
		}
	}
	isBrand := s.contained != "" && s.exactFrom == 0 && s.exactTo == len(s.label)
	if len(text) >= 4 && !s.skeleton.apart && !isBrand && !s.isDecided() { // a misspelling cannot say more
		s.hashes.compute(text)
		s.searchMisspellings()
	}
}

// isDecided reports whether no further match can change the result.
func (s *search) isDecided() bool { return s.best.points >= blockPoints || s.best.ownedBy != nil }

// visitExact visits the brand with a name that the skeleton holds at from.
func (s *search) visitExact(name, from int) {
	n, of := int(index.names[name].length), int(index.names[name].of)
	m := match{Brand: brandOf(of), number: of, label: s.label, start: int(s.skeleton.begin[from]),
		end: int(s.skeleton.end[from+n-1])}
	if m.setDelimited(); m.Kind() == brand.Short && !m.delimited && !m.isGlued() {
		return // short keys occur inside many words
	}
	if m.classify() {
		s.visit(&m)
	}
}

// visit scores a match.
func (s *search) visit(m *match) {
	if s.aroundFrom != m.start || s.aroundTo != m.end {
		if s.described++; s.described > maxDescribed {
			return
		}
		s.around, s.aroundFrom, s.aroundTo = surroundingsOf(m.label, m.start, m.end), m.start, m.end
	}
	if m.around = s.around; brand.IsMoney(m.number) {
		m.around.addTAN(m.label)
	}
	if s.left {
		s.keep(scoreSubdomainMatch(s.host, m, s.after))
		return
	}
	s.isSite = s.isSite || m.Kind() == brand.Site && m.form == exact && m.isWholeLabel()
	if m.form == exact && m.Kind() == brand.Coined {
		s.contained, s.exactFrom, s.exactTo = m.Key, m.start, m.end
	}
	if m.form == misspelled && m.start == s.exactFrom && m.end == s.exactTo {
		return // wikipedia is not a typo of wikimedia
	}
	if m.form == misspelled && m.isSpelledBeside() {
		return
	}
	if s.contained != "" && m.edits > 1 && len(m.Key) > len(s.contained) && strings.HasPrefix(m.Key, s.contained) {
		return // microsoftnews contains Microsoft and is not a typo of microsoftteams
	}
	s.keep(scoreMatch(s.host, m))
}

// keep keeps f if it and the bait words next to it have more points than the best finding so far.
func (s *search) keep(f finding) {
	if f.points+f.baitPoints() > s.best.points+s.best.baitPoints() || s.best.code == noCode {
		s.best = f
	}
}

// searchMisspellings compares names with the whole label, with each part between hyphens or bait words, and with the
// label without a "www" or "com" that lost its dot.
func (s *search) searchMisspellings() {
	label := s.label
	var tried spans
	hyphen := strings.IndexByte(label, '-')
	if hyphen < 0 || s.skeleton.n >= 10 || s.skeleton.n >= 8 && hyphen >= 3 && hyphen < len(label)-3 {
		s.try(&tried, 0, len(label))
	}
	for at := 0; hyphen >= 0 && at < len(label); {
		end := strings.IndexByte(label[at:], '-')
		if end < 0 {
			end = len(label) - at
		}
		s.try(&tried, at, at+end)
		at += end + 1
	}
	if s.skeleton.n >= minBaited {
		at := 0
		for _, w := range bait.Find(label, s.bait[:0]) {
			if w.Start > at {
				s.try(&tried, at, w.Start)
			}
			at = w.End
		}
		if at > 0 && at < len(label) {
			s.try(&tried, at, len(label))
		}
	}
	if start, end := trimAddressParts(label); start > 0 || end < len(label) {
		s.try(&tried, start, end)
	}
}

// minBaited is the least number of letters of a label that has room for a misspelled brand and a bait word.
const minBaited = 9

// spans are the parts of a label that were compared.
type spans struct {
	bounds [10][2]int
	n      int
}

// try calls compareSpan for label[start:end] without hyphens at its ends, unless it is too short or was compared.
func (s *search) try(tried *spans, start, end int) {
	for start < end && !leavesLetter(s.label[start]) {
		start++
	}
	for end > start && !leavesLetter(s.label[end-1]) {
		end--
	}
	if end-start < 5 || tried.n == len(tried.bounds) {
		return
	}
	for _, t := range tried.bounds[:tried.n] {
		if t[0] == start && t[1] == end {
			return
		}
	}
	tried.bounds[tried.n] = [2]int{start, end}
	tried.n++
	s.compareSpan(start, end)
}

// trimAddressParts returns the bounds of label without parts of an address that lost their dots, such as www in
// wwwpaypal and com in paypalcom.
func trimAddressParts(label string) (start, end int) {
	for _, first := range [...]string{"https", "http", "www"} {
		if strings.HasPrefix(label, first) {
			start = len(first)
			break
		}
	}
	if strings.HasSuffix(label, "com") && len(label)-start > 8 {
		return start, len(label) - 3
	}
	return start, len(label)
}

// leavesLetter reports whether a skeleton has a letter for c.
func leavesLetter(c byte) bool { return c != '-' && c != '_' }

// compareSpan visits every name within its edit limit of label[start:end].
func (s *search) compareSpan(start, end int) {
	from, to := 0, s.skeleton.n
	for from < to && int(s.skeleton.begin[from]) < start {
		from++
	}
	for to > from && int(s.skeleton.end[to-1]) > end {
		to--
	}
	if to-from < 4 {
		return
	}
	text := s.skeleton.text[from:to]
	checked, harmless := false, false // whether label[start:end] is an ordinary or bait word, looked up on demand
	var space [48]uint16
	for _, name := range candidates(s.skeleton.text[:s.skeleton.n], &s.hashes, from, to, space[:0]) {
		n := &index.names[name]
		key := skeletonOf(int(name))
		d := distance(text, key, int(n.editLimit))
		if d > int(n.editLimit) || d == 0 && int(n.of) < brand.Count() || s.isSpelledWhole(key, from, to) {
			continue
		}
		if !checked {
			word := s.label[start:end]
			checked, harmless = true, isOrdinary(word) || bait.Classes(word) != 0
		}
		if harmless && d > 0 {
			continue
		}
		m := match{Brand: brandOf(int(n.of)), number: int(n.of), label: s.label, start: start, end: end, edits: d}
		if d == 1 {
			m.typo = s.typoIn(start, end, m.Key, from, to)
		}
		if m.setDelimited(); m.classify() {
			s.visit(&m)
		}
	}
}

// isSpelledWhole reports whether the skeleton's letters [from:to] begin or end with a name's whole skeleton, set off by
// a hyphen. The remaining letters are then a separate word rather than a typo.
func (s *search) isSpelledWhole(key string, from, to int) bool {
	n := len(key)
	if to-from <= n {
		return false
	}
	text := s.skeleton.text[from:to]
	return string(text[:n]) == key && strings.HasPrefix(s.label[s.skeleton.end[from+n-1]:], "-") ||
		string(text[len(text)-n:]) == key && strings.HasSuffix(s.label[:s.skeleton.begin[to-n]], "-")
}

// typoIn describes the difference between label[start:end] and key, whose skeletons are one edit apart. The label's
// skeleton is [from:to].
func (s *search) typoIn(start, end int, key string, from, to int) typo {
	found := typoOf(s.label[start:end], key)
	if !found.multiple && found.likely {
		return found
	}
	var k skeleton
	readSkeleton(key, &k)
	mine, theirs := s.skeleton.text[from:to], k.text[:k.n]
	if len(mine) != len(theirs) {
		found.likely = found.likely || typoOf(string(mine), string(theirs)).likely // a letter doubled by a lookalike
	}
	if found.multiple { // describe only the letters whose skeletons differ, as written
		head, tail := commonEnds(mine, theirs)
		seen := typoOf(s.skeleton.span(s.label, from+head, to-tail), k.span(key, head, k.n-tail))
		found.mine, found.theirs, found.kind = seen.mine, seen.theirs, seen.kind
		found.likely = found.likely || seen.likely && (len(key) >= 7 || !seen.substitution())
		found.multiple = seen.multiple || len(key) < 9
	}
	return found
}

// span returns the part of the label that the skeleton's letters [from:to] were read from.
func (s *skeleton) span(label string, from, to int) string {
	if from >= to {
		return ""
	}
	return label[s.begin[from]:s.end[to-1]]
}
