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
	exact       form = iota // letter for letter
	substituted             // with digits or foreign letters in place of look-alike letters
	lookalike               // with other Latin letters that look alike, such as l for i or rn for m
	misspelt                // a few edits away
)

// hit is a brand found in a label.
type match struct {
	*brand.Brand
	label     string
	start     int // the brand is label[start:end]
	end       int
	form      form
	edits     int  // for misspelt
	typo      typo // for one edit
	changes   int  // letters that differ, for disguised and twisted
	foreign   bool // for disguised: a letter outside ASCII is involved
	delimited bool // hyphens, digits or the label's ends set the brand off
	around    surroundings
}

func (m *match) written() string { return m.label[m.start:m.end] }

func (m *match) isWholeLabel() bool { return m.start == 0 && m.end == len(m.label) }

// undotted says whether the rest of the label is nothing but parts of an address that lost their dots.
func (m *match) isDotlessAddress() bool {
	start, end := trimAddressParts(m.label)
	return (start > 0 || end < len(m.label)) && m.start >= start && m.end <= end &&
		strings.Trim(m.label[start:m.start]+m.label[m.end:end], "-") == ""
}

// broken says whether hyphens stand in the brand where its name has no seam: two together, or one beside a letter or
// two.
func (m *match) hasStrayHyphen() bool {
	before := 0 // letters left of part
	rest, more := m.written(), true
	for more {
		var part string
		part, rest, more = strings.Cut(rest, "-")
		if part == "" || len(part) <= 2 && (before > 0 && !m.isWordBoundary(before) || more && !m.isWordBoundary(before+len(part))) {
			return true
		}
		before += len(part)
	}
	return false
}

// parted says whether a hyphen stands in a misspelt brand where its name has no seam.
func (m *match) isSplitByHyphen() bool {
	head, _, found := strings.Cut(m.written(), "-")
	return found && !m.isWordBoundary(len(head)) && !m.isWordBoundary(len(head)-1) && !m.isWordBoundary(len(head)+1)
}

// seam says whether the brand's name, as its owner writes it, goes on with a new word after so many letters.
func (m *match) isWordBoundary(letters int) bool {
	for _, r := range m.Name {
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
type surroundings struct {
	classes  bait.Class // of all words
	onlyBait bool       // nothing but lure words, hyphens and digits
}

// The classes of lure words by what they tell beside a brand.
const (
	strongBait = bait.Login | bait.Verify | bait.Secure | bait.Account | bait.Urgent | bait.Bank | bait.Pay |
		bait.Refund | bait.Parcel | bait.Fee | bait.Official | bait.Prize | bait.Crypto | bait.Connect | bait.Support |
		bait.Gaming
	weakBait = bait.Invest | bait.Work | bait.Romance | bait.Shop | bait.Cheat
)

// baited says whether words that bait stand beside the brand.
func (m *match) hasStrongBait() bool { return m.around.classes&strongBait != 0 }

// beside describes what label holds outside start and end.
func surroundingsOf(label string, start, end int) surroundings {
	c := surroundings{onlyBait: true}
	for _, part := range [...]string{label[:start], label[end:]} {
		if onlySeparators(part) {
			continue
		}
		var space [16]bait.Match
		at := 0
		for _, f := range bait.Find(part, space[:0]) {
			c.classes |= f.Class
			c.onlyBait = c.onlyBait && onlySeparators(part[at:f.Start])
			at = f.End
		}
		c.onlyBait = c.onlyBait && onlySeparators(part[at:])
	}
	return c
}

// setApart notes whether something parts the brand from the rest of the label.
func (m *match) setDelimited() {
	m.delimited = (m.start == 0 || isSeparator(m.label[m.start-1])) && (m.end == len(m.label) || isSeparator(m.label[m.end]))
}

// spell fills in how the label writes the brand and what stands beside. It returns false where a digit that would pass
// for a letter of the brand belongs to a number that runs on outside, as in 1299mail.
func (m *match) classify() bool {
	m.around = surroundingsOf(m.label, m.start, m.end)
	if m.edits > 0 {
		m.form = misspelt
		return true
	}
	number := false
	eachDifference(m.written(), m.Key, func(at int, mine, _ string) bool {
		switch r, _ := utf8.DecodeRuneInString(mine); {
		case r >= utf8.RuneSelf && m.isNativeAccent(r):
			return true
		case r >= utf8.RuneSelf:
			m.form, m.foreign = substituted, true
		case isDigit(mine[0]):
			m.form = substituted
			number = m.isPartOfNumber(at)
		case m.form == exact:
			m.form = lookalike
		}
		m.changes++
		return !number
	})
	return !number
}

// native says whether r is a letter with a mark in a name that its owner writes with marks.
func (m *match) isNativeAccent(r rune) bool {
	_, how := asASCII(r)
	return how == accented && scriptsOf(r)&scriptLatin != 0 &&
		strings.IndexFunc(m.Name, func(r rune) bool { return r >= utf8.RuneSelf }) >= 0
}

// numbered says whether the digit at written()[i] belongs to a number that runs on outside the brand.
func (m *match) isPartOfNumber(i int) bool {
	i += m.start
	return i == m.start && i > 0 && isDigit(m.label[i-1]) || i == m.end-1 && m.end < len(m.label) && isDigit(m.label[m.end])
}

// idle says whether s holds nothing but hyphens and digits.
func onlySeparators(s string) bool {
	for i := range len(s) {
		if !isSeparator(s[i]) {
			return false
		}
	}
	return true
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isSeparator(c byte) bool { return c == '-' || c == '_' || isDigit(c) }
