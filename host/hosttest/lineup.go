package hosttest

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"assay/host/installation"
	"assay/host/internal/terminal"
	"assay/host/lineup"
	"assay/host/lineup/change"
	"assay/host/store"
	"assay/registry"
	"assay/registry/expect"
	"assay/registry/release"
)

// EmptyLayer is a module without signals that implements the layer interface.
const EmptyLayer = "\x00asm\x01\x00\x00\x00" + // header
	"\x01\x05\x01\x60\x00\x01\x7f" + // type () -> i32
	"\x03\x02\x01\x00" + // one function of it
	"\x05\x04\x01\x01\x01\x01" + // one page of memory
	"\x07\x1b\x02\x06memory\x02\x00\x0eassay_v1_score\x00\x00" + // exports
	"\x0a\x06\x01\x04\x00\x41\x00\x0b" // return 0

// PushEmpty publishes name@1.0.0, an empty layer, and returns what the command prints.
func PushEmpty(t *testing.T, dir, database, name, declared string) string {
	t.Helper()
	return Output(t, dir, database, "plugin", "push",
		WriteFile(t, name+".wasm", Packed(t, name, EmptyLayer, declared)))
}

// Packed returns a module with a manifest.
func Packed(t *testing.T, name, module, declared string) []byte {
	t.Helper()
	return expect.Value(registry.Pack([]byte(module), fmt.Appendf(nil, `{"name":%q,"version":"1.0.0","summary":"Empty",
		"threats":[],"budget_fuel":1000,"memory_mb":1,"default_weight":1,%s}`, name, declared), nil))(t)
}

// FailingValue is a body of a check that each layer of [PublishFailingLayers] fails for: its top-level domain has four
// letters.
const FailingValue = `{"domain":"blumen-hartmann%d.shop"}`

// PublishFailingLayers publishes four layers that fail for domains under a top-level domain of four letters, each in
// its own way, and returns them for a lineup. `plugin push` would refuse them.
func PublishFailingLayers(t *testing.T, dir string, s *store.Store) (layers []registry.LineupLayer) {
	t.Helper()
	for _, l := range []struct{ name, fail string }{
		{"trapping", "\x00"},
		{"looping", "\x03\x40\x0c\x00\x0b"},
		{"growing", "\x03\x40\x41\x01\x40\x00\x1a\x0c\x00\x0b"},             // memory.grow(1), again and again
		{"forging", "\x41\xe4\x00\x41\x20\x41\x08\x41\x20\x41\x08\x10\x01"}, // signal(100, "forged:x", "forged:x")
	} {
		body := "\x00" + // no locals
			"\x41\x10\x41\x0a\x41\xc0\x00\x41\x10\x10\x00" + // fact("domain.tld", buffer)
			"\x41\x04\x46\x04\x40" + l.fail + "\x0b" + // if it has 4 bytes
			"\x41\x00\x0b" // return 0
		sized := func(content string) string { return string(rune(len(content))) + content }
		module := "\x00asm\x01\x00\x00\x00" +
			"\x01" + sized("\x03\x60\x04\x7f\x7f\x7f\x7f\x01\x7f\x60\x00\x01\x7f\x60\x05\x7f\x7f\x7f\x7f\x7f\x00") +
			"\x02" + sized("\x02\x05assay\x04fact\x00\x00\x05assay\x06signal\x00\x02") + // imports
			"\x03" + sized("\x01\x01") + // one function
			"\x05" + sized("\x01\x01\x01\x80\x02") + // memory of one to 256 pages
			"\x07" + sized("\x02\x06memory\x02\x00\x0eassay_v1_score\x00\x02") + // exports
			"\x0a" + sized("\x01"+sized(body)) +
			"\x0b" + sized("\x02\x00\x41\x10\x0b\x0adomain.tld\x00\x41\x20\x0b\x08forged:x") // at 16 and at 32
		m := expect.Value(registry.OpenModule(expect.Value(registry.Pack([]byte(module), fmt.Appendf(nil, `{"name":%q,
			"version":"1.0.0","summary":"Fails","threats":[],"budget_fuel":1000000,"memory_mb":16,"default_weight":1,
			"class":"finding","entities":["domain"],"facts":["domain.tld"],"signals":[]}`, l.name), nil))(t)))(t)
		PublishSigned(t, dir, s, m)
		layers = append(layers, registry.LineupLayer{Layer: l.name + "@1.0.0", Weight: registry.ForAll(3)})
	}
	return layers
}

// PublishSigned publishes a module that is signed with the operator's key of a data directory.
func PublishSigned(t *testing.T, dir string, s *store.Store, m registry.Module) {
	t.Helper()
	key := expect.Value(installation.ReadKey((&installation.Config{DataDir: dir}).OperatorKeyPath()))(t)
	notes := registry.Notes{registry.NoteSignature: expect.Value(release.Sign(release.Of(m), key))(t)}
	expect.NoError(t, s.PublishPlugin(t.Context(), m, m.Manifest.Version, "", notes))
}

// WaitForScore repeats a check until its answer is as wanted: hosts follow a new lineup after a moment.
func WaitForScore(t *testing.T, host *HostProcess, key, body string, wanted func(Answer) bool) Answer {
	t.Helper()
	var last Answer
	if !Repeat(func() bool {
		last = CheckUntilComplete(host, key, body)
		return last.Status == http.StatusOK && wanted(last)
	}) {
		t.Fatalf("the host did not follow the new lineup: %+v", last)
	}
	return last
}

// ActivateLineup puts a lineup in force with the operator's key of a data directory, and returns its revision.
func ActivateLineup(ctx context.Context, b *installation.Backend, dir string, l registry.LineupDocument) (
	int64, error) {
	o, base, err := InForce(ctx, b, dir)
	if err != nil {
		return 0, err
	}
	if l, err = lineup.Pin(ctx, b.Store, l, base.Document); err != nil {
		return 0, err
	}
	stored, err := lineup.StoreLineup(ctx, b.Store, l, registry.OriginOperator)
	if err == nil {
		_, err = o.Activate(ctx, lineup.Proposal{Base: base.Activation, Lineup: stored, Reason: "a test"})
	}
	return stored.Revision, err
}

// RollbackLineup puts an earlier revision in force with the operator's key of a data directory.
func RollbackLineup(ctx context.Context, b *installation.Backend, dir string, revision int64) error {
	o, base, err := InForce(ctx, b, dir)
	if err != nil {
		return err
	}
	target, _, err := o.Earlier(ctx, base.Activation, revision)
	if err == nil {
		_, err = o.Activate(ctx, lineup.Proposal{Base: base.Activation, Lineup: target, Reason: "a test"})
	}
	return err
}

// InForce returns the operator of a data directory, and the activation in force.
func InForce(ctx context.Context, b *installation.Backend, dir string) (*change.Operator, lineup.Verified, error) {
	o, err := b.Operator(ctx, &installation.Config{DataDir: dir}, terminal.Silent)
	if err != nil {
		return nil, lineup.Verified{}, err
	}
	verified, err := o.Current(ctx)
	return o, verified, err
}
