package api

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/valyala/fasthttp"
)

// Client returns the address block that stands for the client of a request without a key.
func (s *Server) Client(ctx *fasthttp.RequestCtx) netip.Prefix {
	peer, err := netip.ParseAddrPort(ctx.RemoteAddr().String())
	if err != nil {
		return netip.Prefix{} // not a TCP connection
	}
	var forwarded []string
	for _, line := range ctx.Request.Header.PeekAll("X-Forwarded-For") {
		forwarded = append(forwarded, strings.Split(string(line), ",")...)
	}
	return block(originalClient(peer.Addr(), forwarded, s.cfg.TrustedProxies))
}

// originalClient follows the hops of X-Forwarded-For, given in the order of the header, from the peer backwards for
// as long as they are trusted, and returns the first that is not. An entry that is no address ends the walk at the
// hop before. Entries further left are the client's own words, and so are Forwarded and X-Real-IP, which are not read
// at all.
func originalClient(peer netip.Addr, forwarded []string, trusted []netip.Prefix) netip.Addr {
	hop := plain(peer)
	for _, entry := range slices.Backward(forwarded) {
		if !within(hop, trusted) {
			break
		}
		addr, ok := parseHop(entry)
		if !ok {
			break
		}
		hop = addr
	}
	return hop
}

// parseHop reads an address with or without a port: 192.0.2.1, 192.0.2.1:80, 2001:db8::1, [2001:db8::1],
// [2001:db8::1]:80.
func parseHop(s string) (netip.Addr, bool) {
	s = strings.Trim(s, " \t")
	addr, err := netip.ParseAddr(s)
	if err != nil {
		if inner, ok := strings.CutPrefix(s, "["); ok && strings.HasSuffix(inner, "]") {
			addr, err = netip.ParseAddr(strings.TrimSuffix(inner, "]"))
			if err == nil && addr.Is4() {
				return netip.Addr{}, false
			}
		} else {
			var hop netip.AddrPort
			hop, err = netip.ParseAddrPort(s)
			addr = hop.Addr()
		}
	}
	if err != nil || addr.Zone() != "" {
		return netip.Addr{}, false
	}
	return plain(addr), true
}

// block is an IPv4 address by itself, and for IPv6 the /64 that one customer of a network commonly has to himself.
func block(addr netip.Addr) netip.Prefix {
	bits := 64
	if addr.Is4() {
		bits = 32
	}
	p, err := addr.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return p
}

// plain is addr without a zone, and as IPv4 when it is IPv4 inside IPv6.
func plain(addr netip.Addr) netip.Addr { return addr.Unmap().WithZone("") }

func within(addr netip.Addr, prefixes []netip.Prefix) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// unmapPrefix turns a prefix of IPv4 inside IPv6 into one of IPv4, which addresses are compared as.
func unmapPrefix(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p
}
