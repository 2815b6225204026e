package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"assay/host/audit"
	"assay/host/store/postgres/postgrestest"
	"assay/registry"
	"assay/registry/activation"
)

// module returns version 1.0.0 of a plugin without code, which is enough for the store.
func module(t *testing.T, name, summary string) registry.Module {
	t.Helper()
	manifest := must(json.Marshal(map[string]any{
		"name": name, "version": "1.0.0", "summary": summary, "entities": []string{"domain"}, "budget_fuel": 10_000,
		"memory_mb": 1,
	}))(t)
	return must(registry.OpenModule(must(registry.Pack([]byte("\x00asm\x01\x00\x00\x00"), manifest, nil))(t)))(t)
}

func lineupOf(layers ...string) registry.LineupDocument {
	l := registry.LineupDocument{Bias: registry.ForAll(-4), Bands: registry.Bands{Review: 40, Block: 70}}
	for _, name := range layers {
		l.Layers = append(l.Layers, registry.LineupLayer{Layer: name, Weight: registry.ForAll(6)})
	}
	return l
}

// operator signs the activations of these tests.
var operator = func() activation.Key {
	key, err := activation.NewKey("operator", make([]byte, 32))
	if err != nil {
		panic(err)
	}
	return key
}()

// signed returns an activation of a stored lineup that follows the last one.
func signed(ctx context.Context, s *Store, revision int64, reason string) (activation.Signed, error) {
	a := activation.Activation{Number: 1, Author: "ana@test", Reason: reason, At: noon,
		Lineup: activation.Lineup{Revision: revision}}
	text, err := s.LineupText(ctx, revision)
	if err != nil {
		return activation.Signed{}, err
	}
	a.Lineup.Hash = registry.LineupHash(text)
	last, _, err := s.LastActivation(ctx)
	if err != nil {
		return activation.Signed{}, err
	}
	if last != "" {
		before, err := activation.Unverified(last)
		if err != nil {
			return activation.Signed{}, err
		}
		a.Number, a.Previous = before.Number+1, before.Hash()
	}
	note, err := activation.Sign(a, operator)
	return activation.Signed{Activation: a, Hash: a.Hash(), Note: note}, err
}

// activate puts a lineup in force and returns its revision.
func activate(ctx context.Context, s *Store, l registry.LineupDocument, origin registry.LineupOrigin, reason string) (
	int64, error) {
	text, err := l.Canonical()
	if err != nil {
		return 0, err
	}
	revision, err := s.StoreLineup(ctx, text, origin)
	if err != nil {
		return 0, err
	}
	return revision, rollback(ctx, s, revision, reason)
}

// rollback puts a stored lineup in force. If others do so at the same time, it starts again.
func rollback(ctx context.Context, s *Store, revision int64, reason string) error {
	for {
		a, err := signed(ctx, s, revision, reason)
		if err == nil {
			err = s.Activate(ctx, a)
		}
		if !errors.Is(err, activation.ErrSuperseded) {
			return err
		}
	}
}

// last returns the last activation.
func last(t *testing.T, s *Store) activation.Activation {
	t.Helper()
	signed, _, err := s.LastActivation(t.Context())
	noError(t, err)
	return must(activation.Unverified(signed))(t)
}

// Of two operators who change the lineup at the same time, only one succeeds.
func TestActivateComparesTheOneInForce(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	must(activate(t.Context(), s, lineupOf("probe@1.0.0"), registry.OriginOperator, ""))(t)
	a := must(signed(t.Context(), s, 1, "ana"))(t)
	b := must(signed(t.Context(), s, 1, "bob"))(t)
	noError(t, s.Activate(t.Context(), a))
	wantError(t, "the second operator's", s.Activate(t.Context(), b), activation.ErrSuperseded)
	lower := must(signed(t.Context(), s, 1, "again"))(t)
	lower.Number = 2
	wantError(t, "a number that was used", s.Activate(t.Context(), lower), activation.ErrSuperseded)
	got := last(t, s)
	holds(t, got.Reason == "ana" && got.Number == 2, "in force is %+v", got)
	expect(t, "activations in the audit log", rowsOf(t, s, "audit_records WHERE kind = 'activation' AND chain = 0"), 2)
	verifyLedger(t, s)

	// The revisions that checks may be recorded under are those of the activation in force, and when others ended.
	for _, layer := range []string{"probe@1.0.0", "probe@2.0.0", "probe@1.0.0"} {
		must(activate(t.Context(), s, lineupOf(layer), registry.OriginOperator, ""))(t)
	}
	expect(t, "revisions in force",
		one[string](t, s, `SELECT string_agg(revision || ' ' || (until IS NULL), ', ' ORDER BY revision)
			FROM revisions_in_force WHERE revision < 1000`),
		"1 true, 2 false")
	a = must(signed(t.Context(), s, 1, ""))(t)
	a.Canary = &activation.Canary{Lineup: activation.Lineup{Revision: 2}, Share: 5}
	noError(t, s.Activate(t.Context(), a))
	expect(t, "revisions in force with a canary", rowsOf(t, s, "revisions_in_force WHERE until IS NULL"), 2)
}

func TestLineupRevisions(t *testing.T) {
	t.Parallel()
	s := newStore(t, atNoon)
	wantError(t, "before the first lineup", errOf(s.ActiveLineup(t.Context())), registry.ErrNoRevision)
	signed, ok, err := s.LastActivation(t.Context())
	holds(t, err == nil && !ok, "before the first lineup: %q, %v", signed, err)
	one, two := lineupOf("probe@1.0.0"), lineupOf("probe@1.1.0")
	for i, step := range []struct {
		lineup registry.LineupDocument
		origin registry.LineupOrigin
		note   string
	}{{one, registry.OriginBuiltIn, "the first"}, {two, registry.OriginOperator, "sharper"}} {
		n, err := activate(t.Context(), s, step.lineup, step.origin, step.note)
		mustHold(t, err == nil && n == int64(i+1), "activating: revision %d, %v, want %d", n, err, i+1)
		active, err := s.ActiveLineup(t.Context())
		holds(t, err == nil && active.Revision == n && active.Origin == step.origin && active.Reason == step.note &&
			active.Lineup.Layers[0].Layer == step.lineup.Layers[0].Layer, "active %+v, %v", active, err)
	}
	wantError(t, "rolling back to an unknown revision", rollback(t.Context(), s, 9, ""), registry.ErrNoRevision)
	noError(t, rollback(t.Context(), s, 1, "too sharp"))
	active, err := s.ActiveLineup(t.Context())
	holds(t, err == nil && active.Revision == 1 && active.Reason == "too sharp" &&
		active.Origin == registry.OriginBuiltIn, "active after the rollback: %+v, %v", active, err)
	if a := last(t, s); a.Number != 3 || a.Lineup.Revision != 1 || a.Reason != "too sharp" {
		t.Errorf("last activation after the rollback: %+v", a)
	}
	for revision, want := range map[int64]string{1: "1 too sharp 3 ana@test", 2: "2 sharper 2 ana@test"} {
		r := must(s.LineupRevision(t.Context(), revision))(t)
		expect(t, "revision", fmt.Sprint(r.Revision, " ", r.Reason, " ", r.Activation, " ", r.Author), want)
	}
	wantError(t, "revision 3", errOf(s.LineupRevision(t.Context(), 3)), registry.ErrNoRevision)
	var activated []string
	for row, err := range s.Rows(t.Context(), 0, 0, 99) {
		noError(t, err)
		holds(t, row.Record.Kind == audit.Activation && row.Record.At == "2031-05-20T12:00:00.000Z", "record %+v",
			row.Record)
		a := must(activation.Unverified(must(s.Activation(t.Context(), registry.Digest(row.Record.Digest)))(t)))(t)
		expect(t, "the revision that a record names", a.Lineup.Revision, row.Record.Revision)
		activated = append(activated, fmt.Sprint(row.Record.Revision))
	}
	expect(t, "activations in the audit log", fmt.Sprint(activated), "[1 2 1]")
	verifyLedger(t, s)
}

func TestLineupsChangeWhileChecksAreRecorded(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	a, b := open(t, url, nil), open(t, url, nil)
	l := ledgerOn(t, a, LedgerConfig{Batch: 4})
	caller := newCaller(t, a, plan(t, "pro", 1500))
	const changes = 20
	records := allowedMany(t, caller, 60)
	noError(t, errors.Join(concurrently(changes+len(records), func(i int) error {
		if i >= changes {
			return l.Append(t.Context(), records[i-changes])
		}
		return errOf(activate(t.Context(), []*Store{a, b}[i%2], lineupOf("probe@1.0.0"), registry.OriginOperator, ""))
	})...))
	expect(t, "number of the last activation", last(t, a).Number, changes)
	expect(t, "changes in the audit log",
		rowsOf(t, a, "audit_records WHERE kind = 'activation' AND chain = 0"), changes)
	verifyLedger(t, a)
}

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
		holds(t, err == nil && digest == want, "digest of %s: %v, %v, want %v", version, digest, err, want)
		m, err := s.Module(t.Context(), digest)
		holds(t, err == nil && m.Digest == want && m.Manifest.Name == "probe", "module of %s: %v, %v", version, m.Ref(),
			err)
	}
	wantError(t, "an unknown version", errOf(s.Plugin(t.Context(), "probe", "2.0.0")), registry.ErrNoPlugin)
	plugins, err := s.Plugins(t.Context())
	holds(t, err == nil && len(plugins) == 2 && plugins[0].Version == "1.0.1" && !plugins[0].FirstParty &&
		plugins[1].FirstParty, "plugins %+v, %v", plugins, err)

	// Notes are stored with the publication or not at all. Each replaces the one of its kind.
	first, taken := module(t, "noted", "Probes"), module(t, "noted", "Probes differently")
	other = module(t, "other", "Probes")
	signed := registry.Notes{registry.NoteSignature: "a", registry.NotePassport: "b"}
	noError(t, s.PublishPlugin(t.Context(), first, "1.0.0", "", signed))
	noError(t, s.PublishPlugin(t.Context(), other, "1.0.0", "", registry.Notes{registry.NoteSignature: "o"}))
	wantError(t, "a taken version", s.PublishPlugin(t.Context(), taken, "1.0.0", "", signed), registry.ErrVersionTaken)
	noError(t, s.PublishPlugin(t.Context(), first, "1.0.0", "", nil))
	noDiff(t, "notes of one plugin", signed, must(s.PluginNotes(t.Context(), first.Digest))(t))
	noError(t, s.PublishPlugin(t.Context(), first, "1.0.0", "", registry.Notes{registry.NoteSignature: "c"}))
	want := map[registry.Digest]registry.Notes{
		first.Digest: {registry.NoteSignature: "c", registry.NotePassport: "b"},
		other.Digest: {registry.NoteSignature: "o"}}
	noDiff(t, "notes", want, must(s.AllPluginNotes(t.Context()))(t))

	// If several hosts publish a version with different content, only one of them succeeds.
	hosts := []*Store{s, open(t, s.url, nil)}
	modules := listOf(8, func(i int) registry.Module { return module(t, "contested", fmt.Sprint("Probes in way ", i)) })
	expect(t, "contents that were published", successes(t, concurrently(len(modules), func(i int) error {
		return hosts[i%2].PublishPlugin(t.Context(), modules[i], "1.0.0", "", nil)
	}), registry.ErrVersionTaken), 1)
}

// Hosts that add notes about one module at once record in the audit log what is stored.
func TestNotesAtOnce(t *testing.T) {
	t.Parallel()
	s, m := newStore(t, nil), module(t, "noted", "Probes")
	publish := func(notes registry.Notes) error { return s.PublishPlugin(t.Context(), m, "1.0.0", "", notes) }
	noError(t, publish(nil))
	heads := lockTheHeads(t, s.url)
	signature := async(func() error { return publish(registry.Notes{registry.NoteSignature: "a"}) })
	passport := async(func() error { return publish(registry.Notes{registry.NotePassport: "b"}) })
	heads.waiting(t, 2)
	heads.release(t)
	noError(t, errors.Join(<-signature, <-passport))
	wantStates(t, s)
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
			_, missing := s.Plugin(t.Context(), step.name, version)
			holds(t, (missing != nil) == (err != nil), "step %d: %v, but stored: %v", number, err, missing == nil)
		}
		refused := &registry.Refusal{}
		holds(t, errors.As(err, &refused) == (step.holder != "") && (step.holder != "" || err == nil) &&
			(step.holder == "" || strings.Contains(err.Error(), "belongs to "+step.holder+";")), "step %d, %+v: %v",
			number, step, err)
	}
	wantError(t, "a name that nobody has", s.TransferPlugin(t.Context(), registry.PluginName{Name: "nobody"}),
		registry.ErrNoPlugin)
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

	// A module that was altered in the database is refused.
	original, steals := first, module(t, "probe", "Steals")
	for name, wasm := range map[string][]byte{
		"another module": steals.Wasm, "more bytes": append([]byte{}, append(original.Wasm, 0, 1, 0)...),
		"not a module": []byte("gone"), "empty": {},
	} {
		must(conn.Exec(t.Context(), "UPDATE plugin_modules SET wasm = $1", wasm))(t)
		m, err := s.Module(t.Context(), original.Digest)
		holds(t, err != nil, "%s: read %s %q, want an error", name, m.Ref(), m.Manifest.Summary)
	}
}
