// Package internet classifies addresses by IANA's special-purpose registries, and dials only public ones.
package internet

import "net/netip"

// special lists the special-purpose networks and their kinds (IANA special-purpose address registries, RFC 6890;
// multicast RFC 5771 and 4291). More specific networks come first.
var special = []struct {
	network netip.Prefix
	kind    string
}{
	{netip.MustParsePrefix("0.0.0.0/32"), "unspecified"},
	{netip.MustParsePrefix("0.0.0.0/8"), "reserved"},
	{netip.MustParsePrefix("10.0.0.0/8"), "private"},
	{netip.MustParsePrefix("100.64.0.0/10"), "shared"}, // carrier-grade NAT, RFC 6598
	{netip.MustParsePrefix("127.0.0.0/8"), "loopback"},
	{netip.MustParsePrefix("169.254.0.0/16"), "link_local"},
	{netip.MustParsePrefix("172.16.0.0/12"), "private"},
	{netip.MustParsePrefix("192.0.0.0/24"), "reserved"},
	{netip.MustParsePrefix("192.0.2.0/24"), "documentation"},
	{netip.MustParsePrefix("192.88.99.0/24"), "reserved"},      // 6to4 relays, RFC 7526
	{netip.MustParsePrefix("192.31.196.0/24"), infrastructure}, // AS112, RFC 7535
	{netip.MustParsePrefix("192.52.193.0/24"), infrastructure}, // AMT relays, RFC 7450
	{netip.MustParsePrefix("192.168.0.0/16"), "private"},
	{netip.MustParsePrefix("192.175.48.0/24"), infrastructure}, // AS112, RFC 7534
	{netip.MustParsePrefix("198.18.0.0/15"), "benchmark"},
	{netip.MustParsePrefix("198.51.100.0/24"), "documentation"},
	{netip.MustParsePrefix("203.0.113.0/24"), "documentation"},
	{netip.MustParsePrefix("224.0.0.0/4"), "multicast"},
	{netip.MustParsePrefix("240.0.0.0/4"), "reserved"},
	{netip.MustParsePrefix("::/128"), "unspecified"},
	{netip.MustParsePrefix("::1/128"), "loopback"},
	{netip.MustParsePrefix("64:ff9b::/96"), "translated"}, // embeds an IPv4 address, RFC 6052
	{netip.MustParsePrefix("64:ff9b:1::/48"), "translated"},
	{netip.MustParsePrefix("100::/64"), "reserved"},
	{netip.MustParsePrefix("2001::/32"), "translated"},           // Teredo, RFC 4380
	{netip.MustParsePrefix("2001:20::/28"), "reserved"},          // ORCHIDv2, RFC 7343
	{netip.MustParsePrefix("2001:2::/48"), "benchmark"},          // RFC 5180
	{netip.MustParsePrefix("2001::/23"), infrastructure},         // IETF protocol assignments, RFC 2928
	{netip.MustParsePrefix("2002::/16"), "translated"},           // 6to4, RFC 3056
	{netip.MustParsePrefix("2620:4f:8000::/48"), infrastructure}, // AS112, RFC 7534
	{netip.MustParsePrefix("2001:db8::/32"), "documentation"},
	{netip.MustParsePrefix("3fff::/20"), "documentation"}, // RFC 9637
	{netip.MustParsePrefix("fc00::/7"), "private"},
	{netip.MustParsePrefix("fe80::/10"), "link_local"},
	{netip.MustParsePrefix("ff00::/8"), "multicast"},
}

// infrastructure is the kind of networks that are reachable but contain no ordinary host.
const infrastructure = "infrastructure"

var globalUnicast = netip.MustParsePrefix("2000::/3") // RFC 4291

// Special returns the kind of an address that no public host can have: unspecified, loopback, private, shared,
// link_local, documentation, benchmark, multicast, translated or reserved. It returns "" for all others.
func Special(a netip.Addr) string {
	a = a.Unmap().WithZone("")
	if kind := kindOf(a); kind != "" && kind != infrastructure {
		return kind
	}
	if !a.IsValid() || a.Is6() && !globalUnicast.Contains(a) {
		return "reserved"
	}
	return ""
}

// Public reports whether a is a globally reachable unicast address without a zone, outside every special-purpose
// network. IPv4-mapped IPv6 addresses are not.
func Public(a netip.Addr) bool {
	return a.IsValid() && (a.Is4() || globalUnicast.Contains(a)) && kindOf(a) == ""
}

func kindOf(a netip.Addr) string {
	for _, s := range special {
		if s.network.Contains(a) {
			return s.kind
		}
	}
	return ""
}
