package layers

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/host/hosttest"
	"assay/registry/expect"
)

// TestExampleLayers copies each layer of examples/ to an empty folder, and runs its own CI there as its author does: it
// gets the SDK, builds the layer, and tests it natively and in the sandbox. No entity makes the layer fail.
func TestExampleLayers(t *testing.T) {
	t.Parallel()
	folders := expect.Value(filepath.Glob("../../../examples/layer-*"))(t)
	expect.Equal(t, "layers, one in each language", len(folders), 4)
	list := hosttest.ReadText(t, "../../../examples/README.md")
	for _, folder := range folders {
		name := filepath.Base(folder)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hosttest.Has(t, list, "("+name+")")
			a := hosttest.NewAuthor(t)
			expect.NoError(t, os.CopyFS(filepath.Join(a.Folder, name), os.DirFS(folder)))
			out, err := a.Run(t, name, "./ci.sh")
			if err != nil {
				if built, _ := a.Run(t, name, "assay plugin build ."); strings.Contains(built, " was not found: ") {
					t.Skip(built)
				}
				t.Fatal(out)
			}
			scoreEntities(t, moduleIn(t, filepath.Join(a.Folder, name, "plugin.wasm")))
			expect.That(t, strings.Contains(out, " cases passed, ") && !strings.Contains(out, "  no case "),
				"not every signal and fact has a case:\n%s", out)
			for _, file := range expect.Value(filepath.Glob(filepath.Join(folder, "signals.*")))(t) {
				built := expect.Value(os.ReadFile(filepath.Join(a.Folder, name, filepath.Base(file))))(t)
				expect.That(t, bytes.Equal(built, expect.Value(os.ReadFile(file))(t)),
					"%s does not follow manifest.json: run assay plugin sdk %s", file, folder)
			}
		})
	}
}
