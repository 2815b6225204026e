package main

import (
	"strings"

	"assay/plugins/suffix"
)

// kind says how far a brand's key stands out in running text, and so how loosely it may be matched.
type kind byte

const (
	coined kind = iota // a made-up word of five letters or more: stands out even inside longer words
	word               // also an ordinary word or somebody's name: counts only beside lure words or with swapped letters
	short              // up to four letters: counts only as a whole token beside lure words
	site               // a well-known site: counts only where it is all that a label or a part of it spells
)

// brand is a name that fraud borrows.
type brand struct {
	key  string // how labels spell it: lower-case ASCII without hyphens
	name string // as its owner writes it
	kind kind
	own  string // its domains, parted by spaces; see owns
}

// tables holds every brand; a name may have several keys.
var tables = [...][]brand{moneyBrands[:], cryptoBrands[:], webBrands[:], shopBrands[:], publicBrands[:]}

// host is the name under judgement.
type host struct {
	suffix.Host
	risk int // points of the suffix, 0 for most
}

// ownership says whose a domain is.
type ownership byte

const (
	stranger ownership = iota
	akin               // fits the naming of a brand's local branches, which anybody could imitate
	owner              // is on the list of the brand's own domains
)

// owns says whether h is one of b's domains. Each of b.own is a registrable domain or a full name; ".*" at its end stands for
// every ICANN suffix that is neither risky nor a slip for .com, as large brands register their name everywhere; another "*"
// for letters that local branches put there.
func (b *brand) owns(h *host) ownership {
	best := stranger
	for pattern, rest := nextWord(b.own); pattern != ""; pattern, rest = nextWord(rest) {
		best = max(best, h.fits(pattern))
	}
	return best
}

// fits says how h stands to one pattern of brand.own.
func (h *host) fits(pattern string) ownership {
	stem, everywhere := strings.CutSuffix(pattern, ".*")
	if !everywhere {
		if pattern == h.ASCII || glob(pattern, h.Registrable) {
			return standing(pattern)
		}
		return stranger
	}
	name := len(h.Registrable) - len(h.Suffix) - 1
	if h.Private || h.risk > 0 || slipSuffix(h.Suffix) > 0 || name <= 0 || !glob(stem, h.Registrable[:name]) {
		return stranger
	}
	return standing(stem)
}

func standing(pattern string) ownership {
	if strings.Contains(pattern, "*") {
		return akin
	}
	return owner
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
