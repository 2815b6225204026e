package plugin

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	lineupcmd "assay/host/cli/lineup"
	"assay/host/hosttest"
	"assay/host/installation"
	"assay/host/lineup"
	"assay/host/lineup/replay"
	"assay/host/store/postgres/postgrestest"
	"assay/host/store/storetest"
	"assay/registry"
	"assay/registry/activation"
	"assay/registry/expect"
	"assay/registry/project"
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

// probeFile writes a version of a layer that emits nothing, with more at its end.
func probeFile(t *testing.T, version string, more ...byte) string {
	t.Helper()
	return hosttest.WriteFile(t, "probe.wasm", append(emptyPlugin(t, "probe", version).Wasm, more...))
}

func pushProbe(t *testing.T, dir, database, version string) {
	t.Helper()
	hosttest.Output(t, dir, database, "plugin", "push", probeFile(t, version))
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
	pushProbe(t, dir, database, "1.0.0-rc.1")         // lower
	storetest.Exec(t, storetest.Session(t, database), // which counts for nothing
		`UPDATE plugin_versions SET manifest = manifest || '{"default_weight":9}' WHERE name = 'probe'`)
	refused("promote it without --live first", "promote", "probe", "--live")
	refused("probe@1.0.0 was published with other code", "promote", probeFile(t, "1.0.0", 0, 2, 1, 'x'))

	refused("from none to shadow does not use", "promote", "probe", "--share", "50%")
	refused("need its reference", "push", probeFile(t, "1.0.0"), "--plain-http")
	promote(promotion{Plugin: "probe@1.0.0", From: nowhere, To: inLineup, Next: inCanary}, probeFile(t, "1.0.0"))
	l := inForce().Lineup.Layer("probe")
	expect.That(t, l != nil && l.Runs() == registry.ModeShadow && l.Weight.String() == "1.5", "in shadow: %+v", l)
	promote(promotion{Plugin: "probe@1.0.0", From: inLineup, To: inCanary, Next: isLive}, "probe", "--weight", "0.1")
	c := inForce().Canary
	expect.That(t, c != nil && c.Share == 5 && c.Limit == "1%", "the canary: %+v", c)
	pushProbe(t, dir, database, "1.1.0")
	refused("--force --reason TEXT", "promote", "probe") // no check was scored
	refused("from canary to live does not use", "promote", "probe", "--weight", "0.5")
	promote(promotion{Plugin: "probe@1.0.0", From: inCanary, To: isLive}, "probe", "--force", "--reason", "a test")
	shown := inForce()
	expect.That(t, shown.Canary == nil && shown.Lineup.Layer("probe").Runs() == registry.ModeLive &&
		shown.Reason == "a test", "live: %+v", shown)
	refused("probe@1.0.0 is live", "promote", "probe@1.0.0")

	text := hosttest.Output(t, dir, database, "plugin", "promote", "probe", "--share", "50%", "--limit", "100%")
	hosttest.Has(t, text, "Reference values: 0 of ", "for 50% of the accounts is in force on ",
		"probe@1.1.0: live to canary.\nNext: `assay lineup hosts`")
	expect.Equal(t, "next to the canary", inForce().Lineup.Layer("probe").Layer, "probe@1.0.0")
	hosttest.PushEmpty(t, dir, database, "another", `"entities":["iban"],"facts":[],"signals":[]`)
	refused("a canary without another@1.0.0 is in force", "promote", "another")
	refused("domain@1", "retire", "domain") // it is required
	refused("--force --reason TEXT", "retire", "domain", "--force")

	hosttest.Output(t, dir, database, "plugin", "retire", probeFile(t, "9.0.0"))
	shown = inForce()
	expect.That(t, shown.Canary == nil && shown.Lineup.Layer("probe") == nil && shown.Revision == 1,
		"after it was retired: %+v", shown)
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

// TestExchangedModule publishes a layer, and exchanges its module in the database: no command signs the other one.
func TestExchangedModule(t *testing.T) {
	t.Parallel()
	dir, database := hosttest.DataDir(t), postgrestest.Database(t)
	pushProbe(t, dir, database, "1.0.0")
	evil := expect.Value(registry.OpenModule(append(emptyPlugin(t, "probe", "1.0.0").Wasm, 0, 2, 1, 'x')))(t)
	db := storetest.Session(t, database)
	expect.Value(db.Exec(t.Context(), "INSERT INTO plugin_modules VALUES ($1, $2)", evil.Digest[:], evil.Wasm))(t)
	expect.Value(db.Exec(t.Context(), `INSERT INTO plugin_notes SELECT $1, kind, note FROM plugin_notes`,
		evil.Digest[:]))(t)
	expect.Value(db.Exec(t.Context(), "UPDATE plugin_versions SET digest = $1 WHERE name = 'probe'", evil.Digest[:]))(t)
	l := hosttest.OutputJSON[registry.LineupRevision](t, dir, database, "lineup", "show").Lineup
	l.Layers = append(l.Layers, registry.LineupLayer{Layer: "probe@1.0.0", Weight: registry.ForAll(1)})
	file := hosttest.WriteJSON(t, l)
	for _, args := range [][]string{{"plugin", "promote", "probe"}, {"lineup", "set", file}, {"lineup", "diff", file},
		{"lineup", "canary", file, "--share", "5%"}} {
		hosttest.WantRefusal(t, strings.Join(args, " "), dir, database, nil, args,
			"probe@1.0.0 was signed with the digest ")
	}
}

// TestPluginDev changes a layer while `assay plugin dev` keeps it in shadow, and interrupts the command. It shows what
// the layer does in cases and in real checks, but no value of these.
func TestPluginDev(t *testing.T) {
	t.Parallel()
	dir, database := hosttest.DataDir(t), postgrestest.Database(t)
	host := hosttest.StartHost(t, dir, database)
	store := hosttest.OpenStore(t, dir, database).Store
	issued := expect.Value(installation.IssueKey(t.Context(), store, installation.Unlimited(), "test"))(t)
	folder, _ := hosttest.NewLayer(t, "watched", project.C)
	inShadow := func() *registry.LineupLayer {
		return expect.Value(store.ActiveLineup(t.Context()))(t).Lineup.Layer("watched")
	}

	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP) // else the command would inherit that nohup ignores it
	defer signal.Stop(hangups)
	until, interrupt := session(t, hosttest.Command(t.Context(), dir, database, "plugin", "dev", folder))
	until("ok    a long number")
	until("signal   +20 watched:name:digits: Contains the number “20245”")
	until("log      debug: longest number: 5 digits")
	until("watched@0.1.0: 5 of 5 cases passed, 2 of 2 signals emitted")
	first := until("In shadow: watched@0.1.0+dev.")
	until("-- ")
	if l := inShadow(); l == nil || l.Runs() != registry.ModeShadow || !strings.Contains(first, l.Layer+",") {
		t.Errorf("after %q: %+v", first, l)
	}
	for _, value := range []string{"garden4711.example", "garden.example"} {
		hosttest.CheckOnce(host, issued.Secret, `{"domain":"`+value+`"}`)
	}
	until("traffic  2 checks, and 0 left out")
	until("traffic  1 of them (50%) have watched:name:digits")

	hosttest.ChangeLayer(t, folder, "MIN_DIGITS = 4", "MIN_DIGITS = 9") // a case fails
	until("FAIL  a long number")
	until("2 of 5 cases failed: what is in shadow stays")
	l := inShadow()
	expect.That(t, l != nil && strings.Contains(first, l.Layer+","), "after a failed case: %+v", l)
	hosttest.ChangeLayer(t, folder, "MIN_DIGITS = 9", "MIN_DIGITS = 5")
	second := until("In shadow: watched@0.1.0+dev.")
	expect.That(t, second != first, "again %s", second)
	until("-- ")
	all := interrupt(syscall.SIGHUP) // the terminal was closed
	hosttest.Has(t, all, "Taking watched@0.1.0+dev.")
	expect.Equal(t, "the layer in shadow afterwards", inShadow(), nil)
	expect.That(t, !strings.Contains(all, "garden"), "it shows values of checks:\n%s", all)

	until, interrupt = session(t, hosttest.Command(t.Context(), dir, database, "plugin", "dev", folder, "--json",
		"--force", "--reason", "a trial"))
	until(`{"event":"cases","cases":{"plugin":"watched@0.1.0","cases":[`)
	until(`{"event":"shadow","plugin":"watched@0.1.0+dev.`)
	hosttest.CheckUntilComplete(host, issued.Secret, `{"domain":"garden47110.example"}`)
	until(`{"event":"traffic","traffic":{"checks":1,"left_out":0,"signals":{"watched:name:digits":1},"flips":[`)
	hosttest.Has(t, interrupt(syscall.SIGINT), `{"event":"retired","plugin":"watched@0.1.0+dev.`)
	said := hosttest.Output(t, dir, database, "lineup", "show", "--history")
	expect.That(t, strings.Count(said, "a trial") == 2, "the reason is not that of both changes:\n%s", said)
	expect.Error(t, "the manifest's version", expect.ErrorOf(store.Plugin(t.Context(), "watched", "0.1.0")),
		registry.ErrNoPlugin) // each had a version of its own
	live, _ := hosttest.NewLayer(t, "graph", project.C)
	until, interrupt = session(t, hosttest.Command(t.Context(), dir, database, "plugin", "dev", live, "--json"))
	until(`{"event":"skipped","reason":"graph@`)
	if all := interrupt(syscall.SIGINT); strings.Contains(all, `"event":"shadow"`) {
		t.Errorf("a layer that is live is put in shadow:\n%s", all)
	}
}

// session starts a command that goes on until interrupt. until reads its output up to a line with a text.
func session(t *testing.T, cmd *exec.Cmd) (until func(text string) string, interrupt func(syscall.Signal) string) {
	t.Helper()
	out, in := io.Pipe()
	cmd.Stdout, cmd.Stderr = in, in
	expect.NoError(t, cmd.Start())
	ended := make(chan error, 1)
	go func() {
		ended <- cmd.Wait()
		in.Close()
	}()
	var all strings.Builder
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20) // a report is one line
	until = func(text string) string {
		t.Helper()
		for lines.Scan() {
			all.WriteString(lines.Text() + "\n")
			if strings.Contains(lines.Text(), text) {
				return lines.Text()
			}
		}
		t.Fatalf("the output ended before %q:\n%s", text, &all)
		return ""
	}
	return until, func(by syscall.Signal) string {
		t.Helper()
		expect.NoError(t, cmd.Process.Signal(by))
		for lines.Scan() {
			all.WriteString(lines.Text() + "\n")
		}
		err := <-ended
		expect.That(t, err == nil, "it ended with %v:\n%s", err, &all)
		return all.String()
	}
}

// TestTrafficOfALayer checks what is shown of a report: counts of the layer alone.
func TestTrafficOfALayer(t *testing.T) {
	t.Parallel()
	report := &replay.ShadowReport{LeftOut: 4, Emitted: []replay.EmittedSignals{
		{Layer: "mine", Checks: 8, Signals: map[string]int{"mine:a:b": 2, "mine:a:c": 8}},
		{Layer: "other", Checks: 8, Signals: map[string]int{"other:a:b": 2}},
	}, Report: &replay.Report{
		Signals: []replay.SignalFlips{
			{Type: "domain", From: "allow", To: "review", Layer: "mine", Code: "mine:a:b", Flips: 2},
			{Type: "domain", From: "allow", To: "block", Layer: "other", Code: "other:a:b", Flips: 1}},
		Failures: []replay.LayerFailures{{Layer: "mine", Reason: "trap", Checks: 3}, {Layer: "other", Checks: 1}},
	}}
	const want = `traffic  8 checks, and 4 left out
traffic  8 of them (100%) have mine:a:c
traffic  2 of them (25%) have mine:a:b
traffic  2 domain verdicts would go from allow to review, mostly for mine:a:b
traffic  3 calls failed (trap)
`
	expect.Equal(t, "traffic", trafficOf("mine", report).String(), want)
}
