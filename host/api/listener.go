package api

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Closing a connection whose request was not read to its end resets it, and the reset can overtake the answer. So the
// rest is read and dropped first, within these bounds.
const (
	lingerTime  = time.Second
	lingerBytes = 8 << 20
	lingerSlack = 256 // workers beyond the connection limit, so that the limit here is always the one reached
)

// listener bounds how many connections are open, and outlives a shortage of file descriptors, at which fasthttp would
// stop serving for good.
type listener struct {
	net.Listener
	max    int64
	open   atomic.Int64
	refuse func(net.Conn) // answers and closes one connection too many
	done   chan struct{}
	once   sync.Once
}

func newListener(l net.Listener, limit int, refuse func(net.Conn)) *listener {
	return &listener{Listener: l, max: int64(limit), refuse: refuse, done: make(chan struct{})}
}

// Accept returns a *conn.
func (l *listener) Accept() (net.Conn, error) {
	const shortest, longest = 5 * time.Millisecond, time.Second
	pause := shortest
	for {
		c, err := l.Listener.Accept()
		switch {
		case err != nil && scarce(err):
			select {
			case <-time.After(pause):
				pause = min(2*pause, longest)
			case <-l.done:
				return nil, net.ErrClosed
			}
		case err != nil:
			return nil, err
		case l.open.Add(1) > l.max:
			l.open.Add(-1)
			l.refuse(c)
		default:
			return &conn{Conn: c, closed: func() { l.open.Add(-1) }}, nil
		}
	}
}

// Close makes Accept return net.ErrClosed. Closing again does nothing.
func (l *listener) Close() (err error) {
	l.once.Do(func() {
		close(l.done)
		err = l.Listener.Close()
	})
	return err
}

// scarce says whether accepting may succeed later.
func scarce(err error) bool {
	for _, e := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// conn is one client's connection. Reading and answering take turns in one goroutine; Close may come from
// another.
type conn struct {
	net.Conn
	scan      headScan
	malformed error // what is wrong with the line ends of the first head; set before Read returns it
	slow      bool  // a Read ran into its deadline
	linger    atomic.Bool
	once      sync.Once
	closed    func()
}

// Read also checks the line ends of the connection's first head: fasthttp would take some of the wrong ones for
// right, and wait in vain for an end after others. Later heads are checked by vetHead alone, since where they begin
// is not seen from here.
func (c *conn) Read(p []byte) (int, error) {
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

// Close closes the connection once; after a refusal it lets the client finish sending, within bounds.
func (c *conn) Close() (err error) {
	c.once.Do(func() {
		defer c.closed()
		if half, ok := c.Conn.(interface{ CloseWrite() error }); ok && c.linger.Load() && half.CloseWrite() == nil {
			if c.SetReadDeadline(time.Now().Add(lingerTime)) == nil {
				_, _ = io.CopyN(io.Discard, c.Conn, lingerBytes)
			}
		}
		err = c.Conn.Close()
	})
	return err
}

// headScan finds line ends other than CRLF, and NUL, in the first head of a connection (RFC 9112 section 2.2).
type headScan struct {
	line  int  // bytes of the current line
	begun bool // the request line is complete
	cr    bool // the last byte was CR
	done  bool // the head has ended
}

var errLineEnd = errors.New("a line of the head does not end in CRLF, or has NUL in it")

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
