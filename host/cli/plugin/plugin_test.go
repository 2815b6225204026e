package plugin

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/host/hosttest"
	"assay/host/store/postgres/postgrestest"
	"assay/registry/expect"
)

// TestPluginPush pushes a plugin twice, and then different code under the same version.
func TestPluginPush(t *testing.T) {
	t.Parallel()
	dir, database := hosttest.DataDir(t), postgrestest.Database(t)
	hosttest.OpenStore(t, dir, database)
	folder := t.TempDir()
	expect.NoError(t, os.WriteFile(filepath.Join(folder, "manifest.json"), []byte(`{"name":"empty",
		"version":"1.0.0","summary":"Empty","threats":[],"budget_fuel":1000,"memory_mb":1,"default_weight":1,
		"entities":["iban"],"facts":[],"signals":[]}`), 0o600))
	plugin := filepath.Join(folder, "empty.wasm")
	built := hosttest.OutputJSON[pluginLine](t, dir, database, "plugin", "build", folder,
		"--wasm", hosttest.WriteFile(t, "module.wasm", []byte(hosttest.EmptyLayer)), "-o", plugin)
	for range 2 {
		pushed := hosttest.OutputJSON[pluginLine](t, dir, database, "plugin", "push", plugin)
		if pushed.SignedBy != "assay/operator" {
			t.Errorf("signed by %q", pushed.SignedBy)
		}
		if pushed.Passport == nil || pushed.Passport.Digest != built.Digest {
			t.Errorf("the passport is %+v", pushed.Passport)
		}
		if pushed.File, pushed.SignedBy, pushed.Passport = built.File, "", nil; pushed != built || built.Digest == "" {
			t.Errorf("pushed %v, built %v", pushed, built)
		}
	}
	wasm, err := os.ReadFile(plugin)
	if err != nil {
		t.Fatal(err)
	}
	other := hosttest.WriteFile(t, "other.wasm", append(wasm, 0, 2, 1, 'x')) // adds a custom section
	cmd := hosttest.Command(t.Context(), dir, database, "plugin", "push", other)
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "raise the version") {
		t.Errorf("pushing different code under the same version: %v\n%s", err, out)
	}
}
