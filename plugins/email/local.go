package main

import (
	"strings"
	"unicode/utf8"

	"assay/plugins/internal/mail"
)

// mailbox describes the mail domain of a local part.
type mailbox struct {
	open bool   // a provider where anyone can open a mailbox
	name string // the label left of the public suffix; "" if unknown
}

// maxLocal is the longest local part in bytes, RFC 5321 section 4.5.3.1.1.
const maxLocal = 64

// scoreLocalPart reports a local part that pretends to be something else, or that no person would use.
func scoreLocalPart(a *answer, written, host string, at mailbox) {
	if len(written) > maxLocal {
		return
	}
	local, _, _ := strings.Cut(strings.ToLower(written), "+")
	if mixesScripts(local) {
		a.report(&scripts, local)
	} else if mail.NoGmail(a.check) {
		a.report(&noGmail, local)
	}
	joined := dropSeparators(local)
	if scorePosing(a, local, joined, host, at) || scoreWebLike(a, local, at) {
		return
	}
	switch {
	case advertisesMedicine(local, joined):
		a.report(&medicine, local)
	case runsAlongKeyboard(joined):
		a.report(&keyboard, local)
	case at.open && mail.IsRandom(local):
		a.report(&random, local)
	}
}

// scoreWebLike reports a local part written like a web address or a domain name, and whether it is.
func scoreWebLike(a *answer, local string, at mailbox) bool {
	if strings.HasPrefix(local, "www.") || strings.HasPrefix(local, "http") && len(local) > len("https") {
		a.report(&webAddress, local)
		return true
	}
	if !at.open || !isDomainLike(local) {
		return false // people with their own domain give each shop an address such as shop.com@, to see which sells it
	}
	a.report(&domainName, local)
	return true
}

// isDomainLike reports whether a local part ends in a common suffix of domains.
func isDomainLike(local string) bool {
	dot := strings.LastIndexByte(local, '.')
	if dot < 2 {
		return false
	}
	switch local[dot+1:] {
	case "com", "net", "org", "gov", "edu", "info", "biz", "xyz", "online", "site", "shop", "click":
		return true
	}
	return false
}

// scorePosing reports whether the local part poses as a desk of a brand or of an organisation.
func scorePosing(a *answer, local, joined, host string, at mailbox) bool {
	if len(joined) < 3 {
		return false
	}
	plain := undoLeet(joined)
	brands := spelledBy(letterSet(joined) | letterSet(plain))
	for i := brands.next(); i >= 0; i = brands.next() {
		b := &posedBrands[i]
		text, start := joined, strings.Index(joined, b.name)
		if start < 0 && plain != "" {
			text, start = plain, strings.Index(plain, b.name)
		}
		if start < 0 || strings.Contains(at.name, b.name) {
			continue // the domain layer scores domains that contain the brand
		}
		if scorePosedBrand(a, local, host, b, segment(text[:start]), segment(text[start+len(b.name):]), at) {
			return true
		}
	}
	w := segment(joined)
	if !w.whole || w.desks == 0 {
		return false
	}
	if at.open {
		switch {
		case w.money > 0 && w.desks > 1 && w.offices == w.desks:
			a.report(&office, local)
			return true
		case w.money > 0 && w.desks > 1:
			a.report(&desk, local)
			return true
		case strings.HasPrefix(joined, "noreply") || strings.HasPrefix(joined, "donotreply"):
			a.report(&noReply, host)
			return true
		}
		return false
	}
	if name := brandInName(at.name); w.money > 0 && name != "" {
		a.report(&deskOfBrand, local, name)
		return true
	}
	return false
}

// brandInName returns the brand that a hyphen or a digit joins to the rest of a domain name, or "". Brands rarely name
// their own additional domains, such as those they send mail from, this way. Brands that are also words do not count.
func brandInName(name string) string {
	brands := spelledBy(letterSet(name))
	for i := brands.next(); i >= 0; i = brands.next() {
		if b := &posedBrands[i]; !b.alone && len(name) > len(b.name)+1 && hasWord(name, b.name) &&
			!isBranch(b.name, name) {
			return b.shown
		}
	}
	return ""
}

// isBranch reports whether a name joins bank, the name of a group of independent banks, with more than service words.
// Each bank of such a group adds its place.
func isBranch(bank, name string) bool {
	if bank != "sparkasse" && bank != "volksbank" && bank != "raiffeisen" {
		return false
	}
	before, after, _ := strings.Cut(name, bank)
	b, a := segment(dropSeparators(before)), segment(dropSeparators(after))
	return b.desks+a.desks == 0 || !b.whole || !a.whole
}

// scorePosedBrand reports whether a local part poses as b; before and after describe the text
// around the name.
func scorePosedBrand(a *answer, local, host string, b *posedBrand, before, after wording, at mailbox) bool {
	desks := before.desks + after.desks
	switch whole := before.whole && after.whole; {
	case whole && at.open && desks > 0 && !b.alone:
		a.report(&posing, b.shown, local)
	case whole && at.open && (desks > 0 || isDomainLike(local)):
		a.report(&posingWord, b.shown, local)
	case whole && desks > 0:
		a.report(&posingOwn, b.shown, host)
	case !at.open || b.alone:
		return false
	case whole:
		a.report(&brandOnly, b.shown, local)
	case desks > 0 && hasWord(local, b.name):
		a.report(&posingPart, b.shown, local)
	default:
		return false
	}
	return true
}

// hasWord reports whether text contains word with no letter directly before or after it.
func hasWord(text, word string) bool {
	for from := 0; ; {
		at := strings.Index(text[from:], word)
		if at < 0 {
			return false
		}
		start, end := from+at, from+at+len(word)
		if (start == 0 || !isLetter(text[start-1])) && (end == len(text) || !isLetter(text[end])) {
			return true
		}
		from = start + 1
	}
}

func isLetter(b byte) bool { return b >= 'a' && b <= 'z' || b >= utf8.RuneSelf }

func isDigit(b byte) bool { return b >= '0' && b <= '9' }

// dropSeparators keeps the letters and digits of a local part.
func dropSeparators(local string) string {
	out := make([]byte, 0, maxLocal)
	for i := range len(local) {
		if isLetter(local[i]) || isDigit(local[i]) {
			out = append(out, local[i])
		}
	}
	return string(out)
}

// undoLeet replaces digits with the letters that they imitate, or returns "" if there are none. A first digit is
// replaced only before a letter.
func undoLeet(s string) string {
	const digits, letters = "0134579", "oleastg"
	out, changed := []byte(nil), false
	for i := range len(s) {
		if !isDigit(s[i]) {
			continue
		}
		at := strings.IndexByte(digits, s[i])
		if at < 0 || i == 0 && len(s) > 1 && isDigit(s[1]) {
			continue
		}
		if out == nil {
			out = []byte(s)
		}
		out[i], changed = letters[at], true
	}
	if !changed {
		return ""
	}
	return string(out)
}

// mixesScripts reports whether s mixes Latin letters with Cyrillic or Greek ones. People do not write their names this
// way.
func mixesScripts(s string) bool {
	latin, other := false, false
	for _, r := range s {
		switch {
		case r >= 'a' && r <= 'z':
			latin = true
		case r >= 0x370 && r <= 0x3ff || r >= 0x400 && r <= 0x52f:
			other = true
		}
	}
	return latin && other
}
