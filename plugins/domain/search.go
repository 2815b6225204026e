package main

import (
	"strings"

	"assay/plugins/internal/bait"
	"assay/plugins/internal/brand"
)

// reader reads one label after another; its room is used again.
type reader struct {
	skeleton
	prefixHashes
	bait      [16]bait.Match
	baitCount int // of the label, in room
}

// search calls visit for every brand that label spells, plainly or in disguise, and for every misspelling that it
// holds.
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
				continue // there is one in every other word
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

// misspellings looks for names a few edits away from the label as a whole, from each part between hyphens, from what
// lure words leave over, and from what follows a "www" or the like without its dot.
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

// undotted returns what is left of label without the first or the last part of an address that lost its dot, as in
// wwwpaypal and paypalcom.
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

// folds says whether a byte leaves a letter in a fold.
func leavesLetter(c byte) bool { return c != '-' && c != '_' }

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
	spared := 0 // -1 for an ordinary word, 1 for others; 0 before it was asked
	index.candidates(r.skeleton.text[:r.n], &r.prefixHashes, from, to, func(name int) {
		n := &index.names[name]
		skeleton := index.skeletonOf(name)
		d := distance(text, skeleton, int(n.editLimit))
		if d > int(n.editLimit) || d == 0 && name < index.brandCount || r.isSpelledWhole(skeleton, label, from, to) {
			return
		}
		if spared == 0 {
			spared = 1
			if word := label[start:end]; isOrdinary(word) || bait.Classes(word) != 0 && d > 0 {
				spared = -1
			}
		}
		if spared < 0 {
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

// stands says whether fold is spelt whole within the folded letters from to to, with a hyphen at its side: then what is
// more is a word of its own and no slip.
func (r *reader) isSpelledWhole(skeleton []byte, label string, from, to int) bool {
	n := len(skeleton)
	if to-from <= n {
		return false
	}
	text := r.skeleton.text[from:to]
	return string(text[:n]) == string(skeleton) && strings.HasPrefix(label[r.end[from+n-1]:], "-") ||
		string(text[len(text)-n:]) == string(skeleton) && strings.HasSuffix(label[:r.begin[to-n]], "-")
}

// slip describes the one difference to the eye between label[start:end], whose folded letters are from to to, and key.
func (r *reader) typoIn(label string, start, end int, key string, from, to int) typo {
	s := typoOf(label[start:end], key)
	var k skeleton
	readSkeleton(key, &k)
	mine, theirs := r.skeleton.text[from:to], k.text[:k.n]
	if len(mine) != len(theirs) {
		s.likely = s.likely || typoOf(string(mine), string(theirs)).likely // doubled to the eye
	}
	if s.multiple { // tell what the eye sees only, in the letters as written
		head, tail := commonEnds(mine, theirs)
		seen := typoOf(r.span(label, from+head, to-tail), k.span(key, head, k.n-tail))
		s.text = seen.text
		s.likely = s.likely || seen.likely && (len(key) >= 7 || !seen.substitution)
		s.multiple = seen.multiple || len(key) < 9
	}
	return s
}

// span returns the part of the label that the folded letters from to to were read from.
func (s *skeleton) span(label string, from, to int) string {
	if from >= to {
		return ""
	}
	return label[s.begin[from]:s.end[to-1]]
}
