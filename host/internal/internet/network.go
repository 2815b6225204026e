package internet

import (
	"net/netip"
	"slices"
)

// Network returns the network of a client: its IPv4 /24 or IPv6 /48, because one customer of a provider can have all of
// its addresses. A client that is a larger network stays as it is. The network of the zero Prefix is the zero Prefix.
func Network(client netip.Prefix) netip.Prefix {
	bits := 48
	if client.Addr().Is4() {
		bits = 24
	}
	network, err := client.Addr().Prefix(min(bits, max(0, client.Bits())))
	if err != nil {
		return netip.Prefix{} // no address
	}
	return network
}

// Within reports whether one of networks contains addr, which must not be IPv4-mapped and have no zone.
func Within(addr netip.Addr, networks []netip.Prefix) bool {
	return slices.ContainsFunc(networks, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// Unmap turns a prefix of IPv4-mapped IPv6 addresses into an IPv4 prefix.
func Unmap(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p
}
