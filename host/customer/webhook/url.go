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

// maxURL is the maximum length of a URL in bytes.
const maxURL = 2048

// ParseURL parses an endpoint's URL and returns its canonical form, with the host in ASCII. It rejects URLs that two
// parsers could read differently. Errors begin with "url: " and explain the reason to the customer.
func ParseURL(text string) (string, error) {
	u, err := parseURL(text)
	if err != nil {
		return "", fmt.Errorf("url: %w", err)
	}
	return u.String(), nil
}

func parseURL(text string) (*url.URL, error) {
	if len(text) > maxURL {
		return nil, fmt.Errorf("has %d bytes, more than %d", len(text), maxURL)
	}
	isUnsafe := func(r rune) bool { return r <= ' ' || r == '\\' || 0x7f <= r && r <= 0xa0 || r == '\uFFFD' }
	if strings.ContainsFunc(text, isUnsafe) {
		return nil, errors.New("must not contain white space, control characters or backslashes")
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, errors.New("is not a URL")
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, errors.New("must begin with https://")
	case u.User != nil:
		return nil, errors.New("must not contain a user or password")
	case strings.Contains(text, "#"):
		return nil, errors.New("must not contain a fragment")
	case u.Opaque != "" || u.Hostname() == "":
		return nil, errors.New("has no host")
	}
	host, err := parseHost(u.Hostname())
	if err != nil {
		return nil, err
	}
	port := u.Port()
	if n, err := strconv.ParseUint(port, 10, 16); port != "" && (err != nil || n == 0 || port[0] == '0') ||
		strings.HasSuffix(u.Host, ":") {
		return nil, errors.New("the port must be a number from 1 to 65535")
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

// parseHost returns a host as a canonical address, or as a name in lower-case ASCII without a trailing dot.
func parseHost(text string) (string, error) {
	if addr, err := netip.ParseAddr(text); err == nil {
		if addr.Zone() != "" {
			return "", errors.New("the address must not have a zone")
		}
		return addr.String(), nil
	}
	host, err := idna.Lookup.ToASCII(text) // maps full-width digits and dots to ASCII
	if err != nil {
		return "", errors.New("the host is not a valid name")
	}
	host = strings.TrimSuffix(host, ".")
	isInvalid := func(label string) bool { return label == "" || len(label) > 63 }
	if len(host) > 253 || slices.ContainsFunc(strings.Split(host, "."), isInvalid) {
		return "", errors.New("the host is not a valid name")
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.String(), nil
	}
	// Resolvers disagree whether a host that ends in a number is an address or a name: 127.1, 0x7f.1, 2130706433,
	// 0177.0.0.1.
	last := host[strings.LastIndexByte(host, '.')+1:]
	if _, err := strconv.ParseUint(last, 0, 64); err == nil || strings.Trim(last, "0123456789") == "" ||
		strings.HasPrefix(last, "0x") {
		return "", errors.New("the host is neither a name nor an address in standard notation")
	}
	return host, nil
}

// CheckURL reports why the Guard would refuse a URL returned by ParseURL, as far as this is known without DNS. It gives
// early feedback only: every address is checked again when it is dialled. If any networks are allowed, names are
// accepted, because they may resolve to those networks. Errors begin with "url: " and explain the reason to the
// customer.
func (g *Guard) CheckURL(text string) error {
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
		if g.check(netip.AddrPortFrom(addr, port), secure) != nil {
			return errors.New("url: must use https and a public address, on port 443 or 8443")
		}
		return nil
	}
	if len(g.allow) > 0 {
		return nil
	}
	switch {
	case !secure:
		return errors.New("url: must begin with https://")
	case port != 443 && port != 8443:
		return errors.New("url: the port must be 443 or 8443")
	case isLocalName(host):
		return errors.New("url: the host is not a public name")
	}
	return nil
}

// isLocalName reports whether a name cannot be public: a single label, or below a domain reserved for local use (RFC
// 6761, RFC 6762, RFC 8375, RFC 9476 and ICANN's .internal).
func isLocalName(name string) bool {
	local := []string{".localhost", ".local", ".internal", ".home.arpa", ".alt", ".onion", ".invalid"}
	return !strings.Contains(name, ".") ||
		slices.ContainsFunc(local, func(domain string) bool { return strings.HasSuffix(name, domain) })
}
