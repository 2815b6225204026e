package plugin

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"assay/host/facts/resolver/resolvertest"
	"assay/host/hosttest"
	"assay/host/installation"
	"assay/host/lineup/rehearsal"
	"assay/host/measure/eval"
	"assay/host/store/postgres/postgrestest"
	"assay/registry"
	"assay/registry/activation"
	"assay/registry/expect"
	"assay/registry/project"
)

func TestMain(m *testing.M) { os.Exit(hosttest.Main(m)) }

// TestPluginPush pushes a plugin twice, and then different code under the same version. It refuses layers that nobody
// should run: one whose answers alternate, and one whose budget is nearly used up.
func TestPluginPush(t *testing.T) {
	t.Parallel()
	dir, database := hosttest.DataDir(t), postgrestest.Database(t)
	store := hosttest.OpenStore(t, dir, database).Store
	folder := t.TempDir()
	expect.NoError(t, os.WriteFile(filepath.Join(folder, "manifest.json"), []byte(`{"name":"empty",
		"version":"1.0.0","summary":"Empty","threats":[],"budget_fuel":1000,"memory_mb":1,"default_weight":1,
		"entities":["iban"],"facts":[],"signals":[]}`), 0o600))
	plugin := filepath.Join(folder, "empty.wasm")
	built := hosttest.OutputJSON[pluginLine](t, dir, database, "plugin", "build", folder,
		"--wasm", hosttest.WriteFile(t, "module.wasm", []byte(hosttest.EmptyLayer)), "-o", plugin)
	for range 2 {
		pushed := hosttest.OutputJSON[pluginLine](t, dir, database, "plugin", "push", plugin)
		expect.Equal(t, "signed by", pushed.SignedBy, "assay/operator")
		expect.That(t, pushed.Passport != nil && pushed.Passport.Digest == built.Digest, "the passport is %+v",
			pushed.Passport)
		if pushed.File, pushed.SignedBy, pushed.Passport = built.File, "", nil; pushed != built || built.Digest == "" {
			t.Errorf("pushed %v, built %v", pushed, built)
		}
	}

	const types = "\x00asm\x01\x00\x00\x00\x01\x05\x01\x60\x00\x01\x7f\x03\x02\x01\x00"
	const memory = "\x05\x04\x01\x01\x01\x01"
	const exports = "\x07\x1b\x02\x06memory\x02\x00\x0eassay_v1_score\x00\x00"
	// The function adds one to a global, and scores or abstains by its lowest bit.
	const alternating = types + memory + "\x06\x06\x01\x7f\x01\x41\x00\x0b" + exports +
		"\x0a\x10\x01\x0e\x00\x23\x00\x41\x01\x6a\x24\x00\x23\x00\x41\x01\x71\x0b"
	// The function counts down from 130.
	const counting = types + memory + exports + "\x0a\x19\x01\x17\x01\x01\x7f\x41\x82\x01\x21\x00" +
		"\x03\x40\x20\x00\x41\x7f\x6a\x22\x00\x0d\x00\x0b\x41\x00\x0b"
	refused := func(name, want string, wasm []byte) {
		t.Helper()
		hosttest.WantRefusal(t, "pushing "+name, dir, database, nil,
			[]string{"plugin", "push", hosttest.WriteFile(t, name+".wasm", wasm)}, want)
	}
	wasm := expect.Value(os.ReadFile(plugin))(t)
	refused("other", "raise the version", append(wasm, 0, 2, 1, 'x')) // adds a custom section
	for name, module := range map[string]string{"alternating": alternating, "counting": counting} {
		want := map[string]string{"alternating": "the layer is not deterministic", "counting": "units of fuel"}[name]
		refused(name, want, hosttest.Packed(t, name, module, `"entities":["domain"],"facts":[],"signals":[]`))
		expect.Error(t, name+" then", expect.ErrorOf(store.Plugin(t.Context(), name, "1.0.0")), registry.ErrNoPlugin)
	}
}

// TestPluginFacts records the facts of a value where a host runs, and calls a layer with them.
func TestPluginFacts(t *testing.T) {
	t.Parallel()
	_, file := hosttest.NewLayer(t, "aged", project.C)
	server := resolvertest.Start(t, `
		shop20245.com. 300 IN A 93.184.215.14
		shop20245.com. 300 IN NS a.iana-servers.net.
	`)
	rdap := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"objectClassName": "domain", "events": [{"eventAction": "registration", "eventDate": %q}]}`,
			time.Now().Add(-80*time.Hour).UTC().Format(time.RFC3339))
	}))
	t.Cleanup(rdap.Close)
	dir, database := hosttest.DataDir(t), postgrestest.Database(t)
	settings := []string{"--dns", server.Addr, "--rdap-url", rdap.URL}
	host := hosttest.StartHost(t, dir, database, settings...)
	issued := expect.Value(installation.IssueKey(t.Context(), hosttest.OpenStore(t, dir, database).Store,
		installation.Unlimited(), "test"))(t)
	a := hosttest.CheckUntilComplete(host, issued.Secret, `{"domain":"shop20245.com"}`)
	expect.Must(t, a.Status == http.StatusOK, "%+v", a)

	recorded := hosttest.WriteFile(t, "facts.json", nil)
	facts := func(args ...string) knownFacts {
		t.Helper()
		return hosttest.OutputJSON[knownFacts](t, dir, database,
			append(append([]string{"plugin", "facts", "shop20245.com"}, args...), settings...)...)
	}
	known := facts("--record", recorded)
	expect.That(t, known.Facts["rdap.age_days"] == "3" && known.Facts["dns.status"] != "" &&
		known.Parsed["domain.registrable"] == "shop20245.com" && known.Parsed["rdap.age_days"] == "" &&
		len(known.Unanswered) == 0, "%+v", known)
	for name := range known.Facts {
		expect.That(t, !strings.HasPrefix(name, "history."), "%s is known without an account", name)
	}
	known = facts("--account", issued.Account)
	expect.That(t, known.Facts["history.own_first_seen_days"] == "0", "the account's history is unknown: %+v", known)
	run := func(args ...string) rehearsal.Call {
		t.Helper()
		return hosttest.OutputJSON[rehearsal.Call](t, dir, database, append(append([]string{"plugin", "run", file,
			"shop20245.com"}, args...), settings...)...)
	}
	c := run("--facts", recorded)
	expect.That(t, c.Score == 50 && len(c.Unread) != 0, "with the recorded facts: %+v", c)
	c = run("--live")
	expect.That(t, c.Score == 50 && len(c.Unread) == 0, "with facts that are looked up: %+v", c)
	older := hosttest.WriteFile(t, "older.json", []byte(`{"rdap.age_days": "3000", "config.limit": "5"}`))
	c = run("--live", "--facts", older)
	expect.That(t, c.Score == 20 && len(c.Unread) == 1, "with a given fact: %+v", c)
	hosttest.Has(t, hosttest.Output(t, dir, database, append([]string{"plugin", "facts", "shop20245.com"},
		settings...)...), `domain "shop20245.com"`, "domain.registrable", "the value", "rdap.age_days", "lookup")
}

// TestPluginFactsWithoutInstallation looks facts up where there is neither a database nor DNS.
func TestPluginFactsWithoutInstallation(t *testing.T) {
	t.Parallel()
	hosttest.Has(t, hosttest.Runs(t, 0, "plugin", "facts", "jane@a.de"),
		"no database: there is no installation in .assay", "email.local")
	hosttest.Has(t, hosttest.Runs(t, 1, "plugin", "facts", "a b"), "domain: contains a space")
}

// TestPluginInspectMeasure measures a layer and compares it with one that does more for each value.
func TestPluginInspectMeasure(t *testing.T) {
	t.Parallel()
	folder, file := hosttest.NewLayer(t, "measured", project.C)
	text := hosttest.Runs(t, 0, "plugin", "inspect", file, "--measure")
	hosttest.Has(t, text, "the same answers in two processes", "Scores: 0 to 50 of 0 to 50", "raises by itself: 0 of ")
	i := runsJSON[inspection](t, "plugin", "inspect", file, "--measure")
	p := i.Passport
	expect.That(t, p != nil && p.Digest == i.Digest && p.Format == rehearsal.PassportFormat && p.MostFuel > 0, "%+v", p)
	hosttest.Has(t, text, "\nNot signed.\n")
	expect.That(t, i.Signature == nil, "signed by %+v", i.Signature)
	hosttest.ChangeLayer(t, folder, "MIN_DIGITS = 4", "MIN_DIGITS = 99")
	hosttest.Has(t, hosttest.Runs(t, 0, "plugin", "inspect", "--diff", "--measure", file, folder), "measured scores")
}

// TestPluginInspectPublished shows a published plugin, and compares two versions.
func TestPluginInspectPublished(t *testing.T) {
	t.Parallel()
	dir, database := hosttest.DataDir(t), postgrestest.Database(t)
	hosttest.PushEmpty(t, dir, database, "one", `"entities":["domain"],"facts":[],"signals":[]`)
	hosttest.PushEmpty(t, dir, database, "two", `"entities":["domain","iban"],"facts":["domain.ascii"],"signals":[]`)
	shown := hosttest.OutputJSON[inspection](t, dir, database, "plugin", "inspect", "one@1.0.0")
	expect.That(t, shown.Plugin == "one@1.0.0" && shown.MeasuredBy == installation.OperatorKeyName &&
		shown.Passport != nil && shown.Passport.Digest == shown.Digest, "%+v", shown)
	s := shown.Signature
	expect.That(t, s != nil && *s == (pluginSignature{Key: installation.OperatorKeyName, Role: activation.Operator}),
		"signed by %+v", s)
	changes := hosttest.OutputJSON[[]registry.ManifestChange](t, dir, database, "plugin", "inspect", "--diff",
		"one@1.0.0", "two@1.0.0")
	expect.That(t, len(changes) >= 3 && changes[0].Grants && changes[1].Grants && !changes[2].Grants, "%+v", changes)
	hosttest.WantRefusal(t, "showing what was not published", dir, database, nil,
		[]string{"plugin", "inspect", "one@2.0.0"}, registry.ErrNoPlugin.Error())

	// The passport of another plugin is refused.
	b := hosttest.OpenStore(t, dir, database)
	two := expect.Value(b.Store.Plugin(t.Context(), "two", "1.0.0"))(t)
	one := expect.Value(b.Store.Plugin(t.Context(), "one", "1.0.0"))(t)
	m := expect.Value(b.Store.Module(t.Context(), one.Digest))(t)
	notes := expect.Value(b.Store.PluginNotes(t.Context(), two.Digest))(t)
	delete(notes, registry.NoteSignature)
	expect.NoError(t, b.Store.PublishPlugin(t.Context(), m, "1.0.0", "", notes))
	hosttest.WantRefusal(t, "showing another plugin's passport", dir, database, nil,
		[]string{"plugin", "inspect", "one@1.0.0"}, "it is that of two@1.0.0")
}

// numberedRows are labelled domains. Fraud often has a long number or was registered a few days ago.
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

	built := hosttest.BuiltLayers(t)
	at := slices.IndexFunc(built, func(m registry.Module) bool { return m.Manifest.Name == "domain" })
	report = hosttest.OutputJSON[eval.PluginReport](t, dir, database, "plugin", "eval",
		hosttest.WriteFile(t, "domain.wasm", built[at].Wasm), rows)
	d = report.Types[0]
	expect.That(t, strings.HasPrefix(report.Replaced, "domain@") && d.Malicious.Count == 10 &&
		!slices.ContainsFunc(d.Repeats, func(o eval.Overlap) bool { return strings.HasPrefix(o.Layer, "domain@") }),
		"a layer of the lineup: %+v", report)

	hosttest.ChangeLayer(t, folder, "SIGNAL_AGE_NEW", `"numbers:age:newer"`)
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"rows of another type": {[]string{file, hosttest.WriteFile(t, "i.jsonl", []byte(
			`{"type":"iban","value":"DE88370400440532013000","label":1}`+"\n")), "--lineup", alone},
			"no labelled values of a type that the layer scores"},
		"a single label": {[]string{file, hosttest.WriteFile(t, "s.jsonl",
			[]byte(strings.SplitAfter(hosttest.Labelled, "\n")[0])), "--lineup", alone}, "no rows of both labels"},
		"no such lineup":     {[]string{file, rows, "--lineup", "missing.json"}, "missing.json"},
		"a layer that fails": {[]string{folder, rows, "--lineup", alone}, "assay: the layer failed with 20 rows"},
	} {
		hosttest.WantRefusal(t, name, dir, database, nil, append([]string{"plugin", "eval"}, test.args...), test.want)
	}
}
