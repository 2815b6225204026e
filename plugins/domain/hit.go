package main

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"assay/plugins/internal/bait"
	"assay/plugins/internal/brand"
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

// broken says whether hyphens stand in the brand where its name has no seam: two together, or one beside a letter or
// two.
func (h *hit) broken() bool {
	before := 0 // letters left of part
	rest, more := h.written(), true
	for more {
		var part string
		part, rest, more = strings.Cut(rest, "-")
		if part == "" || len(part) <= 2 && (before > 0 && !h.seam(before) || more && !h.seam(before+len(part))) {
			return true
		}
		before += len(part)
	}
	return false
}

// parted says whether a hyphen stands in a misspelt brand where its name has no seam.
func (h *hit) parted() bool {
	head, _, found := strings.Cut(h.written(), "-")
	return found && !h.seam(len(head)) && !h.seam(len(head)-1) && !h.seam(len(head)+1)
}

// seam says whether the brand's name, as its owner writes it, goes on with a new word after so many letters.
func (h *hit) seam(letters int) bool {
	for _, r := range h.Name {
		word := unicode.IsLetter(r) || unicode.IsDigit(r)
		if letters == 0 {
			return !word || unicode.IsUpper(r)
		}
		if word {
			letters--
		}
	}
	return false
}

// company is what stands beside a brand in its label.
type company struct {
	lures   bait.Class // of all words
	covered bool       // nothing but lure words, hyphens and digits
}

// The classes of lure words by what they tell beside a brand.
const (
	strongLures = bait.Login | bait.Verify | bait.Secure | bait.Account | bait.Urgent | bait.Bank | bait.Pay |
		bait.Refund | bait.Parcel | bait.Fee | bait.Official | bait.Prize | bait.Crypto | bait.Connect | bait.Support |
		bait.Gaming
	weakLures = bait.Invest | bait.Work | bait.Romance | bait.Shop | bait.Cheat
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
		var space [16]bait.Found
		at := 0
		for _, f := range bait.In(part, space[:0]) {
			c.lures |= f.Class
			c.covered = c.covered && idle(part[at:f.Start])
			at = f.End
		}
		c.covered = c.covered && idle(part[at:])
	}
	return c
}

// setApart notes whether something parts the brand from the rest of the label.
func (h *hit) setApart() {
	h.apart = (h.start == 0 || separates(h.label[h.start-1])) && (h.end == len(h.label) || separates(h.label[h.end]))
}

// spell fills in how the label writes the brand and what stands beside. It returns false where a digit that would pass
// for a letter of the brand belongs to a number that runs on outside, as in 1299mail.
func (h *hit) spell() bool {
	h.rest = beside(h.label, h.start, h.end)
	if h.edits > 0 {
		h.form = misspelt
		return true
	}
	number := false
	differences(h.written(), h.Key, func(at int, mine, _ string) bool {
		switch r, _ := utf8.DecodeRuneInString(mine); {
		case r >= utf8.RuneSelf && h.native(r):
			return true
		case r >= utf8.RuneSelf:
			h.form, h.foreign = disguised, true
		case digit(mine[0]):
			h.form = disguised
			number = h.numbered(at)
		case h.form == plain:
			h.form = twisted
		}
		h.changes++
		return !number
	})
	return !number
}

// native says whether r is a letter with a mark in a name that its owner writes with marks.
func (h *hit) native(r rune) bool {
	_, how := reads(r)
	return how == accented && scriptsOf(r)&scriptLatin != 0 &&
		strings.IndexFunc(h.Name, func(r rune) bool { return r >= utf8.RuneSelf }) >= 0
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
