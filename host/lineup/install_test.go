package lineup

import (
	"strings"
	"testing"

	"assay/host/postgres/postgrestest"
	"assay/host/store"
	"assay/registry"
)

// builtIn are modules of the names that the default lineup wants, all of one version.
func builtIn(t *testing.T, version string, points byte) []registry.Module {
	t.Helper()
	l, err := registry.DefaultLineup()
	if err != nil {
		t.Fatal(err)
	}
	var modules []registry.Module
	for _, item := range l.Layers {
		modules = append(modules, layer(t, item.Layer, version, points, false))
	}
	return modules
}

// install installs and says what is active afterwards.
func install(t *testing.T, s *store.Store, modules []registry.Module) (newer bool, active store.Revision) {
	t.Helper()
	newer, err := Install(t.Context(), s, modules)
	if err != nil {
		t.Fatal(err)
	}
	if active, err = s.ActiveLineup(t.Context()); err != nil {
		t.Fatal(err)
	}
	return newer, active
}

func wantActive(t *testing.T, when string, active store.Revision, revision int64, version string, newer,
	wantNewer bool) {
	t.Helper()
	if active.Revision != revision || newer != wantNewer {
		t.Errorf("%s: revision %d, newer %v, want revision %d, newer %v", when, active.Revision, newer, revision,
			wantNewer)
	}
	for _, item := range active.Lineup.Layers {
		if _, v, _ := item.Ref(); v != version {
			t.Errorf("%s: layer %s, want version %s", when, item.Layer, version)
		}
	}
}

func TestBuiltInLineupAdvancesUntilAnOperatorActs(t *testing.T) {
	t.Parallel()
	h := newHost(t, postgrestest.Database(t))
	old, next, last := builtIn(t, "1.0.0", 1), builtIn(t, "1.1.0", 2), builtIn(t, "1.2.0", 3)
	newer, active := install(t, h.store, old)
	wantActive(t, "first start", active, 1, "1.0.0", newer, false)
	h.follow(t, 1)
	newer, active = install(t, h.store, old)
	wantActive(t, "second start", active, 1, "1.0.0", newer, false)
	newer, active = install(t, h.store, next)
	wantActive(t, "start of a newer host", active, 2, "1.1.0", newer, false)
	if active.Origin != store.BuiltIn {
		t.Errorf("origin %s", active.Origin)
	}
	mine := active.Lineup
	mine.Bias = -2
	h.activate(t, mine)
	newer, active = install(t, h.store, next)
	wantActive(t, "the operator's lineup of the same layers", active, 3, "1.1.0", newer, false)
	newer, active = install(t, h.store, last)
	wantActive(t, "the operator's lineup of older layers", active, 3, "1.1.0", newer, true)
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

// An operator who rolled back to an older built-in lineup did so for a reason: the next start leaves it.
func TestRollbackOutlivesARestart(t *testing.T) {
	t.Parallel()
	h := newHost(t, postgrestest.Database(t))
	install(t, h.store, builtIn(t, "1.0.0", 1))
	install(t, h.store, builtIn(t, "1.1.0", 2))
	if err := h.store.RollbackLineup(t.Context(), 1, "1.1.0 blocks too much"); err != nil {
		t.Fatal(err)
	}
	newer, active := install(t, h.store, builtIn(t, "1.1.0", 2))
	wantActive(t, "start after a rollback", active, 1, "1.0.0", newer, true)
	// Back on the newest, the host advances again.
	if err := h.store.RollbackLineup(t.Context(), 2, "1.1.0 was innocent"); err != nil {
		t.Fatal(err)
	}
	newer, active = install(t, h.store, builtIn(t, "1.2.0", 3))
	wantActive(t, "start of a newer host", active, 3, "1.2.0", newer, false)
}

// Between two releases the code changes without the version: the digest tells them apart.
func TestChangedCodeOfOneVersionIsPublishedApart(t *testing.T) {
	t.Parallel()
	h := newHost(t, postgrestest.Database(t))
	install(t, h.store, builtIn(t, "1.0.0", 1))
	changed := builtIn(t, "1.0.0", 2)
	_, active := install(t, h.store, changed)
	if active.Revision != 2 {
		t.Errorf("revision %d, want 2", active.Revision)
	}
	for i, item := range active.Lineup.Layers {
		_, version, _ := item.Ref()
		if want := "1.0.0+" + changed[i].Digest.String()[len("sha256:"):][:12]; version != want {
			t.Errorf("version %s, want %s", version, want)
		}
	}
	h.follow(t, 2)
	_, active = install(t, h.store, changed)
	if active.Revision != 2 {
		t.Errorf("the same code again became revision %d", active.Revision)
	}
}

func TestInstallWantsEveryLayerOfTheDefaultLineup(t *testing.T) {
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

func TestTrySaysWhatIsWrongWithALineup(t *testing.T) {
	t.Parallel()
	h := newHost(t, postgrestest.Database(t))
	h.publish(t, layer(t, "probe", "1.0.0", 10, false), layer(t, "broken", "1.0.0", 1, true))
	if err := Try(t.Context(), h.store, h.box, lineupOf(0, "probe@1.0.0")); err != nil {
		t.Errorf("a good lineup: %v", err)
	}
	err := Try(t.Context(), h.store, h.box, lineupOf(0, "probe@1.0.0", "broken@1.0.0", "absent@2.0.0"))
	for _, want := range []string{"broken@1.0.0", "absent@2.0.0"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a bad lineup: %v, want it to name %s", err, want)
		}
	}
}
