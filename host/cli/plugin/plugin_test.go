package plugin

import (
	"os"
	"path/filepath"
	"testing"

	"assay/host/hosttest"
	"assay/host/store/postgres/postgrestest"
	"assay/registry"
	"assay/registry/expect"
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
		_, err := store.Plugin(t.Context(), name, "1.0.0")
		expect.Error(t, name+" after it was refused", err, registry.ErrNoPlugin)
	}
}
