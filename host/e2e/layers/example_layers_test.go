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
// gets the SDK, builds the layer, and tests it natively and in the sandbox.
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
			if out, err := a.Run(t, name, "assay plugin sdk . && assay plugin build ."); err != nil {
				if strings.Contains(out, " was not found: ") {
					t.Skip(out)
				}
				t.Fatal(out)
			}
			out := a.Must(t, name, "./ci.sh")
			if !strings.Contains(out, " cases passed, ") || strings.Contains(out, "  no case ") {
				t.Errorf("not every signal and fact has a case:\n%s", out)
			}
			for _, file := range expect.Value(filepath.Glob(filepath.Join(folder, "signals.*")))(t) {
				built := expect.Value(os.ReadFile(filepath.Join(a.Folder, name, filepath.Base(file))))(t)
				if !bytes.Equal(built, expect.Value(os.ReadFile(file))(t)) {
					t.Errorf("%s does not follow manifest.json: run assay plugin sdk %s", file, folder)
				}
			}
		})
	}
}
