package plugin

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/host/hosttest"
	"assay/host/lineup/rehearsal"
	"assay/registry"
	"assay/registry/expect"
	"assay/registry/project"
)

// runsJSON is runs for a command that prints JSON and succeeds.
func runsJSON[T any](t *testing.T, args ...string) (got T) {
	t.Helper()
	expect.NoError(t, json.Unmarshal([]byte(hosttest.Runs(t, 0, append(args, "--json")...)), &got))
	return got
}

// TestPluginCommands runs the commands of an author on a new layer, as a folder and as a file.
func TestPluginCommands(t *testing.T) {
	t.Parallel()
	folder, file := hosttest.NewLayer(t, "numbers", project.C)
	t.Run("test", func(t *testing.T) {
		report := runsJSON[rehearsal.Report](t, "plugin", "test", file)
		expect.That(t, report.Failed == 0 && len(report.Cases) == 5 && report.Covered() == 2 && len(report.Unread) == 0,
			"%+v", report)
	})
	t.Run("test fails", func(t *testing.T) {
		other := filepath.Join(t.TempDir(), "other")
		expect.NoError(t, os.CopyFS(other, os.DirFS(folder)))
		expect.NoError(t, os.WriteFile(filepath.Join(other, "cases.jsonl"), []byte(
			`{"name": "wrong", "type": "domain", "value": "shop20245.com", "min": 30, "max": 50, "threat": "spam",
				"codes": ["numbers:age:new"]}`+"\n"), 0o600))
		hosttest.Runs(t, 1, "plugin", "build", other, "-o", file+".other") // a case has one line
		expect.NoError(t, os.WriteFile(filepath.Join(other, "cases.jsonl"), []byte(
			`{"name": "wrong", "type": "domain", "value": "shop20245.com", "min": 30, "max": 50, "threat": "spam", `+
				`"codes": ["numbers:age:new"]}
{"name": "not a domain", "type": "domain", "value": "a b", "min": 0, "max": 0}
{"name": "right", "type": "domain", "value": "a.de", "min": 0, "max": 0}
`), 0o600))
		hosttest.Has(t, hosttest.Runs(t, 1, "plugin", "test", other),
			"FAIL  wrong\n      - the score is 20, outside 30 to 50\n", `- the threat is "", not "spam"`,
			"- the signal numbers:age:new is missing", "signal   +20 numbers:name:digits: Contains the number “20245”",
			"rdap.age_days is absent", "log      debug: longest number: 5 digits", "FAIL  not a domain\n      - ",
			"ok    right",
			"numbers@0.1.0: 1 of 3 cases passed, 1 of 2 signals emitted, 10 variations of the values tried\n"+
				"  no case emits numbers:age:new", "assay: 2 of 3 cases failed")
		expect.NoError(t, os.Remove(filepath.Join(other, "cases.jsonl")))
		hosttest.Has(t, hosttest.Runs(t, 1, "plugin", "test", other), "the layer has no cases")
	})
	t.Run("run", func(t *testing.T) {
		facts := hosttest.WriteFile(t, "facts.json", []byte(`{"rdap.age_days": "1", "config.limit": "5"}`))
		hosttest.Has(t, hosttest.Runs(t, 0, "plugin", "run", file, "jane@shop20245.com", "--facts", facts),
			`email "jane@shop20245.com"`, "score    50", "signal   +30 numbers:age:new: Registered 1 day ago",
			"threat   scam", `fact     rdap.age_days = "1"`, "unread   config.limit was given",
			"debug: longest number: 5 digits", " of 200000 units of fuel (", " KiB of memory, ")
		call := runsJSON[rehearsal.Call](t, "plugin", "run", file, "shop20245.com")
		expect.That(t, call.Outcome == rehearsal.Scored && call.Score == 20 && len(call.Facts) == 2 &&
			!call.Facts[1].Known && call.Fuel >= 1000 && call.Memory >= 1<<16 && call.Micros > 0 && len(call.Log) == 1,
			"%+v", call)
		failing := filepath.Join(t.TempDir(), "failing")
		expect.NoError(t, os.CopyFS(failing, os.DirFS(folder)))
		hosttest.ChangeLayer(t, failing, "SIGNAL_NAME_DIGITS", `"numbers:name:digit"`)
		hosttest.Has(t, hosttest.Runs(t, 1, "plugin", "run", failing, "shop20245.com"), "assay: the call failed",
			`failed   refused: the manifest declares no signal code "numbers:name:digit"`)
		hosttest.Has(t, hosttest.Runs(t, 1, "plugin", "run", file, "DE89370400440532013000"),
			"does not score values of type iban", "domain, email")
		hosttest.Has(t, hosttest.Runs(t, 1, "plugin", "run", file, "a.de", "--facts", folder),
			"reading facts, a JSON object of texts")
	})
	t.Run("inspect", func(t *testing.T) {
		i := runsJSON[inspection](t, "plugin", "inspect", file)
		sum := 8 // the header of the file
		for _, s := range i.Sections {
			sum += s.Bytes
		}
		if i.Plugin != "numbers@0.1.0" || sum != i.Bytes || i.Cases != 5 || i.MayClear || len(i.Imports) < 4 ||
			i.Digest != expect.Value(registry.OpenModule(expect.Value(os.ReadFile(file))(t)))(t).Digest.String() {
			t.Errorf("%+v; the sections have %d bytes", i, sum)
		}
		hosttest.Has(t, hosttest.Runs(t, 0, "plugin", "inspect", file), "Class finding, score 0 to 50.",
			"Reads    domain.registrable, ", "assay.fact", "numbers:age:new", `"assay.manifest"`, i.Digest)
		hosttest.Has(t, hosttest.Runs(t, 0, "plugin", "inspect", "--diff", file, file), "are the same")
		manifest := expect.Value(os.ReadFile(filepath.Join(folder, "manifest.json")))(t)
		other := filepath.Join(t.TempDir(), "other")
		expect.NoError(t, os.CopyFS(other, os.DirFS(folder)))
		expect.NoError(t, os.WriteFile(filepath.Join(other, "manifest.json"), []byte(strings.NewReplacer(
			"[0, 50]", "[-10, 40]", `"finding"`, `"style"`, `"facts": [`, `"facts": ["dns.a", `).
			Replace(string(manifest))), 0o600))
		hosttest.Has(t, hosttest.Runs(t, 0, "plugin", "inspect", "--diff", file, other),
			"more    lowest score   0        -10",
			"more    fact                    dns.a", "        highest score  50       40")
		hosttest.Runs(t, 2, "plugin", "inspect", file, file)
		hosttest.Runs(t, 2, "plugin", "inspect", file, "--diff")
	})
	t.Run("bench", func(t *testing.T) {
		text := hosttest.Runs(t, 0, "plugin", "bench", file, "--rounds", "2", "--json")
		var m rehearsal.Measurement
		expect.NoError(t, json.Unmarshal([]byte(text), &m))
		expect.That(t, m.Calls == 2*m.Values && m.Fuel.Median > 0 && m.Fuel.Maximum >= m.Fuel.P99 &&
			m.Memory.Median >= 1<<16 && m.Micros.Maximum >= m.Micros.Median && m.Failed == 0, "%+v", m)
		baseline, values := hosttest.WriteFile(t, "b.json", []byte(text)), hosttest.WriteFile(t, "v",
			[]byte("a.de\n\nb.de\nj@a.de\n"))
		hosttest.Has(t, hosttest.Runs(t, 0, "plugin", "bench", file, "--rounds", "1", "--baseline", baseline),
			" (+0.0%)", "200000", "Compared with numbers@0.1.0")
		hosttest.Has(t, hosttest.Runs(t, 0, "plugin", "bench", file, "--rounds", "3", "--values", values, "--baseline",
			file), "9 calls with 3 values", " (+0.0%)")
		hosttest.Has(t, hosttest.Runs(t, 1, "plugin", "bench", file, "--baseline",
			hosttest.WriteFile(t, "c.json", []byte("{}"))), "it is not an output of")
		hosttest.Has(t, hosttest.Runs(t, 1, "plugin", "bench", file, "--values",
			hosttest.WriteFile(t, "n", []byte("+491712345678\n"))), rehearsal.ErrNoValues.Error())
	})
}

// TestPluginMistakes checks what authors are told of a panic, of points out of range and of a fact that does not exist,
// and that a layer whose cases fail is not published.
func TestPluginMistakes(t *testing.T) {
	t.Parallel()
	const begins = "digits := longestNumber(name)\n"
	folder := filepath.Join(t.TempDir(), "mistakes")
	expect.Value(project.Create(folder, "mistakes", project.Go, false))(t)
	hosttest.ReplaceIn(t, filepath.Join(folder, "score.go"), begins, begins+"\tvar m map[string]int\n\tm[name] = 1\n")
	hosttest.Has(t, hosttest.Runs(t, 1, "plugin", "run", folder, "shop20245.com"),
		"failed   panic: assignment to entry in nil map, at layer/mistakes/score.go:25\n")
	folder, _ = hosttest.NewLayer(t, "mistakes", project.C, func(folder string) {
		hosttest.ChangeLayer(t, folder, "DIGITS_POINTS = 20", "DIGITS_POINTS = 500")
	})
	hosttest.Has(t, hosttest.Runs(t, 1, "plugin", "run", folder, "shop20245.com"),
		`failed   refused: signal "mistakes:name:digits" is worth 500 points, outside -100 to 100`)
	hosttest.Has(t, hosttest.Runs(t, 1, "plugin", "push", folder), "FAIL  a long number",
		"cases failed, so nothing was published")
	folder, _ = hosttest.NewLayer(t, "facts", project.C)
	for _, file := range []string{"manifest.json", "cases.jsonl"} {
		hosttest.ReplaceIn(t, filepath.Join(folder, file), "rdap.age_days", "rdap.agedays")
	}
	for _, command := range []string{"build", "test", "push"} {
		hosttest.Has(t, hosttest.Runs(t, 1, "plugin", command, folder),
			`the manifest names the fact "rdap.agedays", which does not exist: is it rdap.age_days?`,
			`the case "a new domain" names the fact "rdap.agedays"`)
	}
}

// TestLayerTextsAreOneLine checks that what a layer logs cannot control the author's terminal.
func TestLayerTextsAreOneLine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a “b” \"c\"": "a “b” \"c\"", "a\nb": `"a\nb"`, "\x1b[2J": `"\x1b[2J"`, "\xff": `"\xff"`,
		"a\u202eb": `"a\u202eb"`,
	} {
		got := oneLine(text)
		expect.That(t, got == want, "%q becomes %s, want %s", text, got, want)
	}
}
