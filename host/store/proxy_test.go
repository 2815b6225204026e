package store

import (
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// fate is what happens to a message to the server.
type fate int

const (
	passes    fate = iota
	lost           // the connection is closed instead of delivering it
	muted          // it is delivered, and the connection is closed instead of returning the reply
	truncated      // it is delivered, and the connection is closed in the middle of the reply
	stalls         // the client's connection is closed; the server's stays open until the test delivers or drops it
)

// proxy forwards connections from a host to Postgres and breaks them as a test demands. It splits the frontend/backend
// protocol 3.0 into messages.
type proxy struct {
	URL string

	listener net.Listener
	target   string
	work     sync.WaitGroup

	mu     sync.Mutex
	decide func(message string) fate // called for every query; nil: all pass
	down   bool                      // accepts no connections
	open   map[net.Conn]bool

	stalled chan *stalled
	refused atomic.Int64 // connections refused while it was down
}

// stalled is a server connection without a client, and a message that was not delivered yet.
type stalled struct {
	server  net.Conn
	message []byte
}

func (s *stalled) deliver() error {
	_, err := s.server.Write(s.message)
	return err
}

func (s *stalled) drop() { s.server.Close() }

// proxied starts a proxy for the database at target.
func proxied(t *testing.T, target string) *proxy {
	t.Helper()
	at, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: listener, target: at.Host, open: map[net.Conn]bool{}, stalled: make(chan *stalled, 1)}
	at.Host = listener.Addr().String()
	p.URL = at.String()
	p.work.Go(p.accept)
	t.Cleanup(func() {
		listener.Close()
		p.set(nil, true)
		p.work.Wait()
	})
	return p
}

// set sets the function that decides on messages. A proxy that is down closes every connection and accepts none.
func (p *proxy) set(decide func(string) fate, down bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.decide, p.down = decide, down
	if down {
		for c := range p.open {
			c.Close()
		}
	}
}

// once applies a fate to the first message that matches. All others pass. If down is set, the proxy accepts no further
// connections from then on. The channel is closed when the message has arrived.
func (p *proxy) once(f fate, down bool, matches func(message string) bool) <-chan struct{} {
	happened := make(chan struct{})
	done := false
	p.set(func(message string) fate { // called with p.mu locked
		if done || !matches(message) {
			return passes
		}
		done = true
		p.down = down
		close(happened)
		return f
	}, false)
	return happened
}

func (p *proxy) fate(message string) fate {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.decide == nil {
		return passes
	}
	return p.decide(message)
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.work.Go(func() { p.serve(client) })
	}
}

// track adds a connection to those that the proxy can close. It returns false if the proxy is down.
func (p *proxy) track(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open[c] = true
	return !p.down
}

func (p *proxy) untrack(c net.Conn) {
	p.mu.Lock()
	delete(p.open, c)
	p.mu.Unlock()
	c.Close()
}

func (p *proxy) serve(client net.Conn) {
	defer p.untrack(client)
	if !p.track(client) {
		p.refused.Add(1)
		return
	}
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	keep := false
	defer func() {
		if !keep {
			p.untrack(server)
		}
	}()
	p.track(server)
	// The startup message has no type byte. Tests connect without TLS, and cancel requests get no reply.
	startup, err := untyped(client)
	if err != nil {
		return
	}
	if _, err := server.Write(startup); err != nil {
		return
	}
	var mu sync.Mutex
	replyFate := passes // guarded by mu
	p.work.Go(func() {
		defer client.Close()
		for {
			message, err := typed(server)
			if err != nil {
				return
			}
			mu.Lock()
			now := replyFate
			mu.Unlock()
			switch {
			case now == passes:
				_, err = client.Write(message)
			case now == truncated:
				_, _ = client.Write(message[:len(message)/2])
				client.Close()
				fallthrough
			case message[0] == 'Z': // ReadyForQuery: the reply is complete
				server.Close()
				return
			}
			if err != nil {
				return
			}
		}
	})
	for {
		message, err := typed(client)
		if err != nil {
			return
		}
		f := passes
		if message[0] == 'Q' {
			f = p.fate(string(message[5 : len(message)-1]))
		}
		switch f {
		case lost:
			return
		case stalls:
			keep = true
			p.stalled <- &stalled{server: server, message: message}
			return
		case muted, truncated:
			mu.Lock()
			replyFate = f
			mu.Unlock()
		}
		if _, err := server.Write(message); err != nil {
			return
		}
	}
}

// untyped reads a message without a type byte. It starts with its length, which includes the length field.
func untyped(from io.Reader) ([]byte, error) {
	head := make([]byte, 4)
	if _, err := io.ReadFull(from, head); err != nil {
		return nil, err
	}
	return body(from, head, head)
}

// typed reads a message with a type byte.
func typed(from io.Reader) ([]byte, error) {
	head := make([]byte, 5)
	if _, err := io.ReadFull(from, head); err != nil {
		return nil, err
	}
	return body(from, head, head[1:])
}

func body(from io.Reader, head, length []byte) ([]byte, error) {
	rest := make([]byte, binary.BigEndian.Uint32(length)-4)
	_, err := io.ReadFull(from, rest)
	return append(head, rest...), err
}

// Predicates for the messages of a batch's transaction.
func isBegin(m string) bool  { return strings.HasPrefix(m, "begin") }
func isLock(m string) bool   { return strings.Contains(m, "FOR UPDATE") }
func isRead(m string) bool   { return strings.Contains(m, "FROM api_keys") }
func isWrite(m string) bool  { return strings.Contains(m, `INSERT INTO "audit_records"`) }
func isCommit(m string) bool { return m == "commit" }
