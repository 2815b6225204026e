package resolver_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/miekg/dns"
	"go.uber.org/goleak"

	"assay/host/facts/resolver"
	"assay/host/facts/resolver/resolvertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patient waits as long as the slowest machine takes.
const patient = 30 * time.Second

// newResolver returns a resolver that asks servers, closed at the end of the test.
func newResolver(t testing.TB, cfg resolver.Config, servers ...*resolvertest.Server) *resolver.Resolver {
	t.Helper()
	for _, s := range servers {
		cfg.Servers = append(cfg.Servers, s.Addr)
	}
	if cfg.Lifetime == 0 {
		cfg.Lifetime = patient
	}
	r := resolver.New(cfg)
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func ask(t testing.TB, r *resolver.Resolver, name string, kind resolver.Kind) resolver.Answer {
	t.Helper()
	a, err := r.Ask(t.Context(), resolver.Question{Name: name, Kind: kind})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func addresses(texts ...string) []netip.Addr {
	var all []netip.Addr
	for _, s := range texts {
		all = append(all, netip.MustParseAddr(s))
	}
	return all
}

var sameAnswer = cmp.Options{cmpopts.EquateComparable(netip.Addr{}), cmpopts.EquateEmpty()}

func TestAsk(t *testing.T) {
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
	cases := []struct {
		name, host string
		kind       resolver.Kind
		want       resolver.Answer
	}{
		{"addresses, sorted and each once", "Example.COM", resolver.A,
			resolver.Answer{Status: resolver.OK, Addresses: addresses("192.0.2.1", "192.0.2.2"), Records: 3,
				TTL: 200 * time.Second}},
		{"addresses of IPv6", "example.com.", resolver.AAAA,
			resolver.Answer{Status: resolver.OK, Addresses: addresses("2001:db8::1"), Records: 1, TTL: time.Minute}},
		{"name servers", "example.com", resolver.NS, resolver.Answer{Status: resolver.OK, Records: 2,
			TTL:   2 * time.Hour,
			Hosts: []resolver.Host{{Name: "a.ns.example"}, {Name: "b.ns.example"}}}},
		{"mail servers by preference, without what is no host name", "example.com", resolver.MX,
			resolver.Answer{Status: resolver.OK,
				Records: 3, TTL: time.Minute, Hosts: []resolver.Host{{Name: "first.example", Preference: 10},
					{Name: "second.example", Preference: 20}}}},
		{"null MX", "nomail.example", resolver.MX,
			resolver.Answer{Status: resolver.OK, Hosts: []resolver.Host{{}}, Records: 1, TTL: time.Minute}},
		{"policies, joined and escaped", "example.com", resolver.TXT, resolver.Answer{Status: resolver.OK, Records: 3,
			TTL:      time.Minute,
			Policies: []string{`V=DMARC1; p=\000none`, "v=spf1 -all"}}},
		{"key of the parent", "example.com", resolver.DS, resolver.Answer{Status: resolver.OK, Records: 1,
			TTL: time.Minute}},
		{"chain of aliases", "www.example.com", resolver.A, resolver.Answer{Status: resolver.OK, Alias: "edge.example",
			Addresses: addresses("192.0.2.9"), Records: 1, TTL: 30 * time.Second}},
		{"alias without such a record", "empty.example", resolver.Kind(dns.TypeLOC),
			resolver.Answer{Status: resolver.NoData, Alias: "example.com"}},
		{"no such record", "nomail.example", resolver.A, resolver.Answer{Status: resolver.NoData}},
		{"no such name", "missing.example.com", resolver.A, resolver.Answer{Status: resolver.NXDomain}},
		{"alias of no such name", "dangling.example", resolver.A, resolver.Answer{Status: resolver.Dangling,
			Alias: "gone.invalid"}},
		{"name that cannot be", strings.Repeat("long.", 60) + "com", resolver.A,
			resolver.Answer{Status: resolver.NXDomain}},
		{"label that cannot be", strings.Repeat("l", 64) + ".com", resolver.A,
			resolver.Answer{Status: resolver.NXDomain}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, ask(t, r, tc.host, tc.kind), sameAnswer); diff != "" {
				t.Errorf("differs:\n%s", diff)
			}
		})
	}
}

// clock is a clock that tests move.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func TestCacheTimes(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, zone, host string
		kept             time.Duration // it is asked for again after, and not before
	}{
		{"its time to live", "a.example. 120 IN A 192.0.2.1", "a.example", 2 * time.Minute},
		{"a floor", "a.example. 0 IN A 192.0.2.1", "a.example", 30 * time.Second},
		{"a ceiling", "a.example. 999999 IN A 192.0.2.1", "a.example", time.Hour},
		{"no such name, as the zone says", "a.example. 60 IN A 192.0.2.1", "b.example", time.Minute},
		{"no such record, as the zone says", "a.example. 60 IN MX 1 m.example.", "a.example", time.Minute},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			server, c := resolvertest.Start(t, tc.zone), &clock{now: time.Unix(1e9, 0)}
			r := newResolver(t, resolver.Config{Now: c.Now, Patience: patient}, server)
			ask(t, r, tc.host, resolver.A)
			c.add(tc.kept - time.Millisecond)
			ask(t, r, strings.ToUpper(tc.host), resolver.A)
			if n := server.Count(tc.host + " A"); n != 1 {
				t.Errorf("asked %d times before the time was over, want once", n)
			}
			c.add(time.Millisecond)
			ask(t, r, tc.host, resolver.A)
			if n := server.Count(tc.host + " A"); n != 2 {
				t.Errorf("asked %d times when the time was over, want twice", n)
			}
		})
	}
}

func TestStale(t *testing.T) {
	t.Parallel()
	server, c := resolvertest.Start(t, "a.example. 60 IN A 192.0.2.1"), &clock{now: time.Unix(1e9, 0)}
	r := newResolver(t, resolver.Config{Now: c.Now, Patience: patient}, server)
	fails := forge(server, func(m *dns.Msg, _ bool) { m.Rcode, m.Answer = dns.RcodeServerFailure, nil })
	check := func(when, want string, stale bool) {
		t.Helper()
		a := ask(t, r, "a.example", resolver.A)
		if got := describe(a); got != want || a.Stale != stale {
			t.Errorf("%s: %q, stale %v, want %q, %v", when, got, a.Stale, want, stale)
		}
	}
	check("at first", "ok 192.0.2.1", false)
	server.Handle("a.example", fails)
	c.add(time.Hour)
	check("while the server fails", "ok 192.0.2.1", true)
	check("and a moment later", "ok 192.0.2.1", true)
	if n := server.Count("a.example A"); n != 2 {
		t.Errorf("the failing server was asked %d times, want twice: a failure is kept for a while", n)
	}
	c.add(6 * time.Second)
	server.Handle("a.example", nil)
	check("when it is back", "ok 192.0.2.1", false)
	server.Handle("a.example", fails)
	c.add(8 * time.Hour)
	check("when it fails for too long", "servfail", false)

	// What is known to be gone is not served.
	server.Handle("a.example", nil)
	c.add(time.Minute)
	check("when it is back again", "ok 192.0.2.1", false)
	server.Handle("a.example", forge(server, func(m *dns.Msg, _ bool) { m.Rcode, m.Answer = dns.RcodeNameError, nil }))
	c.add(time.Hour)
	check("when it is gone", "nxdomain", false)
	server.Handle("a.example", fails)
	c.add(time.Hour)
	check("when it is gone and the server fails", "servfail", false)
}

func TestLateAnswerServesTheNext(t *testing.T) {
	t.Parallel()
	server := resolvertest.Start(t, "a.example. 60 IN A 192.0.2.1")
	released := make(chan struct{})
	server.Handle("a.example", func(w dns.ResponseWriter, r *dns.Msg) {
		server.Wait(released)
		_ = w.WriteMsg(server.Reply(r))
	})
	r := newResolver(t, resolver.Config{Patience: patient}, server)
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := r.Ask(ctx, resolver.Question{Name: "a.example", Kind: resolver.A})
		failed <- err
	}()
	waitFor(t, func() bool { return server.Count("a.example A") == 1 })
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("the asker who gave up got %v", err)
	}
	close(released)
	if got := describe(ask(t, r, "a.example", resolver.A)); got != "ok 192.0.2.1" {
		t.Errorf("the next asker got %q", got)
	}
	if n := server.Count("a.example A"); n != 1 {
		t.Errorf("the server was asked %d times, want once", n)
	}
}

func TestOneQuestionForMany(t *testing.T) {
	t.Parallel()
	server := resolvertest.Start(t, "a.example. 60 IN A 192.0.2.1")
	r := newResolver(t, resolver.Config{Patience: patient}, server)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if _, err := r.Ask(t.Context(), resolver.Question{Name: "a.example", Kind: resolver.A}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := server.Count("a.example A"); n != 1 {
		t.Errorf("the server was asked %d times, want once", n)
	}
}

func TestSecondAttempt(t *testing.T) {
	t.Parallel()
	const zone = "a.example. 60 IN A 192.0.2.1"
	lose := func(dns.ResponseWriter, *dns.Msg) {}
	t.Run("a packet is lost", func(t *testing.T) {
		t.Parallel()
		server := resolvertest.Start(t, zone)
		server.Handle("a.example", func(w dns.ResponseWriter, r *dns.Msg) {
			if server.Count("a.example A") > 1 {
				_ = w.WriteMsg(server.Reply(r))
			}
		})
		if got := describe(ask(t, newResolver(t, resolver.Config{}, server), "a.example",
			resolver.A)); got != "ok 192.0.2.1" {
			t.Error(got)
		}
	})
	t.Run("the first server is silent", func(t *testing.T) {
		t.Parallel()
		first, second := resolvertest.Start(t, zone), resolvertest.Start(t, zone)
		first.Handle("a.example", lose)
		if got := describe(ask(t, newResolver(t, resolver.Config{}, first, second), "a.example",
			resolver.A)); got != "ok 192.0.2.1" {
			t.Error(got)
		}
	})
	t.Run("the first server fails", func(t *testing.T) {
		t.Parallel()
		first, second := resolvertest.Start(t, zone), resolvertest.Start(t, zone)
		first.Handle("a.example", forge(first, func(m *dns.Msg, _ bool) {
			m.Rcode, m.Answer = dns.RcodeServerFailure,
				nil
		}))
		r := newResolver(t, resolver.Config{Patience: patient}, first, second)
		if got := describe(ask(t, r, "a.example", resolver.A)); got != "ok 192.0.2.1" {
			t.Error(got)
		}
	})
	t.Run("nobody listens", func(t *testing.T) {
		t.Parallel()
		r := newResolver(t, resolver.Config{Servers: []string{"127.0.0.1:1"}, Lifetime: time.Second})
		if a, err := r.Ask(t.Context(), resolver.Question{Name: "a.example", Kind: resolver.A}); err == nil {
			t.Errorf("answered %v", a)
		}
	})
}

func TestBusyAndClosed(t *testing.T) {
	t.Parallel()
	server := resolvertest.Start(t, "")
	server.Handle("extra.example", func(dns.ResponseWriter, *dns.Msg) {})
	r := resolver.New(resolver.Config{Servers: []string{server.Addr}, Patience: time.Minute, Lifetime: time.Minute})
	released := make(chan struct{})
	const flights = 512
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	for i := range flights {
		name := fmt.Sprintf("n%d.example", i)
		server.Handle(name, func(dns.ResponseWriter, *dns.Msg) { server.Wait(released) })
		wg.Go(func() { _, _ = r.Ask(ctx, resolver.Question{Name: name, Kind: resolver.A}) })
		if i%64 == 63 { // as many as a socket's buffer surely takes
			waitFor(t, func() bool { return len(server.Asked()) == i+1 })
		}
	}
	if _, err := r.Ask(ctx, resolver.Question{Name: "extra.example", Kind: resolver.A}); !errors.Is(err,
		resolver.ErrBusy) {
		t.Errorf("one question more gives %v", err)
	}
	close(released)
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if _, err := r.Ask(ctx, resolver.Question{Name: "extra.example", Kind: resolver.A}); !errors.Is(err,
		resolver.ErrClosed) {
		t.Errorf("after closing: %v", err)
	}
	cancel()
	wg.Wait()
}

func waitFor(t *testing.T, holds func() bool) {
	t.Helper()
	end := time.After(patient)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatal("it never came to be")
		}
	}
}
