package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/host/store/storetest"
	"assay/registry/project"
)

// layerAuthor runs programs as the author of a layer does, in a folder outside of the repository, without the network.
type layerAuthor struct {
	folder string
	path   string // PATH
}

// newAuthor returns an author with an empty folder. The program assay is on the PATH.
func newAuthor(t *testing.T) layerAuthor {
	t.Helper()
	bin := t.TempDir()
	script := "#!/bin/sh\n" + asCommand + "=1 exec '" + storetest.Must(os.Executable())(t) + "' \"$@\"\n"
	storetest.NoError(t, os.WriteFile(filepath.Join(bin, "assay"), []byte(script), 0o755))
	return layerAuthor{t.TempDir(), bin + string(os.PathListSeparator) + os.Getenv("PATH")}
}

// run runs a program in a folder below the author's, and returns what it printed.
func (a layerAuthor) run(t *testing.T, folder, line string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", line)
	cmd.Dir = filepath.Join(a.folder, folder)
	cmd.Env = append(os.Environ(), "PATH="+a.path, "GOPROXY=off", "GOTOOLCHAIN=local", "GOFLAGS=")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// must is run for a program that must succeed.
func (a layerAuthor) must(t *testing.T, folder, line string) string {
	t.Helper()
	out, err := a.run(t, folder, line)
	if err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return out
}

// TestPluginNew creates a layer in an empty folder, tests it natively, and builds it twice: the same source gives the
// same bytes in every folder.
func TestPluginNew(t *testing.T) {
	t.Parallel()
	a := newAuthor(t)
	var built [][]byte
	for _, parent := range []string{"a", "b"} {
		storetest.NoError(t, os.Mkdir(filepath.Join(a.folder, parent), 0o700))
		a.must(t, parent, "assay plugin new long-numbers")
		folder := filepath.Join(parent, "long-numbers")
		if parent == "a" {
			a.must(t, folder, "./ci.sh") // tests and builds
		} else {
			a.must(t, folder, "assay plugin build")
		}
		built = append(built, storetest.Must(os.ReadFile(
			filepath.Join(a.folder, folder, "long-numbers-0.1.0.wasm")))(t))
	}
	if !bytes.Equal(built[0], built[1]) {
		t.Error("two builds of the same source differ")
	}
	for line, want := range map[string]string{
		"assay plugin new long-numbers": "long-numbers is not empty",
		"assay plugin new Long":         `name "Long" must be 2 to 40 characters`,
		"assay plugin new x --lang tcl": "--lang must be one of",
		"assay plugin build .":          "assay plugin new",
	} {
		if out, err := a.run(t, "a", line); err == nil || !strings.Contains(out, want) {
			t.Errorf("%s: %v, %s, want %q", line, err, out, want)
		}
	}
	without := layerAuthor{a.folder, strings.Split(a.path, string(os.PathListSeparator))[0] + ":/usr/bin:/bin"}
	if _, err := exec.LookPath("/usr/bin/go"); errors.Is(err, os.ErrNotExist) {
		out, err := without.run(t, "a/long-numbers", "assay plugin build")
		if want := "go was not found: install Go 1.24 or later"; err == nil || !strings.Contains(out, want) {
			t.Errorf("without Go: %v, %s, want %q", err, out, want)
		}
	}
}

// TestTemplatesAreCopied checks that no file of a new layer has the template's name, and that all languages have the
// same files besides their source.
func TestTemplatesAreCopied(t *testing.T) {
	t.Parallel()
	for _, language := range project.Languages() {
		folder := filepath.Join(t.TempDir(), "layer")
		files := storetest.Must(project.Create(folder, "other", language))(t)
		for _, name := range []string{"manifest.json", "cases.jsonl", "README.md", "ci.sh", ".gitignore"} {
			if !slices.Contains(files, filepath.Join(folder, name)) {
				t.Errorf("%s: there is no %s in %q", language, name, files)
			}
		}
		for _, file := range files {
			if text := storetest.Must(os.ReadFile(file))(t); bytes.Contains(text, []byte("my-layer")) {
				t.Errorf("%s contains the template's name", file)
			}
		}
		if got, err := project.LanguageOf(folder); got != language || err != nil {
			t.Errorf("the language is %q, %v, want %q", got, err, language)
		}
	}
}
