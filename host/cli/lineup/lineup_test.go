package lineup

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/host/hosttest"
	"assay/host/store/postgres/postgrestest"
	"assay/registry"
	"assay/registry/expect"
)

func TestMain(m *testing.M) { os.Exit(hosttest.Main(m)) }

// TestLineupConstraints sets lineups that break what the signals of their layers warrant, and shows what layers may
// clear.
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
	floor := -30
	diff := hosttest.Output(t, dir, database, "lineup", "diff", lineupWith(9, 5, 4, &floor))
	hosttest.Has(t, diff, "age: lowest score  -60         -30", "May clear: age@1.0.0 (down to -30).",
		"refuses this lineup: checking the lineup against", "domain: style must not block alone",
		"\nA weight of 1.3: a score of 100 adds 1.3 log-odds")
	expect.That(t, strings.HasPrefix(diff, "`assay lineup set` refuses this lineup: "),
		"lineup diff begins otherwise:\n%s", diff)
	light := hosttest.PushEmpty(t, dir, database, "light", domains+`,"class":"finding",
		"signals":[{"code":"light:seen:exact","text":"Listed","points":90,"warrants":"block"}]`)
	hosttest.Has(t, light,
		"light@1.0.0 has the weight 1; to be live, it needs at least domain 5.36, so that its signals reach ")
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
	data := expect.Value(os.ReadFile(fitted))(t)
	l := expect.Value(registry.ParseLineup(data))(t)
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
	if one := hosttest.OutputJSON[explanation](t, dir, database, "check", "example.com", "--lineup",
		fitted); one.Revision != 0 || len(one.Layers) == 0 {
		t.Errorf("a check with the fitted lineup: %+v", one)
	} else {
		raised := l
		raised.Bias = registry.ForAll(3)
		if got := hosttest.OutputJSON[explanation](t, dir, database, "check", "example.com", "--lineup",
			hosttest.WriteJSON(t, raised)); got.Score <= one.Score {
			t.Errorf("a check with a bias of 3 scores %d, with the fitted one %d", got.Score, one.Score)
		}
	}
	// The layers in the source's default lineup have no versions.
	if r := hosttest.OutputJSON[hosttest.EvalReport](t, dir, database, "eval", "--lineup",
		filepath.Join("..", "..", "..", "registry", "default_lineup.json"), file); len(r.Types) != 4 {
		t.Errorf("measuring the default lineup: %+v", r)
	}
	set := hosttest.OutputJSON[map[string]int64](t, dir, database, "lineup", "set", fitted, "--force", "--reason",
		"a test")
	expect.That(t, set["revision"] == 2, "setting the fitted lineup: %v", set)
	l.Layers = []registry.LineupLayer{{Layer: "nobody@1.0.0", Weight: registry.ForAll(1)}}
	for name, bad := range map[string]string{"an unpublished layer": hosttest.WriteJSON(t, l),
		"not JSON": hosttest.WriteFile(t, "lineup.json", []byte("{"))} {
		hosttest.WantRefusal(t, name, dir, database, nil, []string{"lineup", "set", bad})
	}
	hosttest.Output(t, dir, database, "lineup", "rollback", "1", "--reason", "too light")
	var history []string
	for _, a := range hosttest.OutputJSON[[]pastActivation](t, dir, database, "lineup", "show", "--history") {
		history = append(history, fmt.Sprint(a.Number, " ", a.Revision, " ", a.Reason))
	}
	expect.NoDiff(t, "history", []string{"3 1 too light", "2 2 a test", "1 1 " + before.Note}, history)
}
