// Package feature reads what the patterns layer weighs in the name of a host: how it is worded and how it is built, as
// features with odds for each. The layer and its trainer read names alike.
package feature

import (
	"strings"
	"unicode/utf8"

	"assay/plugins/internal/suffix"
)

// Build is how a name is built, read in one pass.
type Build struct {
	Length  int // characters
	Hyphens int
	Digits  int
	Run     int    // the longest run of digits
	Turns   int    // from letter to digit or back
	Letters string // the longest run of a to z
	Labels  int    // left of the registrable domain, www aside

	hex   int // letters a to f; -1 when the name holds what is neither those nor digits nor hyphens
	order int // of the first four runs of letters, digits and hyphens, see orders
}

// kinds of characters, as order counts them.
const (
	isLetter = 1 + iota
	isDigit
	isHyphen
)

// orders is how many orders of up to four runs of three kinds there are, the empty one among them: an order is a number
// whose digits to the base of 3 are the kinds, so that names like abc-123 and xyz-9 have the same.
const orders = 1 + 3 + 9 + 27 + 81

func read(h *suffix.Host) Build {
	var b Build
	name := h.Name
	digits, start, first, last := 0, 0, 0, 0 // runs under way, and the longest of letters
	before, runs := 0, 0
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
			if kind != before && runs < 4 {
				b.order = 3*b.order + kind
				runs++
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
			before, digits = kind, 0
			continue
		}
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
	if h.Subdomain != "" && h.Subdomain != "www" {
		b.Labels = strings.Count(h.Subdomain, ".") + 1
	}
	return b
}

// Hex says whether the name, hyphens aside, is at least ten hexadecimal digits with letters and figures well mixed.
func (b *Build) Hex() bool { return b.hex >= 3 && b.Digits >= 3 && b.hex+b.Digits >= 10 }

// posingToken returns what in a label passes for a part of another address, such as "com-" or "www-"; "" when nothing
// does.
func posingToken(label string, hyphens bool) string {
	for i, rest, more := 0, label, hyphens; more; i++ {
		var token string
		token, rest, more = strings.Cut(rest, "-")
		switch token {
		case "com":
			if i > 0 || more {
				return "com-"
			}
		case "www", "http", "https", "wvw", "vww", "ww1", "www1":
			if i == 0 && more {
				return token + "-"
			}
		case "net", "org":
			if i > 0 && more {
				return token + "-"
			}
		}
	}
	return ""
}

// gluedWWW says whether label begins with www and goes on as a name does.
func gluedWWW(label string) bool {
	rest, ok := strings.CutPrefix(label, "www")
	return ok && len(rest) > 4 && rest[0] >= 'a' && rest[0] <= 'z' && rest[0] != 'w'
}

// posingCountry returns what in a label passes for the end of a country's or a state's address, "" when nothing does.
func posingCountry(label string) string {
	token, _, more := strings.Cut(label, "-")
	switch token {
	case "pl", "de", "fr", "uk", "es", "it", "nl", "be", "ch", "at", "cz", "ro", "pt", "gov", "gouv", "gob", "govt":
		if more {
			return token + "-"
		}
	}
	return ""
}

// posingLabel returns the first part of another address in the labels of a subdomain: "com-", or a whole "com", "net"
// or "org". Machines and sites are honestly called www-something.
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
