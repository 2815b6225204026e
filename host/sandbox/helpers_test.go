package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"
	"time"

	"go.uber.org/goleak"

	"assay/host/check"
	"assay/host/entity"
	"assay/registry"
	"assay/registry/expect"
)

func TestMain(m *testing.M) {
	if runAsCompiler() {
		return
	}
	goleak.VerifyTestMain(m)
}

// Signal codes of the tests' manifest.
const (
	codeOne = "test:signal:one"
	codeTwo = "test:signal:two"
)

// testEntity is the entity that the hostile guests are called with.
const testEntity = "hostile.example"

func manifest() map[string]any {
	return map[string]any{
		"name": "guest", "version": "1.0.0", "summary": "A test's layer", "entities": []string{"domain"},
		"facts":   []string{"entity.value", "config.mode"},
		"signals": []map[string]string{{"code": codeOne, "text": "One"}, {"code": codeTwo, "text": "Two"}},
		"threats": []string{"phishing", "scam"}, "budget_fuel": registry.MaxBudget, "memory_mb": 1,
	}
}

func marshal(manifest map[string]any) []byte {
	text, err := json.Marshal(manifest)
	if err != nil {
		panic(err)
	}
	return text
}

func pack(t testing.TB, wasm []byte, manifest map[string]any) registry.Module {
	t.Helper()
	return openModule(t, expect.Value(registry.Pack(wasm, marshal(manifest), nil))(t))
}

func openModule(t testing.TB, packed []byte) registry.Module {
	t.Helper()
	return expect.Value(registry.OpenModule(packed))(t)
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// sandboxOf returns a sandbox without a cache folder.
func sandboxOf(t testing.TB, instances int) *Sandbox {
	t.Helper()
	return New(Config{Instances: instances, Logger: discard()})
}

// open opens a plugin that the caller closes. Its calls have much processor time, because the machine may be slow.
func open(t testing.TB, s *Sandbox, m registry.Module) *Plugin {
	t.Helper()
	p := expect.Value(s.Open(t.Context(), m))(t)
	p.bounds.time = patience
	return p
}

// openIn opens a plugin and closes it at the end of the test.
func openIn(t testing.TB, s *Sandbox, m registry.Module) *Plugin {
	t.Helper()
	p := open(t, s, m)
	t.Cleanup(func() { closePlugin(t, p) })
	return p
}

// openGuest opens a guest with the tests' manifest in a sandbox of its own, with two instances.
func openGuest(t testing.TB, g *guest) *Plugin {
	t.Helper()
	return openIn(t, sandboxOf(t, 2), pack(t, g.encode(), manifest()))
}

// openError returns the error of opening a module, which must not succeed.
func openError(t testing.TB, s *Sandbox, m registry.Module) error {
	t.Helper()
	p, err := s.Open(t.Context(), m)
	if err == nil {
		closePlugin(t, p)
		t.Fatal("the module was opened")
	}
	return err
}

func closePlugin(t testing.TB, p *Plugin) {
	t.Helper()
	expect.Error(t, "closing plugin", p.Close(t.Context()), nil)
}

// facts returns the input of a call: an entity, and the lineup's setting of config.mode.
func facts(value, mode string) check.Input {
	return check.Input{Entity: entity.Facts{"entity.value": value, "entity.type": "domain"},
		Config: map[string]string{"mode": mode}}
}

// refusalOf returns err as a *refusal, which is not a *check.Failure.
func refusalOf(t testing.TB, err error) *refusal {
	t.Helper()
	var refused *refusal
	expect.Must(t, !errors.As(err, new(*check.Failure)) && errors.As(err, &refused), "%v is not a refusal", err)
	return refused
}

// failureOf returns err as a *check.Failure.
func failureOf(t testing.TB, err error) *check.Failure {
	t.Helper()
	var failure *check.Failure
	expect.Must(t, errors.As(err, &failure), "%v is not a *check.Failure", err)
	return failure
}

// scoreOf calls a plugin without a deadline.
func scoreOf(p *Plugin, value string) (check.Result, error) {
	return p.Score(context.Background(), facts(value, ""))
}

// patience is the longest wait for a condition. A test that waits that long fails.
const patience = 2 * time.Minute
