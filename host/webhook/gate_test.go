package webhook

import (
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
)

// gate stands between a host and Postgres and holds back what a test says, for as long as the host lives. It knows the
// frontend/backend protocol 3.0 as far as telling one message from the next.
type gate struct {
	URL string

	listener net.Listener
	target   string
	work     sync.WaitGroup

	mu   sync.Mutex
	open map[net.Conn]bool
	hold *hold
}

// hold is what is held back: a statement, which then does not reach the server, or a message of the answer to it.
type hold struct {
	statement func(text string) bool
	answer    func(message []byte) bool // nil: the statement itself
	reached   chan struct{}             // closed when something is held back
	once      sync.Once
	released  chan struct{}
}

// gated puts a gate before the database at target.
func gated(t *testing.T, target string) *gate {
	t.Helper()
	at, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{listener: listener, target: at.Host, open: map[net.Conn]bool{}}
	at.Host = listener.Addr().String()
	g.URL = at.String()
	g.work.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			g.work.Go(func() { g.serve(client) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		g.cut()
		g.work.Wait()
	})
	return g
}

// holds holds back, from now until cut, statements that fit, or what fits of their answers.
func (g *gate) holds(statement func(string) bool, answer func([]byte) bool) (reached <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.hold = &hold{statement: statement, answer: answer, reached: make(chan struct{}), released: make(chan struct{})}
	return g.hold.reached
}

// cut ends every connection, and with them what was held back.
func (g *gate) cut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.hold != nil {
		close(g.hold.released)
		g.hold = nil
	}
	for c := range g.open {
		c.Close()
	}
}

func (g *gate) track(c net.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open[c] = true
}

func (g *gate) untrack(c net.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.open, c)
	c.Close()
}

func (g *gate) holding() *hold {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.hold
}

func (h *hold) wait() {
	h.once.Do(func() { close(h.reached) })
	<-h.released
}

func (g *gate) serve(client net.Conn) {
	defer g.untrack(client)
	g.track(client)
	server, err := net.Dial("tcp", g.target)
	if err != nil {
		return
	}
	defer g.untrack(server)
	g.track(server)
	if startup, err := message(client, 0); err != nil {
		return
	} else if _, err := server.Write(startup); err != nil {
		return
	}
	var mu sync.Mutex // guards what follows
	var asked *hold   // the hold whose statement is being answered
	g.work.Go(func() {
		defer client.Close()
		for {
			m, err := message(server, 1)
			if err != nil {
				return
			}
			mu.Lock()
			h := asked
			if m[0] == 'Z' { // the server has finished
				asked = nil
			}
			mu.Unlock()
			if h != nil && h.answer(m) {
				h.wait()
				return
			}
			if _, err := client.Write(m); err != nil {
				return
			}
		}
	})
	for {
		m, err := message(client, 1)
		if err != nil {
			return
		}
		if h := g.holding(); h != nil && m[0] == 'Q' && h.statement(string(m[5:len(m)-1])) {
			if h.answer == nil {
				h.wait()
				return
			}
			mu.Lock()
			asked = h
			mu.Unlock()
		}
		if _, err := server.Write(m); err != nil {
			return
		}
	}
}

// message reads a message, of which a type of so many bytes and its length, itself included, come first.
func message(from io.Reader, typed int) ([]byte, error) {
	head := make([]byte, typed+4)
	if _, err := io.ReadFull(from, head); err != nil {
		return nil, err
	}
	rest := make([]byte, binary.BigEndian.Uint32(head[typed:])-4)
	_, err := io.ReadFull(from, rest)
	return append(head, rest...), err
}
