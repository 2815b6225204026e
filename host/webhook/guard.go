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

// Guard decides which addresses may be called. It judges what is about to be dialled, after the name was resolved, so
// neither a name, a redirect nor a second answer of the DNS can lead it elsewhere.
type Guard struct {
	allow []netip.Prefix
	own   []netip.Addr // of this machine
}

// errForbidden means that an address may not be called. Its text is for customers and names no address: what a name
// resolves to inside the operator's network is none of their business.
var errForbidden = errors.New("the host's address may not be called")

// special are the IPv4 networks that are not for the public (IANA IPv4 Special-Purpose Address Registry, RFC 6890 and
// later, and RFC 5771, RFC 1112).
var special = prefixes("0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24 192.31.196.0/24 " +
	"192.52.193.0/24 192.88.99.0/24 192.168.0.0/16 192.175.48.0/24 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4")

// Of IPv6, 2000::/3 alone is global unicast (RFC 4291), so unspecified, loopback, mapped, NAT64, unique local,
// link-local and multicast addresses fall outside. Within it these are not for the public (IANA IPv6 Special-Purpose
// Address Registry): IETF protocols with Teredo, benchmarking and ORCHID, documentation, 6to4, AS112.
var (
	global6  = netip.MustParsePrefix("2000::/3")
	special6 = prefixes("2001::/23 2001:db8::/32 2002::/16 2620:4f:8000::/48 3fff::/20")
)

// ports may be called outside the allowed networks. Others are for other services than HTTPS, and calling them is for
// scanners.
var ports = []uint16{443, 8443}

func prefixes(list string) []netip.Prefix {
	var all []netip.Prefix
	for text := range strings.FieldsSeq(list) {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

// NewGuard returns a guard that lets through what is public and, whatever the port and without TLS too, the given
// networks. The addresses of this machine's own interfaces are read once.
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

// judge says whether an address may be called. Error: errForbidden.
func (g *Guard) judge(to netip.AddrPort, secure bool) error {
	addr := to.Addr().Unmap() // one with a zone is in no network
	if within(addr, g.allow) {
		return nil
	}
	if !secure || !slices.Contains(ports, to.Port()) || !public(addr) || slices.Contains(g.own, addr) {
		return errForbidden
	}
	return nil
}

// public says whether an address is global unicast and reserved for nothing.
func public(addr netip.Addr) bool {
	if addr.Is4() {
		return !within(addr, special)
	}
	return global6.Contains(addr) && !within(addr, special6)
}

func within(addr netip.Addr, networks []netip.Prefix) bool {
	return slices.ContainsFunc(networks, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// dialer dials what the guard lets through. secure says whether TLS will be spoken.
func (g *Guard) dialer(resolver *net.Resolver, secure bool) *net.Dialer {
	if resolver == nil {
		resolver = &net.Resolver{PreferGo: true} // the C library's holds a thread for each look-up that hangs
	}
	return &net.Dialer{
		Resolver:  resolver,
		KeepAlive: -1,
		// Called with each address that the name resolved to, before anything is sent to it.
		ControlContext: func(_ context.Context, network, address string, _ syscall.RawConn) error {
			to, err := netip.ParseAddrPort(address)
			if err != nil || (network != "tcp4" && network != "tcp6") {
				return errForbidden
			}
			return g.judge(to, secure)
		},
		FallbackDelay: 300 * time.Millisecond, // RFC 6555: to IPv4, when IPv6 does not answer
	}
}
