package plugin

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/host/hosttest"
	"assay/host/measure/eval"
	"assay/host/store/postgres/postgrestest"
	"assay/registry/expect"
	"assay/registry/project"
)

// numberedRows are labelled domains. Fraud often has a long number or was registered a few days ago, and the built-in
// layers find some of it.
func numberedRows() []byte {
	var rows strings.Builder
	for i := range 40 {
		letters := string(rune('a'+i/26)) + string(rune('a'+i%26)) + "mill"
		fraud := letters + []string{"shop.com", "20245.com", "-paypal-login.com", "house.com"}[i%4]
		fmt.Fprintf(&rows, `{"type":"domain","value":"%s","label":1,"source":"%s","facts":{"rdap.age_days":%d}}`+"\n",
			fraud, []string{"feed", "list"}[i%2], []int{2, 400}[i/2%2])
		fmt.Fprintf(&rows, `{"type":"domain","value":"%sgarden.de","label":0,"source":"popular"}`+"\n", letters)
	}
	rows.WriteString(`{"type":"domain","value":"weather2024.de","label":0,"source":"popular"}
{"type":"iban","value":"DE89370400440532013000","label":0,"source":"popular"}
`)
	return []byte(rows.String())
}

// TestPluginEval measures a layer next to the lineup in force, and next to others.
func TestPluginEval(t *testing.T) {
	t.Parallel()
	folder, file := hosttest.NewLayer(t, "numbers", project.C)
	rows := hosttest.WriteFile(t, "rows.jsonl", numberedRows())
	dir, database := hosttest.DataDir(t), postgrestest.Database(t)
	page := filepath.Join(t.TempDir(), "report.html")
	report := hosttest.OutputJSON[eval.PluginReport](t, dir, database, "plugin", "eval", file, rows, "--html", page)
	expect.Must(t, len(report.Types) == 1 && report.Lineup.Revision == 1 && report.Rows == 81 && report.Others == 1 &&
		report.Replaced == "", "%+v", report)
	d := report.Types[0]
	expect.That(t, d.N == 81 && d.Positives == 40 && d.Malicious.Count == 20 && d.Benign.Count == 1 &&
		d.Alone.AUC >= .7 && len(d.Signals) == 2 && d.Repeats[0].Layer[:8] == "network@" && len(d.Sources) == 3, "%+v",
		d)
	wrong := d.Errors.Benign
	expect.That(t, len(wrong) == 1 && wrong[0].Value == "weather2024.de" && wrong[0].Score == 20 &&
		len(wrong[0].Signals) == 1 && wrong[0].Facts["domain.registrable"] == "weather2024.de" &&
		slices.Contains(wrong[0].Absent, "rdap.age_days") &&
		slices.Contains(wrong[0].Log, "debug: longest number: 4 digits"), "%+v", wrong)
	missed := d.Errors.Malicious
	expect.That(t, len(missed) == 10 && missed[0].Facts["rdap.age_days"] == "400", "%+v", missed)
	hosttest.Has(t, hosttest.ReadText(t, page), "Evaluation of numbers@0.1.0", "<svg", "weather2024.de",
		"numbers:name:digits")
	alone := hosttest.WriteFile(t, "feeds.json", []byte(`{"bias":-2,"bands":{"review":40,"block":70},"layers":[
		{"layer":"feeds","weight":4}]}`))
	d = hosttest.OutputJSON[eval.PluginReport](t, dir, database, "plugin", "eval", file, rows, "--lineup",
		alone).Types[0]
	hosttest.Has(t, hosttest.Output(t, dir, database, "plugin", "eval", file, rows, "--worst", "1", "--lineup", alone),
		"numbers@0.1.0 with 81 rows of rows.jsonl, next to ",
		"1 rows of types that the layer does not score are left out", "WHAT THE LAYER ADDS", "MALICIOUS SOURCE",
		"weather2024.de  popular", "log: debug: longest number: 4 digits")
	expect.That(t, d.Weight > 0 && d.Without.AUC == .5 && d.AUCGain.Value >= .2 && !d.AUCGain.Noise && !d.Recall1.Noise,
		"next to a lineup that finds nothing: %+v", d)

	// A signal that warrants a band needs a weight, which the fitted one has.
	_, warranting := hosttest.NewLayer(t, "numbers", project.C, func(folder string) {
		hosttest.ReplaceIn(t, filepath.Join(folder, "manifest.json"), `a long number"`,
			`a long number", "points": 20, "warrants": "review"`)
	})
	report = hosttest.OutputJSON[eval.PluginReport](t, dir, database, "plugin", "eval", warranting, rows, "--lineup",
		alone)
	_, needed, found := strings.Cut(strings.Join(report.Warnings, "\n"), "to be live, it needs at least domain ")
	var least float64
	weight := report.Types[0].Weight
	if _, err := fmt.Sscanf(needed, "%g", &least); err != nil || !found || least <= 2 || weight < least {
		t.Errorf("weight %v, warnings %q: %v", weight, report.Warnings, err)
	}

	report = hosttest.OutputJSON[eval.PluginReport](t, dir, database, "plugin", "eval",
		filepath.Join("..", "..", "..", "plugins", "domain"), rows)
	d = report.Types[0]
	if !strings.HasPrefix(report.Replaced, "domain@") || d.Malicious.Count != 10 ||
		slices.ContainsFunc(d.Repeats, func(o eval.Overlap) bool { return strings.HasPrefix(o.Layer, "domain@") }) {
		t.Errorf("a layer of the lineup: %+v", report)
	}

	hosttest.ChangeLayer(t, folder, "SIGNAL_AGE_NEW", `"numbers:age:newer"`)
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"no rows": {[]string{file, "--lineup", alone}, "no labelled values of a type that the layer scores"},
		"other types": {[]string{file, hosttest.WriteFile(t, "i.jsonl", []byte(labelledIBAN)), "--lineup", alone},
			"no labelled values of a type that the layer scores"},
		"a single label": {[]string{file, hosttest.WriteFile(t, "s.jsonl",
			[]byte(strings.SplitAfter(hosttest.Labelled, "\n")[0])), "--lineup", alone}, "no rows of both labels"},
		"no such lineup":     {[]string{file, rows, "--lineup", "missing.json"}, "missing.json"},
		"a layer that fails": {[]string{folder, rows, "--lineup", alone}, "assay: the layer failed with 20 rows"},
	} {
		hosttest.WantRefusal(t, name, dir, database, nil, append([]string{"plugin", "eval"}, test.args...), test.want)
	}
}

const labelledIBAN = `{"type":"iban","value":"DE88370400440532013000","label":1}` + "\n"
