package api

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"assay/host/internal/internet"
)

// Client returns the address block that identifies the client of a request without a key: an IPv4 address or an IPv6
// /64. It is the zero Prefix if the connection has no IP address.
func (s *Server) Client(ctx *fasthttp.RequestCtx) netip.Prefix { return block(s.address(ctx)) }

// ClientOf is Client for a request to another server of this host, given its peer and its X-Forwarded-For headers.
func (s *Server) ClientOf(peer string, forwarded []string) netip.Prefix {
	at, err := netip.ParseAddrPort(peer)
	if err != nil {
		return netip.Prefix{}
	}
	return block(originalClient(at.Addr(), strings.Split(strings.Join(forwarded, ","), ","), s.cfg.TrustedProxies))
}

// address returns the client's address, or the zero Addr if the connection has none.
func (s *Server) address(ctx *fasthttp.RequestCtx) netip.Addr {
	peer, err := netip.ParseAddrPort(ctx.RemoteAddr().String())
	if err != nil {
		return netip.Addr{} // no TCP connection
	}
	var forwarded []string
	for _, line := range ctx.Request.Header.PeekAll("X-Forwarded-For") {
		forwarded = append(forwarded, strings.Split(string(line), ",")...)
	}
	if s.hidesClients(peer.Addr(), &ctx.Request.Header) {
		s.forwarded.Store(time.Now().Unix())
		s.noticed.Do(func() {
			s.cfg.Logger.Warn("a proxy is not trusted: all its clients share one limit, and one can lock out the " +
				"others; name its network in ASSAY_TRUSTED_PROXIES")
		})
		if x := current(ctx); x != nil {
			x.shared = true
		}
	}
	return originalClient(peer.Addr(), forwarded, s.cfg.TrustedProxies)
}

// hidesClients reports whether the peer of a request is most likely a proxy that is not trusted. A proxy has a private
// address and adds headers. Anybody else can send these headers too, but not from such an address.
func (s *Server) hidesClients(peer netip.Addr, h *fasthttp.RequestHeader) bool {
	peer = plain(peer)
	return !internet.Within(peer, s.cfg.TrustedProxies) &&
		(peer.IsPrivate() || peer.IsLoopback() || peer.IsLinkLocalUnicast() || carrierGrade.Contains(peer)) &&
		(len(h.Peek(fasthttp.HeaderXForwardedFor)) > 0 || len(h.Peek(fasthttp.HeaderForwarded)) > 0)
}

// carrierGrade is shared address space (RFC 6598), which some clouds use between a load balancer and its hosts.
var carrierGrade = netip.MustParsePrefix("100.64.0.0/10")

// Shared reports whether the address that Client returned for a request belongs to an untrusted proxy, so that a limit
// counts all of its clients as one.
func (s *Server) Shared(ctx *fasthttp.RequestCtx) bool {
	x := current(ctx)
	return x != nil && x.shared
}

// Forwarded returns when a request last arrived through a proxy that is not trusted, to the second; the zero time if
// none did. All clients of such a proxy count as one.
func (s *Server) Forwarded() time.Time {
	if at := s.forwarded.Load(); at != 0 {
		return time.Unix(at, 0)
	}
	return time.Time{}
}

// originalClient walks back from the peer through the entries of X-Forwarded-For, given in header order, and returns
// the first hop that is not trusted. An entry that is not an address ends the walk at the hop to its right. The client
// itself controls the entries further left, and also the headers Forwarded and X-Real-IP, which are therefore never
// read.
func originalClient(peer netip.Addr, forwarded []string, trusted []netip.Prefix) netip.Addr {
	hop := plain(peer)
	for _, entry := range slices.Backward(forwarded) {
		if !internet.Within(hop, trusted) {
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

// parseHop parses an address with or without a port, such as 192.0.2.1, 192.0.2.1:80, 2001:db8::1, [2001:db8::1] or
// [2001:db8::1]:80.
func parseHop(s string) (netip.Addr, bool) {
	s = strings.Trim(s, " \t")
	if strings.HasSuffix(s, "]") {
		s += ":0" // only with a port, brackets are parsed
	}
	addr, err := netip.ParseAddr(s)
	if err != nil {
		var hop netip.AddrPort
		hop, err = netip.ParseAddrPort(s)
		addr = hop.Addr()
	}
	if err != nil || addr.Zone() != "" {
		return netip.Addr{}, false
	}
	return plain(addr), true
}

// block returns the /32 of an IPv4 address, and the /64 of an IPv6 address, which is what a network commonly assigns to
// one customer. It returns the zero Prefix for the zero Addr.
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

// plain returns addr without a zone, and an IPv4-mapped IPv6 address as IPv4.
func plain(addr netip.Addr) netip.Addr { return addr.Unmap().WithZone("") }
