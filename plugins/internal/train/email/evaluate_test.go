package main

import (
	"slices"
	"strings"
	"testing"

	"assay/plugins/email/spelling"
	"assay/registry"
)

// A layer is built with the given data files, not with those in its folder.
func TestRunReplacesFiles(t *testing.T) {
	t.Parallel()
	all := []address{{value: "jane@box.example.com"}, {value: "jane@"}}
	var points [2][]int
	for i, families := range []string{"", "example.com\n"} {
		b, err := newRunner(t.TempDir(), all)
		if err != nil {
			t.Fatal(err)
		}
		if points[i], err = b.run("email", learned{"", families}.files()); err != nil {
			t.Fatal(err)
		}
	}
	if points[0][0] > 45 || points[1][0] < 80 || points[0][1] != -1 {
		t.Errorf("points %v without the family, %v with it", points[0], points[1])
	}
}

// Errors contain the compiler's output.
func TestRunReportsBuildErrors(t *testing.T) {
	t.Parallel()
	b, err := newRunner(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.run("email", map[string]string{"score.go": "package main\n"}); err == nil ||
		!strings.Contains(err.Error(), "undefined: findings") {
		t.Errorf("error %v for a layer that does not compile", err)
	}
}

func TestFuse(t *testing.T) {
	t.Parallel()
	lineup := registry.LineupDocument{Bias: registry.ForAll(-6), Layers: []registry.LineupLayer{
		{Layer: "email", Weight: registry.ForAll(8)}, {Layer: "lexical", Weight: registry.ForAll(6)}, {Layer: "phone", Weight: registry.ForAll(9)},
	}}
	got := fuse(lineup, result{email: []int{0, 100, 75, -1}, lexical: []int{0, 0, 50, 0}}, map[string][]int{})
	if want := []float64{0, 88, 95, -1}; !slices.Equal(got, want) {
		t.Errorf("fused %v, want %v", got, want)
	}
}

// Lists by one publisher are in the same fold, and folds have similar sizes.
func TestFoldLists(t *testing.T) {
	t.Parallel()
	var all []address
	for i, list := range []string{"a_one", "a_two", "b", "c", "d", "e"} {
		all = append(all, slices.Repeat([]address{{list: list, bad: true}}, 10-i)...)
	}
	all = append(all, address{list: "good"})
	got := (&evaluation{all: all}).foldLists(true)
	if len(got) != 5 || got["a"] != 0 || got["b"] != 1 || got["d"] != 3 || got["e"] != 3 {
		t.Errorf("folds %v", got)
	}
}

// Training depends only on the given rows.
func TestLearnWithoutSites(t *testing.T) {
	t.Parallel()
	rows, err := readAll(writeRows(t, false))
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
		t.Errorf("families %q, and a sum of %d for a spelling that was held out", l.families,
			l.weights.Sum(zz.Features(nil)))
	}
}
