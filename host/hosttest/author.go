package hosttest

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/registry/expect"
	"assay/registry/project"
)

// NewLayer creates a layer in a new folder, edits it, and builds it there.
func NewLayer(t *testing.T, name string, language project.Language, edits ...func(folder string)) (
	folder, file string) {
	t.Helper()
	folder = filepath.Join(t.TempDir(), name)
	expect.Value(project.Create(folder, name, language, false))(t)
	for _, edit := range edits {
		edit(folder)
	}
	file = filepath.Join(folder, "built.wasm")
	wasm, err := project.Build(t.Context(), folder)
	if errors.As(err, new(*project.MissingTool)) {
		t.Skip(err)
	}
	expect.NoError(t, err)
	expect.NoError(t, os.WriteFile(file, wasm, 0o600))
	return folder, file
}

// Runs runs a command in an empty folder without an installation, and returns its output. The command must end with the
// exit code and leave the folder empty.
func Runs(t *testing.T, code int, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), Program(t), args...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "ASSAY_DNS=off")
	out, err := cmd.CombinedOutput()
	expect.Must(t, err == nil || cmd.ProcessState != nil, "%v", err)
	got := cmd.ProcessState.ExitCode()
	expect.Must(t, got == code, "assay %s: exit code %d, want %d\n%s", strings.Join(args, " "), got, code, out)
	left := expect.Value(os.ReadDir(cmd.Dir))(t)
	expect.That(t, len(left) == 0, "assay %s left %v", strings.Join(args, " "), left)
	return string(out)
}

// Has reports the lines that text lacks.
func Has(t *testing.T, text string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		expect.That(t, strings.Contains(text, line), "%q is missing from:\n%s", line, text)
	}
}

// LayerAuthor runs programs as the author of a layer does, in a folder outside of the repository, without the network.
type LayerAuthor struct {
	Folder string
	Path   string // PATH
	Env    []string
}

// NewAuthor returns an author with an empty folder. The program assay is on the PATH.
func NewAuthor(t *testing.T) LayerAuthor {
	t.Helper()
	bin := t.TempDir()
	expect.NoError(t, os.Symlink(Program(t), filepath.Join(bin, "assay")))
	return LayerAuthor{Folder: t.TempDir(), Path: bin + string(os.PathListSeparator) + os.Getenv("PATH"),
		Env: os.Environ()}
}

// Run runs a program in a folder below the author's, and returns what it printed.
func (a LayerAuthor) Run(t *testing.T, folder, line string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", line)
	cmd.Dir = filepath.Join(a.Folder, folder)
	cmd.Env = append(slices.Clone(a.Env), "PATH="+a.Path, "GOPROXY=off", "GOTOOLCHAIN=local", "GOFLAGS=")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Must is Run for a program that must succeed.
func (a LayerAuthor) Must(t *testing.T, folder, line string) string {
	t.Helper()
	out, err := a.Run(t, folder, line)
	expect.Must(t, err == nil, "%s: %v\n%s", line, err, out)
	return out
}

// ChangeLayer replaces a text in the source of a layer in C.
func ChangeLayer(t *testing.T, folder, old, with string) {
	t.Helper()
	ReplaceIn(t, filepath.Join(folder, "layer.c"), old, with)
}

// ReplaceIn replaces a text in a file that must contain it.
func ReplaceIn(t *testing.T, file, old, with string) {
	t.Helper()
	text := expect.Value(os.ReadFile(file))(t)
	expect.Must(t, bytes.Contains(text, []byte(old)), "%q is not in %s", old, file)
	expect.NoError(t, os.WriteFile(file, bytes.ReplaceAll(text, []byte(old), []byte(with)), 0o600))
}
