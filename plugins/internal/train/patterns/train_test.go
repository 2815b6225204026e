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
	"assay/plugins/patterns/feature"
)

// lines makes n labelled rows of honest and bad names that differ in their words, numbered from the given one.
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

func store(t *testing.T, folder, name, text string) string {
	t.Helper()
	path := filepath.Join(folder, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func made(t *testing.T, text string, target bool) []*row {
	t.Helper()
	rows, _, err := readFile(store(t, t.TempDir(), "rows.jsonl", text), target)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// Training twice gives the same bytes, however many trainings run beside each other, and odds that tell the kinds
// apart.
func TestTrainingReproducible(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	target := store(t, folder, "target.jsonl", lines(0, 80))
	pool := store(t, folder, "pool.jsonl", lines(1000, 300))
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
		t.Error("training twice gives two results")
	}
	if formatted, err := format.Source([]byte(sources[0])); err != nil || string(formatted) != sources[0] {
		t.Errorf("the source is not as gofmt has it: %v", err)
	}
	for _, part := range []string{"sites held out", "bad sources absent", "good sources absent", "both absent",
		"bad reports1_x made up"} {
		if !strings.Contains(outs[0], part) {
			t.Errorf("the report says nothing of %q:\n%s", part, outs[0])
		}
	}
}

func TestRunRefuses(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	ok := store(t, folder, "ok.jsonl", lines(0, 40))
	honest := store(t, folder, "honest.jsonl", `{"value":"a.com","label":0,"source":"s"}`)
	broken := store(t, folder, "broken.jsonl", "{")
	tests := map[string]struct {
		args []string
		want string
	}{
		"no target":   {nil, "want at least one -target"},
		"more words":  {[]string{"-target", ok, "more"}, "no other arguments"},
		"no jobs":     {[]string{"-target", ok, "-jobs", "0"}, "-jobs of 1 or more"},
		"no file":     {[]string{"-target", filepath.Join(folder, "none")}, "reading labelled rows"},
		"broken line": {[]string{"-target", broken}, "line 1"},
		"one label":   {[]string{"-target", honest}, "both labels"},
		"no folder": {[]string{"-target", ok, "-measure=false", "-out", filepath.Join(folder, "none")},
			"writing the odds"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := run(tt.args, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("run(%q) = %v, want an error that holds %q", tt.args, err, tt.want)
			}
		})
	}
}

// A lure that one family of sources reports, however often, counts nothing by itself; one that three know does.
func TestLuresNeedBackers(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for i := range 60 {
		fmt.Fprintf(&text, `{"value":"wiese%c-colis.com","label":1,"source":"loud_%d"}`+"\n", 'a'+rune(i%26), i)
		fmt.Fprintf(&text, `{"value":"wiese-colis-%d.net","label":1,"source":"loud_%d"}`+"\n", i, i)
		fmt.Fprintf(&text, `{"value":"wiese-airdrop-%d.net","label":1,"source":"s%d_x"}`+"\n", i, i%leastBackers)
		fmt.Fprintf(&text, `{"value":"blumen%d.net","label":0,"source":"list"}`+"\n", i)
	}
	rows := distinct(made(t, text.String(), true))
	weigh(rows)
	m := learn(rows)
	for word, backed := range map[string]bool{"colis": false, "airdrop": true} {
		sum, place := 0, 0
		bait.Each(func(w string, _ bait.Class) {
			if w == word {
				sum += int(m.odds[feature.WordAt+place])
			}
			place++
		})
		if (sum > 0) != backed {
			t.Errorf("%s is worth %d, want above 0: %t", word, sum, backed)
		}
	}
}

// Odds keep to their groups' bounds, and every feature that names have has a place.
func TestGroups(t *testing.T) {
	t.Parallel()
	next := 0
	for _, g := range feature.Groups() {
		if g.From != next || g.Size < 1 || g.Min > g.Max || g.Min < math.MinInt8 || g.Max > math.MaxInt8 {
			t.Errorf("group %q begins at %d, want %d; size %d, bounds %v to %v", g.Name, g.From, next, g.Size, g.Min,
				g.Max)
		}
		next = g.From + g.Size
	}
	if next != feature.WordAt {
		t.Errorf("the groups end at %d, want %d", next, feature.WordAt)
	}
	rows := distinct(made(t, lines(0, 400), true))
	weigh(rows)
	m := learn(rows)
	for _, g := range append(feature.Groups(), feature.WordGroup(len(m.odds)-feature.WordAt)) {
		for _, o := range m.odds[g.From : g.From+g.Size] {
			if o != 0 && (float64(o) < g.Min || float64(o) > g.Max) {
				t.Errorf("%s: odds of %d are not from %v to %v", g.Name, o, g.Min, g.Max)
			}
		}
	}
}

// No row may be learned from and tested, no site may stand on both sides, and absent sources must be absent.
func TestTrialsLeak(t *testing.T) {
	t.Parallel()
	rows := append(made(t, lines(0, 200), true), made(t, lines(100, 400), false)...)
	rows = distinct(rows)
	for _, tr := range trials(rows) {
		tested := map[string]bool{}
		for _, s := range tr.splits {
			learned, families := map[string]bool{}, map[string]bool{}
			for _, r := range s.train {
				learned[r.site], families[r.family] = true, true
			}
			if len(s.train) == 0 || len(s.test) == 0 {
				t.Fatalf("%s: %d rows to learn from, %d to test", tr.name, len(s.train), len(s.test))
			}
			for _, r := range s.test {
				tested[r.site] = true
				absent := tr.name == "both absent" || tr.name == "bad sources absent" && r.bad ||
					tr.name == "good sources absent" && !r.bad
				if learned[r.site] || !r.target || absent && families[r.family] {
					t.Fatalf("%s: %s of %s is tested", tr.name, r.site, r.source)
				}
			}
		}
		if len(tested) != 200 {
			t.Errorf("%s: %d sites tested, want all 200", tr.name, len(tested))
		}
	}
}

func TestWeighGivesThePoolTheTargetsMix(t *testing.T) {
	t.Parallel()
	var rows []*row
	add := func(n int, target, bad bool, source string) {
		for range n {
			rows = append(rows, &row{target: target, bad: bad, source: source})
		}
	}
	add(10, true, true, "small")
	add(10, true, true, "giant")
	add(20, true, false, "list")
	add(10, false, true, "small")
	add(990, false, true, "giant")
	add(100, false, false, "list")
	weigh(rows)
	total := map[string]float64{}
	for _, r := range rows {
		if !r.target {
			total[r.source] += r.weight
		}
	}
	if math.Abs(total["small"]-total["giant"]) > 1 || math.Abs(total["list"]-total["small"]-total["giant"]) > 1 {
		t.Errorf("the pool's sources weigh %v, want small and giant alike and list as both", total)
	}
}

func TestRarityCounts(t *testing.T) {
	t.Parallel()
	rarity := rarityOf(made(t, lines(0, 400), true))
	common, rare := rarity.Of("garden"), rarity.Of("xkqzvw")
	if len(rarity) != feature.RarityRows*feature.RarityColumns || common >= rare {
		t.Errorf("garden has a rarity of %d, xkqzvw of %d, in a table of %d", common, rare, len(rarity))
	}
}
