package entity

import (
	_ "embed"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/net/idna"
	"golang.org/x/net/publicsuffix"
)

// The limits of RFC 1035 section 2.3.4 in bytes. A name of 255 octets on the wire has at most 253 characters without
// its trailing dot.
const (
	maxNameBytes  = 253
	maxLabelBytes = 63
)

// lookup implements UTS 46 nontransitional processing with the joiner and bidi rules of IDNA2008 (RFC 5892, RFC 5893).
// checkLabels replaces three of its checks: ASCII punctuation, because real names contain underscores; hyphens, because
// UTS 46 refuses them as third and fourth character ("r3---sn-x.example.com"), while RFC 1123 forbids them only at the
// edges; and lengths, to report which limit is exceeded.
var lookup = profile(false)

// strict is lookup without ASCII punctuation. A decoded internationalised label could otherwise contain a slash, a
// space, or characters that decompose to ASCII punctuation (U+2260 contains '=').
var strict = profile(true)

func profile(strict bool) *idna.Profile {
	return idna.New(idna.MapForLookup(), idna.Transitional(false), idna.BidiRule(), idna.CheckJoiners(true),
		idna.CheckHyphens(false), idna.StrictDomainName(strict), idna.VerifyDNSLength(false))
}

func readDomain(text, _ string, facts Facts) (string, error) {
	host, err := hostOf(text)
	if err != nil {
		return "", err
	}
	return readName(host, facts)
}

// hostOf reduces a pasted URL, or a host with a port, to the host. It refuses user information, because look-alike URLs
// such as https://bank.example@evil.example/ deceive with it and dropping it would hide that.
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

// isScheme reports whether s is a URI scheme (RFC 3986 section 3.1).
func isScheme(s string) bool {
	for i := range len(s) {
		c := s[i] | 0x20
		if !(c >= 'a' && c <= 'z') && (i == 0 || !isDigit(s[i]) && s[i] != '+' && s[i] != '-' && s[i] != '.') {
			return false
		}
	}
	return s != ""
}

// isPort reports whether s is a port number of at most 5 digits. The empty port is valid (RFC 3986 section 3.2.3).
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

// readName returns a host name in A-labels, in lower case and without its trailing dot, and sets the domain facts.
func readName(host string, facts Facts) (string, error) {
	if err := refusePunctuation(host); err != nil {
		return "", err
	}
	host = strings.ReplaceAll(host, "ẞ", "ß") // as in UTS 46 since revision 31; package idna is older
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

// refusePunctuation returns specific errors for common mistakes, which IDNA would all report alike.
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

// checkLabels checks a mapped name for the lengths of RFC 1035 section 2.3.4, and for labels of letters, digits and
// inner hyphens (RFC 1123 section 2.1) or underscores (see checkUnderscores). It refuses a last label that is a number,
// which makes the name an IPv4 address in the WHATWG URL standard.
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
		if strings.HasPrefix(label, "xn--") { // an A-label, which decodes to a U-label (RFC 5890 section 2.3.2.1)
			if _, err := strict.ToUnicode(label); err != nil {
				return refuse("has the label %s, which is not valid Punycode", excerpt(label))
			}
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

// isNumber reports whether the IPv4 parser of the WHATWG URL standard reads label as a number: decimal, or hexadecimal
// after 0x.
func isNumber(label string) bool {
	const digits, hexDigits = "0123456789", "0123456789abcdef"
	if hex, found := strings.CutPrefix(label, "0x"); found {
		return strings.Trim(hex, hexDigits) == ""
	}
	return strings.Trim(label, digits) == ""
}

// checkUnderscores refuses underscores in the registrable domain, because no registry allows them. They are common in
// subdomains (_dmarc.example.com) and below private suffixes (foo_bar.github.io).
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

// hostsFile lists domains that the Public Suffix List lacks, below which anyone can get a name: site builders, free web
// hosts, tunnels and dynamic DNS services. It is sorted.
//
//go:embed hosts.txt
var hostsFile string

var sharedHosts = strings.Fields(hostsFile)

// isSharedHost reports whether a registrable domain is a shared host that the Public Suffix List lacks.
func isSharedHost(registrable string) bool {
	_, found := slices.BinarySearch(sharedHosts, registrable)
	return found
}

// publicSuffix returns a name's suffix in the Public Suffix List and its kind: icann, private or unlisted. By the
// list's default rule, an unlisted suffix is the last label. For the name of a customer of a shared host that the list
// lacks, as in blumenwiese.weebly.com, the suffix is the host; weebly.com and www.weebly.com are the host's own names.
func publicSuffix(ascii string) (suffix, kind string) {
	suffix, icann := publicsuffix.PublicSuffix(ascii)
	labels := strings.Split(strings.TrimSuffix(ascii, "."+suffix), ".")
	if n := len(labels) - 1; n > 0 && labels[n-1] != "www" && isSharedHost(labels[n]+"."+suffix) {
		return labels[n] + "." + suffix, "private"
	}
	switch {
	case icann:
		return suffix, "icann"
	case strings.Contains(suffix, "."):
		return suffix, "private"
	}
	return suffix, "unlisted"
}

// scripts returns the Unicode scripts of each label: "Cyrillic+Latin.Latin" for pаypal.com with a Cyrillic а.
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

// script returns the name of r's script, or "" if it has none, Common or Inherited.
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
