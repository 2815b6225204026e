package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/registry"
)

// TestCatalogue checks that plugins/CATALOGUE.md matches the manifests of the first-party layers. With ASSAY_UPDATE=1
// it writes the page.
func TestCatalogue(t *testing.T) {
	t.Parallel()
	const page = "../plugins/CATALOGUE.md"
	want := catalogue(t)
	if os.Getenv("ASSAY_UPDATE") != "" {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(want, readText(t, page)); diff != "" {
		t.Errorf("plugins/CATALOGUE.md is out of date: run ASSAY_UPDATE=1 go test ./host -run TestCatalogue "+
			"(-want +got):\n%s", diff)
	}
}

// catalogue returns the page: every layer with its signals, from the manifests.
func catalogue(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob("../plugins/*/manifest.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no manifests: %v", err)
	}
	var layers, signals strings.Builder
	for _, file := range files {
		m, err := registry.ParseManifest([]byte(readText(t, file)))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		var facts, threats []string
		for _, f := range m.Facts {
			facts = append(facts, "`"+f+"`")
		}
		for _, threat := range m.Threats {
			threats = append(threats, "`"+string(threat)+"`")
		}
		lowest, highest := m.Range()
		fmt.Fprintf(&layers, "| [%s](#%s) | %s | %s | %d to %d | %s | %s |\n", m.Name, m.Name, m.Version,
			m.LayerClass(), lowest, highest, strings.Join(m.Entities, ", "), m.Summary)
		fmt.Fprintf(&signals, "\n## %s\n\n%s.\n\nReads %s.", m.Name, strings.TrimSuffix(m.Summary, "."),
			strings.Join(facts, ", "))
		if len(threats) > 0 {
			fmt.Fprintf(&signals, " Can name the threats %s.", strings.Join(threats, ", "))
		}
		fmt.Fprintf(&signals, " Budget %d units of fuel, memory %d MB.\n\n"+
			"| signal | meaning | worth | what an honest owner can do |\n|---|---|---|---|\n", m.BudgetFuel, m.MemoryMB)
		for _, s := range m.Signals {
			fmt.Fprintf(&signals, "| `%s` | %s | %s | %s |\n", s.Code, strings.ReplaceAll(s.Text, "|", "\\|"), worth(s),
				strings.ReplaceAll(s.Remedy, "|", "\\|"))
		}
	}
	return "# Layers and signals\n\n" +
		"Every first-party layer with the facts that it reads, the threats that it can name and the signals that\n" +
		"it can raise. ABI.md defines the [facts](../sdk/ABI.md#7-facts), [threats](../sdk/ABI.md#6-threats) and\n" +
		"[classes](../sdk/ABI.md#4-exports). Points speak against an entity, negative points for it. A signal that\n" +
		"warrants a band puts an entity there whatever the style layers say, and one that is final whatever " +
		"speaks for\n" +
		"the entity.\n\n" +
		"<!-- ASSAY_UPDATE=1 go test ./host -run TestCatalogue generates this page from the manifests. -->\n\n" +
		"| layer | version | class | score | entities | summary |\n|---|---|---|---|---|---|\n" + layers.String() +
		signals.String()
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
