package resolver_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"assay/host/facts/resolver"
	"assay/host/facts/resolver/resolvertest"
)

// forge answers as h changes the zone's reply to be.
func forge(s *resolvertest.Server, h func(m *dns.Msg, tcp bool)) dns.HandlerFunc {
	return func(w dns.ResponseWriter, r *dns.Msg) {
		m := s.Reply(r)
		h(m, w.RemoteAddr().Network() == "tcp")
		_ = w.WriteMsg(m)
	}
}

func TestHostileAnswers(t *testing.T) {
	t.Parallel()
	const honest = "192.0.2.1"
	rr := func(line string) dns.RR {
		r, err := dns.NewRR(line)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	cases := []struct {
		name   string
		handle func(s *resolvertest.Server) dns.HandlerFunc
		want   string // "" for an error, else status and addresses
		tcp    bool   // whether it takes TCP to know
	}{
		{"another number first", func(s *resolvertest.Server) dns.HandlerFunc {
			return func(w dns.ResponseWriter, r *dns.Msg) {
				for i := range 3 {
					lie := s.Reply(r)
					lie.Id += uint16(i + 1)
					lie.Answer = []dns.RR{rr("victim.example. 60 IN A 203.0.113.66")}
					_ = w.WriteMsg(lie)
				}
				_ = w.WriteMsg(s.Reply(r))
			}
		}, "ok " + honest, false},
		{"another question first", func(s *resolvertest.Server) dns.HandlerFunc {
			return func(w dns.ResponseWriter, r *dns.Msg) {
				for _, change := range []func(q *dns.Question){
					func(q *dns.Question) { q.Name = "other.example." },
					func(q *dns.Question) { q.Qtype = dns.TypeAAAA },
					func(q *dns.Question) { q.Qclass = dns.ClassCHAOS },
				} {
					lie := s.Reply(r)
					lie.Answer = []dns.RR{rr("victim.example. 60 IN A 203.0.113.66")}
					change(&lie.Question[0])
					_ = w.WriteMsg(lie)
				}
				query := s.Reply(r)
				query.Response, query.Answer = false, []dns.RR{rr("victim.example. 60 IN A 203.0.113.66")}
				_ = w.WriteMsg(query)
				_ = w.WriteMsg(s.Reply(r))
			}
		}, "ok " + honest, false},
		{"bytes that are no message first", func(s *resolvertest.Server) dns.HandlerFunc {
			return func(w dns.ResponseWriter, r *dns.Msg) {
				packed, _ := s.Reply(r).Pack()
				_, _ = w.Write([]byte{1})
				_, _ = w.Write(packed[:11])
				_, _ = w.Write(packed[:20])
				_, _ = w.Write(append(packed[:12:12], 0xc0, 0x0c)) // a name that points at itself
				_, _ = w.Write(packed)
			}
		}, "ok " + honest, false},
		{"too many others' answers first", func(s *resolvertest.Server) dns.HandlerFunc {
			return func(w dns.ResponseWriter, r *dns.Msg) {
				for range 50 {
					lie := s.Reply(r)
					lie.Id++
					_ = w.WriteMsg(lie)
				}
				_ = w.WriteMsg(s.Reply(r))
			}
		}, "", false},
		{"other capitals", func(s *resolvertest.Server) dns.HandlerFunc {
			return forge(s, func(m *dns.Msg, tcp bool) {
				m.Question[0].Name = "victim.example."
				if !tcp { // a forger who does not see the question
					m.Answer = []dns.RR{rr("victim.example. 60 IN A 203.0.113.66")}
				}
			})
		}, "ok " + honest, true},
		{"cut off", func(s *resolvertest.Server) dns.HandlerFunc {
			return forge(s, func(m *dns.Msg, tcp bool) {
				if !tcp {
					m.Truncated, m.Answer = true, nil
				}
			})
		}, "ok " + honest, true},
		{"cut off by TCP too", func(s *resolvertest.Server) dns.HandlerFunc {
			return forge(s, func(m *dns.Msg, _ bool) { m.Truncated = true })
		}, "", true},
		{"too large", func(s *resolvertest.Server) dns.HandlerFunc {
			return forge(s, func(m *dns.Msg, tcp bool) {
				m.Truncated = !tcp
				for i := 0; tcp && i < 1100; i++ {
					m.Answer = append(m.Answer, rr(fmt.Sprintf("victim.example. 60 IN A 198.51.%d.%d", i/250, i%250)))
				}
			})
		}, "", true},
		{"hundreds of records", func(s *resolvertest.Server) dns.HandlerFunc {
			return forge(s, func(m *dns.Msg, tcp bool) {
				m.Truncated = !tcp
				m.Compress = true
				for i := 0; tcp && i < 900; i++ {
					m.Answer = append(m.Answer, rr(fmt.Sprintf("victim.example. 60 IN A 198.51.%d.%d", i/250, i%250)))
				}
			})
		}, "ok " + honest + " and 31 others of 901", true},
		{"records of others", func(s *resolvertest.Server) dns.HandlerFunc {
			return forge(s, func(m *dns.Msg, _ bool) {
				m.Answer = append(m.Answer, rr("bank.example. 60 IN A 203.0.113.66"),
					rr("bank.example. 60 IN CNAME victim.example."))
			})
		}, "ok " + honest, false},
		{"aliases in a circle", func(s *resolvertest.Server) dns.HandlerFunc {
			return forge(s, func(m *dns.Msg, _ bool) {
				m.Answer = []dns.RR{rr("victim.example. 60 IN CNAME b.example."),
					rr("b.example. 60 IN CNAME victim.example.")}
			})
		}, "", false},
		{"aliases without end", func(s *resolvertest.Server) dns.HandlerFunc {
			return forge(s, func(m *dns.Msg, _ bool) {
				m.Answer = []dns.RR{rr("victim.example. 60 IN CNAME a0.example.")}
				for i := range 40 {
					m.Answer = append(m.Answer, rr(fmt.Sprintf("a%d.example. 60 IN CNAME a%d.example.", i, i+1)))
				}
			})
		}, "", false},
		{"refused", func(s *resolvertest.Server) dns.HandlerFunc {
			return forge(s, func(m *dns.Msg, _ bool) { m.Rcode, m.Answer = dns.RcodeRefused, nil })
		}, "", false},
		{"no extensions", func(s *resolvertest.Server) dns.HandlerFunc {
			return func(w dns.ResponseWriter, r *dns.Msg) {
				m := s.Reply(r)
				if r.IsEdns0() != nil {
					m.Rcode, m.Answer = dns.RcodeFormatError, nil
				}
				_ = w.WriteMsg(m)
			}
		}, "ok " + honest, false},
		{"nothing but a wrong format", func(s *resolvertest.Server) dns.HandlerFunc {
			return forge(s, func(m *dns.Msg, _ bool) { m.Rcode, m.Answer = dns.RcodeFormatError, nil })
		}, "", false},
		{"failure", func(s *resolvertest.Server) dns.HandlerFunc {
			return forge(s, func(m *dns.Msg, _ bool) { m.Rcode, m.Answer = dns.RcodeServerFailure, nil })
		}, "servfail", false},
		{"failure by a bad signature", func(s *resolvertest.Server) dns.HandlerFunc {
			return forge(s, func(m *dns.Msg, _ bool) {
				m.Rcode, m.Answer = dns.RcodeServerFailure, nil
				m.SetEdns0(1232, false)
				m.IsEdns0().Option = append(m.IsEdns0().Option, &dns.EDNS0_EDE{InfoCode: dns.ExtendedErrorCodeDNSBogus})
			})
		}, "servfail bogus", false},
		{"address of an odd length", func(*resolvertest.Server) dns.HandlerFunc {
			return func(w dns.ResponseWriter, r *dns.Msg) {
				m := new(dns.Msg)
				m.SetReply(r)
				m.Answer = []dns.RR{&dns.RFC3597{Hdr: dns.RR_Header{Name: r.Question[0].Name, Rrtype: dns.TypeA,
					Class: 1, Ttl: 60}, Rdata: "c0"}}
				_ = w.WriteMsg(m)
			}
		}, "", true},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			server := resolvertest.Start(t, "victim.example. 60 IN A "+honest)
			var mu sync.Mutex
			overTCP := false
			h := tc.handle(server)
			server.Handle("victim.example", func(w dns.ResponseWriter, r *dns.Msg) {
				mu.Lock()
				overTCP = overTCP || w.RemoteAddr().Network() == "tcp"
				mu.Unlock()
				h(w, r)
			})
			cfg := resolver.Config{}
			if tc.want == "" {
				cfg.Lifetime = 300 * time.Millisecond // for the answers that never come
			}
			a, err := newResolver(t, cfg, server).Ask(t.Context(), resolver.Question{Name: "victim.example",
				Kind: resolver.A})
			got := ""
			if err == nil {
				got = describe(a)
			}
			if got != tc.want {
				t.Errorf("got %q (%v), want %q", got, err, tc.want)
			}
			mu.Lock()
			defer mu.Unlock()
			if overTCP != tc.tcp {
				t.Errorf("asked over TCP: %v, want %v", overTCP, tc.tcp)
			}
		})
	}
}

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

func TestQuestionsCannotBeGuessed(t *testing.T) {
	t.Parallel()
	const name = "a-name-with-quite-a-few-letters.example"
	server := resolvertest.Start(t, "")
	spellings, numbers, ports := map[string]bool{}, map[uint16]bool{}, map[string]bool{}
	var mu sync.Mutex
	server.Handle(name, func(w dns.ResponseWriter, r *dns.Msg) {
		mu.Lock()
		spellings[r.Question[0].Name], numbers[r.Id], ports[w.RemoteAddr().String()] = true, true, true
		mu.Unlock()
		if opt := r.IsEdns0(); opt == nil || opt.UDPSize() != 1232 || !r.AuthenticatedData || !r.RecursionDesired {
			t.Errorf("the question has other flags: %v", r)
		}
		m := server.Reply(r)
		m.Rcode = dns.RcodeRefused
		_ = w.WriteMsg(m)
	})
	c := &clock{now: time.Unix(1e9, 0)}
	r := newResolver(t, resolver.Config{Now: c.Now, Patience: patient}, server)
	for range 20 {
		c.add(time.Minute)
		_, _ = r.Ask(t.Context(), resolver.Question{Name: name, Kind: resolver.A})
	}
	mu.Lock()
	defer mu.Unlock()
	if len(spellings) < 19 || len(numbers) < 19 || len(ports) < 10 {
		t.Errorf("20 questions had %d spellings, %d numbers and %d ports", len(spellings), len(numbers), len(ports))
	}
}
