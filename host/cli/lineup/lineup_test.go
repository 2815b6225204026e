package lineup

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/host/check"
	"assay/host/hosttest"
	"assay/host/installation"
	"assay/host/lineup/replay"
	"assay/host/store/postgres/postgrestest"
	"assay/host/store/storetest"
	"assay/registry"
	"assay/registry/activation"
	"assay/registry/expect"
)

func TestMain(m *testing.M) { os.Exit(hosttest.Main(m)) }

// TestLineupConstraints sets lineups that break what signals warrant, and shows what layers may clear.
func TestLineupConstraints(t *testing.T) {
	t.Parallel()
	dir, database := hosttest.DataDir(t), postgrestest.Database(t)
	const domains = `"entities":["domain"],"facts":[]`
	hosttest.PushEmpty(t, dir, database, "others", `"entities":["email","phone","iban"],"facts":[],"signals":[]`)
	hosttest.PushEmpty(t, dir, database, "listing", domains+`,"class":"finding",
		"signals":[{"code":"listing:seen:exact","text":"Listed","points":90,"warrants":"block","final":true}]`)
	hosttest.PushEmpty(t, dir, database, "spelling", domains+`,"signals":[]`)
	pushed := hosttest.PushEmpty(t, dir, database, "age",
		domains+`,"class":"clearing","score_range":[-60,0],"signals":[]`)
	hosttest.Has(t, pushed, "Class clearing, score -60 to 0. It may clear")
	lineupWith := func(listing, spelling, age float64, floor *int) string {
		return hosttest.WriteJSON(t, registry.LineupDocument{Bias: registry.ForAll(-4),
			Bands: registry.Bands{Review: 40, Block: 70}, Layers: []registry.LineupLayer{
				{Layer: "others@1.0.0", Weight: registry.ForAll(9), Required: true},
				{Layer: "listing@1.0.0", Weight: registry.ForAll(listing), Required: true},
				{Layer: "spelling@1.0.0", Weight: registry.ByType{"domain": spelling}},
				{Layer: "age@1.0.0", Weight: registry.ForAll(age), Floor: floor},
			}})
	}
	hosttest.WantRefusal(t, "a finding below its band", dir, database, nil, []string{"lineup", "set",
		lineupWith(5, 1, 0, nil)}, "that suffices is 5.36")
	hosttest.Output(t, dir, database, "lineup", "set", lineupWith(9, 4, 4, nil), "--force", "--reason", "a test")
	diff := hosttest.Output(t, dir, database, "lineup", "diff", lineupWith(9, 5, 4, new(-30)))
	hosttest.Has(t, diff, "age: lowest score  -60         -30", "May clear: age@1.0.0 (down to -30).",
		"refuses this lineup: checking the lineup against", "domain: style must not block alone",
		"\nA weight of 1.3: a score of 100 adds 1.3 log-odds")
	expect.That(t, strings.HasPrefix(diff, "`assay lineup set` refuses this lineup: "),
		"lineup diff begins otherwise:\n%s", diff)
	light := hosttest.PushEmpty(t, dir, database, "light", domains+`,"class":"finding",
		"signals":[{"code":"light:seen:exact","text":"Listed","points":90,"warrants":"block"}]`)
	hosttest.Has(t, light,
		"light@1.0.0 has the weight 1; to be live, it needs at least domain 5.36, so that its signals reach ")
	hosttest.WantRefusal(t, "none", dir, database, nil, []string{"lineup", "show", "--revision=99"}, "no such lineup")
	hosttest.Has(t, hosttest.Output(t, dir, database, "lineup", "show"), "log-odds of the bias: -4; review from a "+
		"score", "\nA weight of 1.3: a score of 100 adds 1.3 log-odds")
	lines := hosttest.OutputJSON[[]struct {
		Name   string          `json:"name"`
		Range  [2]int          `json:"score_range"`
		Class  registry.Class  `json:"class"`
		Weight registry.ByType `json:"weight"`
	}](t, dir, database, "layers", "list")
	expect.That(t, len(lines) == 4 && lines[0].Name == "age" && lines[0].Range == [2]int{-60, 0} &&
		lines[0].Class == registry.Clearing && lines[3].Weight.String() == "domain 4", "layers list: %+v", lines)
}

// TestLineupFit fits weights. The resulting document can be measured, tried with a check, and set without changes.
// Lineups that cannot be loaded change nothing, and a rollback undoes it.
func TestLineupFit(t *testing.T) {
	t.Parallel()
	dir, database := hosttest.DataDir(t), postgrestest.Database(t)
	file := hosttest.WriteFile(t, "rows.jsonl", []byte(hosttest.Labelled))
	fitted := filepath.Join(t.TempDir(), "fitted.json")
	text := hosttest.Output(t, dir, database, "lineup", "fit", file, "-o", fitted)
	hosttest.Has(t, text, "Fitted to 16 rows", "out of fold", "BEFORE", "lineup set")
	l := expect.Value(registry.ParseLineup(expect.Value(os.ReadFile(fitted))(t)))(t)
	before := hosttest.OutputJSON[registry.LineupRevision](t, dir, database, "lineup", "show")
	expect.That(t, before.Revision == 1 && len(l.Layers) == len(before.Lineup.Layers) &&
		len(registry.Diff(before.Lineup, l, nil)) != 0 && l.Bands == before.Lineup.Bands, "revision %d, fitted %+v",
		before.Revision, l)
	report := hosttest.OutputJSON[struct {
		Changes []registry.Change `json:"changes"`
		Types   []json.RawMessage `json:"types"`
	}](t, dir, database, "lineup", "fit", file, "--type", "domain")
	expect.That(t, len(report.Types) == 1 && len(report.Changes) != 0, "fitted to domains alone: %+v", report)
	for _, c := range report.Changes {
		expect.That(t, c.What != "bias" || strings.Contains(c.To, fmt.Sprint("iban ", before.Lineup.Bias.For("iban"))),
			"without rows of IBANs, their bias changes: %+v", c)
	}
	r := hosttest.OutputJSON[hosttest.EvalReport](t, dir, database, "eval", "--lineup", fitted, file)
	expect.That(t, r.Lineup.Revision == 0 && len(r.Types) == 4, "measuring the fitted lineup: %+v", r)
	one := hosttest.OutputJSON[explanation](t, dir, database, "check", "example.com", "--lineup", fitted)
	expect.That(t, one.Revision == 0 && len(one.Layers) != 0, "a check with the fitted lineup: %+v", one)
	raised := l
	raised.Bias = registry.ForAll(3)
	higher := hosttest.OutputJSON[explanation](t, dir, database, "check", "example.com", "--lineup",
		hosttest.WriteJSON(t, raised))
	expect.That(t, higher.Score > one.Score, "%d with a bias of 3, %d with the fitted one", higher.Score, one.Score)
	// The layers in the source's default lineup have no versions.
	r = hosttest.OutputJSON[hosttest.EvalReport](t, dir, database, "eval", "--lineup",
		filepath.Join("..", "..", "..", "registry", "default_lineup.json"), file)
	expect.That(t, len(r.Types) == 4, "measuring the default lineup: %+v", r)
	set := hosttest.OutputJSON[map[string]int64](t, dir, database, "lineup", "set", fitted, "--force", "--reason",
		"a test")
	expect.That(t, set["revision"] == 2, "setting the fitted lineup: %v", set)
	l.Layers = []registry.LineupLayer{{Layer: "nobody@1.0.0", Weight: registry.ForAll(1)}}
	for name, bad := range map[string]string{"an unpublished layer": hosttest.WriteJSON(t, l),
		"not JSON": hosttest.WriteFile(t, "lineup.json", []byte("{"))} {
		hosttest.WantRefusal(t, name, dir, database, nil, []string{"lineup", "set", bad})
	}
	hosttest.Output(t, dir, database, "lineup", "rollback", "1", "--reason", "too light")
	hosttest.Fails(t, dir, database, 2, []string{"lineup", "show", "--history", "--file"}, "--history and --file")
	var history []string
	for _, a := range hosttest.OutputJSON[[]pastActivation](t, dir, database, "lineup", "show", "--history") {
		history = append(history, fmt.Sprint(a.Number, " ", a.Revision, " ", a.Reason))
	}
	expect.NoDiff(t, "history", []string{"3 1 too light", "2 2 a test", "1 1 " + before.Reason}, history)
}

// brokenLayer is a module that crashes in every call.
const brokenLayer = "\x00asm\x01\x00\x00\x00" + // header
	"\x01\x05\x01\x60\x00\x01\x7f" + // type () -> i32
	"\x03\x02\x01\x00" + // one function of it
	"\x05\x04\x01\x01\x01\x01" + // one page of memory
	"\x07\x1b\x02\x06memory\x02\x00\x0eassay_v1_score\x00\x00" + // exports
	"\x0a\x05\x01\x03\x00\x00\x0b" // unreachable

// A layer that fails for 20 accounts of as many networks and for the reference values is moved to shadow, in a step
// that `audit verify` accepts and an operator can undo. There it does no harm, and `lineup shadow` shows it.
func TestFailingLayerIsMovedToShadow(t *testing.T) {
	t.Parallel()
	dir, database, host := hosttest.NewHost(t)
	store := hosttest.OpenStore(t, dir, database).Store
	var keys []string
	var clients []*http.Client
	for i := range 20 {
		issued := expect.Value(installation.IssueKey(t.Context(), store, installation.Unlimited(),
			fmt.Sprint("account ", i)))(t)
		keys = append(keys, issued.Secret)
		from := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, byte(1+i), 1)}}
		transport := &http.Transport{DialContext: from.DialContext}
		t.Cleanup(transport.CloseIdleConnections)
		clients = append(clients, &http.Client{Transport: transport})
	}
	// `plugin push` would refuse it.
	flaky := expect.Value(registry.OpenModule(hosttest.Packed(t, "flaky", brokenLayer,
		`"entities":["iban"],"facts":[],"signals":[]`)))(t)
	hosttest.PublishSigned(t, dir, store, flaky)
	l := hosttest.OutputJSON[registry.LineupRevision](t, dir, database, "lineup", "show").Lineup
	l.Bands.Review = 5
	for i := range l.Layers {
		if name, _, _ := l.Layers[i].Ref(); name == "numbering" {
			l.Layers[i].Mode = registry.ModeShadow
		}
	}
	l.Layers = append(l.Layers, registry.LineupLayer{Layer: "flaky@1.0.0", Weight: registry.ForAll(1)})
	set := hosttest.OutputJSON[map[string]int64](t, dir, database, "lineup", "set", hosttest.WriteJSON(t, l),
		"--force", "--reason", "a test")

	body := `{"iban":"AT262011143337761740"}`
	now := func() registry.LineupRevision { return expect.Value(store.ActiveLineup(t.Context()))(t) }
	expect.Until(t, "the layer to fail", func() bool { return hosttest.CheckOnce(host, keys[0], body).Degraded() })
	expect.Until(t, "the layer to be moved to shadow", func() bool {
		for i, key := range slices.Backward(keys) { // the first has failed already: all agree at the first finding
			hosttest.Post(clients[i], host.URL, key, body)
		}
		return now().Revision != set["revision"]
	})
	moved := now()
	layers := moved.Lineup.Layers
	expect.That(t, layers[len(layers)-1].Mode == registry.ModeShadow && moved.Activation == set["activation"]+1 &&
		strings.HasPrefix(moved.Author, "host ") &&
		strings.Contains(moved.Reason, "Layer flaky exceeded its limits: it failed (trap) in "), "in force: %+v", moved)
	expect.Until(t, "the demotion to be counted", func() bool {
		return host.Metric(t, `assay_lineup_steps_total{step="demotion"}`) == 1
	})

	// It fails on, which nobody sees, and what the other layer in shadow finds has no effect.
	expect.Until(t, "the host to follow", func() bool {
		return strings.Contains(hosttest.Get(t, host.Admin+"/metrics", ""),
			fmt.Sprintf("assay_lineup_revision %d\n", moved.Revision))
	})
	expect.Until(t, "/readyz to list the failures and the demotion", func() bool {
		text := hosttest.Get(t, host.Admin+"/readyz", "")
		return strings.Contains(text, "layer flaky was moved to shadow by host ") &&
			strings.Contains(text, "layer flaky fails: it failed (trap) in ")
	})
	for range 20 {
		a := hosttest.CheckOnce(host, keys[0], body)
		expect.Must(t, !a.Degraded() && a.Verdict == string(check.Allow), "afterwards: %+v", a)
	}
	type shadow struct {
		replay.ShadowReport
		Layers []string
	}
	var shown []shadow
	expect.Until(t, "the flip to be reported", func() bool {
		a := hosttest.CheckOnce(host, keys[0], `{"phone":"+972 1511 2345678"}`)
		expect.That(t, a.Verdict == string(check.Allow), "a voice mailbox without numbering: %+v", a)
		shown = hosttest.OutputJSON[[]shadow](t, dir, database, "lineup", "shadow")
		return slices.ContainsFunc(shown[0].Report.Signals, func(s replay.SignalFlips) bool {
			return s.Code == "numbering:type:voicemail" && s.To == check.Review
		})
	})
	r := shown[0]
	expect.That(t, len(shown) == 1 && r.Revision == moved.Revision && len(r.Layers) == 2 &&
		r.Layers[1] == "flaky@1.0.0" && len(r.Report.Failures) != 0 && r.Report.Failures[0].Layer == "flaky",
		"lineup shadow: %+v", shown)
	hosttest.Has(t, hosttest.Output(t, dir, database, "lineup", "shadow"), "allow to review",
		"numbering:type:voicemail of numbering", "has in shadow: ")
	hosttest.Output(t, dir, database, "audit", "verify")

	// The operator removes it.
	l = moved.Lineup
	l.Base, l.Layers = "", l.Layers[:len(l.Layers)-1]
	hosttest.Output(t, dir, database, "lineup", "set", hosttest.WriteJSON(t, l))
}

// A canary scores for its share of the accounts until a host withdraws it, because it changes more verdicts than its
// limit allows. With another limit it stays, and is promoted without being prepared again.
func TestCanary(t *testing.T) {
	t.Parallel()
	f := hosttest.NewFleet(t, 1)
	host := f.Hosts[0]
	strict := hosttest.OutputJSON[registry.LineupRevision](t, f.Dir, f.Database, "lineup", "show").Lineup
	strict.Base, strict.Bands.Review = "", 1
	file := hosttest.WriteJSON(t, strict)
	started := hosttest.OutputJSON[map[string]int64](t, f.Dir, f.Database, "lineup", "canary", file, "--share", "50%",
		"--limit", "60%", "--reason", "a test")
	expect.That(t, started["canary"] == 2 && started["revision"] == 1 && started["share"] == 50 &&
		started["hosts"] == 1, "starting a canary printed %v", started)
	hosttest.Has(t, hosttest.Output(t, f.Dir, f.Database, "lineup", "show"),
		"canary: revision 2 scores for 50% of the accounts, and is withdrawn if it changes more than 60% of ")
	hosttest.Has(t, hosttest.Output(t, f.Dir, f.Database, "lineup", "hosts"), "1, canary 2 (50%)")
	inside, outside := f.KeysAround(t, f.Last(t).Canary.Hash)
	for key, revision := range map[string]int64{inside: 2, outside: 1} {
		a := hosttest.CheckUntilComplete(host, key, hosttest.FleetBody)
		expect.Equal(t, "recorded revision", storetest.Value[int64](t, f.Conn,
			"SELECT revision FROM audit_records WHERE ref = $1", a.Ref), revision)
	}

	for i := range 40 {
		hosttest.CheckUntilComplete(host, inside, fmt.Sprintf(`{"domain":"garden-%d.example.com"}`, i))
	}
	expect.Until(t, "the canary to be withdrawn", func() bool { return f.Last(t).Canary == nil })
	last := f.Last(t)
	expect.That(t, strings.HasPrefix(last.Author, "host ") && strings.HasSuffix(last.Author, ":"+host.Name()) &&
		last.Lineup.Revision == 1 && strings.Contains(last.Reason, "have another verdict (most often domain: "),
		"it was withdrawn by %+v", last)
	expect.Until(t, "the withdrawal to be counted", func() bool {
		return host.Metric(t, `assay_lineup_steps_total{step="withdrawal"}`) == 1
	})
	expect.Until(t, "/readyz to list the withdrawal", func() bool {
		return strings.Contains(hosttest.Get(t, host.Admin+"/readyz", ""),
			"the canary, revision 2, was withdrawn by host ")
	})

	// The operator accepts what the lineup changes.
	hosttest.Output(t, f.Dir, f.Database, "lineup", "canary", file, "--share", "50%", "--limit", "100%")
	const compared = "assay_canary_checks_total"
	before := host.Metric(t, compared)
	for i := range 20 {
		hosttest.CheckUntilComplete(host, inside, fmt.Sprintf(`{"domain":"garden-%d.example.org"}`, i))
	}
	expect.Until(t, "the checks to be compared", func() bool { return host.Metric(t, compared) >= before+20 })
	now := f.Last(t)
	expect.That(t, now.Canary != nil && now.Canary.Limit == 10_000, "a canary without a limit was withdrawn: %+v", now)
	expect.Until(t, "the host to say what the canary does", func() bool {
		hosts := expect.Value(f.Backend.Store.Hosts(t.Context()))(t)
		return strings.Contains(hosts[0].Canary, "have another verdict (most often domain: ")
	})
	text := hosttest.Output(t, f.Dir, f.Database, "lineup", "promote", "--reason", "a test")
	expect.That(t, strings.Contains("\n"+text, "\nRevision 2 is in force on ") && !strings.Contains(text, "loading"),
		"lineup promote printed\n%s", text)
	expect.Equal(t, "the state of the host", fmt.Sprint(f.Last(t).Canary, len(f.Running(t, 2))), "<nil> 1")
	hosttest.WantRefusal(t, "stopping no canary", f.Dir, f.Database, nil, []string{"lineup", "canary", "--stop"},
		"there is no canary")
	hosttest.Output(t, f.Dir, f.Database, "audit", "verify")
}

// Flags that contradict each other are refused.
func TestCanaryFlags(t *testing.T) {
	t.Parallel()
	limit := new(activation.Limit)
	for name, c := range map[string]struct {
		cmd lineupCanaryCmd
		ok  bool
	}{
		"file and share":     {lineupCanaryCmd{File: "f", Share: 5}, true},
		"all":                {lineupCanaryCmd{File: "f", Share: 5, Limit: limit}, true},
		"stop":               {lineupCanaryCmd{Stop: true}, true},
		"another share":      {lineupCanaryCmd{Share: 5}, true},
		"another limit":      {lineupCanaryCmd{Limit: limit}, true},
		"nothing":            {lineupCanaryCmd{}, false},
		"file without share": {lineupCanaryCmd{File: "f"}, false},
		"stop with a file":   {lineupCanaryCmd{Stop: true, File: "f"}, false},
		"stop with a share":  {lineupCanaryCmd{Stop: true, Share: 5}, false},
		"stop with a limit":  {lineupCanaryCmd{Stop: true, Limit: limit}, false},
	} {
		expect.Equal(t, name+" is valid", c.cmd.Validate() == nil, c.ok)
	}
}

// TestFlipsAreShownAndLimited changes a lineup so that the verdicts of recent checks flip. The operator sees it, needs
// --force with a reason, and an erased subject is no longer counted.
func TestFlipsAreShownAndLimited(t *testing.T) {
	t.Parallel()
	dir, database, host := hosttest.NewHost(t)
	issued := expect.Value(installation.IssueKey(t.Context(), hosttest.OpenStore(t, dir, database).Store,
		installation.Unlimited(), "test"))(t)
	for i := range 10 {
		hosttest.CheckUntilComplete(host, issued.Secret, fmt.Sprintf(`{"domain":"garden-%d.example.com"}`, i))
	}
	l := hosttest.OutputJSON[registry.LineupRevision](t, dir, database, "lineup", "show").Lineup
	l.Bands.Review = 1
	file := hosttest.WriteJSON(t, l)

	diff := func() *replay.Report {
		r := hosttest.OutputJSON[prediction](t, dir, database, "lineup", "diff", file)
		expect.That(t, len(r.Changes) == 1 && len(r.Report.References) != 0 && len(r.Report.ReferenceFlips) != 0,
			"lineup diff: %+v", r)
		return r.Report
	}
	r := diff()
	expect.That(t, r.Remembered == 10 && r.Flips() == 10, "%d of %d flip, want 10 of 10", r.Flips(), r.Remembered)
	for name, flags := range map[string][]string{"no force": nil, "an empty reason": {"--force", "--reason", " "}} {
		hosttest.WantRefusal(t, name, dir, database, nil, append([]string{"lineup", "set", file}, flags...),
			" of 14 reference values (", "ASSAY_FLIP_LIMIT")
	}
	status, text := hosttest.Send(t, host, issued.Secret, "POST", "/gdpr/erase", `{"domain":"garden-3.example.com"}`)
	expect.Must(t, status == http.StatusOK, "erasing: %d %s", status, text)
	expect.Until(t, "the erasure to reach the host", func() bool { return diff().Remembered == 9 })
	text = hosttest.Output(t, dir, database, "lineup", "set", file, "--force", "--reason", "a test")
	hosttest.Has(t, text, "domain: 9 of 9 verdicts change (100%)", "in force",
		"  Only 9 checks, fewer than 200: the reference values decide.")
	l.Base, l.Layers[0].Weight = "", maps.Clone(l.Layers[0].Weight)
	l.Layers[0].Weight["domain"] += 0.001
	text = hosttest.Output(t, dir, database, "lineup", "set", hosttest.WriteJSON(t, l)) // although that was forced
	hosttest.Has(t, text, "domain: 0 of 9 verdicts change (0%)")
}

func TestPercent(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"1%": "1%", "0.5%": "0.5%", "100%": "100%", "0%": "0%", " 2% ": "2%",
		"1": "", "-1%": "", "101%": "", "x%": "", "NaN%": "", "": ""} {
		var p installation.Percent
		err := p.UnmarshalText([]byte(text))
		expect.That(t, (err == nil) == (want != "") && (err != nil || p.String() == want), "%q is %v: %v", text, p, err)
	}
}

// explanation holds fields of the output of `assay check --json`.
type explanation struct {
	Score    int               `json:"score"`
	Revision int64             `json:"lineup_revision"`
	Layers   []json.RawMessage `json:"layers"`
}
