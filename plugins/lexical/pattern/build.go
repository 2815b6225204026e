// Package pattern finds the bait words and describes the structure of a host name, and gives points for evidence that
// the model cannot learn. The lexical layer and its trainer share it, so that both read a name in exactly the same
// way.
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
	Letters string // the longest run of letters a to z

	hex int // number of letters a to f; -1 if the name has anything but those, digits and hyphens
}

// read describes the name of h.
func read(h *suffix.Host) Build {
	var b Build
	name, start := h.Name, 0 // start is where the current run of letters starts
	for i := 0; i <= len(name); i++ {
		c := byte('-')
		if i < len(name) {
			if c = name[i]; utf8.RuneStart(c) {
				b.Length++
			}
		}
		switch {
		case c >= 'a' && c <= 'f' && b.hex >= 0:
			b.hex++
		case c >= '0' && c <= '9':
			b.Digits++
		case c == '-':
			if i < len(name) {
				b.Hyphens++
			}
		default:
			b.hex = -1
		}
		if c < 'a' || c > 'z' {
			if i-start > len(b.Letters) {
				b.Letters = name[start:i]
			}
			start = i + 1
		}
	}
	return b
}

// Hex reports whether the name without hyphens is at least ten hexadecimal digits, with at least three letters and
// three decimal digits.
func (b *Build) Hex() bool { return b.hex >= 3 && b.Digits >= 3 && b.hex+b.Digits >= 10 }

// posingToken returns the first part of label that imitates a part of another address, such as "com-", "-com" or
// "www-", or "". hyphens reports whether label has hyphens.
func posingToken(label string, hyphens bool) string {
	start := 0
	for end := 0; hyphens && end <= len(label); end++ {
		if end < len(label) && label[end] != '-' {
			continue
		}
		first, more := start == 0, end < len(label)
		switch token := label[start:end]; token {
		case "com":
			if more {
				return "com-"
			} else if !first {
				return "-com"
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

// posingLabel returns the first part of another address in the labels of a subdomain: "com-", a whole label "com",
// "net" or "org", or the suffix of a country, such as "co.jp" or "co-jp". It ignores www-something, because honest
// machines and sites have such names.
func posingLabel(subdomain string) string {
	for rest, more := subdomain, subdomain != ""; more; {
		var label string
		label, rest, more = strings.Cut(rest, ".")
		next, _, _ := strings.Cut(rest, ".")
		switch {
		case label == "com" || label == "net" || label == "org":
			return label + "."
		case isSecondLevel(label) && isCountry(next):
			return label + "." + next
		}
		if token := posingToken(label, true); token == "com-" || token == "-com" {
			return token
		}
		if n := len(label) - 3; n >= 2 && label[n] == '-' {
			token := label[strings.LastIndexByte(label[:n], '-')+1:]
			if isSecondLevel(token[:len(token)-3]) && isCountry(label[n+1:]) {
				return token
			}
		}
	}
	return ""
}

// isSecondLevel reports whether countries have a suffix that begins with label, as in co.jp, besides those that begin
// with com, net and org.
func isSecondLevel(label string) bool { return label == "co" || label == "ne" || label == "or" }

// isCountry reports whether label can be a country's suffix: two letters that do not belong to a word, as in co-op.
func isCountry(label string) bool {
	return len(label) == 2 && min(label[0], label[1]) >= 'a' && max(label[0], label[1]) <= 'z' &&
		label != "op" && label != "ed"
}
