package main

import (
	"strings"

	"assay/plugins/internal/bait"
	"assay/plugins/internal/brand"
)

// reader reads one label after another; its room is used again.
type reader struct {
	folded
	sums
	room  [16]bait.Found
	lures int // of the label, in room
}

// search calls visit for every brand that label spells, plainly or in disguise, and for every misspelling that it
// holds.
func (r *reader) search(label string, visit func(*hit)) {
	r.read(label, visit)
	if strings.Contains(label, "ß") {
		r.drawn = true
		r.read(label, visit)
		r.drawn = false
	}
}

func (r *reader) read(label string, visit func(*hit)) {
	fold(label, &r.folded)
	text := r.folded.text[:r.n]
	d := known
	for i := 0; i+2 < len(text); i++ {
		k := speltBucket(text[i], text[i+1], text[i+2])
		for _, name := range d.brands[d.spelt[k]:d.spelt[k+1]] {
			n := int(d.names[name].length)
			if n > len(text)-i || string(d.foldOf(int(name))) != string(text[i:i+n]) {
				continue
			}
			h := hit{Brand: d.brand(int(name)), label: label, start: int(r.begin[i]), end: int(r.end[i+n-1])}
			if h.setApart(); h.Kind() == brand.Short && !h.apart {
				continue // there is one in every other word
			}
			if h.spell() {
				visit(&h)
			}
		}
	}
	if len(text) < 4 {
		return
	}
	r.lures = min(len(bait.In(label, r.room[:0])), len(r.room))
	r.sums.add(text)
	r.misspellings(label, visit)
}

// misspellings looks for names a few edits away from the label as a whole, from each part between hyphens, from what
// lure words leave over, and from what follows a "www" or the like without its dot.
func (r *reader) misspellings(label string, visit func(*hit)) {
	tried := [10][2]int{}
	n := 0
	try := func(start, end int) {
		for start < end && !folds(label[start]) {
			start++
		}
		for end > start && !folds(label[end-1]) {
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
		r.compare(label, start, end, visit)
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
	for _, w := range r.room[:r.lures] {
		if w.Start > at {
			try(at, w.Start)
		}
		at = w.End
	}
	if at < len(label) {
		try(at, len(label))
	}
	if start, end := undotted(label); start > 0 || end < len(label) {
		try(start, end)
	}
}

// undotted returns what is left of label without the first or the last part of an address that lost its dot, as in
// wwwpaypal and paypalcom.
func undotted(label string) (start, end int) {
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
func folds(c byte) bool { return c != '-' && c != '_' }

func (r *reader) compare(label string, start, end int, visit func(*hit)) {
	from, to := r.n, 0
	for i := range r.n {
		if int(r.begin[i]) >= start && int(r.end[i]) <= end {
			from, to = min(from, i), i+1
		}
	}
	if to-from < 4 {
		return
	}
	text := r.folded.text[from:to]
	spared := 0 // -1 for an ordinary word, 1 for others; 0 before it was asked
	known.resembling(r.folded.text[:r.n], &r.sums, from, to, func(name int) {
		n := &known.names[name]
		fold := known.foldOf(name)
		d := distance(text, fold, int(n.slack))
		if d > int(n.slack) || d == 0 && name < known.brandCount || r.stands(fold, label, from, to) {
			return
		}
		if spared == 0 {
			spared = 1
			if word := label[start:end]; ordinary(word) || bait.Of(word) != 0 && d > 0 {
				spared = -1
			}
		}
		if spared < 0 {
			return
		}
		h := hit{Brand: known.brand(name), label: label, start: start, end: end, edits: d}
		if d == 1 {
			h.slip = r.slip(label, start, end, h.Key, from, to)
		}
		if h.setApart(); h.spell() {
			visit(&h)
		}
	})
}

// stands says whether fold is spelt whole within the folded letters from to to, with a hyphen at its side: then what is
// more is a word of its own and no slip.
func (r *reader) stands(fold []byte, label string, from, to int) bool {
	n := len(fold)
	if to-from <= n {
		return false
	}
	text := r.folded.text[from:to]
	return string(text[:n]) == string(fold) && strings.HasPrefix(label[r.end[from+n-1]:], "-") ||
		string(text[len(text)-n:]) == string(fold) && strings.HasSuffix(label[:r.begin[to-n]], "-")
}

// slip describes the one difference to the eye between label[start:end], whose folded letters are from to to, and key.
func (r *reader) slip(label string, start, end int, key string, from, to int) slip {
	s := slipOf(label[start:end], key)
	var k folded
	fold(key, &k)
	mine, theirs := r.folded.text[from:to], k.text[:k.n]
	if len(mine) != len(theirs) {
		s.natural = s.natural || slipOf(string(mine), string(theirs)).natural // doubled to the eye
	}
	if s.several { // tell what the eye sees only, in the letters as written
		head, tail := shared(mine, theirs)
		seen := slipOf(r.span(label, from+head, to-tail), k.span(key, head, k.n-tail))
		s.text = seen.text
		s.natural = s.natural || seen.natural && (len(key) >= 7 || !seen.other)
		s.several = seen.several || len(key) < 9
	}
	return s
}

// span returns the part of the label that the folded letters from to to were read from.
func (f *folded) span(label string, from, to int) string {
	if from >= to {
		return ""
	}
	return label[f.begin[from]:f.end[to-1]]
}
