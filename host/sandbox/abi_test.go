package sandbox

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"assay/registry/expect"
)

// TestABIListsImportsAndExports compares sections 3, 4 and 9 of sdk/ABI.md with what modules are vetted against.
func TestABIListsImportsAndExports(t *testing.T) {
	t.Parallel()
	text := expect.Value(os.ReadFile("../../sdk/ABI.md"))(t)
	page := string(text)
	for name, signature := range imports[hostModule] {
		want := fmt.Sprintf("| `%s` | %s |", name, strings.TrimSuffix(signature.String(), " -> ()"))
		if len(signature.Results) == 1 {
			want = strings.ReplaceAll(want, "-> (i32)", "-> i32")
		}
		expect.That(t, strings.Contains(page, want), "section 3 does not contain %q", want)
	}
	wasi := slices.Sorted(maps.Keys(imports[wasiModule]))
	for i, name := range wasi {
		wasi[i] = "`" + name + "`"
	}
	if list := strings.Join(wasi, ", ") + "."; !strings.Contains(strings.ReplaceAll(page, "\n", " "), list) {
		t.Errorf("section 9 does not list exactly %s", list)
	}
	for _, export := range []string{exportMemory, exportScore, exportInit} {
		expect.That(t, strings.Contains(page, "| `"+export+"` |"), "section 4 does not contain %s", export)
	}
	expect.That(t, startFuel == 50_000_000 && strings.Contains(page, "with 50,000,000 units of fuel"),
		"section 4 does not say that the initialisation may burn %d units", startFuel)
}
