package internet

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"syscall"
)

// GuardedDial returns a dial function for public addresses on port 443 only, so that the URLs in redirects and in
// documents of third parties cannot reach the host's own network. own, the server that the operator named, may have any
// address and port; it is nil if there is none. servers are DNS resolvers. The first one is used, or the system's if
// there are none.
func GuardedDial(own *url.URL, servers []string) func(context.Context, string, string) (net.Conn, error) {
	resolver := net.DefaultResolver
	if len(servers) > 0 {
		resolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, network, servers[0])
		}}
	}
	unguarded := net.Dialer{Resolver: resolver}
	guarded := net.Dialer{Resolver: resolver, Control: func(_, address string, _ syscall.RawConn) error {
		addr, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		if kind := Special(addr.Addr()); kind != "" || addr.Port() != 443 {
			return fmt.Errorf("%s is not a public address on port 443", address)
		}
		return nil
	}}
	ownAddress := ""
	if own != nil {
		ownAddress = net.JoinHostPort(own.Hostname(),
			cmp.Or(own.Port(), map[string]string{"https": "443", "http": "80"}[own.Scheme]))
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if address == ownAddress {
			return unguarded.DialContext(ctx, network, address)
		}
		return guarded.DialContext(ctx, network, address)
	}
}
