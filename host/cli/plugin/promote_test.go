package plugin

import (
	"fmt"
	"strings"
	"testing"

	"assay/registry/expect"

	lineupcmd "assay/host/cli/lineup"
	"assay/host/hosttest"
	"assay/host/lineup"
	"assay/host/store/postgres/postgrestest"
	"assay/registry"
	"assay/registry/activation"
)

// TestNextPlace checks where a promotion takes a plugin from each place.
func TestNextPlace(t *testing.T) {
	t.Parallel()
	layer := func(ref, mode string) registry.LineupLayer {
		return registry.LineupLayer{Layer: ref, Mode: mode, Weight: registry.ForAll(1)}
	}
	others := registry.LineupDocument{Layers: []registry.LineupLayer{layer("other@1.0.0", "")}}
	with := func(ref, mode string) registry.LineupDocument { return others.With(layer(ref, mode)) }
	changed := func(l registry.LineupDocument) *registry.LineupDocument { l.Bands.Review = 1; return &l }
	canary := func(l registry.LineupDocument) *registry.LineupDocument { return &l }
	for name, c := range map[string]struct {
		lineup   registry.LineupDocument
		trial    *registry.LineupDocument
		live     bool
		from, to place
		refused  string
	}{
		"not in the lineup":         {lineup: others, from: nowhere, to: inLineup},
		"off":                       {lineup: with("mine@1.0.0", "off"), from: nowhere, to: inLineup},
		"not in the lineup, live":   {lineup: others, live: true, refused: "promote it without --live first"},
		"shadow":                    {lineup: with("mine@2.0.0", "shadow"), from: inLineup, to: inCanary},
		"shadow, live":              {lineup: with("mine@2.0.0", "shadow"), live: true, from: inLineup, to: isLive},
		"another version in shadow": {lineup: with("mine@1.0.0", "shadow"), from: inLineup, to: inLineup},
		"another version in shadow, live": {lineup: with("mine@1.0.0", "shadow"), live: true,
			refused: "promote it without --live first"},
		"live":                         {lineup: with("mine@2.0.0", ""), refused: "no further step"},
		"another version is live":      {lineup: with("mine@1.0.0", "live"), from: isLive, to: inCanary},
		"another version is live, too": {lineup: with("mine@1.0.0", ""), live: true, from: isLive, to: isLive},
		"canary": {lineup: with("mine@2.0.0", "shadow"), trial: canary(with("mine@2.0.0", "")), from: inCanary,
			to: isLive},
		"canary of another version": {lineup: with("mine@1.0.0", ""), trial: canary(with("mine@2.0.0", "")),
			from: inCanary, to: isLive},
		"canary with more": {lineup: others, trial: changed(with("mine@2.0.0", "")), refused: "changes more than mine"},
		"canary of others": {lineup: others, trial: changed(others), refused: "a canary without mine@2.0.0"},
		"canary of others, live": {lineup: with("mine@2.0.0", ""), trial: changed(with("mine@2.0.0", "live")),
			refused: "a canary without mine@2.0.0 is in force"},
	} {
		base := lineup.Verified{Document: c.lineup, Trial: c.trial}
		if c.trial != nil {
			base.Canary = &activation.Canary{}
		}
		from, to, err := nextPlace(base, "mine", "mine@2.0.0", c.live)
		expect.That(t, from == c.from && to == c.to && (err != nil) == (c.refused != "") &&
			(err == nil || strings.Contains(err.Error(), c.refused)), "%s: from %q to %q, %v", name, from, to, err)
	}
}

// probeFile writes a version of a layer that emits nothing.
func probeFile(t *testing.T, version, summary string) string {
	t.Helper()
	wasm, err := registry.Pack([]byte(hosttest.EmptyLayer), fmt.Appendf(nil, `{"name":"probe","version":%q,"summary":%q,
		"entities":["domain"],"facts":[],"signals":[],"threats":[],"budget_fuel":1000,"memory_mb":1,
		"default_weight":1.5}`, version, summary), nil)
	expect.NoError(t, err)
	return hosttest.WriteFile(t, "probe.wasm", wasm)
}

func pushProbe(t *testing.T, dir, database, version string) {
	t.Helper()
	hosttest.Output(t, dir, database, "plugin", "push", probeFile(t, version, "Empty"))
}

// TestPromoteAndRetire takes a plugin from shadow to live, a newer version into a canary, and both out again.
func TestPromoteAndRetire(t *testing.T) {
	t.Parallel()
	dir, database := hosttest.DataDir(t), postgrestest.Database(t)
	hosttest.StartHost(t, dir, database)
	refused := func(want string, args ...string) {
		t.Helper()
		hosttest.WantRefusal(t, fmt.Sprintf("plugin %q", args), dir, database, nil, append([]string{"plugin"}, args...),
			want)
	}
	promote := func(want promotion, args ...string) {
		t.Helper()
		got := hosttest.OutputJSON[promotion](t, dir, database, append([]string{"plugin", "promote"}, args...)...)
		expect.That(t, got.Plugin == want.Plugin && got.From == want.From && got.To == want.To &&
			got.Next == want.Next && got.Hosts == 1 && (got.Canary != 0) == (want.To == inCanary),
			"plugin promote %q: %+v, want %+v", args, got, want)
	}
	inForce := func() lineupcmd.ShownLineup {
		return hosttest.OutputJSON[lineupcmd.ShownLineup](t, dir, database, "lineup", "show")
	}
	refused("probe was not published", "promote", "probe")
	refused("probe is not in the lineup in force", "retire", "probe")
	pushProbe(t, dir, database, "1.0.0")
	pushProbe(t, dir, database, "1.0.0-rc.1") // lower
	refused("promote it without --live first", "promote", "probe", "--live")
	refused("probe@1.0.0 was published with other code", "promote", probeFile(t, "1.0.0", "Other"))

	promote(promotion{Plugin: "probe@1.0.0", From: nowhere, To: inLineup, Next: inCanary},
		probeFile(t, "1.0.0", "Empty"))
	l := inForce().Lineup.Layer("probe")
	expect.That(t, l != nil && l.Runs() == registry.ModeShadow && l.Weight.String() == "1.5", "in shadow: %+v", l)
	promote(promotion{Plugin: "probe@1.0.0", From: inLineup, To: inCanary, Next: isLive}, "probe", "--weight", "0.1")
	if shown := inForce(); shown.Canary == nil || shown.Canary.Share != 5 || shown.Canary.Limit != "1%" {
		t.Errorf("the canary: %+v", shown.Canary)
	}
	pushProbe(t, dir, database, "1.1.0")
	refused("--force --reason TEXT", "promote", "probe") // no check was scored
	promote(promotion{Plugin: "probe@1.0.0", From: inCanary, To: isLive}, "probe", "--force", "--reason", "a test")
	shown := inForce()
	expect.That(t, shown.Canary == nil && shown.Lineup.Layer("probe").Runs() == registry.ModeLive &&
		shown.Note == "a test", "live: %+v", shown)
	refused("probe@1.0.0 is live", "promote", "probe@1.0.0")

	text := hosttest.Output(t, dir, database, "plugin", "promote", "probe", "--share", "50%", "--limit", "100%")
	hosttest.Has(t, text, "Reference values: 0 of ", "for 50% of the accounts is in force on ",
		"probe@1.1.0: live to canary.\nNext: `assay lineup hosts`")
	if got := inForce(); got.Lineup.Layer("probe").Layer != "probe@1.0.0" {
		t.Errorf("next to the canary: %+v", got.Lineup.Layer("probe"))
	}
	hosttest.PushEmpty(t, dir, database, "another", `"entities":["iban"],"facts":[],"signals":[]`)
	refused("a canary without another@1.0.0 is in force", "promote", "another")
	refused("domain@1", "retire", "domain") // it is required
	refused("--force --reason TEXT", "retire", "domain", "--force")

	hosttest.Output(t, dir, database, "plugin", "retire", probeFile(t, "9.0.0", "Any version"))
	if shown := inForce(); shown.Canary != nil || shown.Lineup.Layer("probe") != nil || shown.Revision != 1 {
		t.Errorf("after it was retired: %+v", shown)
	}
	all := hosttest.Output(t, dir, database, "layers", "list", "--all")
	expect.That(t, strings.Count(all, "probe") == 3, "published:\n%s", all)
}

// TestRetireFromCanary takes a layer out of a lineup and out of its canary, which goes on with its other changes.
func TestRetireFromCanary(t *testing.T) {
	t.Parallel()
	dir, database := hosttest.DataDir(t), postgrestest.Database(t)
	l := hosttest.OutputJSON[registry.LineupRevision](t, dir, database, "lineup", "show").Lineup
	l.Base, l.Bands.Review = "", 39
	hosttest.Output(t, dir, database, "lineup", "canary", hosttest.WriteJSON(t, l), "--share", "5%", "--limit", "100%")
	hosttest.Output(t, dir, database, "plugin", "retire", "history")
	shown := hosttest.OutputJSON[lineupcmd.ShownLineup](t, dir, database, "lineup", "show")
	expect.Must(t, shown.Canary != nil && shown.Canary.Share == 5 && shown.Lineup.Layer("history") == nil,
		"in force: %+v, canary %+v", shown.Lineup, shown.Canary)
	trial := hosttest.OutputJSON[registry.LineupRevision](t, dir, database, "lineup", "show", "--revision",
		fmt.Sprint(shown.Canary.Revision)).Lineup
	expect.That(t, trial.Bands.Review == 39 && trial.Layer("history") == nil &&
		len(trial.Layers) == len(shown.Lineup.Layers), "the canary: %+v", trial)
}
