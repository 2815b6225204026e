package plugin

import (
	"bytes"
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"assay/host/hosttest"
	"assay/host/store/postgres/postgrestest"
	"assay/registry/expect"
	"assay/registry/project"
)

// TestPluginNew runs the commands of docs/layers.md word for word in an empty folder, except for the host's address:
// from nothing to a live layer and back. TestPublishAsDocumented runs the rest. Another build of the same source,
// elsewhere, gives the same bytes.
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
	interrupt()
}

// TestTemplatesAreCopied checks that no file of a new layer has the template's name, and that all languages have the
// same files besides their source.
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
		}
		got, err := project.LanguageOf(folder)
		expect.That(t, got == language && err == nil, "the language is %q, %v, want %q", got, err, language)
	}
}
