package main

import (
	"strings"
	"unicode/utf8"

	"assay/plugins/internal/quote"
	"assay/plugins/internal/wordlist"
	"assay/sdk"
)

// mailbox is where a local part lives.
type mailbox struct {
	open    bool   // at a provider where anybody opens a mailbox in a minute
	numeric bool   // at one that names mailboxes by number
	name    string // the label of its domain left of the public suffix; "" when unknown
}

// maxLocal bounds the work on one local part, in bytes: RFC 5321 section 4.5.3.1.1 allows no longer one.
const maxLocal = 64

// judgeLocal says what the local part pretends to be, and whether a machine made it up.
func judgeLocal(v *verdict, written, host string, at mailbox) {
	if len(written) > maxLocal {
		return
	}
	local, _, _ := strings.Cut(strings.ToLower(written), "+")
	if mixesScripts(local) {
		v.add(pointsScripts, "email:local:mixed_scripts",
			"the local part mixes Latin letters with Cyrillic or Greek ones: "+quote.Of(local), sdk.Impersonation)
	}
	if webLike(v, local, at) || posing(v, local, host, at) {
		return
	}
	shared := ""
	if wordlist.Has(roles, local) {
		shared = "@ is a shared role address, not one person's"
	} else if group(written, host) {
		shared = "@ is a team's or a mailing list's address, not one person's"
	}
	if shared != "" {
		points := 0
		if v.unlisted {
			points = pointsRole
		}
		v.add(points, "email:role:shared", quote.Of(local)+shared, "")
		return
	}
	random(v, local, at)
}

// groupWords tell addresses of teams and mailing lists, in the form of disposables.
const groupWords = `announce bugs commits devel discuss list lists maint maintainer maintainers packagers packages packaging
team users
`

// group says whether an address is a team's or a mailing list's: one of its words says so, or its host is one of lists.
func group(local, host string) bool {
	for word := range strings.FieldsFuncSeq(strings.ToLower(local), separates) {
		if wordlist.Has(groupWords, word) {
			return true
		}
	}
	first, _, _ := strings.Cut(host, ".")
	return first == "lists" || strings.HasSuffix(first, "-lists")
}

// separates says whether r stands between the words of a local part.
func separates(r rune) bool { return r == '.' || r == '_' || r == '-' || r == '+' }

// roles are mailboxes that stand for a function, RFC 2142 and the usual ones in Europe's larger languages, in the
// form of disposables.
const roles = `abuse accounting accounts admin administracion administrator amministrazione bestellung bewerbung
billing biuro booking bookings buchhaltung buero career careers commercial comptabilite contact contacto contato
contatto customer-service customer.service customerservice datenschutz donotreply dpo email enquiries feedback hello
help helpdesk hi hostmaster hr info inquiries invoice invoices jobs kontakt kundenservice legal mail marketing news
newsletter no-reply no.reply noc noreply office order orders post postmaster press presse privacy reception
reservations sales secretary security sekretariat service support team ventas vertrieb webmaster
`

// webLike raises a signal when the local part is written like a web address or a domain name.
func webLike(v *verdict, local string, at mailbox) bool {
	if strings.HasPrefix(local, "www.") || strings.HasPrefix(local, "http") && len(local) > len("https") {
		v.add(pointsWeb, "email:local:web_address",
			"the local part is written like a web address: "+quote.Of(local), sdk.Phishing)
		return true
	}
	dot := strings.LastIndexByte(local, '.')
	if dot < 2 || !strings.Contains(" com net org gov edu info biz xyz online site shop click ", " "+local[dot+1:]+
		" ") {
		return false
	}
	if !at.open {
		// People with a domain of their own hand out shop.com@ addresses to see who sells them on.
		// for the audit alone
		v.add(0, "email:local:domain_name", "the local part is written like a domain name: "+quote.Of(local), "")
		return true
	}
	v.add(pointsDomainLike, "email:local:domain_name",
		"the local part is written like a domain name: "+quote.Of(local), sdk.Phishing)
	return true
}

// posing raises a signal when the local part plays a brand's or an office's desk.
func posing(v *verdict, local, host string, at mailbox) bool {
	joined := joinLetters(local)
	if len(joined) < 3 {
		return false
	}
	plain := deleet(joined)
	present := lettersOf(joined) | lettersOf(plain)
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
			continue // under a domain that holds the name the layer for domains judges
		}
		if playsBrand(v, local, b, segment(text[:start]), segment(text[start+len(b.name):]), at) {
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
			v.add(pointsOfficialish, "email:impersonation:desk",
				quote.Of(local)+"@ plays an organisation's desk from a mailbox anybody can open", sdk.Impersonation)
			return true
		case strings.HasPrefix(joined, "noreply") || strings.HasPrefix(joined, "donotreply"):
			v.add(pointsNoReply, "email:impersonation:no_reply",
				"a no-reply address at "+quote.Of(host)+", where only people hold mailboxes", sdk.Impersonation)
			return true
		}
		return false
	}
	if name := joinedBrand(at.name); w.money > 0 && name != "" {
		v.add(pointsDeskOfBrand, "email:role:brand",
			quote.Of(local)+"@ speaks for security or accounts under a domain that joins "+name+" with other words",
			sdk.Impersonation)
		return true
	}
	return false
}

// joinedBrand returns the unambiguous brand that a domain's name joins to something else by a hyphen or a digit, or "".
// Brands' own further domains, such as the ones they send mail from, are rarely written so.
func joinedBrand(name string) string {
	present := lettersOf(name)
	for i := range posedBrands {
		b := &posedBrands[i]
		if !b.alone && present.spell(b.name) && len(name) > len(b.name)+1 && wordApart(name, b.name) {
			return b.name
		}
	}
	return ""
}

// playsBrand judges a local part that holds b, with before and after what stands around it.
func playsBrand(v *verdict, local string, b *posedBrand, before, after wording, at mailbox) bool {
	desks := before.desks + after.desks
	switch whole := before.whole && after.whole; {
	case whole && desks > 0 && at.open:
		v.add(pointsPosing, "email:impersonation:brand",
			quote.Of(local)+"@ plays a desk of "+b.name+" from a mailbox anybody can open", sdk.Impersonation)
	case whole && desks > 0:
		v.add(pointsPosingOwn, "email:impersonation:brand",
			quote.Of(local)+"@ plays a desk of "+b.name+" under a domain without that name", sdk.Impersonation)
	case !at.open || b.alone:
		return false
	case whole:
		v.add(pointsBrandOnly, "email:impersonation:name",
			quote.Of(local)+"@ is "+b.name+"'s name at a mailbox anybody can open", sdk.Impersonation)
	case desks > 0 && wordApart(local, b.name):
		v.add(pointsPosingPart, "email:impersonation:brand",
			quote.Of(local)+"@ joins "+b.name+" with service words at a mailbox anybody can open", sdk.Impersonation)
	default:
		return false
	}
	return true
}

// wordApart says whether name stands in local as a word of its own, between separators or digits.
func wordApart(local, name string) bool {
	for from := 0; ; {
		at := strings.Index(local[from:], name)
		if at < 0 {
			return false
		}
		start, end := from+at, from+at+len(name)
		if (start == 0 || !letter(local[start-1])) && (end == len(local) || !letter(local[end])) {
			return true
		}
		from = start + 1
	}
}

func letter(b byte) bool { return b >= 'a' && b <= 'z' || b >= utf8.RuneSelf }

func digit(b byte) bool { return b >= '0' && b <= '9' }

// joinLetters drops what separates words in a local part.
func joinLetters(local string) string {
	out := make([]byte, 0, maxLocal)
	for i := range len(local) {
		if letter(local[i]) || digit(local[i]) {
			out = append(out, local[i])
		}
	}
	return string(out)
}

// deleet reads the digits between or after letters that pass for letters, or returns "" when there are none.
func deleet(s string) string {
	const digits, letters = "0134579", "oleastg"
	out, changed := []byte(nil), false
	for i := range len(s) {
		at := strings.IndexByte(digits, s[i])
		if at < 0 || i == 0 && len(s) > 1 && digit(s[1]) {
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

// mixesScripts says whether s holds both Latin and Cyrillic or Greek letters, as no name written by its owner does.
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

// random raises at most one small signal for a local part that reads as made by a machine.
func random(v *verdict, local string, at mailbox) {
	var digits, letters, vowels, hex, switches, run, longest, tail int
	for i := range len(local) {
		c := local[i]
		switch {
		case digit(c):
			digits, hex, tail, run = digits+1, hex+1, tail+1, 0
		case c >= utf8.RuneSelf:
			return // these measures know the Latin alphabet alone
		case letter(c):
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
		if i > 0 && (digit(c) && letter(local[i-1]) || letter(c) && digit(local[i-1])) {
			switches++
		}
	}
	points := pointsRandom
	if v.unlisted {
		points = pointsRandomHere
	}
	switch size := digits + letters; {
	case at.numeric && letters == 0:
	case size == len(local) && hex == size && size >= 16 && digits >= 4 && letters >= 3:
		v.add(points, "email:local:random", "the local part is a string of hexadecimal digits", "")
	case switches >= 4 && digits >= 2 && size >= 8, longest >= 8, letters >= 9 && vowels*8 < letters:
		v.add(points, "email:local:random", "the local part reads as made by a machine: "+quote.Of(local), "")
	case tail >= 5 && letters > 0 && !at.numeric:
		v.add(pointsDigits, "email:local:digits", "the local part ends in a long number", "")
	}
}
