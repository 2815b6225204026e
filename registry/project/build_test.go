package project_test

import (
	"os"
	"path/filepath"
	"testing"

	"assay/registry"
	"assay/registry/expect"
	"assay/registry/project"
)

// TestBuildIgnoresWorkspace builds a layer below a Go workspace that does not contain it.
func TestBuildIgnoresWorkspace(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	expect.NoError(t, os.WriteFile(filepath.Join(folder, "go.work"), []byte("go 1.24\n"), 0o600))
	layer := filepath.Join(folder, "layer")
	expect.Value(project.Create(layer, "below", project.Go, false))(t)
	wasm := expect.Value(project.Build(t.Context(), layer))(t)
	m, err := registry.OpenModule(wasm)
	expect.That(t, err == nil && m.Ref() == "below@0.1.0", "built %s, %v", m.Ref(), err)
}
