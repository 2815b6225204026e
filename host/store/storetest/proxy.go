package storetest

import (
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"assay/registry/expect"
)

// Fate is what happens to a message to the server.
type Fate int

// The fates of a message.
const (
	Passes    Fate = iota // it is delivered
	Lost                  // the connection is closed instead of delivering it
	Muted                 // it is delivered, and the connection is closed instead of returning the reply
	Truncated             // it is delivered, and the connection is closed in the middle of the reply
	Stalls                // the client's connection is closed; the server's stays open until Deliver or Drop
	Held                  // it is kept until Disconnect, and then dropped
	HeldReply             // it is delivered, and a message of the reply is kept until Disconnect, and then dropped
	Silences              // it is dropped, and so is everything on all connections that are open
)

// Proxy forwards connections from a host to Postgres and breaks them as a test demands. It splits the frontend/backend
// protocol 3.0 into messages.
type Proxy struct {
	URL string

	Stalled chan *Stalled
	Refused atomic.Int64 // connections refused while it was down

	network, target string
	work            sync.WaitGroup

	mu     sync.Mutex
	decide func(message string) Fate // called for every query; nil: all pass
	notice func(notice []byte)       // called for every notice; may be nil
	down   bool                      // accepts no connections
	open   map[net.Conn]bool
	hold   *hold
	silent bool // nothing is delivered
	era    int  // number of silences that have ended

	slow atomic.Int64 // delay of each message
	deaf atomic.Bool  // notifications are dropped
}

// hold is set by HoldBack.
type hold struct {
	reply    func(message []byte) bool
	reached  chan struct{} // closed when something is held back
	once     sync.Once
	released chan struct{}
}

func (h *hold) wait() {
	h.once.Do(func() { close(h.reached) })
	<-h.released
}

// Stalled is a server connection without a client, and a message that was not delivered yet.
type Stalled struct {
	server  net.Conn
	message []byte
}

// Deliver delivers the message.
func (s *Stalled) Deliver() error {
	_, err := s.server.Write(s.message)
	return err
}

// Drop closes the connection.
func (s *Stalled) Drop() { s.server.Close() }

// NewProxy starts a proxy for the database at target.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	at := expect.Value(url.Parse(target))(t)
	p := &Proxy{network: "tcp", target: at.Host}
	at.Host = p.start(t)
	p.URL = at.String()
	return p
}

// start starts the proxy and returns its address.
func (p *Proxy) start(t testing.TB) string {
	t.Helper()
	listener := expect.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	p.open, p.Stalled = map[net.Conn]bool{}, make(chan *Stalled, 1)
	p.work.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			p.work.Go(func() { p.serve(client) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		p.Set(nil, true)
		p.Disconnect()
		p.work.Wait()
	})
	return listener.Addr().String()
}

// Set sets the function that decides on messages. A proxy that is down closes every connection and accepts none.
func (p *Proxy) Set(decide func(string) Fate, down bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.decide, p.down = decide, down
	if down {
		p.closeAll()
	}
}

func (p *Proxy) closeAll() {
	for c := range p.open {
		c.Close()
	}
}

// Once applies a fate to the first message that matches. All others pass. If down is set, the proxy accepts no further
// connections from then on. The channel is closed when the message has arrived.
func (p *Proxy) Once(f Fate, down bool, matches func(message string) bool) <-chan struct{} {
	happened := make(chan struct{})
	done := false
	p.Set(func(message string) Fate { // called with p.mu locked
		if done || !matches(message) {
			return Passes
		}
		done = true
		p.down = down
		close(happened)
		return f
	}, false)
	return happened
}

// OnNotice sets a function that is called for every notice of the server, with the fields of the message.
func (p *Proxy) OnNotice(call func(notice []byte)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.notice = call
}

// HoldBack holds back statements that match or, if reply is not nil, matching messages of their replies until
// Disconnect. The channel is closed when the first has arrived.
func (p *Proxy) HoldBack(statement func(string) bool, reply func([]byte) bool) (reached <-chan struct{}) {
	h := &hold{reply: reply, reached: make(chan struct{}), released: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hold, p.decide = h, func(message string) Fate {
		switch {
		case !statement(message):
			return Passes
		case reply == nil:
			return Held
		default:
			return HeldReply
		}
	}
	return h.reached
}

// Disconnect closes every connection and drops the messages that were held back. Later messages pass.
func (p *Proxy) Disconnect() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hold != nil {
		close(p.hold.released)
		p.hold, p.decide = nil, nil
	}
	p.closeAll()
}

// Slow delays each message in both directions. 0 ends the delays.
func (p *Proxy) Slow(delay time.Duration) { p.slow.Store(int64(delay)) }

// delay waits for as long as Slow demands.
func (p *Proxy) delay() {
	if d := p.slow.Load(); d > 0 {
		<-time.After(time.Duration(d))
	}
}

// Silence begins or ends a silence. Connections that are open during one stay open and never deliver anything again, as
// if a firewall had dropped them.
func (p *Proxy) Silence(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.silent && !on {
		p.era++
	}
	p.silent = on
}

// DropNotifications begins or ends dropping the server's notifications (LISTEN). Everything else passes.
func (p *Proxy) DropNotifications(on bool) { p.deaf.Store(on) }

// drops reports whether a message of the server on a connection of an era is dropped. If not, and it is a notice, it
// calls the function of OnNotice.
func (p *Proxy) drops(era int, message []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.silent || p.era != era || p.deaf.Load() && message[0] == 'A' {
		return true
	}
	if message[0] == 'N' && p.notice != nil {
		p.notice(message[5:])
	}
	return false
}

// silenced reports whether a connection that was opened in the given era is silent.
func (p *Proxy) silenced(era int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.silent || p.era != era
}

// fate returns the fate of a message, and what HoldBack has set.
func (p *Proxy) fate(message string) (Fate, *hold) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.decide == nil {
		return Passes, nil
	}
	f := p.decide(message)
	if f == Silences {
		p.era++
	}
	return f, p.hold
}

// track adds a connection to those that the proxy can close, and returns its era. It returns false if the proxy is
// down.
func (p *Proxy) track(c net.Conn) (era int, up bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open[c] = true
	return p.era, !p.down
}

func (p *Proxy) untrack(c net.Conn) {
	p.mu.Lock()
	delete(p.open, c)
	p.mu.Unlock()
	c.Close()
}
