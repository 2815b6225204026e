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

// fate is what becomes of one message to the server.
type fate int

const (
	passes    fate = iota
	lost           // the connection is cut in its place
	muted          // it is delivered, and the connection is cut in place of the answer
	truncated      // it is delivered, and the connection is cut in the middle of the answer
	stalls         // the client is cut off; to the server nothing happens until the test decides
)

// proxy stands between a host and Postgres and cuts connections where a test says. It knows the frontend/backend
// protocol 3.0 as far as telling one message from the next.
type proxy struct {
	URL string

	listener net.Listener
	target   string
	work     sync.WaitGroup

	mu     sync.Mutex
	decide func(message string) fate // asked for every query; nil: all pass
	down   bool                      // takes no connections
	open   map[net.Conn]bool

	stalled chan *stalled
	refused atomic.Int64 // connections that came while it was down
}

// stalled is a server connection whose client is gone, with the message that it has not been given yet.
type stalled struct {
	server net.Conn
	held   []byte
}

func (s *stalled) deliver() error {
	_, err := s.server.Write(s.held)
	return err
}

func (s *stalled) drop() { s.server.Close() }

// proxied puts a proxy before the database at target.
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

// set changes what becomes of messages. A proxy that is down cuts every connection and takes none.
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

// once makes the first message that fits meet its fate; all others pass. With down, no connection is taken from then
// on. The channel is closed when it has happened.
func (p *proxy) once(f fate, down bool, fits func(message string) bool) <-chan struct{} {
	happened := make(chan struct{})
	done := false
	p.set(func(message string) fate { // called under the proxy's lock
		if done || !fits(message) {
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

// track remembers a connection so that it can be cut; it says false when the proxy is down.
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
	// The start-up message has no type byte. Tests connect without TLS; cancel requests have an answer of nothing.
	startup, err := untyped(client)
	if err != nil {
		return
	}
	if _, err := server.Write(startup); err != nil {
		return
	}
	var answer sync.Mutex // guards what follows
	then := passes        // what becomes of the next answer
	p.work.Go(func() {
		defer client.Close()
		for {
			message, err := typed(server)
			if err != nil {
				return
			}
			answer.Lock()
			now := then
			answer.Unlock()
			switch {
			case now == passes:
				_, err = client.Write(message)
			case now == truncated:
				_, _ = client.Write(message[:len(message)/2])
				client.Close()
				fallthrough
			case message[0] == 'Z': // the server has finished
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
			p.stalled <- &stalled{server: server, held: message}
			return
		case muted, truncated:
			answer.Lock()
			then = f
			answer.Unlock()
		}
		if _, err := server.Write(message); err != nil {
			return
		}
	}
}

// untyped reads a message without a type byte: its length, itself included, leads it.
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

// Which message of a batch's transaction a test means.
func isBegin(m string) bool  { return strings.HasPrefix(m, "begin") }
func isLock(m string) bool   { return strings.Contains(m, "FOR UPDATE") }
func isRead(m string) bool   { return strings.Contains(m, "FROM api_keys") }
func isWrite(m string) bool  { return strings.Contains(m, `INSERT INTO "audit_records"`) }
func isCommit(m string) bool { return m == "commit" }
