package main

import (
	"strings"

	"assay/plugins/internal/wordlist"
)

// typo describes a mistyped provider.
type typo struct {
	meant      string // the provider's domain
	difference string // how the name differs from it, in words
	suffix     bool   // only the suffix differs
}

// provider is a mailbox provider that people mistype.
type provider struct {
	label  string
	suffix string // of its main domain
	edits  bool   // so long and rare a word that one edit of it is not another word
	slips  bool   // has no domain of its own under .co, .cm and the like
}

// providers are the mailbox providers whose names people most often type by hand, the most used first.
var providers = [...]provider{
	{"gmail", "com", true, true}, {"hotmail", "com", true, true}, {"outlook", "com", true, true},
	{"yahoo", "com", true, true}, {"icloud", "com", true, true}, {"protonmail", "com", true, true},
	{"googlemail", "com", true, true}, {"live", "com", false, true}, {"aol", "com", false, true},
	{"rocketmail", "com", true, true}, {"tutanota", "com", true, true}, {"fastmail", "com", true, false},
	{"yandex", "ru", true, false}, {"rambler", "ru", false, false}, {"laposte", "net", true, false},
	{"wanadoo", "fr", true, false}, {"t-online", "de", true, false}, {"freenet", "de", true, false},
	{"virgilio", "it", true, false}, {"tiscali", "it", true, false}, {"libero", "it", false, false},
	{"bluewin", "ch", true, false}, {"telenet", "be", false, false}, {"kpnmail", "nl", true, false},
	{"seznam", "cz", true, false}, {"comcast", "net", true, false}, {"verizon", "net", true, false},
	{"sbcglobal", "net", true, false}, {"bellsouth", "net", true, false}, {"btinternet", "com", true, false},
	{"virginmedia", "com", true, false}, {"bigpond", "com", true, false}, {"optusnet", "com.au", true, false},
	{"rediffmail", "com", true, false}, {"walla", "co.il", false, false}, {"freemail", "hu", false, false},
	{"interia", "pl", true, false}, {"mailbox", "org", false, false}, {"posteo", "de", true, false},
	{"hanmail", "net", true, false},
}

// realDomains are names one edit away from a provider's that belong to other providers or businesses, in wordlist form.
const realDomains = `amail blastmail bluewing bmail castmail cloud clouds cmail comcasts dcloud dmail ecloud email
emails fastmails fmail freened freenets gmails hcloud hmail hotmails imail jcloud jmail kcloud kmail lapostes mail
mcloud ncloud outlooks overlook pcloud protonmails qmail rmail scloud seznams tcloud tiscalis tmail ucloud umail
vastmail vcloud verizons vmail wcloud wmail xcloud xmail yahoos ymail zmail
`

// wrongSuffixes are mistypings of .com, in wordlist form. The providers above offer no mailboxes under them.
const wrongSuffixes = `ccom cim clm cm cmo co cok com.com come coml comm comn coms con coom cpm cpom ocm om vom
xom
`

// findTypo finds the provider that a registrable domain, given as label and public suffix, is one mistake away from.
// unlisted means that the suffix is not in the Public Suffix List. The zero typo means none.
func findTypo(name, suffix string, unlisted bool) typo {
	if len(name) < 3 || len(name) > 13 || len(suffix) > 8 {
		return typo{}
	}
	wrong := wordlist.Has(wrongSuffixes, suffix)
	decoded := undoLookalikes(name)
	isReal := wordlist.Has(realDomains, name) || decoded != "" && wordlist.Has(realDomains, decoded)
	for i := range providers {
		p := &providers[i]
		if name == p.label {
			if p.slips && (wrong || unlisted) {
				return typo{p.label + "." + p.suffix, "." + suffix + " in place of ." + p.suffix, true}
			}
			return typo{} // the provider's own name, under a suffix that may be its own
		}
		if isReal || !(wrong || suffix == "com" || suffix == p.suffix || len(p.label) >= len("outlook")) {
			continue
		}
		difference := ""
		switch {
		case decoded == p.label:
			difference = "written with look-alike characters"
		case p.edits:
			difference = oneEdit(name, p.label)
			if difference == "" && decoded != "" && oneEdit(decoded, p.label) != "" {
				difference = "look-alike characters and one slip"
			}
		case p.label == "live":
			difference = digitInside(name, p.label)
		}
		if difference != "" {
			return typo{p.label + "." + p.suffix, difference, false}
		}
	}
	return typo{}
}

// borrowedProvider returns the provider whose name is part of one of labels (a host without its public suffix) without
// being the whole registrable name, or "". The names are coined words, so honest mail domains do not contain them;
// gmail must begin a word, because of names such as bigmail.
func borrowedProvider(labels string) string {
	for labels != "" {
		label, rest, more := strings.Cut(labels, ".")
		labels = rest
		at := strings.Index(label, "gmail")
		if at > 0 && (isDigit(label[at-1]) || label[at-1] == '-') || at == 0 && (more || len(label) > len("gmails")) {
			return "gmail.com"
		}
		for _, name := range [...]string{"hotmail", "protonmail", "googlemail"} {
			if strings.Contains(label, name) && (more || len(label) > len(name)+1) {
				return name + ".com"
			}
		}
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
// string alignment distance 1), or returns "" if the distance is not 1. A replaced first letter counts only if it is
// next to the right one on a keyboard, because other first letters make other words.
func oneEdit(name, label string) string {
	if len(name) > len(label)+1 || len(name)+1 < len(label) {
		return ""
	}
	start := 0
	for start < len(name) && start < len(label) && name[start] == label[start] {
		start++
	}
	n, l := name[start:], label[start:]
	switch {
	case len(n) == len(l)+1 && n[1:] == l:
		return "extra " + n[:1]
	case len(n)+1 == len(l) && n == l[1:]:
		if start == 0 {
			return "" // without its first letter, a name is often a word: cloud, mail
		}
		return l[:1] + " is missing"
	case len(n) != len(l) || len(n) == 0:
		return ""
	case n[1:] == l[1:]:
		if start == 0 && !adjacent(n[0], l[0]) {
			return ""
		}
		return n[:1] + " for " + l[:1]
	case len(n) >= 2 && n[0] == l[1] && n[1] == l[0] && n[2:] == l[2:]:
		return "letters " + l[:2] + " swapped"
	}
	return ""
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
