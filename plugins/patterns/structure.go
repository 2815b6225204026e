package main

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"assay/plugins/excerpt"
	"assay/plugins/suffix"
	"assay/sdk"
)

// build is how a name is built, read in one pass.
type build struct {
	length  int // characters
	hyphens int
	digits  int
	run     int    // the longest run of digits
	turns   int    // from letter to digit or back
	hex     int    // letters a to f; -1 when the name holds what is neither those nor digits nor hyphens
	letters string // the longest run of a to z
	rarity  int    // of letters, see rarityOf
	labels  int    // left of the registrable domain
}

func buildOf(h *suffix.Host) build {
	var b build
	name := h.Name
	digits, start, first, last := 0, 0, 0, 0 // runs under way, and the longest of letters
	before := byte('-')
	for i := 0; i <= len(name); i++ {
		c := byte('-')
		if i < len(name) {
			c = name[i]
			if c < utf8.RuneSelf || utf8.RuneStart(c) {
				b.length++
			}
		}
		if c >= 'a' && c <= 'z' {
			if isFigure(before) {
				b.turns++
			}
			switch {
			case c > 'f':
				b.hex = -1
			case b.hex >= 0:
				b.hex++
			}
			before, digits = c, 0
			continue
		}
		if i-start > last-first {
			first, last = start, i
		}
		start = i + 1
		if !isFigure(c) {
			if c != '-' {
				b.hex = -1
			} else if i < len(name) {
				b.hyphens++
			}
			before, digits = c, 0
			continue
		}
		if before != '-' && !isFigure(before) {
			b.turns++
		}
		before = c
		b.digits++
		digits++
		b.run = max(b.run, digits)
	}
	b.letters = name[first:last]
	b.rarity = rarityOf(b.letters)
	if h.Subdomain != "" && h.Subdomain != "www" {
		b.labels = strings.Count(h.Subdomain, ".") + 1
	}
	return b
}

// structure signals what is odd about how the name is built, and returns the points given.
func structure(c *sdk.Check, h *suffix.Host, b *build) int {
	total := 0
	signal := func(points int, code, text string) {
		c.Signal(points, code, text)
		total += points
	}
	risk := 0
	if !h.Private {
		risk = suffix.Risk(h.TLD)
	}
	machine := h.Private && !h.Hosted() // machines have long names

	if token, points := posingToken(h.Name, b.hyphens > 0); token != "" && !machine {
		signal(points, "patterns:structure:address_inside",
			"the name holds "+token+", as if an address were spelt inside it")
	} else if token := posingCountry(h.Name); token != "" && (risk > 0 || h.Hosted()) {
		signal(20, "patterns:structure:address_inside",
			"the name begins with "+token+", as if a country's address ended there")
	} else if token := posingLabel(h.Subdomain); token != "" {
		signal(20, "patterns:structure:address_inside",
			"a subdomain holds "+token+", as if an address were spelt inside it")
	}
	if n := b.hyphens; n >= 2 && !machine {
		points := 4
		if n == 3 {
			points = 8
		} else if n > 3 {
			points = 10
		}
		signal(points, "patterns:structure:hyphens", strconv.Itoa(n)+" hyphens in one label")
	}
	if n := b.length; n >= 26 && !machine {
		points := 5
		if n >= 40 {
			points = 12
		} else if n >= 32 {
			points = 8
		}
		signal(points, "patterns:structure:long_label", "one label of "+strconv.Itoa(n)+" characters")
	}
	switch {
	case b.digits >= 8:
		signal(10, "patterns:structure:digits", strconv.Itoa(b.digits)+" digits in the name")
	case b.run >= 5 && b.run < len(h.Name):
		signal(5, "patterns:structure:digits", "a run of "+strconv.Itoa(b.run)+" digits in the name")
	}
	if b.labels >= 3 {
		points := 4
		if risk > 0 {
			points = 10
		}
		signal(points, "patterns:structure:deep", strconv.Itoa(b.labels)+" labels left of the registered name")
	}
	if !machine {
		switch points := random(h, b, risk); {
		case b.isHex():
			signal(15, "patterns:structure:hex", excerpt.Of(h.Name)+" reads as a hexadecimal number")
		case points > 0:
			signal(points, "patterns:structure:random", excerpt.Of(h.Name)+" reads as random letters")
		}
	}
	if strings.HasPrefix(h.Name, "xn-") || strings.HasPrefix(h.Subdomain, "xn-") || strings.Contains(h.Subdomain, ".xn-") {
		signal(12, "patterns:structure:punycode", "a label begins like an internationalised one (xn--) and is none")
	}
	return total
}

// posingToken returns what in a label passes for a part of another address, such as "com-" or "www-", and its points; ""
// when nothing does.
func posingToken(label string, hyphens bool) (token string, points int) {
	for i, rest, more := 0, label, hyphens; more; i++ {
		token, rest, more = strings.Cut(rest, "-")
		switch token {
		case "com":
			if i > 0 || more {
				return "com-", 20
			}
		case "www", "http", "https", "wvw", "vww", "ww1", "www1":
			if i == 0 && more {
				return token + "-", 20
			}
		case "net", "org":
			if i > 0 && more {
				return token + "-", 20
			}
		}
	}
	rest, ok := strings.CutPrefix(label, "www")
	if ok && len(rest) > 4 && rest[0] >= 'a' && rest[0] <= 'z' && rest[0] != 'w' {
		return "www", 15
	}
	return "", 0
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

// posingLabel returns the first part of another address in the labels of a subdomain: "com-", or a whole "com", "net" or
// "org". Machines and sites are honestly called www-something.
func posingLabel(subdomain string) string {
	for rest, more := subdomain, subdomain != ""; more; {
		var label string
		label, rest, more = strings.Cut(rest, ".")
		switch label {
		case "com", "net", "org":
			return label + "."
		}
		if token, _ := posingToken(label, true); token == "com-" {
			return token
		}
	}
	return ""
}

// random weighs a label that nobody would have thought up: letters that languages do not put side by side, or that take
// turns with digits. Names of one or two syllables and abbreviations are spared by length.
func random(h *suffix.Host, b *build, risk int) int {
	points, strong := 0, false // else the label is as likely an abbreviation, or a language that the table hardly saw
	n, rare := len(b.letters), b.rarity
	switch {
	case n >= 10 && rare >= 20, n >= 8 && rare >= 22:
		points, strong = 6, true
	case n >= 6 && rare >= 24, len(h.Name) >= 7 && b.turns >= 4:
		points = 4
	case n >= 5 && rare >= 22 && risk > 0:
		points = 1
	}
	switch {
	case points == 0:
	case risk > 0 && strong:
		points += 12
	case risk > 0:
		points += 9
	case h.Private:
		points += 6
	case rare < 22:
		points = 0
	}
	return points
}

// isHex says whether the name, hyphens aside, is at least ten hexadecimal digits with letters and figures well mixed.
func (b *build) isHex() bool { return b.hex >= 3 && b.digits >= 3 && b.hex+b.digits >= 10 }

func isFigure(c byte) bool { return c >= '0' && c <= '9' }
