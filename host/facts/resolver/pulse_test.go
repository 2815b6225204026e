package resolver_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"assay/host/facts/resolver"
	"assay/host/facts/resolver/resolvertest"
)

// giveUp asks for a name nobody asked for before, and gives up almost at once.
func giveUp(t *testing.T, r *resolver.Resolver, i int) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err := r.Ask(ctx, resolver.Question{Name: fmt.Sprintf("n%d.example", i), Kind: resolver.A})
	return err
}

func TestDeadServersAreNotWaitedFor(t *testing.T) {
	t.Parallel()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var alive atomic.Bool
	server := &dns.Server{PacketConn: conn, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, m *dns.Msg) {
		if alive.Load() {
			_ = w.WriteMsg(new(dns.Msg).SetReply(m))
		}
	})}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = server.ActivateAndServe() }()
	t.Cleanup(func() { _ = conn.Close(); <-ended })
	r := newResolver(t, resolver.Config{Servers: []string{conn.LocalAddr().String()}, Lifetime: 50 * time.Millisecond,
		Pulse: 50 * time.Millisecond})
	until := time.Now().Add(patient)
	for i := 0; !errors.Is(giveUp(t, r, i), resolver.ErrDead); i++ {
		if time.Now().After(until) {
			t.Fatal("a server that answers nothing is waited for again and again")
		}
	}
	alive.Store(true)
	for i := 0; ; i++ {
		if _, err := r.Ask(t.Context(), resolver.Question{Name: fmt.Sprintf("a%d.example", i),
			Kind: resolver.A}); err == nil {
			break
		}
		if time.Now().After(until.Add(patient)) {
			t.Fatal("a server that lives again is not asked")
		}
	}
}

// Names whose servers hang, which anybody can ask for, must not keep others from being asked for.
func TestHangingNamesDoNotBlindTheHost(t *testing.T) {
	t.Parallel()
	server := resolvertest.Start(t, "good.example. 300 IN A 192.0.2.1")
	const hanging = 40
	for i := range hanging {
		server.Handle(fmt.Sprintf("n%d.example.", i), func(dns.ResponseWriter, *dns.Msg) { server.Wait(nil) })
	}
	r := newResolver(t, resolver.Config{Lifetime: 50 * time.Millisecond, Pulse: patient}, server)
	for i := range hanging {
		if err := giveUp(t, r, i); err == nil || errors.Is(err, resolver.ErrDead) {
			t.Fatalf("after %d names that hang: %v", i, err)
		}
	}
	until := time.Now().Add(patient)
	for {
		_, err := r.Ask(t.Context(), resolver.Question{Name: "good.example", Kind: resolver.A})
		if err == nil {
			break
		}
		if errors.Is(err, resolver.ErrDead) || time.Now().After(until) {
			t.Fatalf("a good name: %v", err)
		}
	}
}
