package plugin

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"assay/host/hosttest"
	"assay/host/internal/terminal"
	"assay/host/lineup/rehearsal"
	"assay/host/store/postgres/postgrestest"
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
			"rdap.age_days is absent", "log      debug: longest number: 5 digits", "FAIL  not a domain\n      - read",
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

// TestPluginMistakes checks what authors are told of mistakes. A layer whose cases fail is not published.
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
			`the manifest names the fact "rdap.agedays", which does not exist: is it rdap.age_days?`)
	}
	for _, file := range []string{"manifest.json", "cases.jsonl"} {
		hosttest.ReplaceIn(t, filepath.Join(folder, file), "rdap.agedays", "rdap.age_days")
	}
	hosttest.ReplaceIn(t, filepath.Join(folder, "cases.jsonl"), `"3"}`, `"3 days"}`)
	hosttest.ReplaceIn(t, filepath.Join(folder, "cases.jsonl"), `"0"}`, `"-3", "domain.registrable": "evil.com"}`)
	hosttest.Has(t, hosttest.Runs(t, 1, "plugin", "build", folder),
		`the case "a new domain" gives rdap.age_days the impossible value "3 days"`, `the impossible value "-3"`,
		`"a long number in a new domain" gives domain.registrable, which hosts read from the value`)
}

// TestLayerTextsAreOneLine checks that what a layer logs cannot control the author's terminal.
func TestLayerTextsAreOneLine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a “b” \"c\"": "a “b” \"c\"", "a\nb": `"a\nb"`, "\x1b[2J": `"\x1b[2J"`, "\xff": `"\xff"`,
		"a\u202eb": `"a\u202eb"`,
	} {
		expect.Equal(t, fmt.Sprintf("%q", text), terminal.OneLine(text), want)
	}
}

// TestPluginNew runs the commands of docs/layers.md word for word in an empty folder, from nothing to a live layer and
// back. TestPublishAsDocumented runs the rest. Another build of the same source gives the same bytes.
func TestPluginNew(t *testing.T) {
	t.Parallel()
	dir, database := hosttest.DataDir(t), postgrestest.Database(t)
	host := hosttest.StartHost(t, dir, database)
	a := hosttest.NewAuthor(t)
	a.Env = hosttest.Command(t.Context(), dir, database).Env
	page, _, _ := strings.Cut(hosttest.ReadText(t, "../../../docs/layers.md"), "## Publish for other installations\n")
	page = strings.ReplaceAll(page, "http://127.0.0.1:8080", host.URL)
	commands, shown := "set -e\n", ""
	for _, block := range hosttest.Fenced.FindAllStringSubmatch(page, -1) {
		switch block[1] {
		case "sh":
			// What a person would wait for after a check. Before one, it is not there.
			commands += strings.ReplaceAll(block[2], "assay lineup shadow\n", `for i in $(seq 300); do
				assay lineup shadow >shadow; ! grep long-numbers:name:digits shadow || break; sleep 0.1; done
				`) + "\n"
		case "text":
			shown = cmp.Or(shown, block[2]) // what `run` prints
		}
	}
	expect.NoError(t, os.Mkdir(filepath.Join(a.Folder, "a"), 0o700))
	out := a.Must(t, "a", commands)
	for line := range strings.Lines(shown) {
		if label, _, _ := strings.Cut(line, " "); label != "cost" && !strings.Contains(out, line) {
			t.Errorf("docs/layers.md shows %q, which is missing from:\n%s", line, out)
		}
	}
	const signal = "Contains the number “20245”"
	answers := regexp.MustCompile(`(?m)\{"score".*?\}`).FindAllString(out, -1)
	expect.That(t, len(answers) == 2 && !strings.Contains(answers[0], signal) && strings.Contains(answers[1], signal),
		"a check in shadow, then one live: %q", answers)
	hosttest.Has(t, out, "  1       100%   long-numbers:name:digits of long-numbers",
		"long-numbers@0.1.0: shadow to live.", "Revision 1 is in force on ")
	expect.NoError(t, os.Mkdir(filepath.Join(a.Folder, "b"), 0o700))
	a.Must(t, "b", "assay plugin new long-numbers && cd long-numbers && ./ci.sh")
	a.Must(t, "b", "assay plugin new blank --empty && cd blank && ./ci.sh")
	a.Must(t, "", "cmp a/long-numbers/long-numbers-0.1.0.wasm b/long-numbers/plugin.wasm")
	for line, want := range map[string]string{
		"assay plugin new long-numbers": "long-numbers is not empty",
		"assay plugin new Long":         `name "Long" must be 2 to 40 characters`,
		"assay plugin new x --lang tcl": "--lang must be one of \"go\",\"rust\",\"assemblyscript\",\"c\"",
		"assay plugin build .":          "assay plugin new",
	} {
		out, err := a.Run(t, "a", line)
		expect.That(t, err != nil && strings.Contains(out, want), "%s: %v, %s, want %q", line, err, out, want)
	}
}

// TestPluginLanguages goes from new to run in each other language than Go, in a folder with nothing else in it. The
// layers do all that the one in Go does, for 10,000 vectors of facts.
func TestPluginLanguages(t *testing.T) {
	t.Parallel()
	for _, language := range project.Languages() {
		t.Run(string(language), func(t *testing.T) {
			t.Parallel()
			if language == project.Go {
				_, file := hosttest.NewLayer(t, "same", language) // TestPluginNew has the rest
				hosttest.Has(t, hosttest.Runs(t, 0, "plugin", "test", file, "--conformance"), "for 10000 vectors")
				return
			}
			a := hosttest.NewAuthor(t)
			a.Must(t, "", "assay plugin new same --lang "+string(language))
			if out, err := a.Run(t, "same", "assay plugin build -o ../first.wasm"); err != nil {
				if strings.Contains(out, " was not found: ") {
					t.Skip(out)
				}
				t.Fatal(out)
			}
			a.Must(t, "", "assay plugin new blank --empty --lang "+string(language)+" && blank/ci.sh")
			hosttest.Has(t, a.Must(t, "same", "./ci.sh"), "same@0.1.0: 5 of 5 cases passed, 2 of 2 signals emitted")
			a.Must(t, "", "cmp first.wasm same/plugin.wasm")
			hosttest.Has(t, a.Must(t, "", "assay plugin run first.wasm shop20245.com"), "score    20",
				"log      debug: longest number: 5 digits")
			hosttest.Has(t, a.Must(t, "", "assay plugin test --conformance first.wasm"), "for 10000 vectors")
		})
	}
}

// TestConformanceFails checks that a layer with another answer does not conform.
func TestConformanceFails(t *testing.T) {
	t.Parallel()
	_, file := hosttest.NewLayer(t, "other", project.C, func(folder string) {
		hosttest.ChangeLayer(t, folder, "NEW_DAYS = 30", "NEW_DAYS = 29")
	})
	text := hosttest.Runs(t, 1, "plugin", "test", file, "--conformance")
	hosttest.Has(t, text, `"rdap.age_days":"29"`, `signal 30 other:age:new "Registered 29 days ago"`, "-- got\n",
		"other@0.1.0 differs from the first layer")
}

// TestMissingTools builds layers without compilers: each error says what to install.
func TestMissingTools(t *testing.T) {
	t.Parallel()
	a := hosttest.NewAuthor(t)
	a.Path, _, _ = strings.Cut(a.Path, string(os.PathListSeparator))
	for language, want := range map[project.Language]string{
		project.Go:             "go was not found: install Go 1.24 or later",
		project.Rust:           "rustc with the target wasm32-unknown-unknown was not found: install it",
		project.AssemblyScript: "asc was not found: run `npm install`",
		project.C:              "clang was not found: install clang and lld (Debian: apt install clang lld)",
	} {
		name := "in-" + string(language)
		a.Must(t, "", "assay plugin new "+name+" --lang "+string(language))
		out, err := a.Run(t, "", "assay plugin build "+name)
		expect.That(t, err != nil && strings.Contains(out, want), "%s: %v, %s, want %q", language, err, out, want)
	}
}

// TestWatchedFiles checks which changes of a folder run the cases again: those of sources.
func TestWatchedFiles(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	write := func(name string) string {
		t.Helper()
		file := filepath.Join(folder, name)
		expect.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
		expect.NoError(t, os.WriteFile(file, []byte(name), 0o600))
		return expect.Value(stateOf(folder))(t)
	}
	last := write("layer.c")
	for _, name := range []string{"x.wasm", ".git/HEAD", ".hidden", "node_modules/a/b.js", "build/layer.js"} {
		expect.That(t, write(name) == last, "%s counts as a source", name)
	}
	for _, name := range []string{"cases.jsonl", "sdk/layer.go"} {
		if now := write(name); now == last {
			t.Errorf("%s does not count as a source", name)
		} else {
			last = now
		}
	}
}

// TestPluginWatch changes a layer that is watched.
func TestPluginWatch(t *testing.T) {
	t.Parallel()
	folder, _ := hosttest.NewLayer(t, "watched", project.C)
	until, interrupt := session(t, exec.CommandContext(t.Context(), hosttest.Program(t), "plugin", "test", folder,
		"--watch"))
	until("watched@0.1.0: 5 of 5 cases passed, 2 of 2 signals emitted")
	until("-- ")
	hosttest.ChangeLayer(t, folder, "MIN_DIGITS = 4", "MIN_DIGITS = 9")
	until("FAIL  a long number")
	until("assay: 2 of 5 cases failed")
	until("-- ")
	hosttest.ChangeLayer(t, folder, "MIN_DIGITS = 9", "MIN_DIGITS = ")
	until("assay: building layer: running clang: ")
	until("-- ")
	interrupt(syscall.SIGINT)
}

// TestTemplatesAreCopied: no file has the template's name, and all languages have the same ones besides the source.
func TestTemplatesAreCopied(t *testing.T) {
	t.Parallel()
	for _, language := range project.Languages() {
		folder := filepath.Join(t.TempDir(), "layer")
		files := expect.Value(project.Create(folder, "other", language, false))(t)
		for _, name := range []string{"manifest.json", "cases.jsonl", "README.md", "ci.sh", ".gitignore"} {
			expect.That(t, slices.Contains(files, filepath.Join(folder, name)), "%s: there is no %s in %q", language,
				name, files)
		}
		for _, file := range files {
			text := expect.Value(os.ReadFile(file))(t)
			expect.That(t, !bytes.Contains(text, []byte("my-layer")), "%s contains the template's name", file)
			expect.That(t, filepath.Base(file) != ".gitignore" || bytes.Contains(text, []byte("*.key\n")),
				"%s: a publisher's key would be committed", file)
		}
		got, err := project.LanguageOf(folder)
		expect.That(t, got == language && err == nil, "the language is %q, %v, want %q", got, err, language)
	}
}
