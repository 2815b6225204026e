package entity

import (
	"slices"
	"strings"
	"unicode"

	"golang.org/x/net/idna"
	"golang.org/x/net/publicsuffix"
)

// RFC 1035 section 2.3.4: octets of a name without its trailing dot, and of a label.
const (
	maxNameBytes  = 253
	maxLabelBytes = 63
)

// lookup is UTS 46 nontransitional processing with the contextual and bidi rules of IDNA2008. Two checks are done here
// instead of there: ASCII punctuation, because names in the wild hold underscores; and hyphens, because UTS 46 refuses
// them in the third and fourth place ("r3---sn-x.example.com"), where only the edges matter. Lengths are checked here
// for errors that say which limit was passed.
var lookup = idna.New(
	idna.MapForLookup(),
	idna.Transitional(false),
	idna.BidiRule(),
	idna.CheckJoiners(true),
	idna.CheckHyphens(false),
	idna.StrictDomainName(false),
	idna.VerifyDNSLength(false),
)

// strict is lookup with ASCII punctuation refused, as it must be inside an internationalised label: decoded, such a
// label could hold a slash or a space, and the signs that decompose to ASCII punctuation (U+2260 to '=').
var strict = idna.New(
	idna.MapForLookup(),
	idna.Transitional(false),
	idna.BidiRule(),
	idna.CheckJoiners(true),
	idna.CheckHyphens(false),
	idna.StrictDomainName(true),
	idna.VerifyDNSLength(false),
)

func readDomain(text, _ string, facts Facts) (string, error) {
	host, err := hostOf(text)
	if err != nil {
		return "", err
	}
	return readName(host, facts)
}

// hostOf reduces a pasted URL, or a host with a port, to the host. User information is refused rather than dropped:
// https://bank.example@evil.example/ is how look-alike URLs deceive, and dropping half of one would hide that.
func hostOf(text string) (string, error) {
	if strings.Contains(text, `\`) {
		return "", refuse(`contains a backslash, which browsers and servers interpret differently`)
	}
	var host string
	if scheme, rest, found := strings.Cut(text, "://"); found && isScheme(scheme) {
		if s := strings.ToLower(scheme); s != "http" && s != "https" {
			return "", refuse("has a URL scheme other than http or https")
		}
		host = rest
	} else {
		host = strings.TrimPrefix(text, "//")
	}
	if end := strings.IndexAny(host, "/?#"); end >= 0 {
		host = host[:end]
	}
	if host == "" {
		return "", refuse("is a URL without a host")
	}
	if strings.Contains(host, "@") {
		return "", refuse("contains user information before an '@'; send only the host, or an email address as email")
	}
	if strings.HasPrefix(host, "[") || strings.Count(host, ":") > 1 {
		return "", refuse("looks like an IPv6 address, not a domain name")
	}
	if name, port, found := strings.Cut(host, ":"); found {
		if !isPort(port) {
			return "", refuse("contains a ':' that is not followed by a port number")
		}
		host = name
	}
	return host, nil
}

// isScheme knows the scheme of RFC 3986 section 3.1.
func isScheme(s string) bool {
	for i := range len(s) {
		c := s[i] | 0x20
		if !(c >= 'a' && c <= 'z') && (i == 0 || !isDigit(s[i]) && s[i] != '+' && s[i] != '-' && s[i] != '.') {
			return false
		}
	}
	return s != ""
}

// isPort accepts the empty port too, as RFC 3986 section 3.2.3 does.
func isPort(s string) bool {
	n := 0
	for i := range len(s) {
		if !isDigit(s[i]) || i > 4 {
			return false
		}
		n = n*10 + int(s[i]-'0')
	}
	return n <= 65535
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// readName turns a host name into A-labels, in lower case, without its trailing dot, and sets every domain fact.
func readName(host string, facts Facts) (string, error) {
	if err := refusePunctuation(host); err != nil {
		return "", err
	}
	ascii, err := lookup.ToASCII(host)
	if err != nil {
		return "", refuse("is not a valid internationalised domain name (IDNA2008, UTS 46)")
	}
	ascii = strings.TrimSuffix(ascii, ".")
	labels := strings.Split(ascii, ".")
	if err := checkLabels(ascii, labels); err != nil {
		return "", err
	}
	suffix, kind := publicSuffix(ascii)
	if err := checkUnderscores(ascii, labels); err != nil {
		return "", err
	}
	shown, err := lookup.ToUnicode(ascii)
	if err != nil || strings.Count(shown, ".") != len(labels)-1 {
		return "", refuse("is not a valid internationalised domain name (IDNA2008, UTS 46)")
	}

	facts.set("domain.ascii", ascii)
	facts.set("domain.unicode", shown)
	facts.set("domain.suffix", suffix)
	facts.set("domain.suffix_kind", kind)
	facts.set("domain.tld", labels[len(labels)-1])
	parts := strings.Split(shown, ".")
	if left := len(labels) - 1 - strings.Count(suffix, ".") - 1; left >= 0 {
		facts.set("domain.registrable", strings.Join(labels[left:], "."))
		facts.set("domain.name", parts[left])
		facts.set("domain.subdomain", strings.Join(parts[:left], "."))
	}
	facts.set("domain.scripts", scripts(parts))
	return ascii, nil
}

// refusePunctuation gives the mistakes that people make most a reason of their own, before IDNA gives one for all.
func refusePunctuation(host string) error {
	for _, r := range host {
		switch {
		case r == '%':
			return refuse("contains a percent escape; send the decoded name")
		case r == '*':
			return refuse("contains a wildcard; send a single name")
		case unicode.IsSpace(r):
			return refuse("contains a space")
		case r < 0x80 && !isHostByte(byte(r)) && r != '.':
			return refuse("contains %s, which is not allowed in a domain name", excerpt(string(r)))
		}
	}
	return nil
}

func isHostByte(c byte) bool {
	return c|0x20 >= 'a' && c|0x20 <= 'z' || isDigit(c) || c == '-' || c == '_'
}

// checkLabels holds a mapped name against RFC 1035's lengths, RFC 1123 section 2.1's letters, digits and inner hyphens
// (and underscores, see checkUnderscores), and the rule of the WHATWG URL standard that a name whose last label is a
// number is an IPv4 address.
func checkLabels(ascii string, labels []string) error {
	if ascii == "" {
		return refuse("is empty")
	}
	if len(ascii) > maxNameBytes {
		return refuse("is longer than %d characters in ASCII form", maxNameBytes)
	}
	for _, label := range labels {
		switch {
		case label == "":
			return refuse("has an empty label (two dots in a row, or a dot at the start)")
		case len(label) > maxLabelBytes:
			return refuse("has a label longer than %d characters in ASCII form", maxLabelBytes)
		case label[0] == '-' || label[len(label)-1] == '-':
			return refuse("has a label that starts or ends with a hyphen")
		}
		for i := range len(label) {
			if !isHostByte(label[i]) {
				return refuse("contains a character that is not allowed in a domain name")
			}
		}
		if strings.HasPrefix(label, "xn--") && !isIDN(label) {
			return refuse("has the label %s, which is not valid Punycode", excerpt(label))
		}
	}
	if isNumber(labels[len(labels)-1]) {
		return refuse("is an IP address or ends in a number, not a domain name")
	}
	if len(labels) < 2 {
		return refuse("has no dot; a single label is not a public domain name")
	}
	return nil
}

// isIDN tells whether an A-label decodes to a U-label that IDNA2008 allows in full (RFC 5890 section 2.3.2.1).
func isIDN(label string) bool {
	_, err := strict.ToUnicode(label)
	return err == nil
}

// isNumber reports what the WHATWG URL standard's IPv4 parser takes for a number: decimal, or hexadecimal after 0x.
func isNumber(label string) bool {
	const digits, hexDigits = "0123456789", "0123456789abcdef"
	if hex, found := strings.CutPrefix(label, "0x"); found {
		return strings.Trim(hex, hexDigits) == ""
	}
	return strings.Trim(label, digits) == ""
}

// checkUnderscores refuses '_' in the public part of a name: no registry sells a name with one. Left of that, and under
// a shared host's private suffix, they occur in working names (_dmarc.example.com, foo_bar.shop.example.com).
func checkUnderscores(ascii string, labels []string) error {
	suffix, icann := publicsuffix.PublicSuffix(ascii)
	for !icann && strings.Contains(suffix, ".") {
		_, suffix, _ = strings.Cut(suffix, ".")
		suffix, icann = publicsuffix.PublicSuffix(suffix)
	}
	public := labels[max(len(labels)-strings.Count(suffix, ".")-2, 0):]
	if strings.Contains(strings.Join(public, "."), "_") {
		return refuse("has an underscore in its registrable part")
	}
	return nil
}

// publicSuffix looks a name up in the Public Suffix List. A suffix that the list does not hold is its last label, by
// the list's default rule, and is "unlisted".
func publicSuffix(ascii string) (suffix, kind string) {
	suffix, icann := publicsuffix.PublicSuffix(ascii)
	switch {
	case icann:
		return suffix, "icann"
	case strings.Contains(suffix, "."):
		return suffix, "private"
	}
	return suffix, "unlisted"
}

// scripts names the Unicode scripts of each label: "Cyrillic+Latin.Latin" for pаypal.com with one Cyrillic letter.
func scripts(labels []string) string {
	named := make([]string, len(labels))
	for i, label := range labels {
		var found []string
		for _, r := range label {
			if s := script(r); s != "" && !slices.Contains(found, s) {
				found = append(found, s)
			}
		}
		slices.Sort(found)
		if named[i] = strings.Join(found, "+"); named[i] == "" {
			named[i] = "Common"
		}
	}
	return strings.Join(named, ".")
}

// script names a letter's script; "" for Common, Inherited and what Unicode assigns to none.
func script(r rune) string {
	switch {
	case r|0x20 >= 'a' && r|0x20 <= 'z':
		return "Latin"
	case r < 0x80:
		return ""
	}
	for name, table := range unicode.Scripts {
		if unicode.Is(table, r) {
			if name == "Common" || name == "Inherited" {
				return ""
			}
			return name
		}
	}
	return ""
}
