package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/host/auditlog"
	"assay/host/check"
	"assay/host/postgres/postgrestest"
	"assay/registry"
)

// labelled are rows of every type, of which the layers tell most apart.
const labelled = `{"type":"domain","value":"paypa1-secure-login.xyz","label":1,"source":"feed","category":"phishing"}
{"type":"domain","value":"netflix-account-verify.top","label":1,"source":"list","category":"phishing","rank":7}
{"type":"domain","value":"google.com","label":0,"source":"popular","category":"brand"}
{"type":"domain","value":"kleine-werkstatt.de","label":0,"source":"longtail","category":"shop"}
{"type":"email","value":"support@paypa1-secure-login.xyz","label":1,"source":"feed"}
{"type":"email","value":"x7q2@mailinator.com","label":1,"source":"list"}
{"type":"email","value":"jane.doe@gmail.com","label":0,"source":"popular"}
{"type":"email","value":"info@kleine-werkstatt.de","label":0,"source":"longtail"}
{"type":"phone","value":"+12025550123","label":1,"source":"feed"}
{"type":"phone","value":"+1202555","label":1,"source":"list"}
{"type":"phone","value":"030 901820","label":0,"source":"popular","region":"DE"}
{"type":"phone","value":"+33612345678","label":0,"source":"longtail"}
{"type":"iban","value":"DE88370400440532013000","label":1,"source":"feed"}
{"type":"iban","value":"GB00WEST12345698765432","label":1,"source":"list"}
{"type":"iban","value":"DE89370400440532013000","label":0,"source":"popular"}
{"type":"iban","value":"FR1420041010050500013M02606","label":0,"source":"longtail"}
`

// evalAnswer is what `assay eval --json` prints, as far as tests look.
type evalAnswer struct {
	Rows   int `json:"rows"`
	Lineup struct {
		Revision int64 `json:"revision"`
	} `json:"lineup"`
	Type string   `json:"type"`
	N    int      `json:"n"`
	AUC  *float64 `json:"auc"`

	Types []struct {
		Type   string   `json:"type"`
		AUC    *float64 `json:"auc"`
		Layers []struct {
			Name string   `json:"name"`
			AUC  *float64 `json:"auc"`
			Lost map[string]int
		} `json:"layers"`
		Errors struct {
			Malicious []struct {
				Value  string          `json:"value"`
				Layers []check.Outcome `json:"layers"`
			} `json:"malicious_lowest"`
		} `json:"errors"`
	} `json:"types"`
}

// TestEval measures the lineup in force, as a command, on a small file.
func TestEval(t *testing.T) {
	t.Parallel()
	dir, database := dataDir(t), postgrestest.Database(t)
	r := outputJSON[evalAnswer](t, dir, database, "eval", writeFile(t, "rows.jsonl", []byte(labelled)))
	if r.Rows != 16 || r.Lineup.Revision != 1 || r.AUC != nil || len(r.Types) != 4 {
		t.Fatalf("%+v", r)
	}
	for _, typed := range r.Types {
		if typed.AUC == nil || *typed.AUC < .75 || len(typed.Layers) == 0 || typed.Layers[0].AUC == nil {
			t.Errorf("%+v", typed)
		}
		for _, m := range typed.Errors.Malicious {
			if m.Value == "" || len(m.Layers) != len(typed.Layers) {
				t.Errorf("%s: %+v is not explained", typed.Type, m)
			}
		}
	}
	mistaken := `{"type":"domain","value":"paypa1-login.xyz","label":0,"source":"popular"}`
	file, page := writeFile(t, "rows.jsonl", []byte(labelled+mistaken)), filepath.Join(t.TempDir(), "report.html")
	text := output(t, dir, database, "eval", file, "--worst", "1", "--html", page)
	html := readText(t, page)
	for _, want := range []string{"<svg", "paypa1-login.xyz", "rows.jsonl", "looks like PayPal"} {
		if !strings.Contains(html, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, want := range []string{"17 rows of rows.jsonl through lineup revision 1",
		"IBAN: 4 rows, 2 malicious, 2 benign", "recall at 1% false positives", "BENIGN CATEGORY"} {
		if !strings.Contains(text, want) {
			t.Errorf("the text lacks %q:\n%s", want, text)
		}
	}
	// Nothing of it is recorded.
	if reports := outputJSON[[]auditlog.Report](t, dir, database, "audit", "verify"); !reports[0].OK ||
		reports[0].Records > 1 {
		t.Errorf("the chain: %+v", reports[0])
	}
}

// TestEvalInput: rows from compressed files and standard input, and lines that are no rows.
func TestEvalInput(t *testing.T) {
	t.Parallel()
	dir, database := dataDir(t), postgrestest.Database(t)
	domains := strings.Join(strings.SplitAfter(labelled, "\n")[:4], "")
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	if _, err := w.Write([]byte(domains)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r := outputJSON[evalAnswer](t, dir, database, "eval", writeFile(t, "rows.jsonl.gz", zipped.Bytes()))
	if r.Type != "domain" || r.N != 4 || r.AUC == nil || r.Types != nil {
		t.Errorf("compressed: %+v", r)
	}

	untyped := strings.ReplaceAll(labelled, `"type":"domain",`, "")
	if r := outputJSON[evalAnswer](t, dir, database, "eval", "--type=domain",
		writeFile(t, "rows.jsonl", []byte(untyped))); r.Type != "domain" || r.N != 4 {
		t.Errorf("rows that name no type: %+v", r)
	}

	bad := domains + "{\"type\":\"url\"}\n" + strings.Repeat("what\n", 9)
	stdin := command(t.Context(), dir, database, "eval", "-", "--json")
	stdin.Stdin = strings.NewReader(bad)
	out, err := stdin.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "10 lines cannot be read") ||
		!strings.Contains(string(out), "--type") || !strings.Contains(string(out), `-, line 5: type is "url"`) ||
		!strings.Contains(string(out), "line 9:") || strings.Contains(string(out), "line 10:") {
		t.Errorf("%v:\n%s", err, out)
	}
	skipping := command(t.Context(), dir, database, "eval", "-", "--skip-bad", "--json")
	skipping.Stdin = strings.NewReader(bad)
	printed, err := skipping.Output()
	if err != nil || json.Unmarshal(printed, &r) != nil || r.N != 4 ||
		!strings.Contains(string(printed), `"skipped": 10`) {
		t.Errorf("%v:\n%s", err, printed)
	}
	for name, args := range map[string][]string{
		"no such file": {"eval", filepath.Join(dir, "nothing")},
		"no rows":      {"eval", writeFile(t, "empty.jsonl", nil)},
		"prevalence":   {"eval", "--prevalence=1.5", writeFile(t, "rows.jsonl", []byte(domains))},
		"no such layer": {"eval", "--lineup", writeJSON(t, registry.LineupDocument{Bands: registry.Bands{Review: 40, Block: 70},
			Layers: []registry.LineupLayer{{Layer: "nobody@1.0.0"}}}), writeFile(t, "rows.jsonl", []byte(domains))},
		"bad lineup": {"eval", "--lineup",
			writeFile(t, "lineup.json", []byte(`{"bias":0,"layers":[{"layer":"domain","weight":99}]}`)),
			writeFile(t, "rows.jsonl", []byte(domains))},
		"one label": {"lineup", "fit", writeFile(t, "rows.jsonl", []byte(strings.SplitAfter(domains, "\n")[0]))},
		"share":     {"lineup", "fit", "--block-fpr=0", writeFile(t, "rows.jsonl", []byte(domains))},
	} {
		if out, err := command(t.Context(), dir, database, args...).CombinedOutput(); err == nil ||
			!strings.Contains(string(out), "assay: ") {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

// TestLineupFit fits weights, and puts the document that comes of it in force: it can be measured, compared and set as
// it is.
func TestLineupFit(t *testing.T) {
	t.Parallel()
	dir, database := dataDir(t), postgrestest.Database(t)
	file, fitted := writeFile(t, "rows.jsonl", []byte(labelled)), filepath.Join(t.TempDir(), "fitted.json")
	text := output(t, dir, database, "lineup", "fit", file, "--out", fitted)
	for _, want := range []string{"Fitted to 16 rows", "out of fold", "ACTIVE", "lineup set"} {
		if !strings.Contains(text, want) {
			t.Errorf("the text lacks %q:\n%s", want, text)
		}
	}
	data, err := os.ReadFile(fitted)
	if err != nil {
		t.Fatal(err)
	}
	l, err := registry.ParseLineup(data)
	if err != nil {
		t.Fatal(err)
	}
	before := outputJSON[registry.LineupRevision](t, dir, database, "lineup", "show")
	if before.Revision != 1 || len(l.Layers) != len(before.Lineup.Layers) ||
		len(registry.Diff(before.Lineup, l)) == 0 || l.Bands != before.Lineup.Bands {
		t.Errorf("revision %d, fitted %+v", before.Revision, l)
	}
	report := outputJSON[struct {
		Lineup  registry.LineupDocument `json:"lineup"`
		Changes []registry.Change       `json:"changes"`
		Types   []json.RawMessage       `json:"types"`
	}](t, dir, database, "lineup", "fit", file, "--type", "domain")
	if len(report.Types) != 1 || len(report.Changes) == 0 || report.Lineup.Bias != before.Lineup.Bias {
		t.Errorf("of domains alone: %+v", report)
	}
	if r := outputJSON[evalAnswer](t, dir, database, "eval", "--lineup", fitted, file); r.Lineup.Revision != 0 ||
		len(r.Types) != 4 {
		t.Errorf("measured: %+v", r)
	}
	// The document of the source tree names no versions.
	if r := outputJSON[evalAnswer](t, dir, database, "eval", "--lineup",
		filepath.Join("..", "registry", "default_lineup.json"), file); len(r.Types) != 4 {
		t.Errorf("of the source: %+v", r)
	}
	if set := outputJSON[map[string]int64](t, dir, database, "lineup", "set", fitted); set["revision"] != 2 {
		t.Errorf("set as %v", set)
	}
}
