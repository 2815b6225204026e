package store

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"assay/host/store/postgres/postgrestest"
	"assay/registry"
)

func TestPublishedVersionNeverChanges(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	first, other := module(t, "probe", "Probes"), module(t, "probe", "Probes differently")
	for range 2 {
		noError(t, s.PublishPlugin(t.Context(), first, "1.0.0", registry.Release, nil))
	}
	wantError(t, "publishing other content", s.PublishPlugin(t.Context(), other, "1.0.0", registry.Release, nil),
		registry.ErrVersionTaken)
	wantError(t, "module of a refused version", errOf(s.Module(t.Context(), other.Digest)), registry.ErrNoPlugin)
	noError(t, s.PublishPlugin(t.Context(), other, "1.0.1", "", nil))
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

// A name belongs to who publishes it first, that of a built-in layer to the release, until it is transferred.
func TestNamesHaveOwners(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	number := 0
	for _, step := range []struct{ name, by, to, holder string }{
		{name: "probe", by: "ana"},
		{name: "probe", by: "ana"},
		{name: "probe", by: "bob", holder: "ana"},
		{name: "probe", by: ""}, // under development
		{name: "probe", to: "bob"},
		{name: "probe", by: "bob"},
		{name: "probe", by: "ana", holder: "bob"},
		{name: "probe", by: registry.Release}, // a later release has a layer with this name
		{name: "probe", by: "bob"},
		{name: "domain", by: "ana", holder: registry.Release}, // before the first host has published it
		{name: "domain", by: registry.Release},
		{name: "domain", by: "ana", holder: registry.Release},
		{name: "domain", to: "ana"},
		{name: "domain", by: "ana"},
		{name: "domain", by: registry.Release},
		{name: "domain", to: registry.Release},
		{name: "domain", by: "ana", holder: registry.Release},
		{name: "other", by: "ana"},
		{name: "other", by: registry.Release},
		{name: "other", by: "ana", holder: registry.Release},
		{name: "iban", to: "ana"}, // which no host has published yet
		{name: "iban", by: "ana"},
	} {
		number++
		var err error
		if step.to != "" {
			n := registry.PluginName{Name: step.name, Owner: step.to, Transfer: "signed"}
			err = s.TransferPlugin(t.Context(), n)
		} else {
			m, version := module(t, step.name, fmt.Sprint(number)), fmt.Sprintf("1.0.%d", number)
			err = s.PublishPlugin(t.Context(), m, version, step.by, nil)
			if _, missing := s.Plugin(t.Context(), step.name, version); (missing != nil) != (err != nil) {
				t.Errorf("step %d: %v, but stored: %v", number, err, missing == nil)
			}
		}
		refused := &registry.Refusal{}
		if errors.As(err, &refused) != (step.holder != "") || step.holder == "" && err != nil ||
			step.holder != "" && !strings.Contains(err.Error(), "belongs to "+step.holder+";") {
			t.Errorf("step %d, %+v: %v", number, step, err)
		}
	}
	wantError(t, "a name that nobody has", s.TransferPlugin(t.Context(), registry.PluginName{Name: "nobody"}),
		registry.ErrNoPlugin)
}

// Notes are stored with the publication or not at all. Each replaces the one of its kind.
func TestPluginNotes(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	first, taken := module(t, "probe", "Probes"), module(t, "probe", "Probes differently")
	other := module(t, "other", "Probes")
	signed := registry.Notes{registry.NoteSignature: "a", registry.NotePassport: "b"}
	noError(t, s.PublishPlugin(t.Context(), first, "1.0.0", "", signed))
	noError(t, s.PublishPlugin(t.Context(), other, "1.0.0", "", registry.Notes{registry.NoteSignature: "o"}))
	wantError(t, "a taken version", s.PublishPlugin(t.Context(), taken, "1.0.0", "", signed),
		registry.ErrVersionTaken)
	noError(t, s.PublishPlugin(t.Context(), first, "1.0.0", "", nil))
	if got := must(s.PluginNotes(t.Context(), first.Digest))(t); !maps.Equal(got, signed) {
		t.Errorf("notes %v, want %v", got, signed)
	}
	noError(t, s.PublishPlugin(t.Context(), first, "1.0.0", "", registry.Notes{registry.NoteSignature: "c"}))
	want := map[registry.Digest]registry.Notes{
		first.Digest: {registry.NoteSignature: "c", registry.NotePassport: "b"},
		other.Digest: {registry.NoteSignature: "o"}}
	if got := must(s.AllPluginNotes(t.Context()))(t); !maps.EqualFunc(got, want, maps.Equal) {
		t.Errorf("notes %v, want %v", got, want)
	}
}

// Each start of a host publishes all built-in layers, 27 MiB. Those that the database has are not sent again.
func TestPublishedModulesAreNotSentAgain(t *testing.T) {
	t.Parallel()
	needsPlainPostgres(t, "it adds triggers to tables of which each node of a cluster has a copy")
	s := newStore(t, nil)
	conn := session(t, s.url)
	first, other := module(t, "probe", "Probes"), module(t, "probe", "Probes better")
	noError(t, s.PublishPlugin(t.Context(), first, "1.0.0", registry.Release, nil))
	exec(t, conn, `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN RAISE 'a module was sent'; END $$`,
		"CREATE TRIGGER refuse BEFORE INSERT ON plugin_modules FOR EACH ROW EXECUTE FUNCTION refuse()")
	noError(t, s.PublishPlugin(t.Context(), first, "1.0.0", registry.Release, nil))
	wantError(t, "another module", s.PublishPlugin(t.Context(), other, "1.0.0", registry.Release, nil),
		registry.ErrVersionTaken)
	wantFailure(t, s.PublishPlugin(t.Context(), other, "1.0.1", registry.Release, nil),
		"a new module was published without being sent")
}

// If several hosts publish a version with different content, only one of them succeeds.
func TestConcurrentPublishing(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	hosts := []*Store{open(t, url, nil), open(t, url, nil)}
	var modules []registry.Module
	for i := range 8 {
		modules = append(modules, module(t, "probe", fmt.Sprintf("Probes in way %d", i)))
	}
	passed := 0
	for _, err := range concurrently(len(modules), func(i int) error {
		return hosts[i%2].PublishPlugin(t.Context(), modules[i], "1.0.0", "", nil)
	}) {
		if err == nil {
			passed++
		} else if !errors.Is(err, registry.ErrVersionTaken) {
			t.Error(err)
		}
	}
	expect(t, "contents of one version that were published", passed, 1)
}

func TestAlteredModuleIsRefused(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	conn := session(t, s.url)
	original, other := module(t, "probe", "Probes"), module(t, "probe", "Steals")
	noError(t, s.PublishPlugin(t.Context(), original, "1.0.0", "", nil))
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
