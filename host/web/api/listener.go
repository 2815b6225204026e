package api

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"assay/host/access/admission"
	"assay/host/internal/internet"
)

// Closing a connection with unread data resets it, and the reset can destroy the response before the client reads it.
// The server therefore first discards the rest of the request, up to these limits.
const (
	lingerTime  = time.Second
	lingerBytes = 8 << 20
	lingerSlack = 256 // fasthttp workers above the connection limit, so that the listener's limit is reached first
)

// listener limits the number of open connections. It also survives a shortage of file descriptors, at which fasthttp
// would stop serving.
type listener struct {
	net.Listener
	slots   *admission.Shares // for connections, shared by networks
	proxies []netip.Prefix    // trusted ones
	open    atomic.Int64
	refuse  func(net.Conn) // refuses and closes a connection beyond the limit
	secure  *secure        // nil: connections are not encrypted
	done    chan struct{}
	once    sync.Once
}

func newListener(l net.Listener, limit int, refuse func(net.Conn)) *listener {
	return &listener{Listener: l, slots: admission.NewShares(limit), refuse: refuse, done: make(chan struct{})}
}

// Accept returns a *conn.
func (l *listener) Accept() (net.Conn, error) {
	const minPause, maxPause = 5 * time.Millisecond, time.Second
	pause := minPause
	for {
		c, err := l.Listener.Accept()
		switch {
		case err != nil && isTemporary(err):
			select {
			case <-time.After(pause):
				pause = min(2*pause, maxPause)
			case <-l.done:
				return nil, net.ErrClosed
			}
		case err != nil:
			return nil, err
		default:
			release, err := l.slots.Take(l.holder(c.RemoteAddr()))
			if err != nil {
				l.refuse(c)
				continue
			}
			l.open.Add(1)
			accepted := &conn{Conn: c, closed: func() { l.open.Add(-1); release() }}
			if l.secure != nil {
				if err := l.secure.wrap(accepted); err != nil {
					l.secure.failed(err)
					_ = accepted.Close()
					continue
				}
			}
			return accepted, nil
		}
	}
}

// holder returns the name under which a peer's connection takes a slot: its network, so that the connections of one
// client leave room for others. All customers may come through a trusted proxy, so each of its connections has a name
// of its own, and it can take all slots. Loopback is a network like any other, as it is for the limits on requests: a
// proxy on this machine must be configured too.
func (l *listener) holder(peer net.Addr) string {
	if at, err := netip.ParseAddrPort(peer.String()); err == nil && internet.Within(plain(at.Addr()), l.proxies) {
		return peer.String()
	}
	return peerNetwork(peer)
}

// Close makes Accept return net.ErrClosed. Further calls do nothing.
func (l *listener) Close() (err error) {
	l.once.Do(func() {
		close(l.done)
		err = l.Listener.Close()
	})
	return err
}

// isTemporary reports whether accepting may succeed later.
func isTemporary(err error) bool {
	return slices.ContainsFunc([]error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM,
		syscall.ECONNABORTED}, func(e error) bool { return errors.Is(err, e) })
}

// conn is one client's connection. One goroutine reads and writes; another may call Close.
type conn struct {
	net.Conn
	scan      headScan
	malformed error // the first head has invalid line ends
	slow      bool  // the last Read exceeded its deadline
	linger    atomic.Bool
	once      sync.Once
	closed    func()
	handshake func() error // of TLS, before the first Read; nil: none, or it is over
}

// Read also checks the line ends of the connection's first head. fasthttp accepts some invalid ones, and after others
// it waits for an end that never comes. Read cannot see where later heads start; only vetHead checks them.
func (c *conn) Read(p []byte) (int, error) {
	if handshake := c.handshake; handshake != nil {
		c.handshake = nil
		if handshake() != nil {
			return 0, io.EOF // nothing was received that could be answered
		}
	}
	n, err := c.Conn.Read(p)
	if c.malformed == nil {
		c.malformed = c.scan.feed(p[:n])
	}
	if err == nil {
		err = c.malformed
	}
	c.slow = errors.Is(err, os.ErrDeadlineExceeded)
	return n, err
}

// Close closes the connection. After a refusal it first lets the client finish sending, within limits.
func (c *conn) Close() (err error) {
	c.once.Do(func() {
		defer c.closed()
		if c.linger.Load() {
			drain(c.Conn)
		}
		err = c.Conn.Close()
	})
	return err
}

// headScan rejects NUL and line ends other than CRLF in the first head of a connection (RFC 9112 section 2.2).
type headScan struct {
	line  int  // bytes in the current line so far
	begun bool // the request line is complete
	cr    bool // the last byte was CR
	done  bool // the head is complete
}

var errLineEnd = errors.New("a line of the head contains NUL or does not end with CRLF")

func (h *headScan) feed(p []byte) error {
	if h.done {
		return nil
	}
	for _, b := range p {
		switch {
		case h.cr && b != '\n', !h.cr && b == '\n', b == 0:
			return errLineEnd
		case h.cr:
			h.cr = false
			if h.line == 0 && h.begun {
				h.done = true
				return nil
			}
			h.begun = h.begun || h.line > 0
			h.line = 0
		case b == '\r':
			h.cr = true
		default:
			h.line++
		}
	}
	return nil
}
