package plugin

import (
	"os"
	"strings"
	"testing"

	"assay/host/hosttest"
	"assay/host/store/postgres/postgrestest"
)

// TestPluginPush pushes a plugin twice, and then different code under the same version.
func TestPluginPush(t *testing.T) {
	t.Parallel()
	dir, database := hosttest.DataDir(t), postgrestest.Database(t)
	hosttest.OpenStore(t, dir, database)
	plugin := hosttest.WriteFile(t, "empty.wasm",
		hosttest.Packed(t, "empty", hosttest.EmptyLayer, `"entities":["iban"],"facts":[],"signals":[]`))
	var first pluginLine
	for again := range 2 {
		pushed := hosttest.OutputJSON[pluginLine](t, dir, database, "plugin", "push", plugin)
		if pushed.SignedBy != "assay/operator" {
			t.Errorf("signed by %q", pushed.SignedBy)
		}
		if pushed.Digest == "" || pushed.Passport == nil || pushed.Passport.Digest != pushed.Digest {
			t.Errorf("the passport of %s is %+v", pushed.Digest, pushed.Passport)
		}
		pushed.Passport = nil
		if again == 0 {
			first = pushed
		} else if pushed != first {
			t.Errorf("pushed %v, then %v", first, pushed)
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
