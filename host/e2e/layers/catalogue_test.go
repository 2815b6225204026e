//go:build !race

// The pages and the fuel do not depend on the race detector, under which each layer runs many times slower.
package layers

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"assay/host/check"
	"assay/host/cli"
	"assay/host/entity"
	"assay/host/hosttest"
	"assay/host/lineup/rehearsal"
	"assay/registry"
	"assay/registry/expect"
)

// TestCatalogue checks plugins/CATALOGUE.md and docs/catalogue against the layers' manifests, their cases in the
// sandbox, which pass with the same outcome each time, and the recorded fuel. With ASSAY_UPDATE=1 it writes them.
func TestCatalogue(t *testing.T) {
	t.Parallel()
	modules := hosttest.BuiltLayers(t)
	pages := map[string]string{"../../../plugins/CATALOGUE.md": catalogueIndex(modules)}
	fuel := readFuel(t)
	for _, m := range modules {
		pages[filepath.Join("../../../docs/catalogue", m.Manifest.Name+".md")] = cataloguePage(t, m, fuel)
	}
	for file, want := range pages {
		if os.Getenv("ASSAY_UPDATE") != "" {
			expect.NoError(t, os.WriteFile(file, []byte(want), 0o644))
		}
		if diff := cmp.Diff(want, hosttest.ReadText(t, file)); diff != "" {
			t.Errorf("%s is out of date (-want +got): ASSAY_UPDATE=1 go test ./host/e2e/layers -run TestCatalogue\n%s",
				file, diff)
		}
	}
	files, err := filepath.Glob("../../../docs/catalogue/*.md")
	expect.That(t, err == nil && len(files) == len(modules), "%d pages of %d layers: %v", len(files), len(modules), err)
}

const generated = "<!-- ASSAY_UPDATE=1 go test ./host/e2e/layers -run TestCatalogue generates this page. -->\n"

// catalogueIndex returns the list of layers.
func catalogueIndex(modules []registry.Module) string {
	var rows strings.Builder
	for _, m := range modules {
		lowest, highest := m.Manifest.Range()
		fmt.Fprintf(&rows, "| [%s](../docs/catalogue/%s.md) | %s | %s, %d to %d | %s |\n", m.Manifest.Name,
			m.Manifest.Name, strings.Join(m.Manifest.Entities, ", "), m.Manifest.LayerClass(), lowest, highest,
			m.Manifest.Summary)
	}
	return "# Layers and signals\n\n" +
		"Each layer looks at one kind of evidence, and has a page with its signals: what they mean, an " +
		"example, and what an\nhonest owner can do. Points speak against an entity, negative points for it. " +
		"A signal that warrants a band puts the\nentity there whatever the style layers say. A final one does so " +
		"whatever the evidence in the entity's favour. ABI.md\ndefines the [facts](../sdk/ABI.md#7-facts), " +
		"[threats](../sdk/ABI.md#6-threats) and " + "[classes](../sdk/ABI.md#4-exports).\n\n" + generated + "\n" +
		"| layer | entities | class and score | evidence |\n|---|---|---|---|\n" + rows.String()
}

// cataloguePage returns the page of a layer.
func cataloguePage(t *testing.T, module registry.Module, fuel fuelTable) string {
	m := module.Manifest
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n%s\n%s\n", m.Name, fill(strings.TrimSuffix(m.Summary, ".")+".", ""), generated)
	lowest, highest := m.Range()
	item := func(label, format string, args ...any) {
		b.WriteString("- " + fill(label+": "+fmt.Sprintf(format, args...), "  "))
	}
	most := int64(0)
	for _, v := range fuel.Values {
		most = max(most, v.Fuel[m.Name])
	}
	item("Class and score", "%s, %d to %d", m.LayerClass(), lowest, highest)
	item("Entities", "%s", strings.Join(m.Entities, ", "))
	item("Facts that it reads", "%s", codes(m.Facts))
	if len(m.Threats) > 0 {
		item("Threats that it can name", "%s", codes(m.Threats))
	}
	item("Budget", "%s units of fuel and %d MB of memory; reference values burn up to %s units",
		hosttest.Thousands(m.BudgetFuel), m.MemoryMB, hosttest.Thousands(most))
	item("Version and owner", "%s, the maintainers of Assay", m.Version)
	examples := examplesOf(t, module)
	for _, s := range m.Signals {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", s.Code, fill(prose(s.Text)+".", ""))
		if worth := worth(s); worth != "" {
			item("Worth", "%s", worth)
		}
		shown, ok := examples[s.Code]
		expect.That(t, ok, "no case of %s emits %s", m.Name, s.Code)
		item("Example", "%s", shown.input)
		item("Result", "%s", shown.result)
		if s.Remedy != "" {
			item("What an honest owner can do", "%s", prose(s.Remedy))
		}
	}
	return b.String()
}

// example is a case with its result, as texts.
type example struct{ input, result string }

// examplesOf returns, for each signal, the case with the fewest other signals and facts in which the layer emits it.
func examplesOf(t *testing.T, m registry.Module) map[string]example {
	plugin, cases := opened(t, m), expect.Value(m.Cases())(t)
	report := expect.Value(rehearsal.Cases(t.Context(), plugin, cases))(t)
	found, size := map[string]example{}, map[string]int{}
	for i, r := range report.Cases {
		for _, difference := range r.Differences {
			t.Errorf("%s, %s: %s", m.Manifest.Name, r.Name, difference)
		}
		if i >= len(cases) {
			continue // a variation
		}
		again, err := rehearsal.Run(t.Context(), plugin, rehearsal.Subject{Type: r.Call.Type,
			Value: cases[i].Value, Country: cases[i].Country, Facts: cases[i].Facts})
		expect.That(t, err == nil, "%v", err)
		expect.NoDiff(t, r.Name+": the second call", r.Call, again, cmpopts.IgnoreFields(again, "Micros"))
		if r.Call.Outcome != rehearsal.Scored {
			continue
		}
		for _, s := range r.Call.Signals {
			n := 10*len(r.Call.Signals) + len(cases[i].Facts)
			if was, ok := size[s.Code]; ok && n >= was {
				continue
			}
			size[s.Code] = n
			var given []string
			for _, name := range slices.Sorted(maps.Keys(cases[i].Facts)) {
				given = append(given, fmt.Sprintf("`%s` = %s", name, code(cases[i].Facts[name])))
			}
			e := example{code(cases[i].Value),
				fmt.Sprintf("*%s* (%+d, and the layer's score is %d)", prose(s.Text), s.Points, r.Call.Score)}
			if len(given) > 0 {
				e.input += ", with " + strings.Join(given, ", ")
			}
			found[s.Code] = e
		}
	}
	return found
}

func code(text string) string {
	if text == "" {
		return "(empty)"
	}
	return "`" + text + "`"
}

func codes[T ~string](all []T) string {
	texts := make([]string, len(all))
	for i, text := range all {
		texts[i] = code(string(text))
	}
	return strings.Join(texts, ", ")
}

var proseEscapes = strings.NewReplacer(`\`, `\\`, "*", `\*`, "_", `\_`, "`", "\\`", "<", `\<`, "[", `\[`)

// prose escapes what Markdown would take for markup.
func prose(text string) string { return proseEscapes.Replace(text) }

// fill breaks a text into lines.
func fill(text, indent string) string {
	return strings.Join(cli.Wrap(text, 120-len(indent)), "\n"+indent) + "\n"
}

// worth says what a signal promises.
func worth(s registry.SignalText) string {
	var parts []string
	if s.Points != 0 {
		parts = append(parts, fmt.Sprintf("%d points or more", s.Points))
	}
	if s.Warrants != "" {
		parts = append(parts, "warrants "+s.Warrants)
	}
	if s.Final {
		parts = append(parts, "final")
	}
	if s.Threat != "" {
		parts = append(parts, "evidence for `"+string(s.Threat)+"`")
	}
	return strings.Join(parts, ", ")
}

var updateFuel = flag.Bool("update-fuel", false, "rewrite the recorded fuel in testdata/fuel.json")

const fuelFile = "testdata/fuel.json"

// fuelTable is the fuel that each layer burns for reference values, the same on every machine.
type fuelTable struct {
	Toolchain string          `json:"toolchain"` // the version of Go that compiled the layers
	Values    []fuelReference `json:"values"`
}

// fuelReference is a reference value.
type fuelReference struct {
	Name  string           `json:"name"`
	Type  entity.Type      `json:"type"`
	Value string           `json:"value"`
	Facts entity.Facts     `json:"facts,omitempty"` // in addition to those of the value
	Fuel  map[string]int64 `json:"fuel"`            // by layer
}

// TestFuelOfLayers compares the fuel that each layer burns in the sandbox with the recorded one. It fails for every
// difference, so that nobody makes a layer dearer without noticing. To record the fuel after an intended change:
// go test ./host/e2e/layers -run TestFuelOfLayers -update-fuel.
func TestFuelOfLayers(t *testing.T) {
	t.Parallel()
	compiler, table := runtime.Version(), readFuel(t)
	if table.Toolchain != compiler && !*updateFuel {
		t.Skipf("%s records the fuel of layers that %s compiled. %s compiles them to other code, which burns other "+
			"fuel. Use the toolchain in go.mod, or change it there and record with -update-fuel.", fuelFile,
			table.Toolchain, compiler)
	}
	expect.That(t, strings.Contains(hosttest.ReadText(t, "../../../go.mod"), "\ntoolchain "+compiler+"\n"),
		"go.mod does not name the toolchain %s, for which %s holds the fuel", compiler, fuelFile)
	burned := burnReferences(t, table.Values)
	if *updateFuel {
		table.Toolchain, table.Values = compiler, burned
		text := expect.Value(json.MarshalIndent(table, "", "  "))(t)
		expect.NoError(t, os.WriteFile(fuelFile, append(text, '\n'), 0o644))
		return
	}
	for i, want := range table.Values {
		expect.NoDiff(t, "fuel for "+want.Name, want.Fuel, burned[i].Fuel)
	}
}

func readFuel(t *testing.T) (table fuelTable) {
	t.Helper()
	err := json.Unmarshal(expect.Value(os.ReadFile(fuelFile))(t), &table)
	expect.Must(t, err == nil, "reading %s: %v", fuelFile, err)
	return table
}

// burnReferences returns the values with the fuel that each layer burns for them.
func burnReferences(t *testing.T, values []fuelReference) []fuelReference {
	t.Helper()
	burned, layers := slices.Clone(values), hosttest.BuiltLayers(t)
	for i, v := range burned {
		burned[i].Fuel = map[string]int64{}
		e := expect.Value(entity.Parse(v.Type, v.Value, ""))(t)
		maps.Copy(e.Facts, v.Facts)
		for _, m := range layers {
			if slices.Contains(m.Manifest.Entities, string(v.Type)) {
				result := expect.Value(opened(t, m).Score(t.Context(), check.Input{Entity: e.Facts}))(t)
				burned[i].Fuel[m.Manifest.Name] = result.Fuel
			}
		}
	}
	return burned
}
