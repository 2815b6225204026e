// Package resolvertest runs a DNS server on loopback for tests and benchmarks. It answers from zone file lines unless a
// test installs a handler, for instance to make it misbehave.
package resolvertest

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/miekg/dns"
)

// Server is a DNS server.
type Server struct {
	Addr string // host:port, for UDP and TCP

	mu       sync.Mutex
	records  map[string][]dns.RR // by canonical name
	handlers map[string]dns.HandlerFunc
	fallback dns.HandlerFunc // may be nil
	counts   map[string]int  // queries by question
	closing  chan struct{}
}

const wellKnown = `
	ipv4only.arpa. 86400 IN A 192.0.0.170
	ipv4only.arpa. 86400 IN A 192.0.0.171
	com. 172800 IN NS a.gtld-servers.net.
`

// Start runs a server until the test ends. zone holds lines such as "example.com. 300 IN A 192.0.2.1". Names without
// records in or below them are NXDOMAIN unless a wildcard covers them, and missing types of other names NODATA. Both
// have an SOA record that allows negative caching for a minute. The names that a resolver uses to recognise an honest
// server exist.
func Start(t testing.TB, zone string) *Server {
	t.Helper()
	s := &Server{
		records: map[string][]dns.RR{}, handlers: map[string]dns.HandlerFunc{}, counts: map[string]int{},
		closing: make(chan struct{}),
	}
	s.Add(t, wellKnown+zone)
	udp, tcp := listen(t)
	s.Addr = udp.LocalAddr().String()
	for _, server := range []*dns.Server{{PacketConn: udp, Handler: s}, {Listener: tcp, Handler: s}} {
		started := make(chan struct{})
		server.NotifyStartedFunc = func() { close(started) }
		ended := make(chan struct{})
		go func() { defer close(ended); _ = server.ActivateAndServe() }()
		<-started
		t.Cleanup(func() { _ = server.Shutdown(); <-ended })
	}
	t.Cleanup(func() { close(s.closing) }) // runs before the shutdowns, which wait for handlers
	return s
}

// listen opens the same port for UDP and TCP.
func listen(t testing.TB) (net.PacketConn, net.Listener) {
	t.Helper()
	for range 20 {
		udp, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		tcp, err := net.Listen("tcp", udp.LocalAddr().String())
		if err == nil {
			return udp, tcp
		}
		udp.Close()
	}
	t.Fatal("no port is free for UDP and TCP")
	return nil, nil
}

// Add adds lines to the zone.
func (s *Server) Add(t testing.TB, zone string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for line := range strings.Lines(zone) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		rr, err := dns.NewRR(line)
		if err != nil {
			t.Fatalf("zone line %q: %v", line, err)
		}
		name := dns.CanonicalName(rr.Header().Name)
		s.records[name] = append(s.records[name], rr)
	}
}

// Handle makes h answer all queries for a name instead of the zone. A nil h removes the handler.
func (s *Server) Handle(name string, h dns.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handlers[dns.CanonicalName(name)] = h
}

// HandleAll makes h answer all other queries. A nil h removes the handler.
func (s *Server) HandleAll(h dns.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fallback = h
}

// Deny is a handler that answers that no name exists.
func Deny(w dns.ResponseWriter, r *dns.Msg) {
	_ = w.WriteMsg(new(dns.Msg).SetRcode(r, dns.RcodeNameError))
}

// Redirect is a handler that answers every question with an address, as a captive portal does.
func Redirect(w dns.ResponseWriter, r *dns.Msg) {
	m := new(dns.Msg).SetReply(r)
	m.Answer = []dns.RR{&dns.A{
		Hdr: dns.RR_Header{Name: r.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60},
		A:   net.IPv4(93, 184, 215, 99),
	}}
	_ = w.WriteMsg(m)
}

// Questions returns the questions received so far, sorted and without duplicates, as "name type" such as
// "example.com MX".
func (s *Server) Questions() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.counts))
}

// Count returns how often a question was received; it has the format of Questions.
func (s *Server) Count(question string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts[question]
}

// ServeDNS implements dns.Handler.
func (s *Server) ServeDNS(w dns.ResponseWriter, r *dns.Msg) {
	q := r.Question[0]
	name := dns.CanonicalName(q.Name)
	s.mu.Lock()
	s.counts[fmt.Sprint(strings.TrimSuffix(name, "."), " ", dns.TypeToString[q.Qtype])]++
	h := s.handlers[name]
	if h == nil {
		h = s.fallback
	}
	s.mu.Unlock()
	if h != nil {
		h(w, r)
		return
	}
	m := s.Reply(r)
	if opt := r.IsEdns0(); opt != nil && w.RemoteAddr().Network() == "udp" {
		m.Truncate(int(opt.UDPSize()))
	}
	_ = w.WriteMsg(m)
}

// Wait blocks a handler until released is closed or the server ends.
func (s *Server) Wait(released <-chan struct{}) {
	select {
	case <-released:
	case <-s.closing:
	}
}

// Reply returns the zone's response to r.
func (s *Server) Reply(r *dns.Msg) *dns.Msg {
	m := new(dns.Msg).SetReply(r)
	m.RecursionAvailable = true
	q := r.Question[0]
	name := dns.CanonicalName(q.Name)
	s.mu.Lock()
	defer s.mu.Unlock()
	exists := false
	for range 16 {
		exists = s.exists(name)
		next := ""
		records := s.records[name]
		if !exists {
			records = s.wildcard(name)
			exists = len(records) > 0
		}
		for _, rr := range records {
			if alias, ok := rr.(*dns.CNAME); ok && q.Qtype != dns.TypeCNAME {
				m.Answer = append(m.Answer, rr)
				next = dns.CanonicalName(alias.Target)
			} else if rr.Header().Rrtype == q.Qtype {
				m.Answer = append(m.Answer, rr)
			}
		}
		if next == "" {
			break
		}
		name = next
	}
	if !exists {
		m.Rcode = dns.RcodeNameError
	}
	if len(m.Answer) == 0 || !exists {
		m.Ns = append(m.Ns, &dns.SOA{
			Hdr: dns.RR_Header{Name: name, Rrtype: dns.TypeSOA, Class: dns.ClassINET, Ttl: 3600},
			Ns:  "ns.invalid.", Mbox: "hostmaster.invalid.", Minttl: 60,
		})
	}
	return m
}

// wildcard returns the records that a wildcard gives a missing name (RFC 4592).
func (s *Server) wildcard(name string) []dns.RR {
	for end, parents := dns.NextLabel(name, 0); !parents; end, parents = dns.NextLabel(name, end) {
		var records []dns.RR
		for _, rr := range s.records["*."+name[end:]] {
			rr = dns.Copy(rr)
			rr.Header().Name = name
			records = append(records, rr)
		}
		if len(records) > 0 || s.exists(name[end:]) {
			return records
		}
	}
	return nil
}

// exists reports whether name or a name below it has records.
func (s *Server) exists(name string) bool {
	for other := range s.records {
		if other == name || strings.HasSuffix(other, "."+name) {
			return true
		}
	}
	return false
}
