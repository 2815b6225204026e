package api

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"assay/host/access/admission"
	"assay/host/internal/internet"
	"assay/host/web/refusal"
)

// secure encrypts the connections of a listener. A handshake takes place when its connection is first read, so it
// delays neither Accept nor other connections.
type secure struct {
	config  *tls.Config
	timeout time.Duration
	slots   *admission.Shares // handshakes in progress, by network
	failed  func(error)       // called after a failed handshake; must not block
}

// wrap puts TLS under a new connection. It returns an error if there are too many handshakes.
func (s *secure) wrap(c *conn) error {
	release, err := s.slots.Take(peerNetwork(c.Conn.RemoteAddr()))
	if err != nil {
		return err
	}
	release = sync.OnceFunc(release)
	encrypted, closed := tls.Server(c.Conn, s.config), c.closed
	c.Conn = encrypted
	c.closed = func() { release(); closed() }
	c.handshake = func() error {
		defer release()
		return s.handshake(encrypted)
	}
	return nil
}

// handshake is called after fasthttp has set the deadline of the first read.
func (s *secure) handshake(c *tls.Conn) error {
	if err := c.SetWriteDeadline(time.Now().Add(s.timeout)); err != nil {
		return err
	}
	err := c.Handshake()
	if other, ok := errors.AsType[tls.RecordHeaderError](err); ok && other.Conn != nil &&
		looksLikeHTTP(other.RecordHeader) {
		refusePlain(other.Conn)
	}
	if err != nil && !errors.Is(err, io.EOF) { // such as a load balancer's test whether the port is open
		s.failed(err)
	}
	return err
}

// looksLikeHTTP reports whether the first bytes of a connection, which are not TLS, begin a request.
func looksLikeHTTP(first [5]byte) bool {
	switch string(first[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "DELET", "OPTIO", "PATCH":
		return true
	}
	return false
}

// refusePlain responds to a request that was sent without encryption. The deadlines of the connection apply.
func refusePlain(c net.Conn) {
	const text = "this port serves https, and the request was sent with http"
	if writeRefusal(c, "400 Bad Request", "", refusal.Request, text) == nil {
		drain(c)
	}
}

// drain ends the response of a connection whose request was not read, and lets the client read it.
func drain(c net.Conn) {
	if half, ok := c.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil &&
		c.SetReadDeadline(time.Now().Add(lingerTime)) == nil {
		_, _ = io.CopyN(io.Discard, c, lingerBytes)
	}
}

// peerNetwork returns the network of a connection's peer, or that of the zero Prefix if it has no IP address.
func peerNetwork(a net.Addr) string {
	peer, _ := netip.ParseAddrPort(a.String())
	return internet.Network(block(plain(peer.Addr()))).String()
}
