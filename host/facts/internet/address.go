// Package internet knows which addresses belong to the public internet.
package internet

import "net/netip"

// special lists the networks that no public host can have an address in, with what they are for (IANA's special-purpose
// registries, RFC 6890; multicast RFC 5771 and 4291). More specific networks stand first.
var special = []struct {
	network netip.Prefix
	kind    string
}{
	{netip.MustParsePrefix("0.0.0.0/32"), "unspecified"},
	{netip.MustParsePrefix("0.0.0.0/8"), "reserved"},
	{netip.MustParsePrefix("10.0.0.0/8"), "private"},
	{netip.MustParsePrefix("100.64.0.0/10"), "shared"}, // carrier-grade translation, RFC 6598
	{netip.MustParsePrefix("127.0.0.0/8"), "loopback"},
	{netip.MustParsePrefix("169.254.0.0/16"), "link_local"},
	{netip.MustParsePrefix("172.16.0.0/12"), "private"},
	{netip.MustParsePrefix("192.0.0.0/24"), "reserved"},
	{netip.MustParsePrefix("192.0.2.0/24"), "documentation"},
	{netip.MustParsePrefix("192.88.99.0/24"), "reserved"}, // 6to4 relays, RFC 7526
	{netip.MustParsePrefix("192.168.0.0/16"), "private"},
	{netip.MustParsePrefix("198.18.0.0/15"), "benchmark"},
	{netip.MustParsePrefix("198.51.100.0/24"), "documentation"},
	{netip.MustParsePrefix("203.0.113.0/24"), "documentation"},
	{netip.MustParsePrefix("224.0.0.0/4"), "multicast"},
	{netip.MustParsePrefix("240.0.0.0/4"), "reserved"},
	{netip.MustParsePrefix("::/128"), "unspecified"},
	{netip.MustParsePrefix("::1/128"), "loopback"},
	{netip.MustParsePrefix("64:ff9b::/96"), "translated"}, // stands for an IPv4 address, RFC 6052
	{netip.MustParsePrefix("64:ff9b:1::/48"), "translated"},
	{netip.MustParsePrefix("100::/64"), "reserved"},
	{netip.MustParsePrefix("2001::/32"), "translated"},  // Teredo, RFC 4380
	{netip.MustParsePrefix("2001:20::/28"), "reserved"}, // ORCHIDv2, RFC 7343
	{netip.MustParsePrefix("2001:2::/48"), "benchmark"}, // RFC 5180
	{netip.MustParsePrefix("2002::/16"), "translated"},  // 6to4, RFC 3056
	{netip.MustParsePrefix("2001:db8::/32"), "documentation"},
	{netip.MustParsePrefix("3fff::/20"), "documentation"}, // RFC 9637
	{netip.MustParsePrefix("fc00::/7"), "private"},
	{netip.MustParsePrefix("fe80::/10"), "link_local"},
	{netip.MustParsePrefix("ff00::/8"), "multicast"},
}

var globalIPv6 = netip.MustParsePrefix("2000::/3") // all that has been allotted to public hosts, RFC 4291

// Special returns what an address that no public host can have is for: unspecified, loopback, private, shared,
// link_local, documentation, benchmark, multicast, translated or reserved. It is "" for a public address.
func Special(a netip.Addr) string {
	a = a.Unmap().WithZone("")
	for _, s := range special {
		if s.network.Contains(a) {
			return s.kind
		}
	}
	if !a.IsValid() || a.Is6() && !globalIPv6.Contains(a) {
		return "reserved"
	}
	return ""
}
