package network_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"go.uber.org/goleak"

	"assay/host/entity"
	"assay/host/facts"
	"assay/host/facts/network"
	"assay/host/facts/resolver"
	"assay/host/facts/resolver/resolvertest"
	"assay/registry/expect"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patient = 2 * time.Minute

// ask returns a resolver that sends each question to server once.
func ask(t testing.TB, server *resolvertest.Server) *resolver.Resolver {
	t.Helper()
	r := resolver.New(resolver.Config{Servers: []string{server.Addr}, RetryAfter: patient, Timeout: patient,
		Patience: patient})
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func parse(t testing.TB, kind entity.Type, value string) entity.Entity {
	t.Helper()
	return expect.Value(entity.Parse(kind, value, ""))(t)
}

// wanting returns a filter for the named facts.
func wanting(names ...string) func(string) bool {
	return func(fact string) bool { return slices.Contains(names, fact) }
}

func all(s facts.Source) (names []string) {
	for _, f := range s.Table() {
		names = append(names, f.Name)
	}
	return names
}

const zone = `
	example.com. 300 IN A 93.184.215.14
	example.com. 300 IN AAAA 2606:2800:21f::1
	example.com. 300 IN NS b.ns.example.com.
	example.com. 300 IN NS a.ns.example.com.
	example.com. 300 IN MX 10 mx.example.com.
	example.com. 300 IN TXT "v=spf1 include:_spf.example.com ~all"
	example.com. 300 IN DS 1 8 2 AA
	_dmarc.example.com. 300 IN TXT "v=DMARC1; p=reject; sp=quarantine"
	www.example.com. 60 IN CNAME example.com.
	six.example.com. 60 IN AAAA 2606:2800:21f::2
	flux.example.org. 20 IN A 41.0.0.1
	flux.example.org. 20 IN A 42.0.0.1
	flux.example.org. 20 IN A 42.0.3.1
	flux.example.org. 20 IN A 43.0.0.1
	flux.example.org. 20 IN A 10.1.2.3
	flux.example.org. 20 IN A 0.0.0.0
	nomail.example.net. 60 IN MX 0 .
	nomail.example.net. 60 IN TXT "v=spf1 -all"
	example.net. 60 IN A 93.184.215.15
	dangling.example.net. 60 IN CNAME gone.example.invalid.
	blog.github.io. 60 IN A 185.199.108.153
`

func TestDNS(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		kind  entity.Type
		value string
		want  entity.Facts
	}{
		{entity.Domain, "example.com", entity.Facts{
			"dns.status": "ok", "dns.a": "93.184.215.14", "dns.aaaa": "2606:2800:21f::1", "dns.networks": "1",
			"dns.ttl": "300", "dns.wildcard": "no",
			"dns.zone": "ok", "dns.ns": "a.ns.example.com b.ns.example.com", "dns.mx": "mx.example.com",
			"dns.spf": "softfail", "dns.dmarc": "reject", "dns.dnssec": "signed",
		}},
		{entity.Domain, "www.example.com", entity.Facts{ // mail and zone are the registrable domain's
			"dns.status": "ok", "dns.a": "93.184.215.14", "dns.aaaa": "2606:2800:21f::1", "dns.networks": "1",
			"dns.ttl": "60", "dns.alias": "example.com", "dns.wildcard": "no",
			"dns.zone": "ok", "dns.ns": "a.ns.example.com b.ns.example.com", "dns.mx": "mx.example.com",
			"dns.spf": "softfail", "dns.dmarc": "reject", "dns.dnssec": "signed",
		}},
		{entity.Email, "jane@six.example.com", entity.Facts{ // mail is the mail domain's, DMARC that above it
			"dns.status": "ok", "dns.aaaa": "2606:2800:21f::2", "dns.wildcard": "no", "dns.zone": "ok",
			"dns.ns": "a.ns.example.com b.ns.example.com",
			"dns.mx": "none", "dns.spf": "none", "dns.dmarc": "quarantine", "dns.dnssec": "signed",
		}},
		{entity.Domain, "flux.example.org", entity.Facts{
			"dns.status": "ok", "dns.a": "41.0.0.1 42.0.0.1 42.0.3.1 43.0.0.1", "dns.networks": "3", "dns.ttl": "20",
			"dns.special": "unspecified private", "dns.wildcard": "no",
			"dns.zone": "nodata", "dns.mx": "none", "dns.spf": "none", "dns.dmarc": "none", "dns.dnssec": "unsigned",
		}},
		{entity.Email, "jane@nomail.example.net", entity.Facts{
			"dns.status": "nodata", "dns.wildcard": "no",
			"dns.zone": "nodata", "dns.mx": "null", "dns.spf": "nobody", "dns.dmarc": "none", "dns.dnssec": "unsigned",
		}},
		{entity.Domain, "dangling.example.net", entity.Facts{
			"dns.status": "dangling", "dns.alias": "gone.example.invalid", "dns.wildcard": "no",
			"dns.zone": "nodata", "dns.mx": "none", "dns.spf": "none", "dns.dmarc": "none", "dns.dnssec": "unsigned",
		}},
		{entity.Domain, "missing-name.com", entity.Facts{
			"dns.status": "nxdomain", "dns.wildcard": "no",
			"dns.zone": "nxdomain", "dns.mx": "none", "dns.spf": "none", "dns.dmarc": "none",
		}},
		{entity.Domain, "blog.github.io", entity.Facts{
			"dns.status": "ok", "dns.a": "185.199.108.153", "dns.networks": "1", "dns.ttl": "60", "dns.wildcard": "no",
			"dns.zone": "nodata", "dns.mx": "none", "dns.spf": "none", "dns.dmarc": "none", "dns.dnssec": "unsigned",
		}},
		{entity.Phone, "+4930901820", nil},
		{entity.IBAN, "DE89370400440532013000", nil},
		{entity.Domain, "db.internal", nil}, // no public suffix: not looked up
	} {
		t.Run(tc.value, func(t *testing.T) {
			t.Parallel()
			server := resolvertest.Start(t, zone)
			source := network.NewDNS(ask(t, server))
			got := expect.Value(source.Observe(t.Context(), parse(t, tc.kind, tc.value), wanting(all(source)...)))(t)
			expect.NoDiff(t, "result", tc.want, got)
			expect.That(t, tc.want != nil || len(server.Questions()) == 0, "asked for %v", server.Questions())
			for name := range got {
				expect.That(t, slices.Contains(all(source), name), "%s is not in the table", name)
			}
		})
	}
}

// TestQueriesPerFact asserts that each fact causes only the queries that it needs.
func TestQueriesPerFact(t *testing.T) {
	t.Parallel()
	cases := map[string][]string{
		"dns.status":   {"www.example.com A"},
		"dns.a":        {"www.example.com A"},
		"dns.aaaa":     {"www.example.com AAAA"},
		"dns.special":  {"www.example.com A"},
		"dns.networks": {"www.example.com A"},
		"dns.ttl":      {"www.example.com A"},
		"dns.alias":    {"www.example.com A"},
		"dns.zone":     {"example.com NS"},
		"dns.ns":       {"example.com NS"},
		"dns.mx":       {"example.com MX"},
		"dns.spf":      {"example.com TXT"},
		"dns.dmarc":    {"_dmarc.example.com TXT"},
		"dns.dnssec":   {"example.com DS"},
		"dns.wildcard": {"? A"},
		"dns.other":    nil,
	}
	for _, f := range (network.DNS{}).Table() {
		expect.That(t, cases[f.Name] != nil, "no case for %s", f.Name)
	}
	expect.Each(t, cases, func(t *testing.T, want []string) {
		server, fact := resolvertest.Start(t, zone), path.Base(t.Name())
		expect.Value(network.NewDNS(ask(t, server)).Observe(t.Context(), parse(t, entity.Domain, "www.example.com"),
			wanting(fact)))(t)
		asked := server.Questions()
		if fact == "dns.wildcard" && len(asked) == 1 && strings.HasSuffix(asked[0], ".example.com A") {
			asked[0] = "? A" // the label cannot be foreseen
		}
		expect.NoDiff(t, "asked", want, asked)
	})
}

// TestProbesOfWildcards checks that the owner of a zone cannot recognise probes from those of another zone.
func TestProbesOfWildcards(t *testing.T) {
	t.Parallel()
	server, labels := resolvertest.Start(t, zone), map[string]bool{}
	source := network.NewDNS(ask(t, server))
	for _, name := range []string{"example.com", "example.net", "example.com"} {
		_ = expect.Value(source.Observe(t.Context(), parse(t, entity.Domain, name), wanting("dns.wildcard")))(t)
	}
	for _, asked := range server.Questions() {
		label, _, _ := strings.Cut(asked, ".")
		labels[label] = true
	}
	expect.Equal(t, "labels, one for each zone", len(labels), 2)
}

// TestFalseAnswers checks that nothing is learned from a server that gives false answers.
func TestFalseAnswers(t *testing.T) {
	t.Parallel()
	server := resolvertest.Start(t, zone)
	server.HandleAll(resolvertest.Redirect)
	r := ask(t, server)
	r.Verify(t.Context())
	for _, source := range []facts.Source{network.NewDNS(r), network.NewNet(network.NetConfig{Resolver: r,
		Blocklists: []network.Blocklist{{Zone: "dbl.example.org", Domains: true}}, Logger: discard()})} {
		got, err := source.Observe(t.Context(), parse(t, entity.Domain, "example.com"), wanting(all(source)...))
		expect.That(t, errors.Is(err, facts.ErrUntrusted) && len(got) == 0, "%s: %v, %v", source.Name(), got, err)
	}
}

func TestDNSSEC(t *testing.T) {
	t.Parallel()
	expect.EachNamed(t, map[string]func(m *dns.Msg){
		"validated": func(m *dns.Msg) { m.AuthenticatedData = true },
		"signed":    func(*dns.Msg) {},
		"unsigned":  func(m *dns.Msg) { m.Answer, m.AuthenticatedData = nil, true },
		"bogus": func(m *dns.Msg) {
			m.Rcode, m.Answer = dns.RcodeServerFailure, nil
			m.SetEdns0(1232, false)
			m.IsEdns0().Option = append(m.IsEdns0().Option,
				&dns.EDNS0_EDE{InfoCode: dns.ExtendedErrorCodeSignatureExpired})
		},
	}, func(t *testing.T, want string, change func(m *dns.Msg)) {
		server := resolvertest.Start(t, zone)
		server.Handle("example.com", func(w dns.ResponseWriter, r *dns.Msg) {
			m := server.Reply(r)
			change(m)
			_ = w.WriteMsg(m)
		})
		got, err := network.NewDNS(ask(t, server)).Observe(t.Context(),
			parse(t, entity.Domain, "example.com"), wanting("dns.dnssec"))
		expect.That(t, err == nil && got["dns.dnssec"] == want, "%v, %v, want %q", got, err, want)
	})
}

// TestServerFailure checks that the source is named as unanswered if a server cannot resolve the names.
func TestServerFailure(t *testing.T) {
	t.Parallel()
	server := resolvertest.Start(t, zone)
	server.HandleAll(func(w dns.ResponseWriter, r *dns.Msg) {
		_ = w.WriteMsg(new(dns.Msg).SetRcode(r, dns.RcodeServerFailure))
	})
	source := network.NewDNS(ask(t, server))
	for _, f := range source.Table() {
		want := map[string]string{"dns.status": "servfail", "dns.zone": "servfail"}[f.Name]
		got, err := source.Observe(t.Context(), parse(t, entity.Domain, "example.com"), wanting(f.Name))
		expect.That(t, errors.Is(err, facts.ErrUnanswered) && got[f.Name] == want, "%s: %v, %v", f.Name, got, err)
	}
}

// TestPolicies checks the facts that one record decides.
func TestPolicies(t *testing.T) {
	t.Parallel()
	type policy struct{ name, records, want string }
	for _, group := range []struct {
		fact  string
		of    entity.Entity
		cases []policy
	}{
		{"dns.wildcard", parse(t, entity.Domain, "www.example.com"), []policy{
			{"no wildcard", "example.com. 60 IN A 192.0.2.1", "no"},
			{"a wildcard", "*.example.com. 60 IN A 192.0.2.1", "yes"},
			{"one of mail only", "*.example.com. 60 IN MX 10 mx.example.net.", "no"},
			{"one above a name", "*.www.example.com. 60 IN A 192.0.2.1", "no"},
			{"a wildcard elsewhere", "*.example.net. 60 IN A 192.0.2.1", "no"},
		}},
		{"dns.spf", parse(t, entity.Domain, "d.com"), []policy{
			{"nothing", `d.com. 60 IN TXT "hello"`, "none"},
			{"another version", `d.com. 60 IN TXT "v=spf10 -all"`, "none"},
			{"nobody", `d.com. 60 IN TXT "v=spf1 -all"`, "nobody"},
			{"the listed only", `d.com. 60 IN TXT "V=SPF1 MX -ALL"`, "fail"},
			{"soft", `d.com. 60 IN TXT "v=spf1 ip4:192.0.2.0/24 ~all"`, "softfail"},
			{"neutral", `d.com. 60 IN TXT "v=spf1 a ?all"`, "neutral"},
			{"without an end", `d.com. 60 IN TXT "v=spf1 a mx"`, "neutral"},
			{"empty", `d.com. 60 IN TXT "v=spf1"`, "neutral"},
			{"anybody", `d.com. 60 IN TXT "v=spf1 a +all"`, "pass_all"},
			{"anybody, unsigned", `d.com. 60 IN TXT "v=spf1 all"`, "pass_all"},
			{"anybody by address", `d.com. 60 IN TXT "v=spf1 ip4:0.0.0.0/0 -all"`, "pass_all"},
			{"two", "d.com. 60 IN TXT \"v=spf1 -all\"\nd.com. 60 IN TXT \"v=spf1 +all\"", "invalid"},
			{"behind others", strings.Repeat("d.com. 60 IN TXT \"v=a\"\n", 40) + `d.com. 60 IN TXT "v=spf1 -all"`,
				"nobody"},
			{"redirected", "d.com. 60 IN TXT \"v=spf1 redirect=e.com\"\ne.com. 60 IN TXT \"v=spf1 a -all\"", "fail"},
			{"redirected past an end", "d.com. 60 IN TXT \"v=spf1 ~all redirect=e.com\"\n" +
				"e.com. 60 IN TXT \"v=spf1 a -all\"", "softfail"},
			{"redirected to nothing", `d.com. 60 IN TXT "v=spf1 redirect=e.com"`, "invalid"},
			{"redirected within", "d.com. 60 IN TXT \"v=spf1 redirect=_spf.d.com\"\n" +
				"_spf.d.com. 60 IN TXT \"v=spf1 a -all\"", "fail"},
			{"redirected to a private name", "d.com. 60 IN TXT \"v=spf1 redirect=vault.corp\"\n" +
				"vault.corp. 60 IN TXT \"v=spf1 a -all\"", "invalid"},
			{"redirected to a private URL", "d.com. 60 IN TXT \"v=spf1 redirect=a.com/x.corp\"\n" +
				"a.com/x.corp. 60 IN TXT \"v=spf1 a -all\"", "invalid"},
			{"redirected to itself", `d.com. 60 IN TXT "v=spf1 redirect=d.com"`, ""},
			{"redirected twice", "d.com. 60 IN TXT \"v=spf1 redirect=e.com\"\n" +
				"e.com. 60 IN TXT \"v=spf1 redirect=f.com\"\n" + "f.com. 60 IN TXT \"v=spf1 -all\"", ""},
			{"redirected by a macro", `d.com. 60 IN TXT "v=spf1 redirect=%{d}.e.com"`, "neutral"},
			{"other modifiers", `d.com. 60 IN TXT "v=spf1 exp=e.com -all"`, "nobody"},
			{"control characters", `d.com. 60 IN TXT "v=spf1 \000\007 ~all"`, "softfail"},
		}},
		{"dns.dmarc", parse(t, entity.Email, "a@m.d.com"), []policy{
			{"nothing", `d.com. 60 IN A 192.0.2.1`, "none"},
			{"monitor", `_dmarc.m.d.com. 60 IN TXT "v=DMARC1; p=none; rua=mailto:a@d.com"`, "monitor"},
			{"quarantine", `_dmarc.m.d.com. 60 IN TXT "v=DMARC1;p=Quarantine"`, "quarantine"},
			{"reject", `_dmarc.m.d.com. 60 IN TXT "v=DMARC1 ; p = reject ;"`, "reject"},
			{"no request", `_dmarc.m.d.com. 60 IN TXT "v=DMARC1; rua=mailto:a@d.com"`, "invalid"},
			{"unknown request", `_dmarc.m.d.com. 60 IN TXT "v=DMARC1; p=explode"`, "invalid"},
			{"two", "_dmarc.m.d.com. 60 IN TXT \"v=DMARC1; p=none\"\n_dmarc.m.d.com. 60 IN TXT \"v=DMARC1; p=reject\"",
				"none"},
			{"above", `_dmarc.d.com. 60 IN TXT "v=DMARC1; p=reject"`, "reject"},
			{"above, for those below", `_dmarc.d.com. 60 IN TXT "v=DMARC1; p=reject; sp=none"`, "monitor"},
			{"own before parent", "_dmarc.m.d.com. 60 IN TXT \"v=DMARC1; p=none\"\n" +
				"_dmarc.d.com. 60 IN TXT \"v=DMARC1; p=reject\"", "monitor"},
			{"the first of doubles", `_dmarc.m.d.com. 60 IN TXT "v=DMARC1; p=reject; p=none"`, "reject"},
		}},
	} {
		for _, tc := range group.cases {
			t.Run(group.fact+" "+tc.name, func(t *testing.T) {
				t.Parallel()
				source := network.NewDNS(ask(t, resolvertest.Start(t, tc.records)))
				got, err := source.Observe(t.Context(), group.of, wanting(group.fact))
				expect.That(t, err == nil && got[group.fact] == tc.want, "%v, %v, want %q", got, err, tc.want)
			})
		}
	}
}

// TestPartialAnswers asserts that the facts known at the deadline are returned.
func TestPartialAnswers(t *testing.T) {
	t.Parallel()
	server := resolvertest.Start(t, zone)
	ctx, cancel := context.WithCancel(t.Context())
	server.Handle("example.com", func(w dns.ResponseWriter, r *dns.Msg) {
		if r.Question[0].Qtype == dns.TypeMX {
			cancel() // and never answer
			return
		}
		_ = w.WriteMsg(server.Reply(r))
	})
	source := network.NewDNS(ask(t, server))
	e := parse(t, entity.Domain, "example.com")
	// The address is cached, so it is known at any deadline.
	expect.Value(source.Observe(ctx, e, wanting("dns.a")))(t)
	got, err := source.Observe(ctx, e, wanting("dns.a", "dns.mx"))
	expect.Failure(t, err, "no error although the mail servers are unknown")
	expect.NoDiff(t, "result", entity.Facts{"dns.a": "93.184.215.14"}, got)
}

func TestManyRecords(t *testing.T) {
	t.Parallel()
	server := resolvertest.Start(t, "")
	for i := range 60 {
		server.Add(t, fmt.Sprintf("big.example.com. 60 IN A 41.%d.0.1\n"+"example.com. 60 IN NS ns%02d.example.com.\n"+
			"example.com. 60 IN MX %d m%02d.example.com.", i, i, i, i))
	}
	got := expect.Value(network.NewDNS(ask(t, server)).Observe(t.Context(), parse(t, entity.Domain, "big.example.com"),
		wanting("dns.a", "dns.ns", "dns.mx", "dns.networks")))(t)
	for _, name := range []string{"dns.a", "dns.ns", "dns.mx"} {
		expect.Equal(t, name+" lists", len(strings.Fields(got[name])), 8)
	}
	expect.Equal(t, "dns.networks", got["dns.networks"], "32")
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }
