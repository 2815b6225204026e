package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/host/entity"
	"assay/host/facts/network"
	"assay/host/facts/registration"
	"assay/host/facts/reputation"
	"assay/registry"
	"assay/sdk"
)

// TestInterfacePage holds sdk/ABI.md to the code: its facts, threats and limits are those that guests meet.
func TestInterfacePage(t *testing.T) {
	t.Parallel()
	page := readText(t, "../sdk/ABI.md")
	var threats strings.Builder
	for _, table := range factTables() {
		var rows strings.Builder
		for _, f := range table {
			fmt.Fprintf(&rows, "| %s | %s | %s |\n", f.Name, f.Format, f.Example)
		}
		if !strings.Contains(page, rows.String()) {
			t.Errorf("section 7 of sdk/ABI.md lacks a table of facts, which is:\n%s", rows.String())
		}
	}
	rest := page
	for _, threat := range sdk.Threats() {
		fmt.Fprintf(&threats, "`%s` ", threat)
		var found bool
		if _, rest, found = strings.Cut(rest, "\n| `"+string(threat)+"` |"); !found {
			t.Errorf("section 6 of sdk/ABI.md does not list, in this order: %s", threats.String())
		}
	}
	for _, row := range []string{
		fmt.Sprintf("| signals | %d |", sdk.MaxSignals),
		fmt.Sprintf("| points of a signal | -%d to %d |", sdk.MaxPoints, sdk.MaxPoints),
		fmt.Sprintf("| a code | %d bytes", sdk.MaxCodeBytes),
		fmt.Sprintf("| a text | 1 to %d bytes", sdk.MaxTextBytes),
		fmt.Sprintf("| a fact's name | %d bytes |", sdk.MaxFactName),
		fmt.Sprintf("| log and printed output | %d bytes |", sdk.LogBytes),
	} {
		if !strings.Contains(page, row) {
			t.Errorf("section 5 of sdk/ABI.md lacks %q", row)
		}
	}
}

// TestReadme holds the README to what it promises: two commands, and nothing else to know before them.
func TestReadme(t *testing.T) {
	t.Parallel()
	readme := readText(t, "../README.md")
	for _, want := range []string{"\ngo run ./host", "\ngo test ./...", "POST /api/check"} {
		if !strings.Contains(readme, want) {
			t.Errorf("README.md does not show %q", strings.TrimSpace(want))
		}
	}
}

// factTables are the facts of every source, in the order of the page.
func factTables() [][]entity.Fact {
	return [][]entity.Fact{
		entity.FactTable(), network.DNS{}.Table(), (*network.Net)(nil).Table(), (*registration.Source)(nil).Table(),
		(*reputation.Similar)(nil).Table(), (*reputation.Graph)(nil).Table(), (*reputation.Feed)(nil).Table(),
	}
}

// TestLayersReadKnownFacts holds the first-party manifests to the tables: a fact misspelt would read as absent for ever.
func TestLayersReadKnownFacts(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, f := range slices.Concat(factTables()...) {
		known[f.Name] = true
	}
	files, err := filepath.Glob("../plugins/*/manifest.json")
	if err != nil || len(files) < 5 {
		t.Fatalf("manifests %v, %v", files, err)
	}
	for _, file := range files {
		m, err := registry.ParseManifest([]byte(readText(t, file)))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, fact := range m.Facts {
			if !known[fact] && !strings.HasPrefix(fact, "config.") {
				t.Errorf("%s reads %s, which is in no table of facts", file, fact)
			}
		}
	}
}

func readText(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
