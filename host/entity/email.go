package entity

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// The limits of RFC 5321 sections 4.5.3.1.1 and 4.5.3.1.3. A path of 256 octets includes its angle brackets.
const (
	maxLocalBytes   = 64
	maxAddressBytes = 254
)

// readEmail parses a Mailbox of RFC 5321 section 4.1.2, or of RFC 6531 if it is internationalised, and normalises it as
// in MaxMind's "Normalizing Email Addresses for minFraud": lower case, NFC, provider aliases, tags and ignored dots.
// Unlike MaxMind, it does not correct misspelt domains (gmai.com, gmail.con, example.com.com): they belong to other
// owners, and the layers need to see the misspelling.
func readEmail(text, _ string, facts Facts) (string, error) {
	local, host, err := splitAddress(text)
	if err != nil {
		return "", err
	}
	if len(local) > maxLocalBytes {
		return "", refuse("has a local part longer than %d bytes", maxLocalBytes)
	}
	// Compose before checking, because NFC turns some characters into ASCII punctuation (U+037E into ';').
	rootless := strings.TrimSuffix(host, ".")
	mailbox, quoted, err := readLocal(norm.NFC.String(local), looseDots[strings.ToLower(rootless)])
	if err != nil {
		return "", err
	}
	if rootless == "" {
		return "", refuse("has no domain after the '@'")
	}
	written, err := readMailDomain(host, Facts{})
	if err != nil {
		return "", err
	}
	if len(local)+1+len(written) > maxAddressBytes {
		return "", refuse("is longer than %d bytes", maxAddressBytes)
	}

	user, tag, domain := lowerNFC(mailbox), "", written
	if alias, folded := foldFastmail(written); folded && !quoted {
		user, tag, domain = alias, user, strings.TrimPrefix(written, alias+".")
	}
	if to, known := aliasDomains[domain]; known {
		domain = to
	}
	provider := providers[domain]
	if provider == "google" {
		if user = strings.ReplaceAll(user, ".", ""); user == "" {
			return "", refuse("has only dots before the '@'")
		}
		quoted = quoted && checkDotAtom(user) != nil
	}
	if !quoted && tag == "" {
		user, tag = cutTag(user, provider)
	}
	if quoted {
		user = quote(user)
	}
	if user = lowerNFC(user); len(user) > maxLocalBytes {
		return "", refuse("has a local part longer than %d bytes in lower case", maxLocalBytes)
	}
	if _, err := readMailDomain(domain, facts); err != nil {
		return "", err
	}
	if len(user)+1+len(domain) > maxAddressBytes {
		return "", refuse("is longer than %d bytes in lower case", maxAddressBytes)
	}
	facts.set("email.address", local+"@"+written)
	facts.set("email.local", local)
	facts.set("email.user", user)
	facts.set("email.tag", tag)
	facts.set("email.domain", domain)
	facts.set("email.provider", provider)
	return user + "@" + domain, nil
}

// splitAddress splits an address at its last '@'. It returns specific errors for forms of RFC 5322 that are not
// accepted.
func splitAddress(text string) (local, host string, err error) {
	at := strings.LastIndexByte(text, '@')
	switch {
	case at < 0:
		return "", "", refuse("has no '@'")
	case strings.HasSuffix(text, ">") || strings.HasPrefix(text, "<"):
		return "", "", refuse("contains a display name or angle brackets; send only the address")
	case strings.HasPrefix(text[at+1:], "["):
		return "", "", refuse("has an IP address instead of a domain name")
	case at == 0:
		return "", "", refuse("has nothing before the '@'")
	}
	return text[:at], text[at+1:], nil
}

// readMailDomain is readName with errors worded for an address.
func readMailDomain(host string, facts Facts) (string, error) {
	if strings.ContainsAny(host, "()") {
		return "", refuse("contains a comment; send only the address")
	}
	ascii, err := readName(host, facts)
	if err != nil {
		return "", refuse("has a domain that %s", err)
	}
	return ascii, nil
}

// looseDots are the domains of mobile networks in Japan that issued mailboxes with dots in a row and at the end. They
// deliver mail for them with and without quotes.
var looseDots = map[string]bool{"docomo.ne.jp": true, "ezweb.ne.jp": true, "au.com": true}

// readLocal returns the mailbox of a local part: a dot-atom unchanged, and the content of a quoted string without
// escapes. A dot-atom may have loose dots if loose is set. quoted reports whether the mailbox needs quotes.
func readLocal(local string, loose bool) (mailbox string, quoted bool, err error) {
	for _, r := range local {
		if r >= utf8.RuneSelf && !isVisible(r) {
			return "", false, refuse("contains the invisible or unassigned character U+%04X", r)
		}
	}
	if local[0] != '"' {
		err := checkDotAtom(local)
		if err != nil && loose && local[0] != '.' {
			atoms := strings.FieldsFunc(local, func(r rune) bool { return r == '.' })
			return local, true, checkDotAtom(strings.Join(atoms, "."))
		}
		return local, false, err
	}
	mailbox, closed := unquote(local)
	switch {
	case !closed:
		return "", false, refuse("has quotes that do not enclose the whole local part")
	case mailbox == "":
		return "", false, refuse("has nothing between the quotes")
	}
	return mailbox, checkDotAtom(mailbox) != nil, nil
}

// isVisible reports whether r changes how a mailbox looks. It is false for spaces other than U+0020, format characters,
// variation selectors, fillers, private use and unassigned code points, but true for the joiners, which several scripts
// need.
func isVisible(r rune) bool {
	return unicode.IsGraphic(r) && !unicode.IsSpace(r) && r != brailleBlank &&
		!unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) ||
		r == '\u200c' || r == '\u200d'
}

// brailleBlank is a Braille pattern without dots, which looks like a space.
const brailleBlank = '\u2800'

// checkDotAtom checks that s is a dot-atom-text (RFC 5322 section 3.2.3), which may contain non-ASCII characters (RFC
// 6531 section 3.3).
func checkDotAtom(s string) error {
	const specials = "!#$%&'*+-/=?^_`{|}~"
	if s[0] == '.' || s[len(s)-1] == '.' || strings.Contains(s, "..") {
		return refuse("has a local part that starts or ends with a dot or contains two in a row")
	}
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= utf8.RuneSelf, c|0x20 >= 'a' && c|0x20 <= 'z', isDigit(c), c == '.',
			strings.IndexByte(specials, c) >= 0:
		case c == '@':
			return refuse("has more than one '@'")
		case c == '(' || c == ')':
			return refuse("contains a comment; send only the address")
		case c == '<' || c == '>':
			return refuse("contains a display name or angle brackets; send only the address")
		case c == ' ':
			return refuse("contains a space")
		default:
			return refuse("contains %s, which must be quoted in a local part", excerpt(string(rune(c))))
		}
	}
	return nil
}

// unquote returns the content of s, which must be one quoted-string (RFC 5321 section 4.1.2); otherwise closed is
// false.
func unquote(s string) (text string, closed bool) {
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '"':
			return b.String(), i == len(s)-1
		case '\\':
			if i++; i == len(s) {
				return "", false
			}
		}
		b.WriteByte(s[i])
	}
	return "", false
}

// quote returns the canonical quoted-string of text, which escapes only '"' and '\'.
func quote(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
}

// lowerNFC returns s in lower case and NFC. It normalises twice, because composing can produce a capital (U+2126
// becomes U+03A9), and lower-casing can produce characters that compose.
func lowerNFC(s string) string {
	return norm.NFC.String(strings.ToLower(norm.NFC.String(s)))
}

// cutTag splits the tag of a sub-address (RFC 5233) from the mailbox: at the first '-' for Yahoo's disposable
// addresses, and at the first '+' for other providers. A mark at the start does not begin a tag.
func cutTag(user, provider string) (mailbox, tag string) {
	mark := "+"
	if provider == "yahoo" {
		mark = "-"
	}
	at := strings.Index(user, mark)
	if at <= 0 {
		return user, ""
	}
	if mailbox = strings.TrimRight(user[:at], "."); mailbox == "" {
		return user, ""
	}
	return mailbox, user[at+len(mark):]
}

// foldFastmail returns the user of Fastmail's subdomain addressing: anything@user.fastmail.com belongs to
// user@fastmail.com.
func foldFastmail(domain string) (user string, folded bool) {
	user, parent, found := strings.Cut(domain, ".")
	if !found || providers[parent] != "fastmail" || user == "www" || strings.HasPrefix(user, "xn--") {
		return "", false
	}
	return user, true
}
