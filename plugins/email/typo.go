package main

import (
	"strings"

	"assay/plugins/internal/wordlist"
)

// slip is a mistyped provider: what was meant, and how the name differs, for a person.
type slip struct {
	meant  string
	what   string
	suffix bool // the name is right and the suffix wrong
}

// provider is a mailbox provider that people mistype.
type provider struct {
	label  string
	suffix string // of its main domain
	edits  bool   // long and rare enough a word that one edit of it is no other word
	slips  bool   // runs no .co, .cm or the like of its own
}

// providers are the mailbox providers whose names are typed by hand most, the widest used first.
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

// realNames are names one edit away from a provider's that are providers or businesses of their own, in the form of
// disposables.
const realNames = `amail blastmail bluewing bmail castmail cloud clouds cmail comcasts dcloud dmail ecloud email
emails fastmails fmail freened freenets gmails hcloud hmail hotmails imail jcloud jmail kcloud kmail lapostes mail
mcloud ncloud outlooks overlook pcloud protonmails qmail rmail scloud seznams tcloud tiscalis tmail ucloud umail
vastmail vcloud verizons vmail wcloud wmail xcloud xmail yahoos ymail zmail
`

// wrongSuffixes are what people type for .com; none of them is a suffix under which these providers give out mailboxes.
// In the form of disposables.
const wrongSuffixes = `ccom cim clm cm cmo co cok com.com come coml comm comn coms con coom cpm cpom ocm om vom
xom
`

// mistyped says which provider a registrable domain means by one slip, given its label and its public suffix.
func mistyped(name, suffix string, unlisted bool) slip {
	if len(name) < 3 || len(name) > 13 || len(suffix) > 8 {
		return slip{}
	}
	wrong := wordlist.Has(wrongSuffixes, suffix)
	seen := lookalikes(name)
	spared := wordlist.Has(realNames, name) || seen != "" && wordlist.Has(realNames, seen)
	for i := range providers {
		p := &providers[i]
		if name == p.label {
			if p.slips && (wrong || unlisted) {
				return slip{p.label + "." + p.suffix, "." + suffix + " in place of ." + p.suffix, true}
			}
			return slip{} // the provider's own name, under a suffix that may be its own
		}
		if spared || !(wrong || suffix == "com" || suffix == p.suffix || len(p.label) >= len("outlook")) {
			continue
		}
		what := ""
		switch {
		case seen == p.label:
			what = "written with look-alike characters"
		case p.edits:
			if what = oneEdit(name, p.label); what == "" && seen != "" && oneEdit(seen, p.label) != "" {
				what = "look-alike characters and one slip"
			}
		case p.label == "live":
			what = digitInside(name, p.label)
		}
		if what != "" {
			return slip{p.label + "." + p.suffix, what, false}
		}
	}
	return slip{}
}

// borrowed returns the provider whose name stands in one of labels (a host without its public suffix) where it is not
// the whole registrable name, or "". These are coined words that no honest mail domain in the labelled data holds;
// gmail must begin a word, for there are bigmails.
func borrowed(labels string) string {
	for labels != "" {
		label, rest, more := strings.Cut(labels, ".")
		labels = rest
		at := strings.Index(label, "gmail")
		if at > 0 && (digit(label[at-1]) || label[at-1] == '-') || at == 0 && (more || len(label) > len("gmails")) {
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

// lookalikes returns name with the digits and pairs that pass for letters replaced by those letters, or "" when it
// holds none.
func lookalikes(name string) string {
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
		out[0] = 'i' // the digit 1 stands for i there
	}
	return string(out)
}

// oneEdit says how name differs from label by one insertion, omission, replacement or swap of neighbours (the optimal
// string alignment distance 1), or "" when it does not. A replaced first letter counts only when it neighbours the
// right one on a keyboard, as other first letters make other words.
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
			return "" // the tail of a name is often a word: cloud, mail
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

// digitInside says how name differs from label by one digit that replaces a letter or stands between two, or "".
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

// adjacent says whether two keys touch on a QWERTY, QWERTZ or AZERTY keyboard, digits row included.
func adjacent(a, b byte) bool {
	const neighbours = " gf gh gt gy gv gb hg hj hy hu hn hb o9 o0 oi op ol ok y6 y7 yt yu yg yh i8 i9 iu io ij ik" +
		" p0 po pl f d fr fg ft fv fc ta tz tr ty t5 t6 tg tf l; lk lo lp w2 w3 wq we ws wa v c vb vf vg b vn bv bn bg bh" +
		" sa sd sw se sx sz cx cv cd cf rt re r4 r5 rd rf fd kj kl ki ko km "
	return strings.Contains(neighbours, " "+string([]byte{b, a})+" ") ||
		strings.Contains(neighbours, " "+string([]byte{a, b})+" ")
}
