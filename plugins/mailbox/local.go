package main

import (
	"strings"
	"unicode/utf8"

	"assay/plugins/internal/mail"
	"assay/plugins/internal/wordlist"
)

// maxLocal is the longest local part in bytes, RFC 5321 section 4.5.3.1.1.
const maxLocal = 64

// scoreLocalPart scores the shape of a local part.
func (a *answer) scoreLocalPart(written, host string, big, numeric bool) {
	if len(written) > maxLocal {
		return
	}
	lower := strings.ToLower(written)
	local, _, _ := strings.Cut(lower, "+")
	switch {
	case isGroup(lower, host):
		a.raise(group.points, &group, local)
	case wordlist.Has(roles, local):
		if a.unlisted {
			a.raise(role.points, &role, local)
		}
	case big && mail.IsRandom(local): // a finding of the email layer
	default:
		a.scoreRandom(local, numeric)
	}
}

// groupWords are words in the addresses of teams and mailing lists, in wordlist form.
const groupWords = `announce bugs commits devel discuss list lists maint maintainer maintainers packagers packages
packaging team users
`

// isGroup reports whether an address, in lower case, belongs to a team or a mailing list, going by its words or its
// host.
func isGroup(local, host string) bool {
	for start, i := 0, 0; i <= len(local); i++ {
		if i < len(local) && !isSeparator(local[i]) {
			continue
		}
		if wordlist.Has(groupWords, local[start:i]) {
			return true
		}
		start = i + 1
	}
	first, _, _ := strings.Cut(host, ".")
	return first == "lists" || strings.HasSuffix(first, "-lists")
}

// isSeparator reports whether c separates the words of a local part.
func isSeparator(c byte) bool { return c == '.' || c == '_' || c == '-' || c == '+' }

// roles are the mailbox names of RFC 2142 and common names of functions in Europe's larger languages, in wordlist form.
const roles = `abuse accounting accounts admin administracion administrator amministrazione bestellung bewerbung
billing biuro booking bookings buchhaltung buero career careers commercial comptabilite contact contacto contato
contatto customer-service customer.service customerservice datenschutz donotreply dpo email enquiries feedback hello
help helpdesk hi hostmaster hr info inquiries invoice invoices jobs kontakt kundenservice legal mail marketing news
newsletter no-reply no.reply noc noreply office order orders post postmaster press presse privacy reception
reservations sales secretary security sekretariat service support team ventas vertrieb webmaster
`

func isLetter(b byte) bool { return b >= 'a' && b <= 'z' || b >= utf8.RuneSelf }

func isVowel(c byte) bool { return c >= 'a' && c <= 'z' && vowelBits>>(c-'a')&1 == 1 }

// vowelBits has a bit for each of the letters a, e, i, o, u and y.
const vowelBits = 1<<0 | 1<<('e'-'a') | 1<<('i'-'a') | 1<<('o'-'a') | 1<<('u'-'a') | 1<<('y'-'a')

func isDigit(b byte) bool { return b >= '0' && b <= '9' }

// minRarePairs is the number of rare letter pairs from which a local part looks machine-made.
const minRarePairs = 3

// scoreRandom reports at most one small signal for a local part that looks machine-made.
func (a *answer) scoreRandom(local string, numeric bool) {
	var digits, letters, vowels, hex, switches, returns, run, longest, tail int
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
			if isVowel(c) {
				vowels, run = vowels+1, 0
			}
			longest = max(longest, run)
		default:
			tail, run = 0, 0
			continue
		}
		if i > 0 && (isDigit(c) && isLetter(local[i-1]) || isLetter(c) && isDigit(local[i-1])) {
			switches++
			if isLetter(c) {
				returns++
			}
		}
	}
	kind := &random
	if a.unlisted {
		kind = &randomUnlisted
	}
	switch size := digits + letters; {
	case numeric && letters == 0:
	case size == len(local) && hex == size && size >= 16 && digits >= 4 && letters >= 3,
		size == len(local) && size >= 6 && (returns >= 2 || returns == 1 && (digits >= 3 || vowels*4 < letters)),
		switches >= 4 && digits >= 2 && size >= 8, longest >= 8, letters >= 9 && vowels*8 < letters,
		mail.RarePairs(local) >= minRarePairs:
		a.raise(kind.points, kind, local)
	case tail >= 5 && letters > 0 && !numeric:
		a.raise(longNumber.points, &longNumber, local)
	}
}
