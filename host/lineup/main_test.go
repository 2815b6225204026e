package lineup

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"assay/host/check"
	"assay/host/sandbox"
	"assay/host/store"
	"assay/host/store/storetest"
	"assay/registry"
	"assay/registry/activation"
	"assay/registry/expect"
)

func TestMain(m *testing.M) { os.Exit(storetest.Main(m, openStore)) }

// openStore opens a store on the database at url.
func openStore(ctx context.Context, url string) (*store.Store, error) {
	return store.Open(ctx, store.Config{URL: url, Keys: storetest.Ring, Logger: storetest.Discard()})
}

// host is the part of a host that follows lineups.
type host struct {
	store    *store.Store
	verifier *Verifier
	box      *sandbox.Sandbox
	live     *check.Live
	follower *Follower
}

// newHost opens a host on the database at url, and publishes modules. Its follower is idle until the test calls follow
// or runs it.
func newHost(t *testing.T, url string, modules ...registry.Module) *host {
	t.Helper()
	s := storetest.Close(t, expect.Value(openStore(t.Context(), url))(t))
	box := sandbox.New(sandbox.Config{Instances: 2, Logger: storetest.Discard()})
	h := &host{store: s, box: box, live: &check.Live{}}
	h.verifier = &Verifier{Records: s, Trust: trust, Memory: expect.Value(OpenMemory(t.TempDir() + "/activation"))(t)}
	h.follower = NewFollower(h.verifier, s, h.box, h.live, storetest.Discard())
	h.follower.keepPrevious = 0
	h.publish(t, modules...)
	t.Cleanup(func() {
		h.follower.Close()
		expect.Equal(t, "open plugins after closing the follower", h.openPlugins(), 0)
	})
	return h
}

func (h *host) openPlugins() int {
	h.follower.open.mu.Lock()
	defer h.follower.open.mu.Unlock()
	return len(h.follower.open.byKey)
}

func (h *host) isOpen(m registry.Module) bool { return h.plugin(m) != nil }

// follow follows once and requires the given revision to be in force afterwards.
func (h *host) follow(t *testing.T, revision int64) {
	t.Helper()
	expect.NoError(t, h.follower.Follow(t.Context()))
	if got := h.follower.State(); got.Revision != revision || got.Refused != 0 || got.Reason != "" {
		t.Fatalf("state %+v, want revision %d", got, revision)
	}
}

func (h *host) publish(t *testing.T, modules ...registry.Module) {
	t.Helper()
	for _, m := range modules {
		expect.NoError(t, h.store.PublishPlugin(t.Context(), m, m.Manifest.Version, "", nil))
	}
}

// operator and hostKey are the keys that the hosts of these tests trust.
var (
	operator = mustKey("operator", 1)
	hostKey  = mustKey("host", 2)
	trust    = mustTrust("operator " + operator.Verifier + "\nhost " + hostKey.Verifier)
)

func mustKey(name string, seed byte) activation.Key {
	key, err := activation.NewKey(name, bytes.Repeat([]byte{seed}, 32))
	if err != nil {
		panic(err)
	}
	return key
}

func mustTrust(text string) activation.Trust {
	trust, err := activation.ParseTrust(text)
	if err != nil {
		panic(err)
	}
	return trust
}

// activate puts a lineup in force and returns its revision.
func (h *host) activate(t *testing.T, l registry.LineupDocument) int64 {
	t.Helper()
	stored := h.storeLineup(t, l)
	h.change(t, Proposal{Lineup: stored})
	return stored.Revision
}

func (h *host) storeLineup(t *testing.T, l registry.LineupDocument) activation.Lineup {
	t.Helper()
	pinned := expect.Value(Pin(t.Context(), h.store, l, registry.LineupDocument{}))(t)
	return expect.Value(StoreLineup(t.Context(), h.store, pinned, registry.OriginOperator))(t)
}

// rollback puts an earlier revision in force again.
func (h *host) rollback(t *testing.T, revision int64) {
	t.Helper()
	target, _, err := h.verifier.Earlier(t.Context(), h.last(t), revision)
	expect.NoError(t, err)
	h.change(t, Proposal{Lineup: target})
}

// last returns the last activation.
func (h *host) last(t *testing.T) activation.Activation {
	t.Helper()
	signed, ok, err := h.store.LastActivation(t.Context())
	expect.NoError(t, err)
	if !ok {
		return activation.Activation{}
	}
	return expect.Value(activation.Unverified(signed))(t)
}

// change completes a proposal and puts it in force.
func (h *host) change(t *testing.T, p Proposal) activation.Signed {
	t.Helper()
	signed := h.sign(t, p, operator)
	expect.NoError(t, h.store.Activate(t.Context(), signed))
	return signed
}

func (h *host) sign(t *testing.T, p Proposal, key activation.Key) activation.Signed {
	t.Helper()
	p.Base, p.Author, p.At = h.last(t), "ana@test", time.Now()
	return expect.Value(p.Sign(key, trust))(t)
}

// checker scores with the lineup in force and records nothing.
func (h *host) checker() *check.Checker {
	return &check.Checker{Live: h.live, Ledger: nopLedger{}, Observer: nopObserver{}, Now: time.Now,
		Deadline: 2 * time.Minute}
}

type nopLedger struct{}

func (nopLedger) Append(context.Context, ...check.Record) error { return nil }

// module returns a plugin that scores every domain with one signal of the given points. It may have test cases.
func module(t *testing.T, name, version string, points byte, cases ...string) registry.Module {
	t.Helper()
	return assemble(t, name, version, points, []byte{0, 0x0b}, cases...)
}

// brokenModule returns a plugin that traps at start.
func brokenModule(t *testing.T, name, version string) registry.Module {
	t.Helper()
	return assemble(t, name, version, 1, []byte{0, 0x00, 0x0b})
}

// assemble builds a plugin whose function _initialize has the body start.
func assemble(t *testing.T, name, version string, points byte, start []byte, cases ...string) registry.Module {
	t.Helper()
	expect.Must(t, points <= 63, "points must fit a one-byte signed LEB128 constant, at most 63")
	const code, text = "test:layer:points", "Because"
	section := func(id byte, content ...byte) []byte { return append([]byte{id, byte(len(content))}, content...) }
	str := func(s string) []byte { return append([]byte{byte(len(s))}, s...) }
	cat := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	score := cat([]byte{0, 0x41, points, 0x41, 0, 0x41, byte(len(code)), 0x41, byte(len(code)), 0x41, byte(len(text)),
		0x10, 0, 0x41, 0, 0x0b})
	wasm := cat([]byte("\x00asm\x01\x00\x00\x00"),
		section(1, 3, 0x60, 5, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0, 0x60, 0, 1, 0x7f, 0x60, 0, 0),
		section(2, cat([]byte{1}, str("assay"), str("signal"), []byte{0, 0})...), section(3, 2, 1, 2),
		section(5, 1, 1, 1, 1),
		section(7, cat([]byte{3}, str("memory"), []byte{2, 0}, str("assay_v1_score"), []byte{0, 1}, str("_initialize"),
			[]byte{0, 2})...), section(10, cat([]byte{2, byte(len(score))}, score, []byte{byte(len(start))}, start)...),
		section(11, cat([]byte{1, 0, 0x41, 0, 0x0b}, str(code+text))...))
	manifest := expect.Value(json.Marshal(map[string]any{
		"name": name, "version": version, "summary": "A layer for tests", "entities": []string{"domain"},
		"budget_fuel": 1_000_000, "memory_mb": 1, "signals": []map[string]string{{"code": code, "text": "Points"}},
	}))(t)
	packed := expect.Value(registry.Pack(wasm, manifest, []byte(strings.Join(cases, "\n"))))(t)
	return expect.Value(registry.OpenModule(packed))(t)
}

// lineupOf returns a lineup of the given layers (name@version), each with weight 10.
func lineupOf(bias float64, layers ...string) registry.LineupDocument {
	l := registry.LineupDocument{Bias: registry.ForAll(bias), Bands: registry.Bands{Review: 40, Block: 70}}
	for _, name := range layers {
		l.Layers = append(l.Layers, registry.LineupLayer{Layer: name, Weight: registry.ForAll(10)})
	}
	return l
}
