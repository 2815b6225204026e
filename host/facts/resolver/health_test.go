package resolver_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/miekg/dns"

	"assay/host/facts/resolver"
	"assay/host/facts/resolver/resolvertest"
	"assay/registry/expect"
)

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
	stopped := &clock{now: time.Unix(1e9, 0)} // so that the host is never late
	r := newResolver(t, resolver.Config{Patience: 20 * time.Millisecond, Timeout: 50 * time.Millisecond,
		ProbeInterval: 50 * time.Millisecond, Now: stopped.Now}, server)
	deadline := time.Now().Add(patient)
	for i := 0; !errors.Is(lookUpNext(t, r, i), resolver.ErrUnresponsive); i++ {
		expect.Must(t, !time.Now().After(deadline), "lookups still wait for an unresponsive server")
	}
	server.HandleAll(nil)
	for i := 0; ; i++ {
		q := resolver.Question{Name: fmt.Sprintf("a%d.example", i), Type: resolver.A}
		if _, err := r.Lookup(t.Context(), q); err == nil {
			break
		}
		expect.Must(t, !time.Now().After(deadline.Add(patient)),
			"lookups still fail although the server responds again")
	}
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
	deadline := time.Now().Add(patient)
	for {
		_, err := r.Lookup(t.Context(), resolver.Question{Name: "good.example", Type: resolver.A})
		if err == nil {
			break
		}
		expect.Must(t, !errors.Is(err, resolver.ErrUnresponsive) && !time.Now().After(deadline),
			"looking up good.example: %v", err)
	}
}
