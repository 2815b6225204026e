package resolver_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/miekg/dns"

	"assay/host/facts/resolver"
	"assay/host/facts/resolver/resolvertest"
	"assay/registry/expect"
)

var sameAnswer = cmp.Options{cmpopts.EquateComparable(netip.Addr{}), cmpopts.EquateEmpty()}

// lookUpNext looks up the i-th of a series of different names.
func lookUpNext(t *testing.T, r *resolver.Resolver, i int) error {
	t.Helper()
	_, err := r.Lookup(t.Context(), resolver.Question{Name: fmt.Sprintf("n%d.example", i), Type: resolver.A})
	return err
}

// TestUnresponsiveServers checks that lookups fail at once while no server responds, and recover with the servers.
func TestUnresponsiveServers(t *testing.T) {
	t.Parallel()
	server := resolvertest.Start(t, "")
	server.HandleAll(func(dns.ResponseWriter, *dns.Msg) {})
	stopped := expect.NewClock(time.Unix(1e9, 0)) // so that the host is never late
	r := newResolver(t, resolver.Config{Patience: 20 * time.Millisecond, Timeout: 50 * time.Millisecond,
		ProbeInterval: 50 * time.Millisecond, Now: stopped.Now}, server)
	n := 0
	next := func() error { n++; return lookUpNext(t, r, n) }
	expect.Until(t, "lookups that do not wait for an unresponsive server", func() bool {
		return errors.Is(next(), resolver.ErrUnresponsive)
	})
	server.HandleAll(nil)
	expect.Until(t, "a lookup by the server that responds again", func() bool { return next() == nil })
}

// TestHangingNames checks that names whose servers hang, which anyone can submit, do not make the resolver look down.
func TestHangingNames(t *testing.T) {
	t.Parallel()
	server := resolvertest.Start(t, "good.example. 300 IN A 192.0.2.1")
	const hanging = 40
	for i := range hanging {
		server.Handle(fmt.Sprintf("n%d.example.", i), func(dns.ResponseWriter, *dns.Msg) { server.Wait(nil) })
	}
	r := newResolver(t, resolver.Config{Patience: time.Millisecond, Timeout: 50 * time.Millisecond,
		ProbeInterval: patient}, server)
	for i := range hanging {
		if err := lookUpNext(t, r, i); err == nil || errors.Is(err, resolver.ErrUnresponsive) {
			t.Fatalf("lookup %d of a hanging name: %v", i, err)
		}
	}
	expect.Until(t, "the address of good.example", func() bool {
		_, err := r.Lookup(t.Context(), resolver.Question{Name: "good.example", Type: resolver.A})
		expect.Must(t, !errors.Is(err, resolver.ErrUnresponsive), "looking up good.example: %v", err)
		return err == nil
	})
}

// TestFalseAnswers checks that nothing is learned from a server that gives false answers, until it is honest again.
func TestFalseAnswers(t *testing.T) {
	t.Parallel()
	type testCase struct {
		handler dns.HandlerFunc
		problem string
	}
	expect.Each(t, map[string]testCase{
		"answers everything": {resolvertest.Redirect, "answers for names that do not exist"},
		"denies everything":  {resolvertest.Deny, "denies names that exist"},
		"refuses everything": {func(w dns.ResponseWriter, r *dns.Msg) {
			_ = w.WriteMsg(new(dns.Msg).SetRcode(r, dns.RcodeRefused))
		}, ""},
		"answers nothing": {nil, ""},
	}, func(t *testing.T, tc testCase) {
		server := resolvertest.Start(t, "a.example. 300 IN A 192.0.2.1")
		r := newResolver(t, resolver.Config{}, server)
		// verify asks the server. Without a handler it is silent, and is not waited for.
		verify := func(h dns.HandlerFunc) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if asked := new(atomic.Int32); h == nil {
				h = func(dns.ResponseWriter, *dns.Msg) {
					if asked.Add(1) == 4 {
						cancel()
					}
				}
			}
			server.HandleAll(h)
			r.Verify(ctx)
		}
		r.Verify(t.Context())
		got := r.Problems()
		expect.Must(t, len(got) == 0, "problems of an honest server: %q", got)
		lookUp(t, r, "a.example", resolver.A)
		verify(tc.handler)
		_, err := r.Lookup(t.Context(), resolver.Question{Name: "a.example", Type: resolver.A})
		if tc.problem == "" {
			expect.That(t, err == nil && len(r.Problems()) == 0, "%v, problems %q: want the cached answer and none",
				err, r.Problems())
			return
		}
		expect.That(t, errors.Is(err, resolver.ErrUntrusted) && errors.Is(err, resolver.ErrUnanswered),
			"lookup of a cached name: %v, want %v", err, resolver.ErrUntrusted)
		want := []string{"the DNS server " + server.Addr + " " + tc.problem}
		expect.NoDiff(t, "problems", want, r.Problems())
		verify(nil)
		expect.NoDiff(t, "problems once the server is silent", want, r.Problems())
		server.HandleAll(nil)
		r.Verify(t.Context())
		lookUp(t, r, "a.example", resolver.A)
		expect.Equal(t, "the server was asked", server.Count("a.example A"), 2)
	})
}

// TestHonestServerAmongOthers checks that only the honest ones of several servers are asked.
func TestHonestServerAmongOthers(t *testing.T) {
	t.Parallel()
	portal, honest := resolvertest.Start(t, ""), resolvertest.Start(t, "a.example. 300 IN A 192.0.2.1")
	portal.HandleAll(resolvertest.Redirect)
	r := newResolver(t, resolver.Config{}, portal, honest)
	r.Verify(t.Context())
	expect.NoDiff(t, "addresses", addresses("192.0.2.1"), lookUp(t, r, "a.example", resolver.A).Addresses, sameAnswer)
	expect.Equal(t, "the server with false answers was asked", portal.Count("a.example A"), 0)
	expect.Equal(t, "problems", len(r.Problems()), 1)
}
