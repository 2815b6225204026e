package webhook

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Guard decides which addresses may be called. It checks each resolved address immediately before it is dialled, so
// neither DNS rebinding nor a redirect can bypass it.
type Guard struct {
	allow []netip.Prefix
	own   []netip.Addr // of this machine
}

// errForbidden means that an address may not be called. Its text is shown to customers, so it does not reveal which
// address of the operator's network a name resolves to.
var errForbidden = errors.New("the host's address is not permitted")

// specialIPv4 are the IPv4 networks that are not globally reachable: the IANA IPv4 Special-Purpose Address Registry
// (RFC 6890 and later), multicast (RFC 5771) and class E (RFC 1112).
var specialIPv4 = prefixes(`0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24
	192.0.2.0/24 192.31.196.0/24 192.52.193.0/24 192.88.99.0/24 192.168.0.0/16 192.175.48.0/24 198.18.0.0/15
	198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4`)

// globalIPv6 is all of IPv6's global unicast space (RFC 4291). It excludes unspecified, loopback, mapped, NAT64, unique
// local, link-local and multicast addresses. specialIPv6 are its networks that are not globally reachable (IANA IPv6
// Special-Purpose Address Registry): IETF protocols with Teredo, benchmarking and ORCHID, documentation, 6to4, AS112.
var (
	globalIPv6  = netip.MustParsePrefix("2000::/3")
	specialIPv6 = prefixes("2001::/23 2001:db8::/32 2002::/16 2620:4f:8000::/48 3fff::/20")
)

// permittedPorts may be called outside the allowed networks. Any other port would let customers use the host as a port
// scanner.
var permittedPorts = []uint16{443, 8443}

func prefixes(list string) []netip.Prefix {
	var all []netip.Prefix
	for text := range strings.FieldsSeq(list) {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

// NewGuard returns a Guard that permits public addresses with TLS on ports 443 and 8443, and the allowed networks on
// any port, with or without TLS. It reads the addresses of the machine's own interfaces once.
func NewGuard(allow []netip.Prefix) (*Guard, error) {
	g := &Guard{}
	for _, p := range allow {
		if p.Addr().Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		g.allow = append(g.allow, p.Masked())
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("reading the machine's own addresses: %w", err)
	}
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			g.own = append(g.own, p.Addr().Unmap().WithZone(""))
		}
	}
	return g, nil
}

// check reports whether an address may be called. Error: errForbidden.
func (g *Guard) check(to netip.AddrPort, secure bool) error {
	addr := to.Addr().Unmap() // Prefix.Contains is false for addresses with a zone
	if within(addr, g.allow) {
		return nil
	}
	if !secure || !slices.Contains(permittedPorts, to.Port()) || !isPublic(addr) || slices.Contains(g.own, addr) {
		return errForbidden
	}
	return nil
}

// isPublic reports whether an address is globally reachable unicast.
func isPublic(addr netip.Addr) bool {
	if addr.Is4() {
		return !within(addr, specialIPv4)
	}
	return globalIPv6.Contains(addr) && !within(addr, specialIPv6)
}

func within(addr netip.Addr, networks []netip.Prefix) bool {
	return slices.ContainsFunc(networks, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// dialer returns a dialer for permitted addresses only. secure states that the connection will use TLS.
func (g *Guard) dialer(resolver *net.Resolver, secure bool) *net.Dialer {
	if resolver == nil {
		resolver = &net.Resolver{PreferGo: true} // the C library's resolver blocks a thread per lookup
	}
	return &net.Dialer{
		Resolver:  resolver,
		KeepAlive: -1,
		// called with each resolved address before the connection is made
		ControlContext: func(_ context.Context, network, address string, _ syscall.RawConn) error {
			to, err := netip.ParseAddrPort(address)
			if err != nil || (network != "tcp4" && network != "tcp6") {
				return errForbidden
			}
			return g.check(to, secure)
		},
		FallbackDelay: 300 * time.Millisecond, // before IPv4 is tried alongside IPv6 (RFC 6555)
	}
}
