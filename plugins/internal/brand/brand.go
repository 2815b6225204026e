// Package brand holds the brands and well-known sites that fraud imitates, with their owners' domains, and finds the
// owner of a domain. Finding imitations is up to the domain and email layers.
package brand

import (
	"strings"

	"assay/plugins/internal/suffix"
)

// Kind is how distinctive a brand's key is, which decides where in a label it may match.
type Kind byte

// The kinds of brands.
const (
	Coined Kind = iota // a made-up word of at least five letters, distinctive even inside longer words
	Word               // also an ordinary word or a surname, so it needs further evidence, such as bait words
	Short              // up to four letters, so it matches only between hyphens, digits or ends of the label
	Site               // a well-known site, which matches only as a whole
)

// Flags that the tables add to a kind, for brands whose support desks fraud imitates in the local parts of email
// addresses, as in paypal-support@. Only the email layer uses them.
const (
	Desk      Kind = 1 << (6 + iota) // the key matches next to any other words
	DeskAlone                        // the key matches only if all other words are service words, such as support
	flags     = Desk | DeskAlone
)

// Brand is a brand that fraud imitates. A brand with several spellings has several entries.
type Brand struct {
	Key     string // the spelling in labels: lower-case ASCII letters and digits
	Name    string // as the owner writes it
	kind    Kind   // with flags
	Domains string // patterns of the owner's domains, separated by white space; see RelationTo
}

// Kind returns the brand's kind without flags.
func (b *Brand) Kind() Kind { return b.kind &^ flags }

// Desk returns the flag Desk or DeskAlone, or 0 if the brand has neither.
func (b *Brand) Desk() Kind { return b.kind & flags }

// tables holds every brand. Their entries are from general knowledge of the names in phishing reports and of their
// owners' domains.
var tables = [...][]Brand{moneyBrands[:], cryptoBrands[:], webBrands[:], shopBrands[:], publicBrands[:]}

// Count returns the number of brands, without sites.
func Count() int {
	n := 0
	for _, table := range tables {
		n += len(table)
	}
	return n
}

// At returns the brand with index i, from 0 to Count()-1. Callers must not modify it.
func At(i int) *Brand {
	for _, table := range tables {
		if i < len(table) {
			return &table[i]
		}
		i -= len(table)
	}
	panic("brand: index out of range")
}

// Relation is how a domain is related to a brand.
type Relation byte

// Relations between a domain and a brand.
const (
	Unrelated Relation = iota
	Plausible          // named like the brand's own domains, but anyone could have registered it
	Owned              // one of the brand's own domains
)

// RelationTo returns the relation between h and b. Each pattern in b.Domains is a registrable domain or a full host
// name. A final ".*" stands for every ICANN suffix that is neither risky nor a typo of com, net or org, because large
// brands register their names widely: such a domain is Owned under a country's suffix, com, net or org, and otherwise
// Plausible. Any other "*" stands for letters that local branches choose, which makes the domain Plausible.
func (b *Brand) RelationTo(h *suffix.Host) Relation {
	best := Unrelated
	for pattern, rest := nextWord(b.Domains); pattern != ""; pattern, rest = nextWord(rest) {
		best = max(best, matchPattern(h, pattern))
	}
	return best
}

// OwnsUnder reports whether b owns its key under a suffix that begins with label, as in co for paypal.co.uk.
func (b *Brand) OwnsUnder(label string) bool {
	for pattern, others := nextWord(b.Domains); pattern != ""; pattern, others = nextWord(others) {
		if rest, ok := strings.CutPrefix(pattern, b.Key+"."); ok &&
			(rest == label || strings.HasPrefix(rest, label+".")) {
			return true
		}
	}
	return false
}

// matchPattern returns the relation that one pattern of Brand.Domains gives h.
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

// usuallyOwned reports whether large brands nearly always own their name under tld. They skip most generic domains and
// the domains of French territories, where reported names that equal a brand are most common.
func usuallyOwned(tld string) bool {
	switch tld {
	case "com", "net", "org":
		return true
	case "pm", "re", "tf", "wf", "yt":
		return false
	}
	return len(tld) == 2 || strings.HasPrefix(tld, "xn--")
}

// patternRelation returns the relation of a domain that matches pattern.
func patternRelation(pattern string) Relation {
	if strings.Contains(pattern, "*") {
		return Plausible
	}
	return Owned
}

// glob reports whether s matches a pattern in which each "*" stands for any number of bytes other than dots.
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

// nextWord returns the first word of text, or "", and the text after it.
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
