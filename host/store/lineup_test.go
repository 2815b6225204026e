package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"assay/host/audit"
	"assay/host/postgres/postgrestest"
	"assay/registry"
)

// module returns a plugin without code, which is enough for the store.
func module(t *testing.T, name, version, summary string) registry.Module {
	t.Helper()
	manifest := must(json.Marshal(map[string]any{
		"name": name, "version": version, "summary": summary, "entities": []string{"domain"}, "budget_fuel": 10_000,
		"memory_mb": 1,
	}))(t)
	wasm := must(registry.Pack([]byte("\x00asm\x01\x00\x00\x00"), manifest))(t)
	m := must(registry.OpenModule(wasm))(t)
	return m
}

func lineupOf(layers ...string) registry.LineupDocument {
	l := registry.LineupDocument{Bias: registry.ForAll(-4), Bands: registry.Bands{Review: 40, Block: 70}}
	for _, name := range layers {
		l.Layers = append(l.Layers, registry.LineupLayer{Layer: name, Weight: registry.ForAll(6)})
	}
	return l
}

func TestPublishedVersionNeverChanges(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	first, other := module(t, "probe", "1.0.0", "Probes"), module(t, "probe", "1.0.0", "Probes differently")
	for range 2 {
		noError(t, s.PublishPlugin(t.Context(), first, "1.0.0", true))
	}
	wantError(t, "publishing other content", s.PublishPlugin(t.Context(), other, "1.0.0", true),
		registry.ErrVersionTaken)
	wantError(t, "module of a refused version", errOf(s.Module(t.Context(), other.Digest)), registry.ErrNoPlugin)
	noError(t, s.PublishPlugin(t.Context(), other, "1.0.1", false))
	for version, want := range map[string]registry.Digest{"1.0.0": first.Digest, "1.0.1": other.Digest} {
		plugin, err := s.Plugin(t.Context(), "probe", version)
		digest := plugin.Digest
		if err != nil || digest != want {
			t.Errorf("digest of %s: %v, %v, want %v", version, digest, err, want)
		}
		m, err := s.Module(t.Context(), digest)
		if err != nil || m.Digest != want || m.Manifest.Name != "probe" {
			t.Errorf("module of %s: %v, %v", version, m.Ref(), err)
		}
	}
	wantError(t, "an unknown version", errOf(s.Plugin(t.Context(), "probe", "2.0.0")), registry.ErrNoPlugin)
	plugins, err := s.Plugins(t.Context())
	if err != nil || len(plugins) != 2 || plugins[0].Version != "1.0.1" || plugins[0].FirstParty ||
		!plugins[1].FirstParty {
		t.Errorf("plugins %+v, %v", plugins, err)
	}
}

// If several hosts publish a version with different content, only one of them succeeds.
func TestConcurrentPublishing(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	hosts := []*Store{open(t, url, nil), open(t, url, nil)}
	var modules []registry.Module
	for i := range 8 {
		modules = append(modules, module(t, "probe", "1.0.0", fmt.Sprintf("Probes in way %d", i)))
	}
	passed := 0
	for _, err := range concurrently(len(modules), func(i int) error {
		return hosts[i%2].PublishPlugin(t.Context(), modules[i], "1.0.0", false)
	}) {
		if err == nil {
			passed++
		} else if !errors.Is(err, registry.ErrVersionTaken) {
			t.Error(err)
		}
	}
	if passed != 1 {
		t.Errorf("%d contents of one version were published, want 1", passed)
	}
}

func TestAlteredModuleIsRefused(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	conn := session(t, s.url)
	original, other := module(t, "probe", "1.0.0", "Probes"), module(t, "probe", "1.0.0", "Steals")
	noError(t, s.PublishPlugin(t.Context(), original, "1.0.0", false))
	for name, wasm := range map[string][]byte{
		"another module": other.Wasm, "more bytes": append([]byte{}, append(original.Wasm, 0, 1, 0)...),
		"not a module": []byte("gone"), "empty": {},
	} {
		must(conn.Exec(t.Context(), "UPDATE plugin_modules SET wasm = $1", wasm))(t)
		if m, err := s.Module(t.Context(), original.Digest); err == nil {
			t.Errorf("%s: read %s %q, want an error", name, m.Ref(), m.Manifest.Summary)
		}
	}
}

// An activation that does not know a chain, or whose revision was taken meanwhile, starts again.
func TestOutdatedActivationsStartAgain(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	must(s.ActivateLineup(t.Context(), lineupOf("probe@1.0.0"), registry.OriginOperator, ""))(t)
	for name, arguments := range map[string]string{
		"a new chain":      `1, NULL, '\x00', 'operator', '', '{}'`,
		"a taken revision": `1, '{}', '\x00', 'operator', '', '{}'`,
	} {
		_, err := s.db.ExecContext(t.Context(), "SELECT activate_lineup("+arguments+")")
		expect(t, name, sqlState(err), serializationFailure)
	}
}

func TestLineupHistory(t *testing.T) {
	t.Parallel()
	now := noon
	s := newStore(t, func() time.Time { return now })
	wantError(t, "before the first lineup", errOf(s.ActiveLineup(t.Context())), registry.ErrNoRevision)
	if n, err := s.ActiveRevision(t.Context()); err != nil || n != 0 {
		t.Errorf("before the first lineup: revision %d, %v, want 0", n, err)
	}
	one, two := lineupOf("probe@1.0.0"), lineupOf("probe@1.1.0")
	for i, step := range []struct {
		lineup registry.LineupDocument
		origin registry.LineupOrigin
		note   string
	}{{one, registry.OriginBuiltIn, "the first"}, {two, registry.OriginOperator, "sharper"}} {
		n, err := s.ActivateLineup(t.Context(), step.lineup, step.origin, step.note)
		if err != nil || n != int64(i+1) {
			t.Fatalf("activating: revision %d, %v, want %d", n, err, i+1)
		}
		active, err := s.ActiveLineup(t.Context())
		if err != nil || active.Revision != n || active.Origin != step.origin || active.Note != step.note ||
			active.Lineup.Layers[0].Layer != step.lineup.Layers[0].Layer {
			t.Errorf("active %+v, %v", active, err)
		}
	}
	wantError(t, "rolling back to an unknown revision", s.RollbackLineup(t.Context(), 9, ""), registry.ErrNoRevision)
	noError(t, s.RollbackLineup(t.Context(), 1, "too sharp"))
	active, err := s.ActiveLineup(t.Context())
	if err != nil || active.Revision != 1 || active.Note != "too sharp" || active.Origin != registry.OriginBuiltIn {
		t.Errorf("active after the rollback: %+v, %v", active, err)
	}
	if n, err := s.ActiveRevision(t.Context()); err != nil || n != 1 {
		t.Errorf("active revision after the rollback: %d, %v, want 1", n, err)
	}
	history, err := s.LineupHistory(t.Context())
	if err != nil || len(history) != 2 || history[0].Revision != 2 || history[1].Revision != 1 ||
		history[0].Note != "sharper" || history[1].Note != "too sharp" {
		t.Errorf("history %+v, %v", history, err)
	}
	wantError(t, "revision 3", errOf(s.LineupRevision(t.Context(), 3)), registry.ErrNoRevision)
	var activated []string
	for row, err := range (AuditLog{s.db}).Rows(t.Context(), 0, 0, 99) {
		if err != nil {
			t.Fatal(err)
		}
		if row.Record.Kind != audit.Lineup || row.Record.At != "2031-05-20T12:00:00.000Z" {
			t.Errorf("record %+v", row.Record)
		}
		revision, err := s.LineupRevision(t.Context(), row.Record.Revision)
		if err != nil || revision.Digest != fmt.Sprintf("sha256:%x", row.Record.Digest) {
			t.Errorf("the record of revision %d has another digest: %v", row.Record.Revision, err)
		}
		activated = append(activated, fmt.Sprint(row.Record.Revision))
	}
	if fmt.Sprint(activated) != "[1 2 1]" {
		t.Errorf("activations in the audit log: %v, want 1, 2, 1", activated)
	}
	verifyLedger(t, s)
}

func TestLineupsChangeWhileChecksAreRecorded(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	a, b := open(t, url, nil), open(t, url, nil)
	l := ledgerOn(t, a, LedgerConfig{Batch: 4})
	caller := newCaller(t, a, plan(t, "pro", 1500))
	const changes = 20
	errs := make([]error, changes)
	var wg sync.WaitGroup
	for i := range changes {
		wg.Go(func() {
			s := []*Store{a, b}[i%2]
			_, errs[i] = s.ActivateLineup(t.Context(), lineupOf("probe@1.0.0"), registry.OriginOperator, "")
		})
	}
	appended := appendAll(t, allowedMany(t, caller, 60), l)
	wg.Wait()
	noError(t, errors.Join(append(errs, appended...)...))
	if n, err := a.ActiveRevision(t.Context()); err != nil || n != changes {
		t.Errorf("revision %d, %v, want %d", n, err, changes)
	}
	expect(t, "changes in the audit log", one[int](t, a, "SELECT count(*) FROM audit_records WHERE kind = 'lineup'"),
		changes)
	verifyLedger(t, a)
}
