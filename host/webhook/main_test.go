package webhook

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/net/dns/dnsmessage"

	"assay/host/keyring"
	"assay/host/postgres/postgrestest"
	"assay/host/store"
)

// testRing is the secret of the tests' databases.
var testRing *keyring.Ring

func TestMain(m *testing.M) {
	if url := os.Getenv(asVictim); url != "" {
		os.Exit(beVictim(url))
	}
	os.Exit(func() int {
		// Nothing listens there: whatever heeds the environment's proxy does not arrive.
		for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY"} {
			os.Setenv(name, "http://127.0.0.1:1")
		}
		if err := loadRing(); err != nil {
			panic(err)
		}
		postgrestest.Prepare(func(ctx context.Context, url string) error {
			s, err := store.Open(ctx, store.Config{URL: url, Keys: testRing, Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				return err
			}
			return s.Close()
		})
		code := postgrestest.Main(m)
		if code == 0 {
			if err := goleak.Find(); err != nil {
				fmt.Fprintln(os.Stderr, "goroutines outlive their tests:", err)
				code = 1
			}
		}
		return code
	}())
}

// loadRing sets testRing.
func loadRing() error {
	dir, err := os.MkdirTemp("", "assay-webhook-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "secret")
	if err := os.WriteFile(file, []byte(base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("w"), 32))),
		0o600); err != nil {
		return err
	}
	testRing, err = keyring.Load(file)
	return err
}

// patience bounds every wait for a condition; no test passes by waiting it out.
const patience = time.Minute

// until waits for a condition.
func until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

func newGuard(t testing.TB, allow ...string) *Guard {
	t.Helper()
	var networks []netip.Prefix
	for _, text := range allow {
		networks = append(networks, netip.MustParsePrefix(text))
	}
	g, err := NewGuard(networks)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// delivery is one of no outbox.
func delivery(url string) store.Delivery {
	return store.Delivery{Ref: "chk_01KF0HBGZ0Q8WJ3V5N7T9R2M4C", Account: "acct_1", Event: "check.blocked", Number: 2,
		Sequence: 17,
		Body:     []byte(`{"event":"check.blocked"}`), URL: url, Secrets: []string{"whsec_c2VjcmV0IG9uZQ=="}}
}

// nameServer is a DNS server on loopback. It answers a name's look-ups from its list, each time the next set, the last
// one over and over.
type nameServer struct {
	*net.Resolver
	mu     sync.Mutex
	names  map[string][][]netip.Addr
	asked  map[string]int
	alias  map[string]string // CNAME
	socket net.PacketConn
}

func startNameServer(t testing.TB, names map[string][][]netip.Addr) *nameServer {
	t.Helper()
	socket, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &nameServer{names: names, asked: map[string]int{}, alias: map[string]string{}, socket: socket}
	s.Resolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", socket.LocalAddr().String())
	}}
	served := make(chan struct{})
	go func() { defer close(served); s.serve() }()
	t.Cleanup(func() { socket.Close(); <-served })
	return s
}

func (s *nameServer) serve() {
	buf := make([]byte, 1500)
	for {
		n, from, err := s.socket.ReadFrom(buf)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if m.Unpack(buf[:n]) != nil || len(m.Questions) != 1 {
			continue
		}
		out, err := s.answer(m)
		if err == nil {
			_, _ = s.socket.WriteTo(out, from)
		}
	}
}

// answer counts a name's A queries; AAAA queries get the same set.
func (s *nameServer) answer(m dnsmessage.Message) ([]byte, error) {
	q := m.Questions[0]
	name := q.Name.String()
	s.mu.Lock()
	defer s.mu.Unlock()
	reply := dnsmessage.Message{Header: dnsmessage.Header{ID: m.ID, Response: true, RecursionAvailable: true},
		Questions: m.Questions}
	if to, ok := s.alias[name]; ok {
		reply.Answers = append(reply.Answers,
			dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class},
				Body: &dnsmessage.CNAMEResource{CNAME: dnsmessage.MustNewName(to)}})
		name, q.Name = to, dnsmessage.MustNewName(to)
	}
	sets, ok := s.names[name]
	if !ok {
		reply.RCode = dnsmessage.RCodeNameError
		return reply.Pack()
	}
	for _, addr := range sets[min(s.asked[name], len(sets)-1)] {
		header := dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class}
		switch {
		case addr.Is4() && q.Type == dnsmessage.TypeA:
			reply.Answers = append(reply.Answers,
				dnsmessage.Resource{Header: header, Body: &dnsmessage.AResource{A: addr.As4()}})
		case addr.Is6() && q.Type == dnsmessage.TypeAAAA:
			reply.Answers = append(reply.Answers,
				dnsmessage.Resource{Header: header, Body: &dnsmessage.AAAAResource{AAAA: addr.As16()}})
		}
	}
	return reply.Pack()
}

// called makes one name an alias of another.
func (s *nameServer) called(name, other string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.alias[name] = other
}

// next makes a name's following look-ups get its next set.
func (s *nameServer) next(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[name]++
}
