package webhook

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/idna"
)

// maxURL is the length of a URL, in bytes.
const maxURL = 2048

// ParseURL reads a receiver's URL and returns it in the one form that is stored and called: its host in ASCII. What two
// readers could understand differently is refused. Errors begin with "url: " and say why, for the customer.
func ParseURL(text string) (string, error) {
	u, err := parseURL(text)
	if err != nil {
		return "", fmt.Errorf("url: %w", err)
	}
	return u.String(), nil
}

func parseURL(text string) (*url.URL, error) {
	if len(text) > maxURL {
		return nil, fmt.Errorf("%d bytes are more than %d", len(text), maxURL)
	}
	if strings.ContainsFunc(text, func(r rune) bool {
		return r <= ' ' || r == '\\' || 0x7f <= r && r <= 0xa0 ||
			r == '\uFFFD'
	}) {
		return nil, errors.New("it holds white space, a control character or a backslash")
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, errors.New("it is not a URL")
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, errors.New("it must begin with https://")
	case u.User != nil:
		return nil, errors.New("it must not hold a user or a password")
	case strings.Contains(text, "#"):
		return nil, errors.New("it must not hold a fragment")
	case u.Opaque != "" || u.Hostname() == "":
		return nil, errors.New("it names no host")
	}
	host, err := parseHost(u.Hostname())
	if err != nil {
		return nil, err
	}
	port := u.Port()
	if n, err := strconv.ParseUint(port, 10, 16); port != "" && (err != nil || n == 0 || port[0] == '0') ||
		strings.HasSuffix(u.Host, ":") {
		return nil, errors.New("its port is not a number from 1 to 65535")
	}
	switch {
	case port != "":
		u.Host = net.JoinHostPort(host, port)
	case strings.Contains(host, ":"):
		u.Host = "[" + host + "]"
	default:
		u.Host = host
	}
	return u, nil
}

// parseHost returns a host as an address or as a name in lower-case ASCII without a dot at its end.
func parseHost(text string) (string, error) {
	if addr, err := netip.ParseAddr(text); err == nil {
		if addr.Zone() != "" {
			return "", errors.New("its address must not have a zone")
		}
		return addr.String(), nil
	}
	host, err := idna.Lookup.ToASCII(text) // full-width digits and dots become plain ones here
	if err != nil {
		return "", errors.New("its host is not a name")
	}
	host = strings.TrimSuffix(host, ".")
	if len(host) > 253 || slices.ContainsFunc(strings.Split(host, "."), func(label string) bool {
		return label == "" ||
			len(label) > 63
	}) {
		return "", errors.New("its host is not a name")
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.String(), nil
	}
	// What ends in a number is an address to some resolvers and a name to others: 127.1, 0x7f.1, 2130706433,
	// 0177.0.0.1.
	last := host[strings.LastIndexByte(host, '.')+1:]
	if _, err := strconv.ParseUint(last, 0, 64); err == nil || strings.Trim(last, "0123456789") == "" ||
		strings.HasPrefix(last, "0x") {
		return "", errors.New("its host is neither a name nor an address in the usual form")
	}
	return host, nil
}

// Check says why a URL that ParseURL has returned would be refused when called, as far as that shows without asking the
// DNS: it is a courtesy to who sets it, and what is dialled is judged each time. Where networks are allowed, a name may
// lead to them, so only addresses are refused. Errors begin with "url: " and say why, for the customer.
func (g *Guard) Check(text string) error {
	u, err := parseURL(text)
	if err != nil {
		return fmt.Errorf("url: %w", err)
	}
	secure, port := u.Scheme == "https", uint16(443)
	if !secure {
		port = 80
	}
	if n, err := strconv.ParseUint(u.Port(), 10, 16); err == nil {
		port = uint16(n)
	}
	host := u.Hostname()
	if addr, err := netip.ParseAddr(host); err == nil {
		if g.judge(netip.AddrPortFrom(addr, port), secure) != nil {
			return errors.New("url: its address is not a public one, with https and port 443 or 8443")
		}
		return nil
	}
	if len(g.allow) > 0 {
		return nil
	}
	switch {
	case !secure:
		return errors.New("url: it must begin with https://")
	case port != 443 && port != 8443:
		return errors.New("url: its port must be 443 or 8443")
	case local(host):
		return errors.New("url: its host is not a public name")
	}
	return nil
}

// local says whether a name is of no public use: one label, or below a domain that is reserved for local use (RFC 6761,
// RFC 6762, RFC 8375, RFC 9476 and the domain that ICANN set aside).
func local(name string) bool {
	if !strings.Contains(name, ".") {
		return true
	}
	for _, domain := range []string{".localhost", ".local", ".internal", ".home.arpa", ".alt", ".onion", ".invalid"} {
		if strings.HasSuffix(name, domain) {
			return true
		}
	}
	return false
}
