package webhook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"assay/host/internal/internet"
)

// Guard decides which addresses may be called. It checks each resolved address immediately before it is dialled, so
// neither DNS rebinding nor a redirect can bypass it.
type Guard struct {
	allow []netip.Prefix
	own   []netip.Addr // of this machine
}

// errForbidden means that an address may not be called.
var errForbidden = errors.New("the host's address is not permitted")

// permittedPorts may be called outside the allowed networks. Any other port would let customers use the host as a port
// scanner.
var permittedPorts = []uint16{443, 8443}

// NewGuard returns a Guard that permits public addresses with TLS on ports 443 and 8443, and the allowed networks on
// any port, with or without TLS. It reads the addresses of the machine's own interfaces once.
func NewGuard(allow []netip.Prefix) (*Guard, error) {
	g := &Guard{}
	for _, p := range allow {
		g.allow = append(g.allow, internet.Unmap(p).Masked())
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

// check returns errForbidden if an address must not be called.
func (g *Guard) check(to netip.AddrPort, secure bool) error {
	addr := to.Addr().Unmap() // Prefix.Contains is false for addresses with a zone
	if internet.Within(addr, g.allow) {
		return nil
	}
	if !secure || !slices.Contains(permittedPorts, to.Port()) ||
		!internet.Public(addr) || slices.Contains(g.own, addr) {
		return errForbidden
	}
	return nil
}

// dialer returns a dialer for permitted addresses only. secure states that the connection will use TLS.
func (g *Guard) dialer(resolver *net.Resolver, secure bool) *net.Dialer {
	resolver = cmp.Or(resolver, &net.Resolver{PreferGo: true}) // the C library's resolver blocks a thread per lookup
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
