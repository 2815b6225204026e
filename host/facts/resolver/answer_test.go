package resolver

import (
	"strings"
	"testing"

	"github.com/miekg/dns"
)

// FuzzAnswer feeds bytes as an answer: whatever they say, what is taken from them is bounded and clean.
func FuzzAnswer(f *testing.F) {
	seed := func(kind uint16, lines ...string) {
		m := new(dns.Msg)
		m.SetQuestion("example.com.", kind)
		m.Id, m.Response, m.Compress = 0, true, true
		for _, line := range lines {
			rr, err := dns.NewRR(line)
			if err != nil {
				f.Fatal(err)
			}
			m.Answer = append(m.Answer, rr)
		}
		packed, err := m.Pack()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(kind, packed)
	}
	seed(dns.TypeA, "example.com. 60 IN CNAME b.example.", "b.example. 60 IN A 192.0.2.1")
	seed(dns.TypeMX, `example.com. 60 IN MX 1 a\000b.example.`, "example.com. 60 IN MX 0 .")
	seed(dns.TypeTXT, `example.com. 60 IN TXT "v=spf1 \000\255" "-all"`)
	seed(dns.TypeNS, "example.com. 60 IN NS ns.example.com.")
	seed(dns.TypeAAAA, "example.com. 60 IN AAAA 2001:db8::1")
	f.Fuzz(func(t *testing.T, kind uint16, data []byte) {
		request := new(dns.Msg)
		request.SetQuestion("example.com.", kind)
		request.Id = 0
		m, err := read(data, request)
		if err != nil {
			return
		}
		a, ttl, err := decode(Question{"example.com.", Kind(kind)}, m)
		if ttl < failTTL || ttl > maxTTL {
			t.Errorf("kept for %v", ttl)
		}
		if err != nil {
			return
		}
		if a.Status == "" || len(a.Addresses) > maxKept || len(a.Hosts) > maxKept || len(a.Policies) > maxPolicies {
			t.Errorf("%+v is out of bounds", a)
		}
		for _, h := range a.Hosts {
			if h.Name != hostName(h.Name) {
				t.Errorf("host %q", h.Name)
			}
		}
		for _, p := range a.Policies {
			if len(p) > maxPolicyBytes || strings.IndexFunc(p, func(r rune) bool { return r < ' ' || r > '~' }) >= 0 {
				t.Errorf("policy %q", p)
			}
		}
	})
}
