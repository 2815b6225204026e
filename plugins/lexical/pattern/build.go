// Package pattern turns the bait words and the structure of a host name into features. The lexical layer and its
// trainer share it, so that both read a name in exactly the same way; the learned odds of the features are in the
// layer.
package pattern

import (
	"strings"
	"unicode/utf8"

	"assay/plugins/internal/suffix"
)

// Build describes the structure of a name.
type Build struct {
	Length  int // characters
	Hyphens int
	Digits  int
	Run     int    // length of the longest run of digits
	Turns   int    // changes from letter to digit or back
	Letters string // the longest run of letters a to z
	Labels  int    // labels left of a site on a shared host, not counting www alone

	hex        int // number of letters a to f; -1 if the name has anything but those, digits and hyphens
	consonants int // length of the longest run of consonants
}

// The kinds of characters of a name.
const (
	isLetter = 1 + iota
	isDigit
	isHyphen
)

// read describes the name of h in one pass.
func read(h *suffix.Host) Build {
	var b Build
	name := h.Name
	digits, start, first, last := 0, 0, 0, 0 // the current runs, and the longest run of letters
	before, consonants := 0, 0
	for i := 0; i <= len(name); i++ {
		c, kind := byte('-'), isHyphen
		if i < len(name) {
			c = name[i]
			if c < utf8.RuneSelf || utf8.RuneStart(c) {
				b.Length++
			}
			switch {
			case c >= '0' && c <= '9':
				kind = isDigit
			case c != '-':
				kind = isLetter
			}
		}
		if c >= 'a' && c <= 'z' {
			if before == isDigit {
				b.Turns++
			}
			switch {
			case c > 'f':
				b.hex = -1
			case b.hex >= 0:
				b.hex++
			}
			if vowels>>(c-'a')&1 == 1 {
				consonants = 0
			} else {
				consonants++
				b.consonants = max(b.consonants, consonants)
			}
			before, digits = kind, 0
			continue
		}
		consonants = 0
		if i-start > last-first {
			first, last = start, i
		}
		start = i + 1
		if kind != isDigit {
			if c != '-' {
				b.hex = -1
			} else if i < len(name) {
				b.Hyphens++
			}
			before, digits = kind, 0
			continue
		}
		if before == isLetter {
			b.Turns++
		}
		before = kind
		b.Digits++
		digits++
		b.Run = max(b.Run, digits)
	}
	b.Letters = name[first:last]
	if h.Private && h.Subdomain != "" && h.Subdomain != "www" {
		b.Labels = strings.Count(h.Subdomain, ".") + 1
	}
	return b
}

// vowels has a bit for each of the letters a, e, i, o, u and y.
const vowels = 1<<0 | 1<<('e'-'a') | 1<<('i'-'a') | 1<<('o'-'a') | 1<<('u'-'a') | 1<<('y'-'a')

// Hex reports whether the name without hyphens is at least ten hexadecimal digits, with at least three letters and
// three decimal digits.
func (b *Build) Hex() bool { return b.hex >= 3 && b.Digits >= 3 && b.hex+b.Digits >= 10 }

// posingToken returns the first part of label that imitates a part of another address, such as "com-" or "www-", or "".
// hyphens reports whether label has hyphens.
func posingToken(label string, hyphens bool) string {
	start := 0
	for end := 0; hyphens && end <= len(label); end++ {
		if end < len(label) && label[end] != '-' {
			continue
		}
		first, more := start == 0, end < len(label)
		switch token := label[start:end]; token {
		case "com":
			if !first || more {
				return "com-"
			}
		case "www", "http", "https", "wvw", "vww", "ww1", "www1":
			if first && more {
				return label[start : end+1]
			}
		case "net", "org":
			if !first && more {
				return label[start : end+1]
			}
		}
		start = end + 1
	}
	return ""
}

// gluedWWW reports whether label starts with www directly followed by a name.
func gluedWWW(label string) bool {
	rest, ok := strings.CutPrefix(label, "www")
	return ok && len(rest) > 4 && rest[0] >= 'a' && rest[0] <= 'z' && rest[0] != 'w'
}

// posingCountry returns the start of label if it imitates the suffix of a country or a government, such as "pl-", or
// "".
func posingCountry(label string) string {
	for i := 2; i < len(label) && i <= len("gouv"); i++ {
		if label[i] != '-' {
			continue
		}
		switch label[:i] {
		case "pl", "de", "fr", "uk", "es", "it", "nl", "be", "ch", "at", "cz", "ro", "pt", "gov", "gouv", "gob",
			"govt":
			return label[:i+1]
		}
		break
	}
	return ""
}

// posingLabel returns the first part of another address in the labels of a subdomain: "com-", or a whole label "com",
// "net" or "org". It accepts www-something, which is an honest name of machines and sites.
func posingLabel(subdomain string) string {
	for rest, more := subdomain, subdomain != ""; more; {
		var label string
		label, rest, more = strings.Cut(rest, ".")
		switch label {
		case "com", "net", "org":
			return label + "."
		}
		if token := posingToken(label, true); token == "com-" {
			return token
		}
	}
	return ""
}
