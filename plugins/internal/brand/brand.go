// Package brand holds the names that fraud borrows, with their owners' domains, and tells whose a domain is.
package brand

import (
	"strings"

	"assay/plugins/internal/suffix"
)

// Kind says how far a brand's key stands out in running text, and so how loosely it may be matched.
type Kind byte

// The kinds of brands.
const (
	Coined Kind = iota // a made-up word of five letters or more: stands out even inside longer words
	// also an ordinary word or somebody's name: counts only beside lure words or with swapped letters
	Word
	Short // up to four letters: counts only as a whole token beside lure words
	Site  // a well-known site: counts only where it is all that a label or a part of it spells
)

// Flags of a brand, added to its kind in the tables: fraud poses as its support desk in the local part of email
// addresses. The email layer alone reads them.
const (
	Desk      Kind = 1 << (6 + iota) // the key counts next to other words too
	DeskAlone                        // the key counts only where the rest of the local part is service words
	flags     = Desk | DeskAlone
)

// Brand is a name that fraud borrows.
type Brand struct {
	Key     string // how labels spell it: lower-case ASCII without hyphens
	Name    string // as its owner writes it
	kind    Kind   // with flags
	Domains string // its domains, parted by spaces; see Owns
}

// Kind returns the brand's kind without flags.
func (b *Brand) Kind() Kind { return b.kind &^ flags }

// Desk returns the flag Desk or DeskAlone, or 0 for a brand whose desk fraud does not pose as.
func (b *Brand) Desk() Kind { return b.kind & flags }

// tables holds every brand; a name may have several keys.
var tables = [...][]Brand{moneyBrands[:], cryptoBrands[:], webBrands[:], shopBrands[:], publicBrands[:]}

// Count is the number of brands, sites not counted.
func Count() int {
	n := 0
	for _, table := range tables {
		n += len(table)
	}
	return n
}

// At returns brand i, 0 to Count()-1. It is shared: callers only read it.
func At(i int) *Brand {
	for _, table := range tables {
		if i < len(table) {
			return &table[i]
		}
		i -= len(table)
	}
	panic("brand: no such brand")
}

// Ownership says whose a domain is.
type Relation byte

// How a domain stands to a brand.
const (
	Unrelated Relation = iota
	// fits the naming of a brand's branches, or is its name under a suffix open to all: anybody could imitate it
	Plausible
	Owned // is on the list of the brand's own domains
)

// Owns says whether h is one of b's domains. Each of b.Own is a registrable domain or a full name; ".*" at its end
// stands for every ICANN suffix that is neither risky nor a slip for .com, as large brands register their name
// everywhere: there the domain is the brand's under the suffixes of countries, com, net and org, and akin to it under
// the others. Another "*" stands for letters that local branches put there.
func (b *Brand) RelationTo(h *suffix.Host) Relation {
	best := Unrelated
	for pattern, rest := nextWord(b.Domains); pattern != ""; pattern, rest = nextWord(rest) {
		best = max(best, matchPattern(h, pattern))
	}
	return best
}

// EndsIn says whether one of b's addresses is its key with label next to it, as co in paypal.co.uk.
func (b *Brand) OwnsUnder(label string) bool {
	for pattern, others := nextWord(b.Domains); pattern != ""; pattern, others = nextWord(others) {
		if rest, ok := strings.CutPrefix(pattern, b.Key+"."); ok &&
			(rest == label || strings.HasPrefix(rest, label+".")) {
			return true
		}
	}
	return false
}

// fits says how h stands to one pattern of Brand.Own.
func matchPattern(h *suffix.Host, pattern string) Relation {
	stem, everywhere := strings.CutSuffix(pattern, ".*")
	if !everywhere {
		if pattern == h.ASCII || glob(pattern, h.Registrable) {
			return patternRelation(pattern)
		}
		return Unrelated
	}
	name := len(h.Registrable) - len(h.Suffix) - 1
	if h.Private || name <= 0 || suffix.RiskPoints(h.TLD) > 0 || suffix.TypoPoints(h.Suffix) > 0 ||
		!glob(stem, h.Registrable[:name]) {
		return Unrelated
	}
	if !usuallyOwned(h.TLD) {
		return Plausible
	}
	return patternRelation(stem)
}

// settled says whether large brands hold their name under tld nearly always. Of 150 reported names that are a brand's
// and nothing else, most lay under generic suffixes, of which brands take a few each, and under those of French
// territories.
func usuallyOwned(tld string) bool {
	switch tld {
	case "com", "net", "org":
		return true
	case "pm", "re", "tf", "wf", "yt":
		return false
	}
	return len(tld) == 2 || strings.HasPrefix(tld, "xn--")
}

func patternRelation(pattern string) Relation {
	if strings.Contains(pattern, "*") {
		return Plausible
	}
	return Owned
}

// glob matches s against a pattern in which each "*" stands for any run of bytes without a dot.
func glob(pattern, s string) bool {
	before, after, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == s
	}
	if !strings.HasPrefix(s, before) {
		return false
	}
	for s = s[len(before):]; ; s = s[1:] {
		if glob(after, s) {
			return true
		}
		if s == "" || s[0] == '.' {
			return false
		}
	}
}

// nextWord returns the first word of text, "" when there is none, and what follows it.
func nextWord(text string) (word, rest string) {
	start := 0
	for start < len(text) && text[start] <= ' ' {
		start++
	}
	end := start
	for end < len(text) && text[end] > ' ' {
		end++
	}
	return text[start:end], text[end:]
}
