package main

import (
	"bytes"
	"fmt"
	"go/format"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/plugins/internal/bait"
	"assay/plugins/internal/train"
	"assay/plugins/patterns/feature"
)

// lines returns n labelled rows, numbered from the given number. Good and bad names contain different words.
func lines(from, n int) string {
	var text strings.Builder
	good := []string{"bakery", "garden", "museum", "school", "violin", "harbour", "meadow"}
	bad := []string{"verify", "unlock", "refund", "bonus", "airdrop", "billing", "suspended"}
	for i := from; i < from+n; i++ {
		word, label, source := good[i/2%len(good)], 0, "list"
		if i%2 == 1 {
			word, label, source = bad[i/2%len(bad)], 1, "reports"
		}
		fmt.Fprintf(&text, `{"type":"domain","value":"%s-%d.com","label":%d,"source":"%s%d_x","category":"made up"}`+
			"\n",
			word, i, label, source, i%10)
	}
	return text.String()
}

func writeFile(t *testing.T, folder, name, text string) string {
	t.Helper()
	path := filepath.Join(folder, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// readRows returns the weighted rows of a file with text, one for each site.
func readRows(t *testing.T, text string) []row {
	t.Helper()
	options := train.Options{Target: []string{writeFile(t, t.TempDir(), "rows.jsonl", text)}}
	domains, err := options.Domains(scores, func(string, ...any) {})
	if err != nil {
		t.Fatal(err)
	}
	train.Weigh(domains)
	return newRows(domains)
}

// Training gives the same bytes for any number of jobs.
func TestTrainingReproducible(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	target := writeFile(t, folder, "target.jsonl", lines(0, 80))
	pool := writeFile(t, folder, "pool.jsonl", lines(1000, 300))
	var outs, sources [2]string
	for i, jobs := range []string{"1", "2"} {
		out := filepath.Join(folder, "out"+jobs)
		if err := os.Mkdir(out, 0o700); err != nil {
			t.Fatal(err)
		}
		var report bytes.Buffer
		if err := run([]string{"-target", target, "-pool", pool, "-out", out, "-jobs", jobs}, &report,
			io.Discard); err != nil {
			t.Fatal(err)
		}
		source, err := os.ReadFile(filepath.Join(out, "odds.go"))
		if err != nil {
			t.Fatal(err)
		}
		outs[i], sources[i] = report.String(), string(source)
	}
	if outs[0] != outs[1] || sources[0] != sources[1] {
		t.Error("two trainings gave different results")
	}
	if formatted, err := format.Source([]byte(sources[0])); err != nil || string(formatted) != sources[0] {
		t.Errorf("the source is not formatted: %v", err)
	}
	for _, part := range []string{"sites held out", "bad sources absent", "good sources absent", "both absent",
		"bad reports1_x made up"} {
		if !strings.Contains(outs[0], part) {
			t.Errorf("the report lacks %q:\n%s", part, outs[0])
		}
	}
}

func TestRunRejects(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	valid := writeFile(t, folder, "valid.jsonl", lines(0, 40))
	broken := writeFile(t, folder, "broken.jsonl", "{")
	government := writeFile(t, folder, "government.jsonl", `{"value":"a.com","label":0,"source":"s"}
		{"value":"example.gov","label":1,"source":"s"}`)
	tests := map[string]struct {
		args []string
		want string
	}{
		"no target":           {nil, "want at least one -target"},
		"missing file":        {[]string{"-target", filepath.Join(folder, "none")}, "reading labelled rows"},
		"malformed line":      {[]string{"-target", broken}, "line 1"},
		"restricted suffixes": {[]string{"-target", government}, "both labels"},
		"missing folder": {[]string{"-target", valid, "-measure=false", "-out", filepath.Join(folder, "none")},
			"writing odds"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := run(tt.args, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("run(%q) = %v, want an error that contains %q", tt.args, err, tt.want)
			}
		})
	}
}

// A bait word needs reports by minFamilies families, not many reports by one.
func TestBaitNeedsFamilies(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for i := range 60 {
		fmt.Fprintf(&text, `{"value":"wiese%c-colis.com","label":1,"source":"loud_%d"}`+"\n", 'a'+rune(i%26), i)
		fmt.Fprintf(&text, `{"value":"wiese-colis-%d.net","label":1,"source":"loud_%d"}`+"\n", i, i)
		fmt.Fprintf(&text, `{"value":"wiese-airdrop-%d.net","label":1,"source":"s%d_x"}`+"\n", i, i%minFamilies)
		fmt.Fprintf(&text, `{"value":"blumen%d.net","label":0,"source":"list"}`+"\n", i)
	}
	m := learn(readRows(t, text.String()))
	for word, positive := range map[string]bool{"colis": false, "airdrop": true} {
		sum, place := 0, 0
		bait.Each(func(w string, _ bait.Class) {
			if w == word {
				sum += int(m.odds[feature.WordAt+place])
			}
			place++
		})
		if (sum > 0) != positive {
			t.Errorf("%s has odds of %d, want above 0: %t", word, sum, positive)
		}
	}
}

// Groups are contiguous, and learned odds are within their bounds.
func TestGroups(t *testing.T) {
	t.Parallel()
	next := 0
	for _, g := range feature.Groups() {
		if g.From != next || g.Size < 1 || g.Min > g.Max || g.Min < math.MinInt8 || g.Max > math.MaxInt8 {
			t.Errorf("group %q starts at %d, want %d; size %d, bounds %v to %v", g.Name, g.From, next, g.Size, g.Min,
				g.Max)
		}
		next = g.From + g.Size
	}
	if next != feature.WordAt {
		t.Errorf("the groups end at %d, want %d", next, feature.WordAt)
	}
	m := learn(readRows(t, lines(0, 400)))
	for _, g := range append(feature.Groups(), feature.WordGroup(len(m.odds)-feature.WordAt)) {
		for _, o := range m.odds[g.From : g.From+g.Size] {
			if o != 0 && (float64(o) < g.Min || float64(o) > g.Max) {
				t.Errorf("%s: odds of %d are outside %v to %v", g.Name, o, g.Min, g.Max)
			}
		}
	}
}

func TestRarityCounts(t *testing.T) {
	t.Parallel()
	rarity := rarityOf(readRows(t, lines(0, 400)))
	common, rare := rarity.Of("garden"), rarity.Of("xkqzvw")
	if len(rarity) != feature.RarityRows*feature.RarityColumns || common >= rare {
		t.Errorf("garden has a rarity of %d, xkqzvw of %d, in a table of %d", common, rare, len(rarity))
	}
}
