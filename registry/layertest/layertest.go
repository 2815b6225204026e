// Package layertest runs a first-party layer natively against its own manifest.json and cases.jsonl. Only tests import
// it.
package layertest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"assay/host/entity"
	"assay/registry"
	"assay/sdk"
)

// Case is one labelled example, a line of cases.jsonl: the layer's own score must lie in Min..Max (0 to 100), every
// code of Codes must be among its signals and, when Threat is set, that threat must be named.
type Case struct {
	Name    string      `json:"name"`
	Type    entity.Type `json:"type"`
	Value   string      `json:"value"`
	Country string      `json:"country"` // the request's region; "" is the EU
	Facts   sdk.Facts   `json:"facts"`   // what was looked up, besides what parsing tells
	Min     int         `json:"min"`
	Max     int         `json:"max"`
	Codes   []string    `json:"codes"`
	Threat  sdk.Threat  `json:"threat"`
}

// Book is a layer's manifest and cases, read from the folder that holds them.
type Book struct {
	Manifest registry.Manifest
	Cases    []Case
}

// Open reads manifest.json and cases.jsonl of folder. A field that neither format knows fails the test.
func Open(t testing.TB, folder string) Book {
	t.Helper()
	var book Book
	var err error
	if book.Manifest, err = registry.ParseManifest(read(t, folder+"/manifest.json")); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(bytes.NewReader(read(t, folder+"/cases.jsonl")))
	for lines.Scan() {
		var c Case
		decode(t, lines.Bytes(), &c)
		book.Cases = append(book.Cases, c)
	}
	return book
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("reading %s: %v", path, err)
	}
	return data
}

func decode(t testing.TB, data []byte, into any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		t.Fatalf("decoding %.80s: %v", data, err)
	}
}

// Check runs layer on every case, as subtests, and then asserts that the cases leave no declared signal unseen and no
// declared fact unread.
func (b Book) Check(t *testing.T, layer sdk.Layer) {
	t.Helper()
	if len(b.Cases) == 0 {
		t.Fatal("no cases")
	}
	seen, asked := map[string]bool{}, map[string]bool{}
	for _, c := range b.Cases {
		t.Run(c.Name, func(t *testing.T) {
			parsed, err := entity.Parse(c.Type, c.Value, c.Country)
			if err != nil {
				t.Fatalf("parsing %q: %v", c.Value, err)
			}
			maps.Copy(parsed.Facts, c.Facts)
			got := sdk.Run(layer, sdk.Facts(parsed.Facts))
			b.Answer(t, got)
			if got.Outcome != sdk.Scored || got.Score < c.Min || got.Score > c.Max {
				t.Errorf("%s: outcome %d, score %d, want %d to %d; signals %v; facts %v",
					c.Value, got.Outcome, got.Score, c.Min, c.Max, got.Signals, parsed.Facts)
			}
			for _, s := range got.Signals {
				seen[s.Code] = true
			}
			for _, fact := range got.Read {
				asked[fact] = true
			}
			for _, code := range c.Codes {
				if !slices.ContainsFunc(got.Signals, func(s sdk.Signal) bool { return s.Code == code }) {
					t.Errorf("%s: no signal %s in %v", c.Value, code, got.Signals)
				}
			}
			if c.Threat != "" && got.Threat != c.Threat {
				t.Errorf("%s: threat %q, want %q", c.Value, got.Threat, c.Threat)
			}
		})
	}
	for _, s := range b.Manifest.Signals {
		if !seen[s.Code] {
			t.Errorf("no case raises %s", s.Code)
		}
	}
	for _, fact := range b.Manifest.Facts {
		if !asked[fact] {
			t.Errorf("fact %s is declared but never read", fact)
		}
	}
}

// Answer asserts that a host would take got: nothing refused, only declared facts read, only declared codes and
// threats.
func (b Book) Answer(t testing.TB, got sdk.Result) {
	t.Helper()
	if got.Refused != nil {
		t.Errorf("the host refuses the answer: %v", got.Refused)
	}
	for _, fact := range got.Read {
		if !slices.Contains(b.Manifest.Facts, fact) {
			t.Errorf("fact %s is read but not declared", fact)
		}
	}
	for _, s := range got.Signals {
		if !slices.ContainsFunc(b.Manifest.Signals, func(d registry.SignalText) bool { return d.Code == s.Code }) {
			t.Errorf("signal %s is raised but not declared", s.Code)
		}
	}
	if got.Threat != "" && !slices.Contains(b.Manifest.Threats, got.Threat) {
		t.Errorf("threat %s is named but not declared", got.Threat)
	}
}

// Declarations asserts what the manifest says of itself beyond its form: the name and entities given, and facts that
// exist; those that must be looked up, the host's own tests hold to the tables of their sources.
func (b Book) Declarations(t *testing.T, name string, entities ...string) {
	t.Helper()
	m := b.Manifest
	if m.Name != name || m.DefaultWeight <= 0 {
		t.Errorf("manifest is not of %s, or without a weight: %+v", name, m)
	}
	if !slices.Equal(m.Entities, entities) {
		t.Errorf("manifest serves %v, want %v", m.Entities, entities)
	}
	for _, fact := range m.Facts {
		group, _, _ := strings.Cut(fact, ".")
		parsed := group == "entity" || slices.Contains(entity.Types(), entity.Type(group))
		if parsed && !slices.ContainsFunc(entity.FactTable(), func(f entity.Fact) bool { return f.Name == fact }) {
			t.Errorf("fact %s is not in the table of facts", fact)
		}
	}
}
