package main

import (
	"strings"

	"assay/plugins/internal/bait"
	"assay/plugins/internal/brand"
)

// reader searches one label after another and reuses its buffers.
type reader struct {
	skeleton
	prefixHashes
	bait      [16]bait.Match // bait words of the label: bait[:baitCount]
	baitCount int
}

// search calls visit for every brand that label contains, exactly, with confusable characters or misspelled. A label
// with ß is read twice, because ß looks like b and spells ss.
func (r *reader) search(label string, visit func(*match)) {
	r.searchReading(label, visit)
	if strings.Contains(label, "ß") {
		r.sharpSAsB = true
		r.searchReading(label, visit)
		r.sharpSAsB = false
	}
}

func (r *reader) searchReading(label string, visit func(*match)) {
	readSkeleton(label, &r.skeleton)
	text := r.skeleton.text[:r.n]
	x := index
	for i := 0; i+2 < len(text); i++ {
		k := prefixBucket(text[i], text[i+1], text[i+2])
		for _, name := range x.brandsByPrefix[x.prefixStarts[k]:x.prefixStarts[k+1]] {
			n := int(x.names[name].length)
			if n > len(text)-i || string(x.skeletonOf(int(name))) != string(text[i:i+n]) {
				continue
			}
			m := match{Brand: x.brand(int(name)), label: label, start: int(r.begin[i]), end: int(r.end[i+n-1])}
			if m.setDelimited(); m.Kind() == brand.Short && !m.delimited {
				continue // short keys occur inside many words
			}
			if m.classify() {
				visit(&m)
			}
		}
	}
	if len(text) < 4 {
		return
	}
	r.baitCount = min(len(bait.Find(label, r.bait[:0])), len(r.bait))
	r.prefixHashes.compute(text)
	r.searchMisspellings(label, visit)
}

// searchMisspellings compares names with the whole label, with each part between hyphens or bait words, and with the
// label without a "www" or "com" that lost its dot.
func (r *reader) searchMisspellings(label string, visit func(*match)) {
	tried := [10][2]int{}
	n := 0
	try := func(start, end int) {
		for start < end && !leavesLetter(label[start]) {
			start++
		}
		for end > start && !leavesLetter(label[end-1]) {
			end--
		}
		if end-start < 5 || n == len(tried) {
			return
		}
		for _, t := range tried[:n] {
			if t[0] == start && t[1] == end {
				return
			}
		}
		tried[n] = [2]int{start, end}
		n++
		r.compareSpan(label, start, end, visit)
	}
	hyphen := strings.IndexByte(label, '-')
	if hyphen < 0 || r.n >= 10 {
		try(0, len(label))
	}
	for at := 0; hyphen >= 0 && at < len(label); {
		end := strings.IndexByte(label[at:], '-')
		if end < 0 {
			end = len(label) - at
		}
		try(at, at+end)
		at += end + 1
	}
	at := 0
	for _, w := range r.bait[:r.baitCount] {
		if w.Start > at {
			try(at, w.Start)
		}
		at = w.End
	}
	if at < len(label) {
		try(at, len(label))
	}
	if start, end := trimAddressParts(label); start > 0 || end < len(label) {
		try(start, end)
	}
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

// compareSpan calls visit for every name within its edit limit of label[start:end].
func (r *reader) compareSpan(label string, start, end int, visit func(*match)) {
	from, to := r.n, 0
	for i := range r.n {
		if int(r.begin[i]) >= start && int(r.end[i]) <= end {
			from, to = min(from, i), i+1
		}
	}
	if to-from < 4 {
		return
	}
	text := r.skeleton.text[from:to]
	checked, harmless := false, false // whether label[start:end] is an ordinary or bait word, looked up on demand
	index.candidates(r.skeleton.text[:r.n], &r.prefixHashes, from, to, func(name int) {
		n := &index.names[name]
		skeleton := index.skeletonOf(name)
		d := distance(text, skeleton, int(n.editLimit))
		if d > int(n.editLimit) || d == 0 && name < index.brandCount || r.isSpelledWhole(skeleton, label, from, to) {
			return
		}
		if !checked {
			word := label[start:end]
			checked, harmless = true, isOrdinary(word) || bait.Classes(word) != 0
		}
		if harmless && d > 0 {
			return
		}
		m := match{Brand: index.brand(name), label: label, start: start, end: end, edits: d}
		if d == 1 {
			m.typo = r.typoIn(label, start, end, m.Key, from, to)
		}
		if m.setDelimited(); m.classify() {
			visit(&m)
		}
	})
}

// isSpelledWhole reports whether the skeleton's letters [from:to] begin or end with a name's whole skeleton, set off by
// a hyphen. The remaining letters are then a separate word rather than a typo.
func (r *reader) isSpelledWhole(skeleton []byte, label string, from, to int) bool {
	n := len(skeleton)
	if to-from <= n {
		return false
	}
	text := r.skeleton.text[from:to]
	return string(text[:n]) == string(skeleton) && strings.HasPrefix(label[r.end[from+n-1]:], "-") ||
		string(text[len(text)-n:]) == string(skeleton) && strings.HasSuffix(label[:r.begin[to-n]], "-")
}

// typoIn describes the difference between label[start:end] and key, whose skeletons are one edit apart. The label's
// skeleton is [from:to].
func (r *reader) typoIn(label string, start, end int, key string, from, to int) typo {
	s := typoOf(label[start:end], key)
	var k skeleton
	readSkeleton(key, &k)
	mine, theirs := r.skeleton.text[from:to], k.text[:k.n]
	if len(mine) != len(theirs) {
		s.likely = s.likely || typoOf(string(mine), string(theirs)).likely // a letter doubled by a lookalike
	}
	if s.multiple { // describe only the letters whose skeletons differ, as written
		head, tail := commonEnds(mine, theirs)
		seen := typoOf(r.span(label, from+head, to-tail), k.span(key, head, k.n-tail))
		s.text = seen.text
		s.likely = s.likely || seen.likely && (len(key) >= 7 || !seen.substitution)
		s.multiple = seen.multiple || len(key) < 9
	}
	return s
}

// span returns the part of the label that the skeleton's letters [from:to] were read from.
func (s *skeleton) span(label string, from, to int) string {
	if from >= to {
		return ""
	}
	return label[s.begin[from]:s.end[to-1]]
}
