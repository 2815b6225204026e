package lineup

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"assay/host/check"
	"assay/host/keyring"
	"assay/host/postgres/postgrestest"
	"assay/host/sandbox"
	"assay/host/store"
	"assay/registry"
)

// testRing holds the secret that the template database was created with.
var testRing *keyring.Ring

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "assay-lineup-")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		secret := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{'a'}, 32))
		if err := os.WriteFile(filepath.Join(dir, "secret"), []byte(secret), 0o600); err != nil {
			panic(err)
		}
		if testRing, err = keyring.Load(filepath.Join(dir, "secret")); err != nil {
			panic(err)
		}
		postgrestest.Prepare(func(ctx context.Context, url string) error {
			s, err := store.Open(ctx, store.Config{URL: url, Keys: testRing, Logger: discardLogs()})
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

func discardLogs() *slog.Logger { return slog.New(slog.DiscardHandler) }

// host is the part of a host that follows lineups.
type host struct {
	store    *store.Store
	box      *sandbox.Sandbox
	live     *check.Live
	follower *Follower
}

// newHost opens a host on the database at url. Its follower is idle until the test calls follow or running.
func newHost(t *testing.T, url string) *host {
	t.Helper()
	s, err := store.Open(t.Context(), store.Config{URL: url, Keys: testRing, Logger: discardLogs()})
	if err != nil {
		t.Fatal(err)
	}
	h := &host{store: s, box: sandbox.New(sandbox.Config{Instances: 2, Logger: discardLogs()}), live: &check.Live{}}
	h.follower = NewFollower(s, h.box, h.live, discardLogs())
	t.Cleanup(func() {
		h.follower.Close()
		if n := h.openPlugins(); n != 0 {
			t.Errorf("%d plugins are still open after closing the follower", n)
		}
		if err := h.box.Close(); err != nil {
			t.Errorf("closing sandbox: %v", err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("closing store: %v", err)
		}
	})
	return h
}

// running runs the follower in the background until the test ends.
func (h *host) running(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		h.follower.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
}

func (h *host) openPlugins() int {
	h.follower.mu.Lock()
	defer h.follower.mu.Unlock()
	return len(h.follower.open)
}

func (h *host) isOpen(m registry.Module) bool {
	h.follower.mu.Lock()
	defer h.follower.mu.Unlock()
	for key := range h.follower.open {
		if key.digest == m.Digest {
			return true
		}
	}
	return false
}

// follow follows once and requires the given revision to be in force afterwards.
func (h *host) follow(t *testing.T, revision int64) {
	t.Helper()
	if err := h.follower.Follow(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := h.follower.State(); got != (State{Revision: revision}) {
		t.Fatalf("state %+v, want revision %d", got, revision)
	}
}

func (h *host) publish(t *testing.T, modules ...registry.Module) {
	t.Helper()
	for _, m := range modules {
		if err := h.store.PublishPlugin(t.Context(), m, m.Manifest.Version, false); err != nil {
			t.Fatal(err)
		}
	}
}

func (h *host) activate(t *testing.T, l registry.LineupDocument) int64 {
	t.Helper()
	revision, err := h.store.ActivateLineup(t.Context(), l, registry.OriginOperator, "")
	if err != nil {
		t.Fatal(err)
	}
	return revision
}

// checker scores with the lineup in force and records nothing.
func (h *host) checker() *check.Checker {
	return &check.Checker{Live: h.live, Ledger: nopLedger{}, Observer: nopObserver{}, Now: time.Now,
		Deadline: 10 * time.Second}
}

type nopLedger struct{}

func (nopLedger) Append(context.Context, ...check.Record) error { return nil }

// module returns a plugin that scores every domain with one signal of the given points.
func module(t *testing.T, name, version string, points byte) registry.Module {
	t.Helper()
	return assemble(t, name, version, points, []byte{0, 0x0b})
}

// brokenModule returns a plugin that traps at start.
func brokenModule(t *testing.T, name, version string) registry.Module {
	t.Helper()
	return assemble(t, name, version, 1, []byte{0, 0x00, 0x0b})
}

// assemble builds a plugin whose function _initialize has the body start.
func assemble(t *testing.T, name, version string, points byte, start []byte) registry.Module {
	t.Helper()
	if points > 63 {
		t.Fatal("points must fit a one-byte signed LEB128 constant, at most 63")
	}
	const code, text = "test:layer:points", "Because"
	section := func(id byte, content ...byte) []byte { return append([]byte{id, byte(len(content))}, content...) }
	str := func(s string) []byte { return append([]byte{byte(len(s))}, s...) }
	cat := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	score := cat([]byte{0, 0x41, points, 0x41, 0, 0x41, byte(len(code)), 0x41, byte(len(code)), 0x41, byte(len(text)),
		0x10, 0, 0x41, 0, 0x0b})
	wasm := cat([]byte("\x00asm\x01\x00\x00\x00"),
		section(1, 3, 0x60, 5, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0, 0x60, 0, 1, 0x7f, 0x60, 0, 0),
		section(2, cat([]byte{1}, str("assay"), str("signal"), []byte{0, 0})...),
		section(3, 2, 1, 2),
		section(5, 1, 1, 1, 1),
		section(7, cat([]byte{3}, str("memory"), []byte{2, 0}, str("assay_v1_score"), []byte{0, 1}, str("_initialize"),
			[]byte{0, 2})...),
		section(10, cat([]byte{2, byte(len(score))}, score, []byte{byte(len(start))}, start)...),
		section(11, cat([]byte{1, 0, 0x41, 0, 0x0b}, str(code+text))...))
	manifest, err := json.Marshal(map[string]any{
		"name": name, "version": version, "summary": "A layer for tests", "entities": []string{"domain"},
		"budget_ms": 100, "memory_mb": 1,
		"signals": []map[string]string{{"code": code, "text": "Points"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	packed, err := registry.Pack(wasm, manifest)
	if err != nil {
		t.Fatal(err)
	}
	m, err := registry.OpenModule(packed)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// lineupOf returns a lineup of the given layers (name@version), each with weight 10.
func lineupOf(bias float64, layers ...string) registry.LineupDocument {
	l := registry.LineupDocument{Bias: bias, Bands: registry.Bands{Review: 40, Block: 70}}
	for _, name := range layers {
		l.Layers = append(l.Layers, registry.LineupLayer{Layer: name, Weight: 10})
	}
	return l
}

// waitTimeout bounds every wait for a condition. Reaching it fails the test.
const waitTimeout = 30 * time.Second

// until waits for a condition to hold.
func until(t *testing.T, condition string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	deadline := time.After(waitTimeout)
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("timed out waiting for %s", condition)
		}
	}
}
