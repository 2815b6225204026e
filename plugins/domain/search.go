package main

import (
	"strings"

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
	*brand
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

// beside describes what label holds outside start and end.
func beside(label string, start, end int) company {
	c := company{covered: true}
	for _, part := range [...]string{label[:start], label[end:]} {
		if strings.Trim(part, "-_0123456789") == "" {
			continue
		}
		var space [16]lure.Found
		at := 0
		for _, f := range lure.In(part, space[:0]) {
			c.lures |= f.Class
			c.covered = c.covered && strings.Trim(part[at:f.Start], "-_0123456789") == ""
			at = f.End
		}
		c.covered = c.covered && strings.Trim(part[at:], "-_0123456789") == ""
	}
	return c
}

// search calls visit for every brand that label spells, plainly or in disguise, and for every misspelling that it holds.
func search(label string, f *folded, visit func(*hit)) {
	fold(label, f)
	text := f.text[:f.n]
	for i := 0; i+1 < len(text); i++ {
		brands := known.beginning(text[i], text[i+1])
		for j := range brands {
			b := &brands[j]
			if n := len(b.fold); n <= len(text)-i && string(text[i:i+n]) == b.fold {
				h := hit{brand: b.brand, label: label, start: int(f.begin[i]), end: int(f.end[i+n-1])}
				if h.spell() {
					visit(&h)
				}
			}
		}
	}
	misspellings(label, f, visit)
}

// spell fills in how the label writes the brand and what stands beside. It returns false where a digit that would pass for
// a letter of the brand belongs to a number that runs on outside, as in 1299mail.
func (h *hit) spell() bool {
	h.apart = (h.start == 0 || separates(h.label[h.start-1])) && (h.end == len(h.label) || separates(h.label[h.end]))
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
		same := at < len(h.key) && rune(h.key[at]) == r
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
	return how == accented && strings.IndexFunc(h.name, func(r rune) bool { return r >= 0x80 }) >= 0
}

// numbered says whether the digit at written()[i] belongs to a number that runs on outside the brand.
func (h *hit) numbered(i int) bool {
	i += h.start
	return i == h.start && i > 0 && digit(h.label[i-1]) || i == h.end-1 && h.end < len(h.label) && digit(h.label[h.end])
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

func separates(c byte) bool { return c == '-' || c == '_' || digit(c) }

// misspellings looks for brands a few edits away from the label as a whole, from each part between hyphens, and from what
// lure words leave over.
func misspellings(label string, f *folded, visit func(*hit)) {
	tried := [8][2]int{}
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
		compare(label, start, end, f, visit)
	}
	hyphens := strings.IndexByte(label, '-') >= 0
	if !hyphens || f.n >= 10 {
		try(0, len(label))
	}
	if hyphens {
		for at := 0; at < len(label); {
			end := strings.IndexByte(label[at:], '-')
			if end < 0 {
				end = len(label) - at
			}
			try(at, at+end)
			at += end + 1
		}
	}
	var space [16]lure.Found
	at := 0
	for _, w := range lure.In(label, space[:0]) {
		if w.Start > at {
			try(at, w.Start)
		}
		at = w.End
	}
	if at < len(label) {
		try(at, len(label))
	}
}

// folds says whether a byte leaves a letter in a fold.
func folds(c byte) bool { return c != '-' && c != '_' }

func compare(label string, start, end int, f *folded, visit func(*hit)) {
	from, to := f.n, 0
	for i := range f.n {
		if int(f.begin[i]) >= start && int(f.end[i]) <= end {
			from, to = min(from, i), i+1
		}
	}
	if to-from < 4 {
		return
	}
	text := string(f.text[from:to])
	if word := label[start:end]; ordinary(word) || lure.Of(word) != 0 {
		return
	}
	known.resembling(text, func(b *indexed) {
		if text == b.fold {
			return
		}
		d := distance(text, b.fold, b.slack)
		if d > b.slack {
			return
		}
		h := hit{brand: b.brand, label: label, start: start, end: end, edits: d}
		if d == 1 {
			h.slip = slipOf(label[start:end], b.key)
			if !h.slip.natural {
				h.slip.natural = slipOf(text, b.fold).natural
			}
		}
		if h.spell() {
			visit(&h)
		}
	})
}
