package lineup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"assay/host/auditlog"
	"assay/host/store/postgres/postgrestest"
	"assay/host/store/storetest"
	"assay/registry"
	"assay/registry/activation"
	"assay/registry/expect"
)

// builtIn returns a module for each layer of the default lineup, all with the given version and points.
func builtIn(t *testing.T, version string, points byte) []registry.Module {
	t.Helper()
	l := expect.Value(registry.DefaultLineup())(t)
	var modules []registry.Module
	for _, layer := range l.Layers {
		modules = append(modules, module(t, layer.Layer, version, points))
	}
	return modules
}

func (h *host) installer() *Installer {
	return &Installer{Catalog: h.store, Verifier: h.verifier, Operator: &operator, Log: storetest.Discard(),
		Now: time.Now}
}

// install installs modules and returns the lineup that is active afterwards. It checks the revision, the version of
// every layer unless it is "", and whether the operator's lineup can be updated.
func install(t *testing.T, h *host, modules []registry.Module, when string, revision int64, version string,
	updatable bool) registry.LineupRevision {
	t.Helper()
	expect.Equal(t, when+": updatable", expect.Value(h.installer().Install(t.Context(), modules))(t), updatable)
	active := expect.Value(h.store.ActiveLineup(t.Context()))(t)
	expect.Equal(t, when+": revision", active.Revision, revision)
	for _, layer := range active.Lineup.Layers {
		_, v, _ := layer.Ref()
		expect.That(t, version == "" || v == version, "%s: layer %s, want version %s", when, layer.Layer, version)
	}
	return active
}

func TestInstallUpdatesUntilAnOperatorSetsALineup(t *testing.T) {
	t.Parallel()
	h := newHost(t, postgrestest.Database(t))
	old, next, last := builtIn(t, "1.0.0", 1), builtIn(t, "1.1.0", 2), builtIn(t, "1.2.0", 3)
	missing := old[0].Manifest.Name
	expect.ErrorText(t, "installing without "+missing,
		expect.ErrorOf(h.installer().Install(t.Context(), old[1:])), missing)
	expect.Equal(t, "activations without it", h.last(t).Number, 0)
	install(t, h, old, "first start", 1, "1.0.0", false)
	h.follow(t, 1)
	install(t, h, old, "second start", 1, "1.0.0", false)
	active := install(t, h, next, "start of a newer host", 2, "1.1.0", false)
	expect.Equal(t, "origin", active.Origin, registry.OriginBuiltIn)
	custom := active.Lineup
	custom.Bias = registry.ForAll(-2)
	h.activate(t, custom)
	install(t, h, next, "the operator's lineup of the same layers", 3, "1.1.0", false)
	install(t, h, last, "the operator's lineup of older layers", 3, "1.1.0", true)
	plugins, err := h.store.Plugins(t.Context())
	expect.That(t, err == nil && len(plugins) == 3*len(old), "%d plugins, %v, want all three versions", len(plugins),
		err)
	for _, p := range plugins {
		expect.That(t, p.FirstParty, "%s@%s is not first-party", p.Name, p.Version)
	}
}

// All hosts prepare newer built-in layers first. If one of them cannot, what is in force stays. No canary is ended.
func TestInstallPreparesHosts(t *testing.T) {
	t.Parallel()
	h := newHost(t, postgrestest.Database(t))
	var asked []string
	refusal := errors.New("host b:1 refused: no memory left")
	in := h.installer()
	in.Prepare = func(_ context.Context, next activation.Activation) (func() error, error) {
		asked = append(asked, fmt.Sprint("activation ", next.Number, " after ", h.last(t).Number))
		return func() error { asked = append(asked, fmt.Sprint("done with ", h.last(t).Number)); return nil }, refusal
	}
	step := func(when string, modules []registry.Module, updatable bool, want ...string) {
		t.Helper()
		asked = nil
		expect.Equal(t, when+": updatable", expect.Value(in.Install(t.Context(), modules))(t), updatable)
		expect.NoDiff(t, when, want, asked)
	}
	step("first start", builtIn(t, "1.0.0", 1), false)
	step("second start", builtIn(t, "1.0.0", 1), false)
	step("newer layers that a host refuses", builtIn(t, "1.1.0", 2), true, "activation 2 after 1")
	expect.Equal(t, "in force", h.last(t).Number, 1)
	refusal = nil
	step("newer layers", builtIn(t, "1.1.0", 2), false, "activation 2 after 1", "done with 2")
	canary := expect.Value(h.store.ActiveLineup(t.Context()))(t).Lineup
	canary.Bias = registry.ForAll(-2)
	running := &activation.Canary{Lineup: h.storeLineup(t, canary), Share: 5}
	h.change(t, Proposal{Lineup: h.last(t).Lineup, Canary: running})
	step("newer layers during a canary", builtIn(t, "1.2.0", 3), true)
	expect.NoDiff(t, "canary", running, h.last(t).Canary)
	h.change(t, Proposal{Lineup: h.last(t).Lineup})
	step("newer layers after it", builtIn(t, "1.2.0", 3), false, "activation 5 after 4", "done with 5")
}

// An operator's rollback to an older built-in lineup survives restarts.
func TestInstallKeepsARollback(t *testing.T) {
	t.Parallel()
	h := newHost(t, postgrestest.Database(t))
	install(t, h, builtIn(t, "1.0.0", 1), "first start", 1, "1.0.0", false)
	install(t, h, builtIn(t, "1.1.0", 2), "start of a newer host", 2, "1.1.0", false)
	h.rollback(t, 1)
	install(t, h, builtIn(t, "1.1.0", 2), "start after a rollback", 1, "1.0.0", true)
	// After a rollback to the newest revision, updates continue.
	h.rollback(t, 2)
	install(t, h, builtIn(t, "1.2.0", 3), "start of a newer host", 3, "1.2.0", false)
}

// Between releases, code changes under one version. The digest in the version's build metadata distinguishes them.
func TestInstallPublishesChangedCodeUnderItsDigest(t *testing.T) {
	t.Parallel()
	h := newHost(t, postgrestest.Database(t))
	install(t, h, builtIn(t, "1.0.0", 1), "first start", 1, "1.0.0", false)
	changed := builtIn(t, "1.0.0", 2)
	for i, layer := range install(t, h, changed, "start with changed code", 2, "", false).Lineup.Layers {
		_, version, _ := layer.Ref()
		want := "1.0.0+" + changed[i].Digest.String()[len("sha256:"):][:12]
		expect.That(t, version == want, "version %s, want %s", version, want)
	}
	h.follow(t, 2)
	install(t, h, changed, "start with the same code", 2, "", false)
}

// A lineup is refused with every layer that cannot be loaded, or does not pass its own cases in it.
func TestTry(t *testing.T) {
	t.Parallel()
	h := newHost(t, postgrestest.Database(t), module(t, "probe", "1.0.0", 10), brokenModule(t, "broken", "1.0.0"))
	manifests := expect.Value(Try(t.Context(), h.store, h.box, lineupOf(0, "probe@1.0.0"), nil))(t)
	expect.That(t, len(manifests) == 1 && manifests[0].Name == "probe", "the manifests are %+v", manifests)
	partial := lineupOf(0, "probe@1.0.0")
	partial.Layers[0].Weight = registry.ByType{"iban": 1}
	_, err := Try(t.Context(), h.store, h.box, partial, nil)
	expect.ErrorText(t, "trying a weight that lacks a type", err, "weight of probe@1.0.0: lacks a number for domain")
	_, err = Try(t.Context(), h.store, h.box, lineupOf(0, "probe@1.0.0", "broken@1.0.0", "absent@2.0.0"), nil)
	for _, want := range []string{"broken@1.0.0", "absent@2.0.0"} {
		expect.ErrorText(t, "trying a bad lineup", err, want)
	}

	published := 0
	const passes = `{"name":"any domain","type":"domain","value":"example.com","min":20,"max":20,` +
		`"codes":["test:layer:points"]}`
	for name, test := range map[string]struct{ given, want string }{
		"passes": {passes, ""},
		"another score": {strings.ReplaceAll(passes, "20", "21"),
			`case "any domain": the score is 20, outside 21 to 21`},
		"another code": {strings.Replace(passes, "layer", "absent", 1), "the signal test:absent:points is missing"},
		"another threat": {strings.Replace(passes, `"min"`, `"threat":"phishing","min"`, 1),
			`the threat is "", not "phishing"`},
		"not parsed":     {strings.Replace(passes, "example.com", "-", 1), `case "any domain": `},
		"two, both pass": {passes + "\n" + strings.Replace(passes, "any domain", "another", 1), ""},
	} {
		published++
		version := fmt.Sprintf("2.0.%d", published)
		h.publish(t, module(t, "probe", version, 20, test.given))
		_, err := Try(t.Context(), h.store, h.box, lineupOf(0, "probe@"+version), nil)
		if test.want == "" {
			expect.NoError(t, err)
			continue
		}
		expect.ErrorText(t, name, err, "running the cases of probe@"+version)
		expect.ErrorText(t, name, err, test.want)
	}
}

// A layer that is in force is not opened again, unless its settings change.
func TestTryOpensWhatChanges(t *testing.T) {
	t.Parallel()
	h := newHost(t, postgrestest.Database(t), module(t, "probe", "1.0.0", 10), brokenModule(t, "broken", "1.0.0"))
	inForce, err := Pin(t.Context(), h.store, lineupOf(0, "probe@1.0.0", "broken@1.0.0"), registry.LineupDocument{})
	expect.NoError(t, err)
	bad := inForce
	bad.Layers = slices.Clone(inForce.Layers)
	bad.Layers[0].Weight, bad.Layers[1].Fuel = registry.ByType{"iban": 1}, 7
	_, err = Try(t.Context(), h.store, h.box, bad, inForce.Layers)
	for _, want := range []string{"trying lineup: probe@1.0.0: ", "broken@1.0.0"} {
		expect.ErrorText(t, "two bad layers", err, want)
	}
	type testCase struct {
		change  func(l *registry.LineupLayer)
		refused string
	}
	expect.Each(t, map[string]testCase{
		"nothing":         {func(*registry.LineupLayer) {}, ""},
		"weight":          {func(l *registry.LineupLayer) { l.Weight = registry.ForAll(2) }, ""},
		"an unfit weight": {func(l *registry.LineupLayer) { l.Weight = registry.ByType{"iban": 1} }, "lacks a number"},
		"budget":          {func(l *registry.LineupLayer) { l.Fuel = 7 }, "broken@1.0.0"},
		"settings":        {func(l *registry.LineupLayer) { l.Config = map[string]string{"a": "b"} }, "broken@1.0.0"},
		"module":          {func(l *registry.LineupLayer) { l.Digest = registry.Digest{}.String() }, "broken@1.0.0"},
		"another's module": {func(l *registry.LineupLayer) { l.Digest = inForce.Layers[0].Digest },
			"its module is probe"},
	}, func(t *testing.T, c testCase) {
		next := inForce
		next.Layers = slices.Clone(inForce.Layers)
		c.change(&next.Layers[1])
		manifests, err := Try(t.Context(), h.store, h.box, next, inForce.Layers)
		if c.refused != "" {
			expect.ErrorText(t, "trying", err, c.refused)
		} else if err != nil || len(manifests) != 2 || manifests[1].Name != "broken" {
			t.Errorf("%+v, %v", manifests, err)
		}
	})
}

// Nothing proves who put an unsigned activation in force, or that none was signed, so a host installs nothing over it.
func TestInstallRefusesWhatIsNotSigned(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	h, db := newHost(t, url), storetest.Session(t, url)
	refused := func(when string) {
		t.Helper()
		expect.Error(t, when, expect.ErrorOf(h.installer().Install(t.Context(), builtIn(t, "1.0.0", 1))), errUnsigned)
	}
	expect.NoError(t, h.verifier.Memory.Remember(7, registry.Digest{7}))
	refused("no activation, on a host that ran signed ones")
	storetest.Exec(t, db, `INSERT INTO lineup_revisions (revision, text, digest, origin)
		VALUES (1, '{}', '\x00', 'operator')`, `INSERT INTO lineup_activations (id, revision, number, signed, hash)
		VALUES (1, 1, 1, '', '')`)
	h = newHost(t, url)
	refused("an activation without a signature")
}

// A published manifest reads as its module's, although the database stores it with more spaces and without -0.
func TestPublishedManifest(t *testing.T) {
	t.Parallel()
	h := newHost(t, postgrestest.Database(t))
	m := module(t, "large", "1.0.0", 1).Manifest
	m.DefaultWeight = math.Copysign(0, -1)
	for i := range 2_000 {
		m.Signals = append(m.Signals, registry.SignalText{Code: fmt.Sprintf("a:b:%d", i), Text: "x"})
	}
	wasm := expect.Value(registry.Pack([]byte("\x00asm\x01\x00\x00\x00"), expect.Value(json.Marshal(m))(t), nil))(t)
	h.publish(t, expect.Value(registry.OpenModule(wasm))(t))
	altered, err := auditlog.VerifyPlugins(t.Context(), h.store, trust, registry.LineupDocument{})
	expect.NoError(t, errors.Join(altered, err, expect.ErrorOf(Manifests(t.Context(), h.store))))
}
