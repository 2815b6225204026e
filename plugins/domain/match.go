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
	substituted             // with digits or non-ASCII letters that look alike, such as 1 for l
	lookalike               // with other ASCII letters that look alike, such as rn for m
	misspelled              // within the edit limit
)

// match is a brand found in a label.
type match struct {
	*brand.Brand
	number    int // of the brand, see brandOf
	label     string
	start     int // the brand is label[start:end]
	end       int
	form      form
	edits     int          // edit distance of the skeletons, for misspelled
	typo      typo         // for one edit
	changes   int          // letters that differ, for substituted and lookalike
	mine      string       // the first letters that differ, for substituted and lookalike
	theirs    string       // the letters of the key in their place
	foreign   bool         // for substituted: at least one letter is not ASCII
	delimited bool         // the brand is between separators or ends of the label
	around    surroundings // set by search.visit
}

// written returns the brand as the label spells it.
func (m *match) written() string { return m.label[m.start:m.end] }

func (m *match) isWholeLabel() bool { return m.start == 0 && m.end == len(m.label) }

// isDotlessAddress reports whether the rest of the label, or of its part between hyphens, consists of parts of an
// address without their dots, as in wwwpaypalcom. The label of a site counts only as a whole.
func (m *match) isDotlessAddress() bool {
	if m.fillsAddress(0, len(m.label)) {
		return true
	}
	return m.Kind() != brand.Site && m.fillsAddress(m.token())
}

// token returns the bounds of the label's part between hyphens that holds the brand.
func (m *match) token() (from, to int) {
	to = len(m.label)
	if hyphen := strings.IndexByte(m.label[m.end:], '-'); hyphen >= 0 {
		to = m.end + hyphen
	}
	return strings.LastIndexByte(m.label[:m.start], '-') + 1, to
}

// startsToken reports whether the match begins its token.
func (m *match) startsToken() bool {
	from, _ := m.token()
	return m.start == from
}

// isGlued reports whether the part of the label between hyphens begins or ends with the brand, letter for letter.
func (m *match) isGlued() bool {
	from, to := m.token()
	return (m.start == from || m.end == to) && m.written() == m.Key
}

// isGluedToBait reports whether the part of the label between hyphens is the brand and bait words.
func (m *match) isGluedToBait() bool {
	from, to := m.token()
	around := surroundingsOf(m.label[from:to], m.start-from, m.end-from)
	return around.classes&strongBait != 0 && around.onlyBait
}

// fillsAddress reports whether label[from:to] is the brand and parts of an address.
func (m *match) fillsAddress(from, to int) bool {
	start, end := trimAddressParts(m.label[from:to])
	start, end = from+start, from+end
	return (start > from || end < to) && m.start >= start && m.end <= end &&
		strings.Trim(m.label[start:m.start]+m.label[m.end:end], "-") == ""
}

// hasStrayHyphen reports whether the label hyphenates the brand where its name has neither a space nor another sign.
func (m *match) hasStrayHyphen() bool {
	before := 0 // letters of the brand before part
	rest, more := m.written(), true
	for more {
		var part string
		part, rest, more = strings.Cut(rest, "-")
		before += len(part)
		if more && (part == "" || !m.isGap(before)) {
			return true
		}
	}
	return false
}

// isGap reports whether the brand's name has a space or another sign after this many letters, or a common ending begins
// there.
func (m *match) isGap(letters int) bool {
	if letters >= 3 && letters < len(m.Key) && isCommonEnding(m.Key[letters:]) {
		return true
	}
	for _, r := range m.Name {
		word := unicode.IsLetter(r) || unicode.IsDigit(r)
		if letters == 0 {
			return !word
		}
		if word {
			letters--
		}
	}
	return false
}

// isSplitByHyphen reports whether a misspelled brand has a hyphen away from the word boundaries of its name.
func (m *match) isSplitByHyphen() bool {
	head, _, found := strings.Cut(m.written(), "-")
	return found && !m.isWordBoundary(len(head)) && !m.isWordBoundary(len(head)-1) && !m.isWordBoundary(len(head)+1)
}

// isNumbered reports whether the label spells the brand and adds a digit or a plural ending, as the names of mirrors,
// fans' sites and groups of branches do.
func (m *match) isNumbered() bool {
	written := m.written()
	last := len(written) - 1
	return written[:last] == m.Key && (isDigit(written[last]) || written[last] == 's' && m.Key[last-1] != 's' ||
		written[last] == 'n' && m.Key[last-1] == 'e') ||
		written[1:] == m.Key && isDigit(written[0])
}

// isWordBoundary reports whether a new word begins after this many letters of the brand's name, as its owner writes it.
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

// surroundings describes the rest of a brand's label.
type surroundings struct {
	classes  bait.Class // of all bait words
	strong   int        // number of strong bait words
	onlyBait bool       // the rest consists of bait words and separators
	words    [2]span    // of the label: the first count strong or weak bait words
	count    int
}

// span is a part of a label, empty if there is none.
type span struct{ from, to uint8 }

// Classes of bait words, by how much they add to the suspicion about a brand next to them.
const (
	strongBait = bait.Login | bait.Verify | bait.Secure | bait.Account | bait.Urgent | bait.Bank | bait.Pay |
		bait.Refund | bait.Parcel | bait.Fee | bait.Official | bait.Prize | bait.Crypto | bait.Connect | bait.Support |
		bait.Gaming
	weakBait = bait.Invest | bait.Work | bait.Romance | bait.Shop | bait.Cheat
)

// hasStrongBait reports whether the label contains strong bait words next to the brand.
func (m *match) hasStrongBait() bool { return m.around.classes&strongBait != 0 }

// surroundingsOf describes label without label[start:end].
func surroundingsOf(label string, start, end int) surroundings {
	c := surroundings{onlyBait: true}
	c.add(label, 0, start)
	c.add(label, end, len(label))
	return c
}

// add adds label[from:to].
func (c *surroundings) add(label string, from, to int) {
	part := label[from:to]
	if onlySeparators(part) {
		return
	}
	if plain, long := unaccented(part); plain != part { // the label does not have the words of plain
		best := surroundingsOf(plain, 0, 0)
		if other := surroundingsOf(long, 0, 0); other.strong > best.strong || other.onlyBait && !best.onlyBait {
			best = other
		}
		c.classes |= best.classes
		c.strong += best.strong
		c.onlyBait = c.onlyBait && best.onlyBait
		if best.strong > 0 && c.count < len(c.words) {
			c.words[c.count] = span{uint8(from), uint8(to)}
			c.count++
		}
		return
	}
	var space [16]bait.Match
	at := 0
	for _, f := range bait.Find(part, space[:0]) {
		c.classes |= f.Class
		if f.Class&strongBait != 0 {
			c.strong++
		}
		if f.Class&(strongBait|weakBait) != 0 && c.count < len(c.words) {
			c.words[c.count] = span{uint8(from + f.Start), uint8(from + f.End)}
			c.count++
		}
		c.onlyBait = c.onlyBait && onlySeparators(part[at:f.Start])
		at = f.End
	}
	c.onlyBait = c.onlyBait && onlySeparators(part[at:])
}

// addTAN counts the word tan (transaction number), which is strong bait next to a bank's name and none elsewhere.
func (c *surroundings) addTAN(label string) {
	const tan = "tan"
	from := strings.LastIndex(label, tan)
	to := from + len(tan)
	if from < 1 || !isSeparator(label[from-1]) || to < len(label) && !isSeparator(label[to]) {
		return
	}
	c.classes |= bait.Bank
	c.strong++
	if c.count < len(c.words) {
		c.words[c.count] = span{uint8(from), uint8(to)}
		c.count++
	}
}

// isSpelledBeside reports whether the label also spells a misspelled brand correctly, not only inside the misspelling.
func (m *match) isSpelledBeside() bool {
	at := strings.Index(m.label, m.Key)
	return at >= 0 && (at < m.start || at+len(m.Key) > m.end)
}

// setDelimited sets m.delimited from the bytes next to the brand.
func (m *match) setDelimited() {
	m.delimited = (m.start == 0 || isSeparator(m.label[m.start-1])) &&
		(m.end == len(m.label) || isSeparator(m.label[m.end]))
}

// classify sets the form of m. It returns false if a digit that would pass for a letter of the
// brand belongs to a longer number, as the last 9 in 1299mail, so that there is no match.
func (m *match) classify() bool {
	if m.edits > 0 {
		m.form = misspelled
		return true
	}
	number := false
	written := m.written()
	if written == m.Key {
		return true
	}
	eachDifference(written, m.Key, func(at int, mine, theirs string) bool {
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
		if m.changes == 0 {
			m.mine, m.theirs = mine, theirs
		}
		m.changes++
		return !number
	})
	return !number
}

// isNativeAccent reports whether r is an accented Latin letter and the brand's own name has letters outside ASCII.
func (m *match) isNativeAccent(r rune) bool {
	_, how := asASCII(r)
	return how == accented && scriptsOf(r)&scriptLatin != 0 &&
		strings.IndexFunc(m.Name, func(r rune) bool { return r >= utf8.RuneSelf }) >= 0
}

// isPartOfNumber reports whether the digit at written()[i] belongs to a number that continues outside the brand.
func (m *match) isPartOfNumber(i int) bool {
	i += m.start
	return i == m.start && i > 0 && isDigit(m.label[i-1]) ||
		i == m.end-1 && m.end < len(m.label) && isDigit(m.label[m.end])
}

// onlySeparators reports whether s consists of hyphens, underscores and digits.
func onlySeparators(s string) bool {
	for i := range len(s) {
		if !isSeparator(s[i]) {
			return false
		}
	}
	return true
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// isSeparator reports whether c separates words in a label.
func isSeparator(c byte) bool { return c == '-' || c == '_' || isDigit(c) }

// unaccented returns text without the accents of its letters, and the same with ae, oe and ue for umlauts.
func unaccented(text string) (plain, long string) {
	if strings.IndexFunc(text, func(r rune) bool { return r >= utf8.RuneSelf }) < 0 {
		return text, text
	}
	short, full := make([]byte, 0, 2*len(text)), make([]byte, 0, 2*len(text))
	for _, r := range text {
		letters, how := asASCII(r)
		if r < utf8.RuneSelf || how != accented {
			letters = string(r)
		}
		short = append(short, letters...)
		if full = append(full, letters...); r == 'ä' || r == 'ö' || r == 'ü' {
			full = append(full, 'e')
		}
	}
	return string(short), string(full)
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
