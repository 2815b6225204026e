package webhook_test

import (
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
)

// proxy forwards connections between a host and Postgres, and can hold back chosen messages until the host is killed.
// It splits the frontend/backend protocol 3.0 into messages.
type proxy struct {
	URL string

	listener net.Listener
	target   string
	serving  sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool
	hold  *hold
}

// hold selects what is held back: a statement, which then does not reach the server, or a message of the reply to it.
type hold struct {
	statement func(text string) bool
	reply     func(message []byte) bool // nil: hold back the statement itself
	reached   chan struct{}             // closed when something is held back
	once      sync.Once
	released  chan struct{}
}

// startProxy starts a proxy for the database at target.
func startProxy(t *testing.T, target string) *proxy {
	t.Helper()
	at, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: listener, target: at.Host, conns: map[net.Conn]bool{}}
	at.Host = listener.Addr().String()
	p.URL = at.String()
	p.serving.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			p.serving.Go(func() { p.serve(client) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		p.disconnect()
		p.serving.Wait()
	})
	return p
}

// holdBack holds back the next matching statement, or the next matching message of its reply, until disconnect.
func (p *proxy) holdBack(statement func(string) bool, reply func([]byte) bool) (reached <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hold = &hold{statement: statement, reply: reply, reached: make(chan struct{}), released: make(chan struct{})}
	return p.hold.reached
}

// disconnect closes every connection and releases what was held back.
func (p *proxy) disconnect() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hold != nil {
		close(p.hold.released)
		p.hold = nil
	}
	for c := range p.conns {
		c.Close()
	}
}

func (p *proxy) track(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns[c] = true
}

func (p *proxy) untrack(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
	c.Close()
}

func (p *proxy) holding() *hold {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hold
}

func (h *hold) wait() {
	h.once.Do(func() { close(h.reached) })
	<-h.released
}

func (p *proxy) serve(client net.Conn) {
	defer p.untrack(client)
	p.track(client)
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer p.untrack(server)
	p.track(server)
	if startup, err := readMessage(client, 0); err != nil {
		return
	} else if _, err := server.Write(startup); err != nil {
		return
	}
	var mu sync.Mutex // guards what follows
	var pending *hold // the hold whose statement is being executed
	p.serving.Go(func() {
		defer client.Close()
		for {
			m, err := readMessage(server, 1)
			if err != nil {
				return
			}
			mu.Lock()
			h := pending
			if m[0] == 'Z' { // ReadyForQuery
				pending = nil
			}
			mu.Unlock()
			if h != nil && h.reply(m) {
				h.wait()
				return
			}
			if _, err := client.Write(m); err != nil {
				return
			}
		}
	})
	for {
		m, err := readMessage(client, 1)
		if err != nil {
			return
		}
		if h := p.holding(); h != nil && m[0] == 'Q' && h.statement(string(m[5:len(m)-1])) {
			if h.reply == nil {
				h.wait()
				return
			}
			mu.Lock()
			pending = h
			mu.Unlock()
		}
		if _, err := server.Write(m); err != nil {
			return
		}
	}
}

// readMessage reads a message: a type of typeBytes bytes, a length of 4 bytes that includes itself, and the body.
func readMessage(from io.Reader, typeBytes int) ([]byte, error) {
	header := make([]byte, typeBytes+4)
	if _, err := io.ReadFull(from, header); err != nil {
		return nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(header[typeBytes:])-4)
	_, err := io.ReadFull(from, body)
	return append(header, body...), err
}
