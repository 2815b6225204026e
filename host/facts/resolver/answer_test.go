package resolver

import (
	"strings"
	"testing"

	"github.com/miekg/dns"

	"assay/registry/expect"
)

// FuzzAnswer parses arbitrary bytes as a response and checks that the answer is bounded and clean.
func FuzzAnswer(f *testing.F) {
	seed := func(rrtype uint16, lines ...string) {
		m := new(dns.Msg)
		m.SetQuestion("example.com.", rrtype)
		m.Id, m.Response, m.Compress = 0, true, true
		for _, line := range lines {
			m.Answer = append(m.Answer, expect.Value(dns.NewRR(line))(f))
		}
		f.Add(rrtype, expect.Value(m.Pack())(f))
	}
	seed(dns.TypeA, "example.com. 60 IN CNAME b.example.", "b.example. 60 IN A 192.0.2.1")
	seed(dns.TypeMX, `example.com. 60 IN MX 1 a\000b.example.`, "example.com. 60 IN MX 0 .")
	seed(dns.TypeTXT, `example.com. 60 IN TXT "v=spf1 \000\255" "-all"`)
	seed(dns.TypeNS, "example.com. 60 IN NS ns.example.com.")
	seed(dns.TypeAAAA, "example.com. 60 IN AAAA 2001:db8::1")
	f.Fuzz(func(t *testing.T, rrtype uint16, data []byte) {
		query := new(dns.Msg)
		query.SetQuestion("example.com.", rrtype)
		query.Id = 0
		m, err := parse(data, query)
		if err != nil {
			return
		}
		a, ttl, err := decode(Question{"example.com.", Type(rrtype)}, m)
		expect.That(t, ttl >= failureTTL && ttl <= maxTTL, "cached for %v", ttl)
		if err != nil {
			return
		}
		expect.That(t, a.Status != "" && len(a.Addresses) <= maxListed && len(a.Hosts) <= maxListed &&
			len(a.Policies) <= maxListed, "%+v exceeds its limits", a)
		for _, h := range a.Hosts {
			expect.Equal(t, "is not a host name", h.Name, hostName(h.Name))
		}
		unprintable := func(r rune) bool { return r < ' ' || r > '~' }
		for _, p := range a.Policies {
			expect.That(t, len(p) <= maxPolicyBytes && strings.IndexFunc(p, unprintable) < 0,
				"policy %q is too long or not printable", p)
		}
	})
}
