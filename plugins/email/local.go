package main

import (
	"strings"
	"unicode/utf8"

	"assay/plugins/internal/quote"
	"assay/plugins/internal/wordlist"
	"assay/sdk"
)

// mailbox describes the mail domain of a local part.
type mailbox struct {
	open    bool   // a provider where anyone can open a mailbox
	numeric bool   // a provider that names mailboxes by number
	name    string // the label left of the public suffix; "" if unknown
}

// maxLocal is the longest local part in bytes, RFC 5321 section 4.5.3.1.1.
const maxLocal = 64

// scoreLocalPart raises signals for a local part that pretends to be something else or looks machine-made.
func scoreLocalPart(f *findings, written, host string, at mailbox) {
	if len(written) > maxLocal {
		return
	}
	local, _, _ := strings.Cut(strings.ToLower(written), "+")
	if mixesScripts(local) {
		f.add(pointsScripts, "email:local:mixed_scripts",
			"the local part mixes Latin letters with Cyrillic or Greek ones: "+quote.Of(local), sdk.Impersonation)
	}
	if scoreWebLike(f, local, at) || scorePosing(f, local, host, at) {
		return
	}
	shared := ""
	if wordlist.Has(roles, local) {
		shared = "@ is a shared role address, not one person's"
	} else if isGroup(written, host) {
		shared = "@ is a team's or a mailing list's address, not one person's"
	}
	if shared != "" {
		points := 0
		if f.unlisted {
			points = pointsRole
		}
		f.add(points, "email:role:shared", quote.Of(local)+shared, "")
		return
	}
	scoreRandom(f, local, at)
}

// groupWords are words in the addresses of teams and mailing lists, in wordlist form.
const groupWords = `announce bugs commits devel discuss list lists maint maintainer maintainers packagers packages
packaging team users
`

// isGroup reports whether an address belongs to a team or a mailing list, going by its words or its host.
func isGroup(local, host string) bool {
	for word := range strings.FieldsFuncSeq(strings.ToLower(local), isSeparator) {
		if wordlist.Has(groupWords, word) {
			return true
		}
	}
	first, _, _ := strings.Cut(host, ".")
	return first == "lists" || strings.HasSuffix(first, "-lists")
}

// isSeparator reports whether r separates the words of a local part.
func isSeparator(r rune) bool { return r == '.' || r == '_' || r == '-' || r == '+' }

// roles are the mailbox names of RFC 2142 and common names of functions in Europe's larger languages, in wordlist form.
const roles = `abuse accounting accounts admin administracion administrator amministrazione bestellung bewerbung
billing biuro booking bookings buchhaltung buero career careers commercial comptabilite contact contacto contato
contatto customer-service customer.service customerservice datenschutz donotreply dpo email enquiries feedback hello
help helpdesk hi hostmaster hr info inquiries invoice invoices jobs kontakt kundenservice legal mail marketing news
newsletter no-reply no.reply noc noreply office order orders post postmaster press presse privacy reception
reservations sales secretary security sekretariat service support team ventas vertrieb webmaster
`

// scoreWebLike raises a signal and returns true if the local part is written like a web address or a domain name.
func scoreWebLike(f *findings, local string, at mailbox) bool {
	if strings.HasPrefix(local, "www.") || strings.HasPrefix(local, "http") && len(local) > len("https") {
		f.add(pointsWeb, "email:local:web_address",
			"the local part is written like a web address: "+quote.Of(local), sdk.Phishing)
		return true
	}
	dot := strings.LastIndexByte(local, '.')
	const suffixes = " com net org gov edu info biz xyz online site shop click "
	if dot < 2 || !strings.Contains(suffixes, " "+local[dot+1:]+" ") {
		return false
	}
	if !at.open {
		// No points: people with their own domain give each shop an address such as shop.com@, to see who sells it.
		f.add(0, "email:local:domain_name", "the local part is written like a domain name: "+quote.Of(local), "")
		return true
	}
	f.add(pointsDomainLike, "email:local:domain_name",
		"the local part is written like a domain name: "+quote.Of(local), sdk.Phishing)
	return true
}

// scorePosing raises a signal and returns true if the local part poses as a desk of a brand or of an organisation.
func scorePosing(f *findings, local, host string, at mailbox) bool {
	joined := dropSeparators(local)
	if len(joined) < 3 {
		return false
	}
	plain := undoLeet(joined)
	present := letterSet(joined) | letterSet(plain)
	for i := range posedBrands {
		b := &posedBrands[i]
		if !present.spell(b.name) {
			continue
		}
		text, start := joined, strings.Index(joined, b.name)
		if start < 0 && plain != "" {
			text, start = plain, strings.Index(plain, b.name)
		}
		if start < 0 || strings.Contains(at.name, b.name) {
			continue // the domain layer scores domains that contain the brand
		}
		if scorePosedBrand(f, local, b, segment(text[:start]), segment(text[start+len(b.name):]), at) {
			return true
		}
	}
	w := segment(joined)
	if !w.whole || w.desks == 0 {
		return false
	}
	if at.open {
		switch {
		case w.money > 0 && w.desks > 1:
			f.add(pointsDesk, "email:impersonation:desk",
				quote.Of(local)+"@ plays an organisation's desk from a mailbox anybody can open", sdk.Impersonation)
			return true
		case strings.HasPrefix(joined, "noreply") || strings.HasPrefix(joined, "donotreply"):
			f.add(pointsNoReply, "email:impersonation:no_reply",
				"a no-reply address at "+quote.Of(host)+", where only people hold mailboxes", sdk.Impersonation)
			return true
		}
		return false
	}
	if name := brandInName(at.name); w.money > 0 && name != "" {
		f.add(pointsDeskOfBrand, "email:role:brand",
			quote.Of(local)+"@ speaks for security or accounts under a domain that joins "+name+" with other words",
			sdk.Impersonation)
		return true
	}
	return false
}

// brandInName returns the brand that a hyphen or a digit joins to the rest of a domain name, or "". Brands rarely name
// their own additional domains, such as those they send mail from, this way. Brands that are also words do not count.
func brandInName(name string) string {
	present := letterSet(name)
	for i := range posedBrands {
		b := &posedBrands[i]
		if !b.alone && present.spell(b.name) && len(name) > len(b.name)+1 && hasWord(name, b.name) {
			return b.name
		}
	}
	return ""
}

// scorePosedBrand raises a signal and returns true if a local part poses as b; before and after describe the text
// around the name.
func scorePosedBrand(f *findings, local string, b *posedBrand, before, after wording, at mailbox) bool {
	desks := before.desks + after.desks
	switch whole := before.whole && after.whole; {
	case whole && desks > 0 && at.open:
		f.add(pointsPosing, "email:impersonation:brand",
			quote.Of(local)+"@ plays a desk of "+b.name+" from a mailbox anybody can open", sdk.Impersonation)
	case whole && desks > 0:
		f.add(pointsPosingOwn, "email:impersonation:brand",
			quote.Of(local)+"@ plays a desk of "+b.name+" under a domain without that name", sdk.Impersonation)
	case !at.open || b.alone:
		return false
	case whole:
		f.add(pointsBrandOnly, "email:impersonation:name",
			quote.Of(local)+"@ is "+b.name+"'s name at a mailbox anybody can open", sdk.Impersonation)
	case desks > 0 && hasWord(local, b.name):
		f.add(pointsPosingPart, "email:impersonation:brand",
			quote.Of(local)+"@ joins "+b.name+" with service words at a mailbox anybody can open", sdk.Impersonation)
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

// undoLeet replaces digits by the letters that they imitate, or returns "" if there are none. A first digit is replaced
// only before a letter.
func undoLeet(s string) string {
	const digits, letters = "0134579", "oleastg"
	out, changed := []byte(nil), false
	for i := range len(s) {
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

// scoreRandom raises at most one small signal for a local part that looks machine-made.
func scoreRandom(f *findings, local string, at mailbox) {
	var digits, letters, vowels, hex, switches, run, longest, tail int
	for i := range len(local) {
		c := local[i]
		switch {
		case isDigit(c):
			digits, hex, tail, run = digits+1, hex+1, tail+1, 0
		case c >= utf8.RuneSelf:
			return // the measures below only apply to the Latin alphabet
		case isLetter(c):
			letters, tail, run = letters+1, 0, run+1
			if c <= 'f' {
				hex++
			}
			if strings.IndexByte("aeiouy", c) >= 0 {
				vowels, run = vowels+1, 0
			}
			longest = max(longest, run)
		default:
			tail, run = 0, 0
			continue
		}
		if i > 0 && (isDigit(c) && isLetter(local[i-1]) || isLetter(c) && isDigit(local[i-1])) {
			switches++
		}
	}
	points := pointsRandom
	if f.unlisted {
		points = pointsRandomUnlisted
	}
	switch size := digits + letters; {
	case at.numeric && letters == 0:
	case size == len(local) && hex == size && size >= 16 && digits >= 4 && letters >= 3:
		f.add(points, "email:local:random", "the local part is a string of hexadecimal digits", "")
	case switches >= 4 && digits >= 2 && size >= 8, longest >= 8, letters >= 9 && vowels*8 < letters:
		f.add(points, "email:local:random", "the local part reads as made by a machine: "+quote.Of(local), "")
	case tail >= 5 && letters > 0 && !at.numeric:
		f.add(pointsDigits, "email:local:digits", "the local part ends in a long number", "")
	}
}
