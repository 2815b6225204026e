package lineup

import (
	"strings"
	"testing"

	"assay/host/postgres/postgrestest"
	"assay/host/store"
	"assay/registry"
)

// builtIn returns a module for each layer of the default lineup, all with the given version and points.
func builtIn(t *testing.T, version string, points byte) []registry.Module {
	t.Helper()
	l, err := registry.DefaultLineup()
	if err != nil {
		t.Fatal(err)
	}
	var modules []registry.Module
	for _, layer := range l.Layers {
		modules = append(modules, module(t, layer.Layer, version, points))
	}
	return modules
}

// install installs modules and returns the revision that is active afterwards.
func install(t *testing.T, s *store.Store, modules []registry.Module) (updatable bool, active registry.LineupRevision) {
	t.Helper()
	updatable, err := Install(t.Context(), s, modules)
	if err != nil {
		t.Fatal(err)
	}
	if active, err = s.ActiveLineup(t.Context()); err != nil {
		t.Fatal(err)
	}
	return updatable, active
}

func wantActive(t *testing.T, when string, active registry.LineupRevision, revision int64, version string, updatable,
	wantUpdatable bool) {
	t.Helper()
	if active.Revision != revision || updatable != wantUpdatable {
		t.Errorf("%s: revision %d, updatable %v, want revision %d, updatable %v", when, active.Revision, updatable,
			revision, wantUpdatable)
	}
	for _, layer := range active.Lineup.Layers {
		if _, v, _ := layer.Ref(); v != version {
			t.Errorf("%s: layer %s, want version %s", when, layer.Layer, version)
		}
	}
}

func TestInstallUpdatesUntilAnOperatorSetsALineup(t *testing.T) {
	t.Parallel()
	h := newHost(t, postgrestest.Database(t))
	old, next, last := builtIn(t, "1.0.0", 1), builtIn(t, "1.1.0", 2), builtIn(t, "1.2.0", 3)
	updatable, active := install(t, h.store, old)
	wantActive(t, "first start", active, 1, "1.0.0", updatable, false)
	h.follow(t, 1)
	updatable, active = install(t, h.store, old)
	wantActive(t, "second start", active, 1, "1.0.0", updatable, false)
	updatable, active = install(t, h.store, next)
	wantActive(t, "start of a newer host", active, 2, "1.1.0", updatable, false)
	if active.Origin != registry.OriginBuiltIn {
		t.Errorf("origin %s, want built-in", active.Origin)
	}
	custom := active.Lineup
	custom.Bias = -2
	h.activate(t, custom)
	updatable, active = install(t, h.store, next)
	wantActive(t, "the operator's lineup of the same layers", active, 3, "1.1.0", updatable, false)
	updatable, active = install(t, h.store, last)
	wantActive(t, "the operator's lineup of older layers", active, 3, "1.1.0", updatable, true)
	plugins, err := h.store.Plugins(t.Context())
	if err != nil || len(plugins) != 3*len(old) {
		t.Errorf("%d plugins, %v, want all three versions", len(plugins), err)
	}
	for _, p := range plugins {
		if !p.FirstParty {
			t.Errorf("%s@%s is not first-party", p.Name, p.Version)
		}
	}
}

// An operator's rollback to an older built-in lineup survives restarts.
func TestInstallKeepsARollback(t *testing.T) {
	t.Parallel()
	h := newHost(t, postgrestest.Database(t))
	install(t, h.store, builtIn(t, "1.0.0", 1))
	install(t, h.store, builtIn(t, "1.1.0", 2))
	if err := h.store.RollbackLineup(t.Context(), 1, "1.1.0 blocks too much"); err != nil {
		t.Fatal(err)
	}
	updatable, active := install(t, h.store, builtIn(t, "1.1.0", 2))
	wantActive(t, "start after a rollback", active, 1, "1.0.0", updatable, true)
	// After a rollback to the newest revision, updates continue.
	if err := h.store.RollbackLineup(t.Context(), 2, "1.1.0 was not the cause"); err != nil {
		t.Fatal(err)
	}
	updatable, active = install(t, h.store, builtIn(t, "1.2.0", 3))
	wantActive(t, "start of a newer host", active, 3, "1.2.0", updatable, false)
}

// Between releases, code changes under one version. The digest in the version's build metadata distinguishes them.
func TestInstallPublishesChangedCodeUnderItsDigest(t *testing.T) {
	t.Parallel()
	h := newHost(t, postgrestest.Database(t))
	install(t, h.store, builtIn(t, "1.0.0", 1))
	changed := builtIn(t, "1.0.0", 2)
	_, active := install(t, h.store, changed)
	if active.Revision != 2 {
		t.Errorf("revision %d, want 2", active.Revision)
	}
	for i, layer := range active.Lineup.Layers {
		_, version, _ := layer.Ref()
		if want := "1.0.0+" + changed[i].Digest.String()[len("sha256:"):][:12]; version != want {
			t.Errorf("version %s, want %s", version, want)
		}
	}
	h.follow(t, 2)
	_, active = install(t, h.store, changed)
	if active.Revision != 2 {
		t.Errorf("installing the same code again created revision %d", active.Revision)
	}
}

func TestInstallRequiresEveryDefaultLayer(t *testing.T) {
	t.Parallel()
	h := newHost(t, postgrestest.Database(t))
	modules := builtIn(t, "1.0.0", 1)
	missing := modules[0].Manifest.Name
	if _, err := Install(t.Context(), h.store, modules[1:]); err == nil || !strings.Contains(err.Error(), missing) {
		t.Errorf("installing without %s: %v", missing, err)
	}
	if n, err := h.store.ActiveRevision(t.Context()); err != nil || n != 0 {
		t.Errorf("revision %d, %v, want none", n, err)
	}
}

func TestTryReportsEveryUnloadableLayer(t *testing.T) {
	t.Parallel()
	h := newHost(t, postgrestest.Database(t))
	h.publish(t, module(t, "probe", "1.0.0", 10), brokenModule(t, "broken", "1.0.0"))
	if err := Try(t.Context(), h.store, h.box, lineupOf(0, "probe@1.0.0")); err != nil {
		t.Errorf("trying a good lineup: %v", err)
	}
	err := Try(t.Context(), h.store, h.box, lineupOf(0, "probe@1.0.0", "broken@1.0.0", "absent@2.0.0"))
	for _, want := range []string{"broken@1.0.0", "absent@2.0.0"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("trying a bad lineup: %v, want an error that names %s", err, want)
		}
	}
}
