package resolver_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"assay/host/facts/resolver"
	"assay/host/facts/resolver/resolvertest"
	"assay/registry/expect"
)

// handler answers a query to a server.
type handler func(s *resolvertest.Server, w dns.ResponseWriter, r *dns.Msg)

// on returns the handler for server.Handle.
func (h handler) on(s *resolvertest.Server) dns.HandlerFunc {
	return func(w dns.ResponseWriter, r *dns.Msg) { h(s, w, r) }
}

// forge returns a handler that changes the zone's replies.
func forge(change func(m *dns.Msg, tcp bool)) handler {
	return func(s *resolvertest.Server, w dns.ResponseWriter, r *dns.Msg) {
		m := s.Reply(r)
		change(m, w.RemoteAddr().Network() == "tcp")
		_ = w.WriteMsg(m)
	}
}

// respond returns a handler that responds with a response code and no records.
func respond(rcode int) handler {
	return forge(func(m *dns.Msg, _ bool) { m.Rcode, m.Answer = rcode, nil })
}

func TestHostileResponses(t *testing.T) {
	t.Parallel()
	const genuine, forgedRecord = "192.0.2.1", "victim.example. 60 IN A 203.0.113.66"
	rr := func(line string) dns.RR { return expect.Value(dns.NewRR(line))(t) }
	type testCase struct {
		handle handler
		want   string // as describe formats it; "" for an error
		tcp    bool   // whether the resolver must retry over TCP
	}
	expect.Each(t, map[string]testCase{
		"other IDs first": {func(s *resolvertest.Server, w dns.ResponseWriter, r *dns.Msg) {
			for i := range 3 {
				forged := s.Reply(r)
				forged.Id += uint16(i + 1)
				forged.Answer = []dns.RR{rr(forgedRecord)}
				_ = w.WriteMsg(forged)
			}
			_ = w.WriteMsg(s.Reply(r))
		}, "ok " + genuine, false},
		"other questions first": {func(s *resolvertest.Server, w dns.ResponseWriter, r *dns.Msg) {
			for _, change := range []func(q *dns.Question){
				func(q *dns.Question) { q.Name = "other.example." },
				func(q *dns.Question) { q.Qtype = dns.TypeAAAA },
				func(q *dns.Question) { q.Qclass = dns.ClassCHAOS },
			} {
				forged := s.Reply(r)
				forged.Answer = []dns.RR{rr(forgedRecord)}
				change(&forged.Question[0])
				_ = w.WriteMsg(forged)
			}
			query := s.Reply(r)
			query.Response, query.Answer = false, []dns.RR{rr(forgedRecord)}
			_ = w.WriteMsg(query)
			_ = w.WriteMsg(s.Reply(r))
		}, "ok " + genuine, false},
		"malformed messages first": {func(s *resolvertest.Server, w dns.ResponseWriter, r *dns.Msg) {
			packed, _ := s.Reply(r).Pack()
			_, _ = w.Write([]byte{1})
			_, _ = w.Write(packed[:11])
			_, _ = w.Write(packed[:20])
			_, _ = w.Write(append(packed[:12:12], 0xc0, 0x0c)) // a compression pointer to itself
			_, _ = w.Write(packed)
		}, "ok " + genuine, false},
		"flood of responses with other IDs": {func(s *resolvertest.Server, w dns.ResponseWriter, r *dns.Msg) {
			for range 50 {
				forged := s.Reply(r)
				forged.Id++
				_ = w.WriteMsg(forged)
			}
			_ = w.WriteMsg(s.Reply(r))
		}, "", false},
		"case mismatch over UDP": {forge(func(m *dns.Msg, tcp bool) {
			name := []byte(m.Question[0].Name)
			name[0] ^= 'a' ^ 'A' // an off-path attacker does not see the query, and guesses wrong
			m.Question[0].Name = string(name)
			if !tcp {
				m.Answer = []dns.RR{rr(forgedRecord)}
			}
		}), "ok " + genuine, true},
		"truncated over UDP": {forge(func(m *dns.Msg, tcp bool) {
			if !tcp {
				m.Truncated, m.Answer = true, nil
			}
		}), "ok " + genuine, true},
		"truncated over TCP too": {forge(func(m *dns.Msg, _ bool) { m.Truncated = true }), "", true},
		"larger than 16 KiB over TCP": {forge(func(m *dns.Msg, tcp bool) {
			m.Truncated = !tcp
			for i := 0; tcp && i < 1100; i++ {
				m.Answer = append(m.Answer, rr(fmt.Sprintf("victim.example. 60 IN A 198.51.%d.%d", i/250, i%250)))
			}
		}), "", true},
		"901 records": {forge(func(m *dns.Msg, tcp bool) {
			m.Truncated = !tcp
			m.Compress = true
			for i := 0; tcp && i < 900; i++ {
				m.Answer = append(m.Answer, rr(fmt.Sprintf("victim.example. 60 IN A 198.51.%d.%d", i/250, i%250)))
			}
		}), "ok " + genuine + " and 31 others of 901", true},
		"records of other names": {forge(func(m *dns.Msg, _ bool) {
			m.Answer = append(m.Answer, rr("bank.example. 60 IN A 203.0.113.66"),
				rr("bank.example. 60 IN CNAME victim.example."))
		}), "ok " + genuine, false},
		"circular CNAME chain": {forge(func(m *dns.Msg, _ bool) {
			m.Answer = []dns.RR{rr("victim.example. 60 IN CNAME b.example."),
				rr("b.example. 60 IN CNAME victim.example.")}
		}), "", false},
		"long CNAME chain": {forge(func(m *dns.Msg, _ bool) {
			m.Answer = []dns.RR{rr("victim.example. 60 IN CNAME a0.example.")}
			for i := range 40 {
				m.Answer = append(m.Answer, rr(fmt.Sprintf("a%d.example. 60 IN CNAME a%d.example.", i, i+1)))
			}
		}), "", false},
		"REFUSED": {respond(dns.RcodeRefused), "", false},
		"FORMERR with EDNS only": {func(s *resolvertest.Server, w dns.ResponseWriter, r *dns.Msg) {
			m := s.Reply(r)
			if r.IsEdns0() != nil {
				m.Rcode, m.Answer = dns.RcodeFormatError, nil
			}
			_ = w.WriteMsg(m)
		}, "ok " + genuine, false},
		"FORMERR always": {respond(dns.RcodeFormatError), "", false},
		"SERVFAIL":       {respond(dns.RcodeServerFailure), "servfail", false},
		"SERVFAIL with the extended error DNSSEC Bogus": {forge(func(m *dns.Msg, _ bool) {
			m.Rcode, m.Answer = dns.RcodeServerFailure, nil
			m.SetEdns0(1232, false)
			m.IsEdns0().Option = append(m.IsEdns0().Option, &dns.EDNS0_EDE{InfoCode: dns.ExtendedErrorCodeDNSBogus})
		}), "servfail bogus", false},
		"A record of one byte": {func(s *resolvertest.Server, w dns.ResponseWriter, r *dns.Msg) {
			m := new(dns.Msg)
			m.SetReply(r)
			m.Answer = []dns.RR{&dns.RFC3597{Hdr: dns.RR_Header{Name: r.Question[0].Name, Rrtype: dns.TypeA,
				Class: 1, Ttl: 60}, Rdata: "c0"}}
			_ = w.WriteMsg(m)
		}, "", true},
		"A record of no bytes": {forge(func(m *dns.Msg, _ bool) { m.Answer[0].(*dns.A).A = nil }), "", false},
	}, func(t *testing.T, tc testCase) {
		server := resolvertest.Start(t, "victim.example. 60 IN A "+genuine)
		var mu sync.Mutex
		usedTCP := false
		h := tc.handle.on(server)
		server.Handle("victim.example", func(w dns.ResponseWriter, r *dns.Msg) {
			mu.Lock()
			usedTCP = usedTCP || w.RemoteAddr().Network() == "tcp"
			mu.Unlock()
			h(w, r)
		})
		a, err := newResolver(t, resolver.Config{}, server).
			Lookup(t.Context(), resolver.Question{Name: "victim.example", Type: resolver.A})
		got := ""
		if err == nil {
			got = describe(a)
		}
		expect.That(t, got == tc.want, "Lookup = %q, %v; want %q", got, err, tc.want)
		mu.Lock()
		defer mu.Unlock()
		expect.Equal(t, "retried over TCP", usedTCP, tc.tcp)
	})
}

// describe formats an answer as "status [bogus] [address [and N others of RECORDS]]".
func describe(a resolver.Answer) string {
	text := string(a.Status)
	if a.Bogus {
		text += " bogus"
	}
	if len(a.Addresses) > 0 {
		text += " " + a.Addresses[0].String()
	}
	if len(a.Addresses) > 1 {
		text += fmt.Sprintf(" and %d others of %d", len(a.Addresses)-1, a.Records)
	}
	return text
}

func TestQueriesAreUnpredictable(t *testing.T) {
	t.Parallel()
	const name = "a-name-with-quite-a-few-letters.example"
	server := resolvertest.Start(t, "")
	spellings, ids, ports := map[string]bool{}, map[uint16]bool{}, map[string]bool{}
	var mu sync.Mutex
	server.Handle(name, func(w dns.ResponseWriter, r *dns.Msg) {
		mu.Lock()
		spellings[r.Question[0].Name], ids[r.Id], ports[w.RemoteAddr().String()] = true, true, true
		mu.Unlock()
		if opt := r.IsEdns0(); opt == nil || opt.UDPSize() != 1232 || !r.AuthenticatedData || !r.RecursionDesired {
			t.Errorf("the query lacks EDNS with 1232 bytes, AD or RD: %v", r)
		}
		respond(dns.RcodeRefused)(server, w, r)
	})
	c := expect.NewClock(time.Unix(1e9, 0))
	r := newResolver(t, resolver.Config{Now: c.Now, RetryAfter: patient}, server)
	for range 20 {
		c.Add(time.Minute)
		_, _ = r.Lookup(t.Context(), resolver.Question{Name: name, Type: resolver.A})
	}
	mu.Lock()
	defer mu.Unlock()
	if len(spellings) < 15 || len(ids) < 15 || len(ports) < 10 { // some may be equal by chance
		t.Errorf("20 lookups used %d spellings, %d IDs and %d ports", len(spellings), len(ids), len(ports))
	}
}
