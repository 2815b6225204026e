package storetest

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"sync"
)

// link is a connection of a client, and the one to the server that serves it.
type link struct {
	proxy          *Proxy
	client, server net.Conn
	era            int // number of silences when it began

	mu   sync.Mutex // guards the fate of the current reply
	fate Fate
	hold *hold
}

func (p *Proxy) serve(client net.Conn) {
	defer p.untrack(client)
	era, up := p.track(client)
	if !up {
		p.Refused.Add(1)
		return
	}
	server, err := net.Dial(p.network, p.target)
	if err != nil {
		return
	}
	l := &link{proxy: p, client: client, server: server, era: era}
	keep := false
	defer func() {
		if !keep {
			p.untrack(server)
		}
	}()
	p.track(server)
	// The startup message has no type byte. Tests connect without TLS, and cancel requests get no reply.
	startup, err := readMessage(client, 0)
	if err != nil {
		return
	}
	if p.silenced(era) {
		_, _ = io.Copy(io.Discard, client)
		return
	}
	if _, err := server.Write(startup); err != nil {
		return
	}
	p.work.Go(l.passReplies)
	keep = l.passQueries()
}

// passReplies passes messages of the server on to the client, as long as their fate allows.
func (l *link) passReplies() {
	defer func() {
		if !l.proxy.silenced(l.era) {
			l.client.Close()
		}
	}()
	for {
		message, err := readMessage(l.server, 1)
		if err != nil {
			return
		}
		l.proxy.delay()
		if l.proxy.drops(l.era, message) {
			continue
		}
		l.mu.Lock()
		now, h := l.fate, l.hold
		if now == HeldReply && message[0] == 'Z' { // ReadyForQuery: the reply is complete
			l.fate = Passes
		}
		l.mu.Unlock()
		switch {
		case now == HeldReply && h.reply(message):
			h.wait()
			return
		case now == Passes || now == HeldReply:
			_, err = l.client.Write(message)
		case now == Truncated:
			_, _ = l.client.Write(message[:len(message)/2])
			l.client.Close()
			fallthrough
		case message[0] == 'Z':
			l.server.Close()
			return
		}
		if err != nil {
			return
		}
	}
}

// passQueries passes messages of the client on to the server, as long as their fate allows. It reports whether the
// server's connection stays open without the client's.
func (l *link) passQueries() (keep bool) {
	for {
		message, query, err := readQuery(l.client)
		if err != nil {
			return false
		}
		l.proxy.delay()
		if l.proxy.silenced(l.era) {
			continue
		}
		var f Fate
		var h *hold
		if query != "" {
			f, h = l.proxy.fate(query)
		}
		switch f {
		case Lost:
			return false
		case Silences:
			continue
		case Stalls:
			l.proxy.Stalled <- &Stalled{server: l.server, message: message}
			return true
		case Held:
			h.wait()
			return false
		case Muted, Truncated, HeldReply:
			l.mu.Lock()
			l.fate, l.hold = f, h
			l.mu.Unlock()
		}
		if _, err := l.server.Write(message); err != nil {
			return false
		}
	}
}

// readQuery reads a message, and returns its text if it is a query. The messages of an extended query, from Parse to
// Sync, are one message with the text of the first.
func readQuery(from io.Reader) (message []byte, query string, err error) {
	for {
		m, err := readMessage(from, 1)
		if err != nil {
			return nil, "", err
		}
		switch m[0] {
		case 'Q':
			query = string(m[5 : len(m)-1])
		case 'P':
			_, text, _ := bytes.Cut(m[5:], []byte{0}) // after the statement's name
			text, _, _ = bytes.Cut(text, []byte{0})
			query = string(text)
		}
		message = append(message, m...)
		if !bytes.ContainsRune([]byte("PBDEC"), rune(m[0])) {
			return message, query, nil
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
