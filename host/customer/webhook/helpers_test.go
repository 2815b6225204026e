package webhook

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"assay/registry/expect"
)

// listen serves HTTP on an address until the test ends.
func listen(t testing.TB, address string, h http.Handler) *httptest.Server {
	t.Helper()
	l := expect.Value(net.Listen("tcp", address))(t)
	s := httptest.NewUnstartedServer(h)
	s.Listener.Close()
	s.Listener = l
	s.Start()
	t.Cleanup(s.Close)
	return s
}

func newGuard(t testing.TB, allow ...string) *Guard {
	t.Helper()
	var networks []netip.Prefix
	for _, text := range allow {
		networks = append(networks, netip.MustParsePrefix(text))
	}
	return expect.Value(NewGuard(networks))(t)
}

// newDelivery returns the second attempt to deliver an event to url.
func newDelivery(url string) Delivery {
	return Delivery{Ref: "chk_01KF0HBGZ0Q8WJ3V5N7T9R2M4C", AccountID: "acct_1", Event: "check.blocked", Attempt: 2,
		Sequence: 17, Body: []byte(`{"event":"check.blocked"}`), URL: url, Secrets: []string{"whsec_c2VjcmV0IG9uZQ=="}}
}

// nameServer is a DNS server on loopback. Each name has a list of address sets, of which one is current.
type nameServer struct {
	*net.Resolver
	mu      sync.Mutex
	names   map[string][][]netip.Addr
	current map[string]int    // index of the current set
	aliases map[string]string // CNAMEs
	socket  net.PacketConn
}

func startNameServer(t testing.TB, names map[string][][]netip.Addr) *nameServer {
	t.Helper()
	socket := expect.Value(net.ListenPacket("udp", "127.0.0.1:0"))(t)
	s := &nameServer{names: names, current: map[string]int{}, aliases: map[string]string{}, socket: socket}
	s.Resolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", socket.LocalAddr().String())
	}}
	served := make(chan struct{})
	go func() { defer close(served); s.serve() }()
	t.Cleanup(func() { socket.Close(); <-served })
	return s
}

func (s *nameServer) serve() {
	buf := make([]byte, 1500)
	for {
		n, from, err := s.socket.ReadFrom(buf)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if m.Unpack(buf[:n]) != nil || len(m.Questions) != 1 {
			continue
		}
		out, err := s.answer(m)
		if err == nil {
			_, _ = s.socket.WriteTo(out, from)
		}
	}
}

func (s *nameServer) answer(m dnsmessage.Message) ([]byte, error) {
	q := m.Questions[0]
	name := q.Name.String()
	s.mu.Lock()
	defer s.mu.Unlock()
	reply := dnsmessage.Message{Header: dnsmessage.Header{ID: m.ID, Response: true, RecursionAvailable: true},
		Questions: m.Questions}
	if to, ok := s.aliases[name]; ok {
		reply.Answers = append(reply.Answers,
			dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class},
				Body: &dnsmessage.CNAMEResource{CNAME: dnsmessage.MustNewName(to)}})
		name, q.Name = to, dnsmessage.MustNewName(to)
	}
	sets, ok := s.names[name]
	if !ok {
		reply.RCode = dnsmessage.RCodeNameError
		return reply.Pack()
	}
	for _, addr := range sets[min(s.current[name], len(sets)-1)] {
		header := dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class}
		switch {
		case addr.Is4() && q.Type == dnsmessage.TypeA:
			reply.Answers = append(reply.Answers,
				dnsmessage.Resource{Header: header, Body: &dnsmessage.AResource{A: addr.As4()}})
		case addr.Is6() && q.Type == dnsmessage.TypeAAAA:
			reply.Answers = append(reply.Answers,
				dnsmessage.Resource{Header: header, Body: &dnsmessage.AAAAResource{AAAA: addr.As16()}})
		}
	}
	return reply.Pack()
}

// alias makes name an alias of target.
func (s *nameServer) alias(name, target string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.aliases[name] = target
}

// next makes the next address set of a name current.
func (s *nameServer) next(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current[name]++
}
