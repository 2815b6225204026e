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
	"assay/registry"
	"assay/registry/expect"
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

// InForce returns the operator of a data directory, and what is in force.
func InForce(ctx context.Context, b *installation.Backend, dir string) (*change.Operator, lineup.Verified, error) {
	o, err := b.Operator(ctx, &installation.Config{DataDir: dir}, terminal.Silent)
	if err != nil {
		return nil, lineup.Verified{}, err
	}
	verified, err := o.Current(ctx)
	return o, verified, err
}
