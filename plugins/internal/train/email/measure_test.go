package main

import (
	"slices"
	"strings"
	"testing"

	"assay/plugins/email/spelling"
	"assay/registry"
)

// TestAsk holds a bench to building a layer with the data it is given, and not with what is beside it.
func TestAsk(t *testing.T) {
	t.Parallel()
	all := []address{{value: "jane@box.example.com"}, {value: "jane@"}}
	var points [2][]int
	for i, families := range []string{"", "example.com\n"} {
		b, err := newBench(t.TempDir(), all)
		if err != nil {
			t.Fatal(err)
		}
		if points[i], err = b.ask("email", learned{"", families}.files()); err != nil {
			t.Fatal(err)
		}
	}
	if points[0][0] > 45 || points[1][0] < 80 || points[0][1] != -1 {
		t.Errorf("without a family %v, with it %v points", points[0], points[1])
	}
}

// TestAskTellsWhatBroke holds a bench to handing on what the compiler says.
func TestAskTellsWhatBroke(t *testing.T) {
	t.Parallel()
	b, err := newBench(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.ask("email", map[string]string{"score.go": "package main\n"}); err == nil ||
		!strings.Contains(err.Error(), "undefined: findings") {
		t.Errorf("a layer without its score: %v", err)
	}
}

func TestFuse(t *testing.T) {
	t.Parallel()
	lineup := registry.LineupDocument{Bias: -6, Layers: []registry.LineupLayer{
		{Layer: "email", Weight: 8}, {Layer: "lexical", Weight: 6}, {Layer: "phone", Weight: 9},
	}}
	got := fuse(lineup, trial{email: []int{0, 100, 75, -1}, lexical: []int{0, 0, 50, 0}}, map[string][]int{})
	if want := []float64{0, 88, 95, -1}; !slices.Equal(got, want) {
		t.Errorf("fused %v, want %v", got, want)
	}
}

// TestLists holds lists of one publisher to one part, and parts to being of like size.
func TestLists(t *testing.T) {
	t.Parallel()
	var all []address
	for i, list := range []string{"a_one", "a_two", "b", "c", "d", "e"} {
		all = append(all, slices.Repeat([]address{{list: list, bad: true}}, 10-i)...)
	}
	all = append(all, address{list: "good"})
	got := (&measurement{all: all}).lists(true)
	if len(got) != 5 || got["a"] != 0 || got["b"] != 1 || got["d"] != 3 || got["e"] != 3 {
		t.Errorf("parts %v", got)
	}
}

// TestKeptBack holds training to what it is given.
func TestKeptBack(t *testing.T) {
	t.Parallel()
	rows, err := readAll(folder(t, false))
	if err != nil {
		t.Fatal(err)
	}
	var kept []example
	for i := range rows {
		if rows[i].site != "hosts.example" && !strings.HasPrefix(rows[i].site, "zz") {
			kept = append(kept, rows[i])
		}
	}
	l := learnAll(kept)
	zz := spelling.Domain{Label: "zz99box", Suffix: "com"}
	if l.families != "" || l.weights.Sum(zz.Features(nil)) > 0 {
		t.Errorf("families %q and %d for a spelling that was kept back", l.families, l.weights.Sum(zz.Features(nil)))
	}
}
