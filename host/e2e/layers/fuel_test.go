//go:build !race

// Fuel does not depend on the race detector, under which each layer runs many times slower.

package layers

import (
	"encoding/json"
	"flag"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"assay/host/check"
	"assay/host/entity"
	"assay/host/hosttest"
	"assay/registry/expect"
)

var updateFuel = flag.Bool("update-fuel", false, "rewrite the recorded fuel in testdata/fuel.json")

const fuelFile = "testdata/fuel.json"

// fuelTable is the fuel that each layer burns for reference values. Fuel is the same on every machine, but another
// compiler makes other code of the same layer.
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
	compiler := runtime.Version()
	table := readFuel(t)
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
		writeFuel(t, table)
		return
	}
	for i, want := range table.Values {
		for _, layer := range slices.Sorted(maps.Keys(burned[i].Fuel)) {
			expect.Equal(t, "fuel of "+layer+" for "+want.Name, burned[i].Fuel[layer], want.Fuel[layer])
		}
		for layer := range want.Fuel {
			_, ok := burned[i].Fuel[layer]
			expect.That(t, ok, "%s: %d units are recorded for %s, which does not score it", want.Name, want.Fuel[layer],
				layer)
		}
	}
}

func readFuel(t *testing.T) (table fuelTable) {
	t.Helper()
	text := expect.Value(os.ReadFile(fuelFile))(t)
	err := json.Unmarshal(text, &table)
	expect.Must(t, err == nil, "reading %s: %v", fuelFile, err)
	return table
}

func writeFuel(t *testing.T, table fuelTable) {
	t.Helper()
	text := expect.Value(json.MarshalIndent(table, "", "  "))(t)
	expect.NoError(t, os.WriteFile(fuelFile, append(text, '\n'), 0o644))
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
