package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"assay/host/entity"
	"assay/sdk"
)

// TestInterfacePage holds sdk/ABI.md to the code: its facts, threats and limits are those that guests meet.
func TestInterfacePage(t *testing.T) {
	t.Parallel()
	page := readText(t, "../sdk/ABI.md")
	var facts, threats strings.Builder
	for _, f := range entity.FactTable() {
		fmt.Fprintf(&facts, "| %s | %s | %s |\n", f.Name, f.Format, f.Example)
	}
	if !strings.Contains(page, facts.String()) {
		t.Errorf("section 7 of sdk/ABI.md is not the table of facts, which is:\n%s", facts.String())
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

func readText(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
