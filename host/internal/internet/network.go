package internet

import "net/netip"

// Network returns the network of a client: its IPv4 /24 or IPv6 /48, all addresses of which one customer of a provider
// can have. A client that is a network already is not made smaller; the zero Prefix has the zero Prefix.
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
