package plugin

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/host/hosttest"
	"assay/host/store/postgres/postgrestest"
	"assay/registry/expect"
)

// labelledNames returns lines of n names that contain a text. If begin is "", each begins with a different one.
func labelledNames(begin, text, source string, label, n int) string {
	trades := [...]string{"gartenbau", "bakery", "school", "violin", "museum", "harbour", "meadow"}
	var lines strings.Builder
	for i := range n {
		start := fmt.Sprintf("%s%x", begin, i)
		if begin == "" {
			start = fmt.Sprintf("%x", i*7919)
		}
		fmt.Fprintf(&lines, `{"value": "%s%s%s.com", "label": %d, "source": %q}`+"\n", start, text,
			trades[i%len(trades)], label, source)
	}
	return lines.String()
}

// A layer that learned names finds more like them, and carries its card. None is written if honest names get worse.
func TestTrainLexical(t *testing.T) {
	t.Parallel()
	dir, database := hosttest.DataDir(t), postgrestest.Database(t)
	names := labelledNames("", "zorblax", "desk", 1, 900) + labelledNames("", "", "customers", 0, 900)
	file := hosttest.WriteFile(t, "names.jsonl", []byte(names))
	out := filepath.Join(t.TempDir(), "taught.wasm")
	train := []string{"train", "lexical", file, "--as", "9.0.0-local.1", "-o", out}
	got := hosttest.OutputJSON[struct {
		pluginLine
		Card training `json:"card"`
	}](t, dir, database, train...)
	expect.That(t, got.Plugin == "lexical@9.0.0-local.1" && got.SignedBy == "assay/operator" && len(got.Card.Held) == 2,
		"trained %+v", got)
	honest, reported := got.Card.Held[0], got.Card.Held[1]
	expect.That(t, honest.Source == "customers" && honest.Before == honest.After, "honest names: %+v", honest)
	expect.That(t, reported.Malicious && reported.After.Reviewed > reported.Before.Reviewed+reported.Names/4,
		"reported names: %+v", reported)

	hosttest.Has(t, hosttest.Output(t, dir, database, "plugin", "inspect", out), "Signed by assay/operator",
		fmt.Sprintf("It learned %d names", got.Card.Learned), "names.jsonl, SHA-256 "+got.Card.Files[0].SHA256)

	// These honest names resemble the reported ones, and as they begin alike, all are held.
	expect.NoError(t, os.WriteFile(file, []byte(names+labelledNames("office", "zorblax", "tenants", 0, 100)), 0o600))
	hosttest.WantRefusal(t, "honest names that got worse", dir, database, nil, train, "honest names got worse",
		`"tenants": of 100 names`)
	bad := hosttest.WriteFile(t, "bad.jsonl", []byte(names+`{"value":"not one","label":0}`+"\n"))
	hosttest.WantRefusal(t, "an invalid name", dir, database, nil, append(train[:2:2], bad, "--as", "9.0.0"),
		"1 lines cannot be read", "bad.jsonl, line 1801: value: domain: contains a space")
}

// A change of honest names counts as worse only if chance does not explain it.
func TestHonestNamesGotWorse(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		held heldNames
		want bool
	}{
		"two more reviewed":  {heldNames{raised: flags{Reviewed: 2}}, false},
		"three more":         {heldNames{raised: flags{Reviewed: 3}}, true},
		"as many fewer":      {heldNames{raised: flags{Reviewed: 3}, lowered: flags{Reviewed: 3}}, false},
		"three more blocked": {heldNames{raised: flags{Blocked: 3}}, true},
		"reported":           {heldNames{Malicious: true, raised: flags{Reviewed: 30, Blocked: 30}}, false},
	} {
		expect.Equal(t, name, tt.held.gotWorse(), tt.want)
	}
}
