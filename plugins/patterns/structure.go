package main

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"assay/plugins/excerpt"
	"assay/plugins/suffix"
	"assay/sdk"
)

// place is where a name stands.
type place struct {
	name, subdomain, tld string
	private              bool // under a shared suffix
	hosted               bool // under one where anybody puts up pages
}

// structure signals how the name is built, and returns the points given.
func structure(c *sdk.Check, p place) int {
	total := 0
	signal := func(points int, code, text string) {
		if points > 0 {
			c.Signal(points, code, text)
			total += points
		}
	}
	name := p.name
	labels := 0
	if p.subdomain != "" {
		labels = strings.Count(p.subdomain, ".") + 1
	}
	risk := 0
	if !p.private {
		risk = suffix.Risk(p.tld)
	}
	machine := p.private && !p.hosted // machines have long names

	if token, points := posingToken(name); token != "" && !machine {
		signal(points, "patterns:structure:address_inside",
			"the name holds "+token+", as if an address were spelt inside it")
	} else if token := posingLabel(p.subdomain); token != "" {
		signal(35, "patterns:structure:address_inside",
			"a subdomain holds "+token+", as if an address were spelt inside it")
	}
	if n := strings.Count(name, "-"); n >= 2 && !machine {
		points := 6
		if n == 3 {
			points = 14
		} else if n > 3 {
			points = 18
		}
		signal(points, "patterns:structure:hyphens", strconv.Itoa(n)+" hyphens in one label")
	}
	if n := utf8.RuneCountInString(name); n >= 26 && !machine {
		points := 8
		if n >= 40 {
			points = 20
		} else if n >= 32 {
			points = 14
		}
		signal(points, "patterns:structure:long_label", "one label of "+strconv.Itoa(n)+" characters")
	}
	digits, run := digitsOf(name)
	switch {
	case digits >= 8:
		signal(16, "patterns:structure:digits", strconv.Itoa(digits)+" digits in the name")
	case run >= 5 && run < len(name):
		signal(8, "patterns:structure:digits", "a run of "+strconv.Itoa(run)+" digits in the name")
	}
	if labels >= 3 {
		points := 6
		if risk > 0 {
			points = 15
		}
		signal(points, "patterns:structure:deep", strconv.Itoa(labels)+" labels left of the registered name")
	}
	if !machine {
		signal(random(name, risk, p.private))
	}
	if strings.HasPrefix(name, "xn-") || strings.HasPrefix(p.subdomain, "xn-") || strings.Contains(p.subdomain, ".xn-") {
		signal(20, "patterns:structure:punycode", "a label begins like an internationalised one (xn--) and is none")
	}
	return total
}

// posingToken returns what in a label passes for a part of another address, such as "com-" or "www-", and its points; ""
// when nothing does.
func posingToken(label string) (token string, points int) {
	for i, rest, more := 0, label, true; more; i++ {
		token, rest, more = strings.Cut(rest, "-")
		switch token {
		case "com":
			if i > 0 || more {
				return "com-", 35
			}
		case "www", "http", "https", "wvw", "vww", "ww1", "www1":
			if i == 0 && more {
				return token + "-", 35
			}
		case "net", "org":
			if i > 0 && more {
				return token + "-", 35
			}
		}
	}
	rest, ok := strings.CutPrefix(label, "www")
	if ok && len(rest) > 4 && rest[0] >= 'a' && rest[0] <= 'z' && rest[0] != 'w' {
		return "www", 25
	}
	return "", 0
}

// posingLabel returns the first part of another address in the labels of a subdomain: "com-", or a whole "com", "net" or
// "org". Machines and sites are honestly called www-something.
func posingLabel(subdomain string) string {
	for label := range strings.SplitSeq(subdomain, ".") {
		switch label {
		case "com", "net", "org":
			return label + "."
		}
		if token, _ := posingToken(label); token == "com-" {
			return token
		}
	}
	return ""
}

func digitsOf(s string) (total, longest int) {
	run := 0
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			run = 0
			continue
		}
		total++
		run++
		longest = max(longest, run)
	}
	return total, longest
}

// random weighs a label that nobody would have thought up: letters that languages do not put side by side, or hexadecimal
// digits. Names of one or two syllables and abbreviations are spared by length.
func random(name string, risk int, private bool) (points int, code, text string) {
	code, text = "patterns:structure:random", excerpt.Of(name)+" reads as random letters"
	if isHex(name) {
		return 25, "patterns:structure:hex", excerpt.Of(name) + " reads as a hexadecimal number"
	}
	run := longestRun(name)
	n, rare := len(run), rarityOf(run)
	strong := false // else the label is as likely an abbreviation, or a language that the table hardly saw
	switch {
	case n >= 10 && rare >= 20, n >= 8 && rare >= 22:
		points, strong = 10, true
	case n >= 6 && rare >= 24, scattered(name):
		points = 6
	case n >= 5 && rare >= 22 && risk > 0:
		points = 1
	}
	switch {
	case points == 0:
	case risk > 0 && strong:
		points += 20
	case risk > 0:
		points += 15
	case private:
		points += 10
	case rare < 22:
		points = 0
	}
	return points, code, text
}

// isHex says whether a label, hyphens aside, is at least ten hexadecimal digits with letters and figures well mixed.
func isHex(label string) bool {
	figures, others := 0, 0
	for i := range len(label) {
		switch c := label[i]; {
		case c >= '0' && c <= '9':
			figures++
		case c >= 'a' && c <= 'f':
			others++
		case c != '-':
			return false
		}
	}
	return figures+others >= 10 && figures >= 3 && others >= 3
}

// scattered says whether figures and letters take turns in a label so often that it is no word with a number.
func scattered(label string) bool {
	turns := 0
	for i := 1; i < len(label); i++ {
		a, b := label[i-1], label[i]
		if isFigure(a) != isFigure(b) && a != '-' && b != '-' {
			turns++
		}
	}
	return len(label) >= 7 && turns >= 4
}

func isFigure(c byte) bool { return c >= '0' && c <= '9' }

// longestRun returns the longest run of a to z in label.
func longestRun(label string) string {
	best, start := "", 0
	for i := 0; i <= len(label); i++ {
		if i < len(label) && label[i] >= 'a' && label[i] <= 'z' {
			continue
		}
		if i-start > len(best) {
			best = label[start:i]
		}
		start = i + 1
	}
	return best
}
