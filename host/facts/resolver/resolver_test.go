package resolver_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
	"go.uber.org/goleak"

	"assay/host/access/admission"
	"assay/host/facts/resolver"
	"assay/host/facts/resolver/resolvertest"
	"assay/registry/expect"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patient is a timeout that a test reaches only if it fails, however slow the machine is.
const patient = 2 * time.Minute

// newResolver returns a resolver that queries servers and is closed when the test ends.
func newResolver(t testing.TB, cfg resolver.Config, servers ...*resolvertest.Server) *resolver.Resolver {
	t.Helper()
	for _, s := range servers {
		cfg.Servers = append(cfg.Servers, s.Addr)
	}
	cfg.Timeout = cmp.Or(cfg.Timeout, patient)
	cfg.Patience = cmp.Or(cfg.Patience, patient)
	cfg.RetryAfter = cmp.Or(cfg.RetryAfter, patient) // tests count queries
	cfg.ProbeInterval = cmp.Or(cfg.ProbeInterval, patient)
	r := resolver.New(cfg)
	t.Cleanup(func() { expect.NoError(t, r.Close()) })
	return r
}

func lookUp(t testing.TB, r *resolver.Resolver, name string, rrtype resolver.Type) resolver.Answer {
	t.Helper()
	return expect.Value(r.Lookup(t.Context(), resolver.Question{Name: name, Type: rrtype}))(t)
}

func addresses(texts ...string) []netip.Addr {
	var all []netip.Addr
	for _, s := range texts {
		all = append(all, netip.MustParseAddr(s))
	}
	return all
}

func TestLookup(t *testing.T) {
	t.Parallel()
	server := resolvertest.Start(t, `
		example.com. 300 IN A 192.0.2.2
		example.com. 200 IN A 192.0.2.1
		example.com. 200 IN A 192.0.2.1
		example.com. 60 IN AAAA 2001:db8::1
		example.com. 7200 IN NS b.ns.example.
		example.com. 7200 IN NS A.NS.example.
		example.com. 60 IN MX 20 second.example.
		example.com. 60 IN MX 10 first.example.
		example.com. 60 IN MX 20 bad\000host.example.
		example.com. 60 IN TXT "google-site-verification=abc"
		example.com. 60 IN TXT "v=spf1 " "-all"
		example.com. 60 IN TXT "V=DMARC1; p=\000none"
		example.com. 60 IN DS 1 8 2 AA
		nomail.example. 60 IN MX 0 .
		www.example.com. 90 IN CNAME cdn.example.
		cdn.example. 30 IN CNAME edge.example.
		edge.example. 60 IN A 192.0.2.9
		dangling.example. 60 IN CNAME gone.invalid.
		empty.example. 60 IN CNAME example.com.
	`)
	r := newResolver(t, resolver.Config{}, server)
	type testCase struct {
		host   string
		rrtype resolver.Type
		want   resolver.Answer
	}
	expect.Each(t, map[string]testCase{
		"IPv4 addresses, sorted, without duplicates": {"Example.COM", resolver.A,
			resolver.Answer{Status: resolver.OK, Addresses: addresses("192.0.2.1", "192.0.2.2"), Records: 3,
				TTL: 200 * time.Second}},
		"IPv6 addresses": {"example.com.", resolver.AAAA,
			resolver.Answer{Status: resolver.OK, Addresses: addresses("2001:db8::1"), Records: 1, TTL: time.Minute}},
		"name servers": {"example.com", resolver.NS,
			resolver.Answer{Status: resolver.OK, Records: 2, TTL: 2 * time.Hour,
				Hosts: []resolver.Host{{Name: "a.ns.example"}, {Name: "b.ns.example"}}}},
		"mail servers by preference, without invalid host names": {"example.com", resolver.MX,
			resolver.Answer{Status: resolver.OK, Records: 3, TTL: time.Minute,
				Hosts: []resolver.Host{{Name: "first.example", Preference: 10},
					{Name: "second.example", Preference: 20}}}},
		"null MX": {"nomail.example", resolver.MX,
			resolver.Answer{Status: resolver.OK, Hosts: []resolver.Host{{}}, Records: 1, TTL: time.Minute}},
		"policies, joined and escaped": {"example.com", resolver.TXT,
			resolver.Answer{Status: resolver.OK, Records: 3, TTL: time.Minute,
				Policies: []string{`V=DMARC1; p=\000none`, "v=spf1 -all"}}},
		"delegation signer": {"example.com", resolver.DS,
			resolver.Answer{Status: resolver.OK, Records: 1, TTL: time.Minute}},
		"CNAME chain": {"www.example.com", resolver.A,
			resolver.Answer{Status: resolver.OK, Alias: "edge.example", Addresses: addresses("192.0.2.9"), Records: 1,
				TTL: 30 * time.Second}},
		"CNAME of a name without such a record": {"empty.example", resolver.Type(dns.TypeLOC),
			resolver.Answer{Status: resolver.NoData, Alias: "example.com"}},
		"no such record": {"nomail.example", resolver.A, resolver.Answer{Status: resolver.NoData}},
		"no such name":   {"missing.example.com", resolver.A, resolver.Answer{Status: resolver.NXDomain}},
		"CNAME of no such name": {"dangling.example", resolver.A,
			resolver.Answer{Status: resolver.Dangling, Alias: "gone.invalid"}},
		"name longer than 253 bytes": {strings.Repeat("long.", 60) + "com", resolver.A,
			resolver.Answer{Status: resolver.NXDomain}},
		"label longer than 63 bytes": {strings.Repeat("l", 64) + ".com", resolver.A,
			resolver.Answer{Status: resolver.NXDomain}},
	}, func(t *testing.T, tc testCase) {
		expect.NoDiff(t, "Lookup", tc.want, lookUp(t, r, tc.host, tc.rrtype), sameAnswer)
	})
}

func TestCacheTTL(t *testing.T) {
	t.Parallel()
	type testCase struct {
		zone, host string
		ttl        time.Duration // when the next lookup queries the server again
	}
	expect.Each(t, map[string]testCase{
		"TTL of the record":               {"a.example. 120 IN A 192.0.2.1", "a.example", 2 * time.Minute},
		"minimum":                         {"a.example. 0 IN A 192.0.2.1", "a.example", 30 * time.Second},
		"maximum":                         {"a.example. 999999 IN A 192.0.2.1", "a.example", time.Hour},
		"NXDOMAIN, TTL of the SOA record": {"a.example. 60 IN A 192.0.2.1", "b.example", time.Minute},
		"NODATA, TTL of the SOA record":   {"a.example. 60 IN MX 1 m.example.", "a.example", time.Minute},
	}, func(t *testing.T, tc testCase) {
		server, c := resolvertest.Start(t, tc.zone), expect.NewClock(time.Unix(1e9, 0))
		r := newResolver(t, resolver.Config{Now: c.Now, RetryAfter: patient}, server)
		lookUp(t, r, tc.host, resolver.A)
		c.Add(tc.ttl - time.Millisecond)
		lookUp(t, r, strings.ToUpper(tc.host), resolver.A)
		expect.Equal(t, "queries before the TTL has passed", server.Count(tc.host+" A"), 1)
		c.Add(time.Millisecond)
		lookUp(t, r, tc.host, resolver.A)
		expect.Equal(t, "queries after the TTL has passed", server.Count(tc.host+" A"), 2)
	})
}

// TestExpiredAnswers checks that a host that knows an expired answer learns no more from a failing server than another.
func TestExpiredAnswers(t *testing.T) {
	t.Parallel()
	server, c := resolvertest.Start(t, "a.example. 60 IN A 192.0.2.1"), expect.NewClock(time.Unix(1e9, 0))
	r := newResolver(t, resolver.Config{Now: c.Now, RetryAfter: patient}, server)
	wantAnswer := func(when, want string) {
		t.Helper()
		expect.Equal(t, when, describe(lookUp(t, r, "a.example", resolver.A)), want)
	}
	wantAnswer("initially", "ok 192.0.2.1")
	server.Handle("a.example", respond(dns.RcodeServerFailure).on(server))
	c.Add(time.Hour)
	wantAnswer("while the server fails", "servfail")
	wantAnswer("while the failure is cached", "servfail")
	expect.Equal(t, "queries", server.Count("a.example A"), 2)
	server.Handle("a.example", respond(dns.RcodeRefused).on(server))
	c.Add(6 * time.Second)
	_, err := r.Lookup(t.Context(), resolver.Question{Name: "a.example", Type: resolver.A})
	expect.Error(t, "when the server refuses", err, resolver.ErrUnanswered)
	c.Add(6 * time.Second)
	server.Handle("a.example", nil)
	wantAnswer("after the failure", "ok 192.0.2.1")
}

// TestAbandonedLookup checks that a query continues after its caller gave up, and serves the next caller.
func TestAbandonedLookup(t *testing.T) {
	t.Parallel()
	server, released := resolvertest.Start(t, "a.example. 60 IN A 192.0.2.1"), make(chan struct{})
	server.Handle("a.example", func(w dns.ResponseWriter, r *dns.Msg) {
		server.Wait(released)
		_ = w.WriteMsg(server.Reply(r))
	})
	r := newResolver(t, resolver.Config{RetryAfter: patient}, server)
	ctx, cancel := context.WithCancel(t.Context())
	abandoned := make(chan error, 1)
	go func() {
		abandoned <- expect.ErrorOf(r.Lookup(ctx, resolver.Question{Name: "a.example", Type: resolver.A}))
	}()
	expect.Until(t, "a query", func() bool { return server.Count("a.example A") == 1 })
	cancel()
	expect.Error(t, "the abandoned lookup returns", <-abandoned, context.Canceled)
	close(released)
	expect.Equal(t, "the next lookup", describe(lookUp(t, r, "a.example", resolver.A)), "ok 192.0.2.1")
	expect.Equal(t, "queries", server.Count("a.example A"), 1)
}

func TestConcurrentLookupsShareOneQuery(t *testing.T) {
	t.Parallel()
	server := resolvertest.Start(t, "a.example. 60 IN A 192.0.2.1")
	r := newResolver(t, resolver.Config{RetryAfter: patient}, server)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			_, err := r.Lookup(t.Context(), resolver.Question{Name: "a.example", Type: resolver.A})
			expect.That(t, err == nil, "%v", err)
		})
	}
	wg.Wait()
	expect.Equal(t, "queries", server.Count("a.example A"), 1)
}

func TestRetry(t *testing.T) {
	t.Parallel()
	type testCase struct {
		first      handler
		retryAfter time.Duration // 0: the default
		servers    int
	}
	expect.Each(t, map[string]testCase{
		"a packet is lost": {func(s *resolvertest.Server, w dns.ResponseWriter, r *dns.Msg) {
			if s.Count("a.example A") > 1 {
				_ = w.WriteMsg(s.Reply(r))
			}
		}, time.Millisecond, 1},
		"the first server is silent": {func(*resolvertest.Server, dns.ResponseWriter, *dns.Msg) {},
			time.Millisecond, 2},
		"the first server fails": {respond(dns.RcodeServerFailure), patient, 2},
	}, func(t *testing.T, c testCase) {
		var servers []*resolvertest.Server
		for range c.servers {
			servers = append(servers, resolvertest.Start(t, "a.example. 60 IN A 192.0.2.1"))
		}
		servers[0].Handle("a.example", c.first.on(servers[0]))
		r := newResolver(t, resolver.Config{RetryAfter: c.retryAfter}, servers...)
		expect.Equal(t, "answer", describe(lookUp(t, r, "a.example", resolver.A)), "ok 192.0.2.1")
	})
	r := newResolver(t, resolver.Config{Servers: []string{"127.0.0.1:1"}})
	a, err := r.Lookup(t.Context(), resolver.Question{Name: "a.example", Type: resolver.A})
	expect.That(t, err != nil, "Lookup = %+v without a server", a)
}

// Lookups that begin while a resolver is closed end before it, or do not begin.
func TestCloseDuringLookups(t *testing.T) {
	t.Parallel()
	r := resolver.New(resolver.Config{Servers: []string{"127.0.0.1:1"}})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n, err := 0, error(nil); !errors.Is(err, resolver.ErrClosed); n++ {
				q := resolver.Question{Name: fmt.Sprintf("n%d.%d.example", n, i), Type: resolver.A}
				_, err = r.Lookup(t.Context(), q)
			}
		})
	}
	expect.NoError(t, r.Close())
	wg.Wait()
}

// TestFloodOfSlowNames checks that one account has at most half of the queries in progress, also when its callers have
// left, and that other accounts' are answered meanwhile.
func TestFloodOfSlowNames(t *testing.T) {
	t.Parallel()
	server := resolvertest.Start(t, "")
	r := newResolver(t, resolver.Config{}, server)
	released := make(chan struct{})
	const maxInFlight = 2048 // as in the resolver
	flood := admission.WithHolder(t.Context(), "flood")
	leaving, leave := context.WithCancel(flood)
	defer leave()
	var wg sync.WaitGroup
	var refused atomic.Int32
	for i := range maxInFlight {
		name := fmt.Sprintf("n%d.example", i)
		server.Handle(name, func(w dns.ResponseWriter, q *dns.Msg) {
			server.Wait(released)
			_ = w.WriteMsg(server.Reply(q))
		})
		wg.Go(func() {
			_, err := r.Lookup(leaving, resolver.Question{Name: name, Type: resolver.A})
			if errors.Is(err, resolver.ErrBusy) {
				refused.Add(1)
			}
		})
		if i%64 == 63 { // more at once might overflow the server's socket buffer
			expect.Until(t, "the queries", func() bool { return len(server.Questions())+int(refused.Load()) == i+1 })
		}
	}
	leave()
	wg.Wait()
	expect.Equal(t, "refused lookups", refused.Load(), maxInFlight/2)
	extra := resolver.Question{Name: "extra.example", Type: resolver.A}
	expect.Error(t, "a lookup beyond its share returns", expect.ErrorOf(r.Lookup(flood, extra)), resolver.ErrBusy)
	expect.Equal(t, "another account's lookup", describe(lookUp(t, r, "other.example", resolver.A)), "nxdomain")
	close(released)
	expect.Until(t, "room for the account", func() bool { return expect.ErrorOf(r.Lookup(flood, extra)) == nil })
	expect.NoError(t, r.Close())
	extra.Name = "late.example"
	expect.Error(t, "a lookup after Close returns", expect.ErrorOf(r.Lookup(flood, extra)), resolver.ErrClosed)
}
