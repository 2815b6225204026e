package main

import (
	"strings"

	"assay/plugins/brand"
	"assay/plugins/lure"
)

// form is how a label spells a brand.
type form byte

const (
	plain     form = iota // letter for letter
	disguised             // with digits or foreign letters in place of look-alike letters
	twisted               // with other Latin letters that look alike, such as l for i or rn for m
	misspelt              // a few edits away
)

// hit is a brand found in a label.
type hit struct {
	*brand.Brand
	label   string
	start   int // the brand is label[start:end]
	end     int
	form    form
	edits   int  // for misspelt
	slip    slip // for one edit
	changes int  // letters that differ, for disguised and twisted
	foreign bool // for disguised: a letter outside ASCII is involved
	apart   bool // hyphens, digits or the label's ends set the brand off
	rest    company
}

func (h *hit) written() string { return h.label[h.start:h.end] }

func (h *hit) whole() bool { return h.start == 0 && h.end == len(h.label) }

// undotted says whether the rest of the label is nothing but parts of an address that lost their dots.
func (h *hit) undotted() bool {
	start, end := undotted(h.label)
	return (start > 0 || end < len(h.label)) && h.start >= start && h.end <= end &&
		strings.Trim(h.label[start:h.start]+h.label[h.end:end], "-") == ""
}

// company is what stands beside a brand in its label.
type company struct {
	lures   lure.Class // of all words
	covered bool       // nothing but lure words, hyphens and digits
}

// The classes of lure words by what they tell beside a brand.
const (
	strongLures = lure.Login | lure.Verify | lure.Secure | lure.Account | lure.Urgent | lure.Bank | lure.Pay |
		lure.Refund | lure.Parcel | lure.Fee | lure.Official | lure.Prize | lure.Crypto | lure.Connect | lure.Support |
		lure.Gaming
	weakLures = lure.Invest | lure.Work | lure.Romance | lure.Shop | lure.Cheat
)

// baited says whether words that bait stand beside the brand.
func (h *hit) baited() bool { return h.rest.lures&strongLures != 0 }

// beside describes what label holds outside start and end.
func beside(label string, start, end int) company {
	c := company{covered: true}
	for _, part := range [...]string{label[:start], label[end:]} {
		if idle(part) {
			continue
		}
		var space [16]lure.Found
		at := 0
		for _, f := range lure.In(part, space[:0]) {
			c.lures |= f.Class
			c.covered = c.covered && idle(part[at:f.Start])
			at = f.End
		}
		c.covered = c.covered && idle(part[at:])
	}
	return c
}

// reader reads one label after another; its room is used again.
type reader struct {
	folded
	sums
	room  [16]lure.Found
	lures int // of the label, in room
}

// search calls visit for every brand that label spells, plainly or in disguise, and for every misspelling that it holds.
func (r *reader) search(label string, visit func(*hit)) {
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
			if h.setApart(); h.Kind == brand.Short && !h.apart {
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
	r.lures = min(len(lure.In(label, r.room[:0])), len(r.room))
	r.sums.add(text)
	r.misspellings(label, visit)
}

func (h *hit) setApart() {
	h.apart = (h.start == 0 || separates(h.label[h.start-1])) && (h.end == len(h.label) || separates(h.label[h.end]))
}

// spell fills in how the label writes the brand and what stands beside. It returns false where a digit that would pass for
// a letter of the brand belongs to a number that runs on outside, as in 1299mail.
func (h *hit) spell() bool {
	h.rest = beside(h.label, h.start, h.end)
	if h.edits > 0 {
		h.form = misspelt
		return true
	}
	at := 0
	for i, r := range h.written() {
		if r == '-' || r == '_' {
			continue
		}
		same := at < len(h.Key) && rune(h.Key[at]) == r
		at++
		switch {
		case same:
			continue
		case r >= 0x80 && h.native(r):
			continue
		case r >= 0x80:
			h.form, h.foreign = disguised, true
		case r >= '0' && r <= '9':
			if h.numbered(i) {
				return false
			}
			h.form = disguised
		case h.form == plain:
			h.form = twisted
		}
		h.changes++
	}
	return true
}

// native says whether r is a letter with a mark in a name that its owner writes with marks.
func (h *hit) native(r rune) bool {
	_, _, how := latin(r)
	return how == accented && strings.IndexFunc(h.Name, func(r rune) bool { return r >= 0x80 }) >= 0
}

// numbered says whether the digit at written()[i] belongs to a number that runs on outside the brand.
func (h *hit) numbered(i int) bool {
	i += h.start
	return i == h.start && i > 0 && digit(h.label[i-1]) || i == h.end-1 && h.end < len(h.label) && digit(h.label[h.end])
}

// idle says whether s holds nothing but hyphens and digits.
func idle(s string) bool {
	for i := range len(s) {
		if !separates(s[i]) {
			return false
		}
	}
	return true
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

func separates(c byte) bool { return c == '-' || c == '_' || digit(c) }

// misspellings looks for names a few edits away from the label as a whole, from each part between hyphens, from what lure
// words leave over, and from what follows a "www" or the like without its dot.
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
		if d > int(n.slack) || d == 0 && name < known.brandCount {
			return
		}
		if spared == 0 {
			spared = 1
			if word := label[start:end]; ordinary(word) || lure.Of(word) != 0 && d > 0 {
				spared = -1
			}
		}
		if spared < 0 {
			return
		}
		h := hit{Brand: known.brand(name), label: label, start: start, end: end, edits: d}
		if d == 1 {
			h.slip = slipOf(label[start:end], h.Key)
			if !h.slip.natural {
				h.slip.natural = slipOf(string(text), string(fold)).natural
			}
		}
		if h.setApart(); h.spell() {
			visit(&h)
		}
	})
}
