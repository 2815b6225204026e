package mail

import (
	_ "embed"
	"strings"

	"assay/plugins/internal/wordlist"
)

// Slip is a mistyped mail domain of a provider.
type Slip struct {
	Meant      string // the provider's domain
	Difference string // how the name differs from it, in words
}

// typed are the domains of providers that people type by hand, in wordlist form: those that the host knows, and
// networks. ASSAY_UPDATE=1 go test ./plugins/internal/mail -run TestTyped writes the file.
//
//go:embed typed.txt
var typed string

// Popular are the names of the most used providers, in wordlist form. A name one letter away from one of these is a
// mistyping, and so is one of these under another suffix.
const Popular = `gmail googlemail hotmail icloud outlook protonmail yahoo
`

// slipped are the names of providers that have no domain of their own under .co, .cm and the like, in wordlist form.
const slipped = `aol gmail googlemail hotmail icloud live outlook protonmail rocketmail tutanota yahoo
`

// wrongSuffixes are mistypings of .com, in wordlist form. The providers in slipped offer no mailboxes under them.
const wrongSuffixes = `ccom cim clm cm cmo co cok com.com come coml comm comn coms con coom cpm cpom ocm om vom
xom
`

// realDomains are names one edit away from a provider's that belong to other providers or businesses, in wordlist form.
//
//go:embed real.txt
var realDomains string

// The least lengths of providers' names at which a kind of mistake does not make another word.
const (
	minDoubled = 3 // one letter twice
	minDigit   = 4 // a digit in place of a letter or between two
	minSwapped = 5 // two letters swapped, or one left out
	minNear    = 6 // a letter from the next key
	minAny     = 7 // any letter
	never      = 99
)

// FindSlip finds the provider whose domain a host is one mistake away from. suffix is the host's public suffix;
// unlisted means that it is not in the Public Suffix List. The zero Slip means none. host must not be a provider.
func FindSlip(host, suffix string, unlisted bool) Slip {
	name, found := strings.CutSuffix(host, suffix)
	if name = strings.TrimSuffix(name, "."); !found || suffix == "" || len(name) > 18 || len(suffix) > 8 {
		return Slip{}
	}
	if first, rest, more := strings.Cut(name, "."); more {
		switch joined := first + rest; {
		case first == "www" && wordlist.Has(typed, host[len("www."):]):
			return Slip{host[len("www."):], "www. in front of it"}
		case wordlist.Has(Popular, joined) && wordlist.Has(typed, joined+"."+suffix):
			return Slip{joined + "." + suffix, "a dot inside"}
		}
		return Slip{}
	}
	if len(name) < minDoubled {
		return Slip{}
	}
	decoded := undoLookalikes(name)
	isReal := wordlist.Has(realDomains, name) || decoded != "" && wordlist.Has(realDomains, decoded)
	var best Slip
	for list := typed; list != ""; {
		end := strings.IndexAny(list, " \n")
		domain := list[:end]
		list = list[end+1:]
		label, under, _ := strings.Cut(domain, ".")
		if label == name {
			if slip := suffixSlip(name, under, suffix, unlisted); slip.Meant != "" {
				return slip
			}
			isReal, best = true, Slip{} // the provider's own name, under a suffix that may be its own
		}
		size := len(label)
		if isReal || under != suffix && under != "com" || !near(len(name), size) && !near(len(decoded), size) {
			continue
		}
		known := wordlist.Has(Popular, label)
		if under != suffix && !(known && size >= minAny) {
			continue
		}
		if difference := mistake(name, decoded, label, known); difference != "" && (known || best.Meant == "") {
			best = Slip{domain, difference}
		}
	}
	return best
}

// near reports whether two lengths differ by one at most.
func near(a, b int) bool { return a-b <= 1 && b-a <= 1 }

// suffixSlip returns the slip of a provider's name that has suffix in place of under.
func suffixSlip(name, under, suffix string, unlisted bool) Slip {
	wrong := under == "com" && wordlist.Has(slipped, name) && (unlisted || wordlist.Has(wrongSuffixes, suffix))
	if edit, _ := oneEdit(suffix, under); !wrong && (edit == "" || !unlisted) {
		return Slip{}
	}
	return Slip{name + "." + under, "." + suffix + " in place of ." + under}
}

// mistake describes the mistake that makes name of a provider's label, or returns "". decoded is name without
// look-alikes, or "". known means that the provider is one of the popular ones.
func mistake(name, decoded, label string, known bool) string {
	if decoded == label && len(label) >= minDigit {
		return "written with look-alike characters"
	}
	if difference, needs := oneEdit(name, label); difference != "" && (known || len(label) >= needs) {
		return difference
	}
	if decoded != "" && (known || len(label) >= minAny) {
		if difference, _ := oneEdit(decoded, label); difference != "" {
			return "look-alike characters and one slip"
		}
	}
	if len(label) >= minDigit {
		return digitInside(name, label)
	}
	return ""
}

// undoLookalikes replaces the digits and letter pairs in name that look like a letter, or returns "" if there are none.
func undoLookalikes(name string) string {
	out, changed := make([]byte, 0, 16), false
	for i := 0; i < len(name); i++ {
		c := name[i]
		switch {
		case c == '0':
			c, changed = 'o', true
		case c == '1':
			c, changed = 'l', true
		case c == '3':
			c, changed = 'e', true
		case i+1 < len(name) && name[i:i+2] == "rn":
			c, changed, i = 'm', true, i+1
		case i+1 < len(name) && name[i:i+2] == "vv":
			c, changed, i = 'w', true, i+1
		}
		out = append(out, c)
	}
	if !changed {
		return ""
	}
	if len(out) > 0 && string(out[1:]) == "cloud" && out[0] == 'l' {
		out[0] = 'i' // in 1cloud the digit 1 looks like i
	}
	return string(out)
}

// oneEdit describes how name differs from label by one insertion, omission, replacement or swap of neighbours (optimal
// string alignment distance 1), or returns "" if the distance is not 1. needs is the least length of label at which the
// difference makes no other word. A replaced first letter counts only if it is next to the right one on a keyboard.
func oneEdit(name, label string) (difference string, needs int) {
	if len(name) > len(label)+1 || len(name)+1 < len(label) {
		return "", 0
	}
	start := 0
	for start < len(name) && start < len(label) && name[start] == label[start] {
		start++
	}
	n, l := name[start:], label[start:]
	switch {
	case len(n) == len(l)+1 && n[1:] == l:
		needs = distinct(start, n[0], label)
		if start > 0 && name[start-1] == n[0] {
			needs = minDoubled
		}
		return "extra " + n[:1], needs
	case len(n)+1 == len(l) && n == l[1:]:
		if start == 0 {
			return l[:1] + " is missing", never // often a word: cloud, mail
		}
		return l[:1] + " is missing", minSwapped
	case len(n) != len(l) || len(n) == 0:
		return "", 0
	case n[1:] == l[1:]:
		if start == 0 && !adjacent(n[0], l[0]) {
			return "", 0
		}
		return n[:1] + " for " + l[:1], distinct(start, n[0], label)
	case len(n) >= 2 && n[0] == l[1] && n[1] == l[0] && n[2:] == l[2:]:
		return "letters " + l[:2] + " swapped", minSwapped
	}
	return "", 0
}

// distinct returns the least length of label at which c, in place of its byte at start or before it, does not make
// another word.
func distinct(start int, c byte, label string) int {
	switch {
	case start == 0:
		return never
	case adjacent(c, label[start-1]) || start < len(label) && adjacent(c, label[start]):
		return minNear
	}
	return minAny
}

// digitInside describes the one digit by which name differs from label, in place of a letter or between two, or returns
// "".
func digitInside(name, label string) string {
	for i := 1; i < len(name) && i < len(label)+1; i++ {
		if name[i] < '0' || name[i] > '9' || name[:i] != label[:min(i, len(label))] {
			continue
		}
		if i < len(label) && (name[i+1:] == label[i:] || name[i+1:] == label[i+1:]) {
			return "the digit " + name[i:i+1]
		}
	}
	return ""
}

// adjacent reports whether two keys touch on a QWERTY, QWERTZ or AZERTY keyboard, including the row of digits.
func adjacent(a, b byte) bool {
	const neighbours = " gf gh gt gy gv gb hg hj hy hu hn hb o9 o0 oi op ol ok y6 y7 yt yu yg yh i8 i9 iu io ij ik" +
		" p0 po pl f d fr fg ft fv fc ta tz tr ty t5 t6 tg tf l; lk lo lp w2 w3 wq we ws wa v c vb vf vg b vn bv bn" +
		" bg bh sa sd sw se sx sz cx cv cd cf rt re r4 r5 rd rf fd kj kl ki ko km "
	return strings.Contains(neighbours, " "+string([]byte{b, a})+" ") ||
		strings.Contains(neighbours, " "+string([]byte{a, b})+" ")
}
