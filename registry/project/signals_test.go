package project_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/registry"
	"assay/registry/expect"
	"assay/registry/project"
)

// newProject creates a layer in a new folder and adds a signal to its manifest.
func newProject(t *testing.T, language project.Language, code string) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "numbers")
	expect.Value(project.Create(dir, "numbers", language, false))(t)
	replace(t, filepath.Join(dir, "manifest.json"), `"signals": [`,
		`"signals": [{"code": "`+code+`", "text": "A  new one."}, `)
	return dir
}

func replace(t *testing.T, file, old, with string) {
	t.Helper()
	text := string(expect.Value(os.ReadFile(file))(t))
	expect.Must(t, strings.Contains(text, old), "%q is not in %s", old, file)
	expect.NoError(t, os.WriteFile(file, []byte(strings.ReplaceAll(text, old, with)), 0o600))
}

func TestUpdateWritesSignals(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		language         project.Language
		file, code, want string
	}{
		{project.Go, "signals.go", "numbers:new-kind:of_it",
			"signalNewKindOfIt = \"numbers:new-kind:of_it\" // A new one\n"},
		{project.Go, "signals.go", "other:2fa:x", "\tsignalOther2faX  = \"other:2fa:x\" "},
		{project.Rust, "signals.rs", "numbers:new-kind:of_it",
			"/// A new one.\npub const NEW_KIND_OF_IT: &str = \"numbers:new-kind:of_it\";\n"},
		{project.Rust, "signals.rs", "numbers:2fa:x", "pub const _2FA_X: &str"},
		{project.AssemblyScript, "signals.ts", "numbers:2fa:x",
			"  // A new one.\n  export const _2faX: string = \"numbers:2fa:x\";\n"},
		{project.C, "signals.h", "numbers:2fa:x", "// A new one.\n#define SIGNAL_2FA_X \"numbers:2fa:x\"\n"},
	} {
		t.Run(string(c.language)+" "+c.code, func(t *testing.T) {
			t.Parallel()
			dir := newProject(t, c.language, c.code)
			expect.Value(project.Update(dir))(t)
			text, err := os.ReadFile(filepath.Join(dir, c.file))
			expect.That(t, err == nil && strings.Contains(string(text), c.want), "%v; %q is missing from:\n%s", err,
				c.want, text)
		})
	}
	dir := newProject(t, project.C, "numbers:name_digits:x")
	replace(t, filepath.Join(dir, "manifest.json"), `"signals": [`,
		`"signals": [{"code": "numbers:name:digits-x", "text": "x"}, `)
	expect.ErrorText(t, "two signals with one constant", expect.ErrorOf(project.Update(dir)),
		"would have the same constant")
}

// TestSignalsOfReleasedLayers checks that the constants of the layers of the release are those of their manifests.
func TestSignalsOfReleasedLayers(t *testing.T) {
	t.Parallel()
	manifests := expect.Value(filepath.Glob("../../plugins/*/manifest.json"))(t)
	expect.Must(t, len(manifests) != 0, "there are no layers")
	for _, manifest := range append(manifests, "../../examples/layer-go/manifest.json") {
		dir := filepath.Dir(manifest)
		want := expect.Value(project.Signals(dir, project.Go))(t)
		file := filepath.Join(dir, "signals.go")
		if os.Getenv("ASSAY_UPDATE") != "" {
			expect.NoError(t, os.WriteFile(file, []byte(want), 0o644))
		}
		expect.Equal(t, file, string(expect.Value(os.ReadFile(file))(t)), want)
	}
}

// TestUpdateReplacesSDK checks that Update replaces the SDK and keeps the author's files, also signals.go.
func TestUpdateReplacesSDK(t *testing.T) {
	t.Parallel()
	for language, file := range map[project.Language]string{
		project.Go: "sdk/facts.go", project.Rust: "assay_facts.rs", project.AssemblyScript: "assay.ts",
		project.C: "assay.h",
	} {
		dir := t.TempDir() // an empty folder may exist
		expect.Value(project.Create(dir, "numbers", language, false))(t)
		before := expect.Value(os.ReadFile(filepath.Join(dir, file)))(t)
		expect.NoError(t, os.Remove(filepath.Join(dir, file)))
		expect.NoError(t, os.WriteFile(filepath.Join(dir, "signals.go"), []byte("package main\n"), 0o600))
		files := expect.Value(project.Update(dir))(t)
		after, err := os.ReadFile(filepath.Join(dir, file))
		expect.That(t, err == nil && string(after) == string(before), "%s: %v, %s is not what it was", language, err,
			file)
		for _, f := range files {
			own := []string{"score.go", "signals.go", "manifest.json", "layer.rs", "layer.ts", "layer.c"}
			expect.That(t, filepath.Dir(f) != dir || !slices.Contains(own, filepath.Base(f)), "%s: wrote %s", language,
				f)
		}
	}
}

// TestBuildFollowsManifest checks that a build writes the constants of new signals, fails when the code emits a signal
// that the manifest no longer declares, and leaves an author's own file alone.
func TestBuildFollowsManifest(t *testing.T) {
	t.Parallel()
	dir := newProject(t, project.C, "numbers:name:new")
	code, constants := filepath.Join(dir, "layer.c"), filepath.Join(dir, "signals.h")
	replace(t, code, "SIGNAL_AGE_NEW", "SIGNAL_NAME_NEW")
	if _, err := project.Build(t.Context(), dir); err != nil {
		if errors.As(err, new(*project.MissingTool)) {
			t.Skip(err)
		}
		t.Fatal(err)
	}
	replace(t, filepath.Join(dir, "manifest.json"), "numbers:name:new", "numbers:name:newer")
	expect.ErrorText(t, "the code emits an undeclared signal",
		expect.ErrorOf(project.Build(t.Context(), dir)), "SIGNAL_NAME_NEW")
	own := "#define SIGNAL_NAME_NEW \"numbers:name:new\"\n#define SIGNAL_NAME_DIGITS SIGNAL_NAME_NEW\n"
	expect.NoError(t, os.WriteFile(constants, []byte(own), 0o600))
	expect.Error(t, "error", expect.ErrorOf(project.Build(t.Context(), dir)), nil)
	text, err := os.ReadFile(constants)
	expect.That(t, err == nil && string(text) == own, "%v, the author's file is now:\n%s", err, text)
}

// TestBuildIgnoresWorkspace builds a layer below a Go workspace that does not contain it.
func TestBuildIgnoresWorkspace(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	expect.NoError(t, os.WriteFile(filepath.Join(folder, "go.work"), []byte("go 1.24\n"), 0o600))
	layer := filepath.Join(folder, "layer")
	expect.Value(project.Create(layer, "below", project.Go, false))(t)
	m, err := registry.OpenModule(expect.Value(project.Build(t.Context(), layer))(t))
	expect.That(t, err == nil && m.Ref() == "below@0.1.0", "built %s, %v", m.Ref(), err)
}
