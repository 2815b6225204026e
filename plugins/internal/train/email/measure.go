package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"assay/host/eval"
	"assay/registry"
)

// address is one labelled address.
type address struct {
	value, host, site string
	bad               bool
	list              string
	source            string // as the file says
}

func readAddresses(folder string) ([]address, error) {
	var all []address
	err := eachLine(filepath.Join(folder, addressFile), func(l *line, _ []byte) error {
		host := l.host()
		all = append(all, address{l.Value, host, siteOf(host), l.Label == 1, l.list(), l.Source})
		return nil
	})
	return all, err
}

// parts is into how many parts sites, hosts and each label's lists are cut.
const (
	parts     = 5
	listParts = 4
)

// trial is one way to keep from training what is tested.
type trial struct {
	name           string
	email, lexical []int // points by index into the addresses
	detailed       bool
}

// measure scores every address by layers that were trained without it, in several ways, and prints how well each tells.
func measure(folder string, rows []example, lineup registry.LineupDocument, out, progress io.Writer) error {
	all, err := readAddresses(folder)
	if err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "assay-train-")
	if err != nil {
		return fmt.Errorf("making room for layers: %w", err)
	}
	defer os.RemoveAll(scratch)
	b, err := newBench(scratch, all)
	if err != nil {
		return err
	}
	m := &measurement{folder: folder, rows: rows, all: all, bench: b, progress: progress}
	fixed := map[string][]int{}
	for _, layer := range []string{"domain", "patterns"} {
		if fixed[layer], err = b.ask(layer, nil); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "%-30s %6s  %-15s  %-17s  %s\n", "", "rows", "AUC", "found at 1%",
		"benign, then bad: blocked / reviewed or blocked")
	return m.trials(func(t trial) {
		scores := fuse(lineup, t, fixed)
		report(out, t.name, all, scores, lineup.Bands)
		if t.detailed {
			report(out, "  by the email layer alone", all, alone(t.email), lineup.Bands)
			bySource(out, all, scores)
		}
	})
}

// measurement is what trials need.
type measurement struct {
	folder   string
	rows     []example
	all      []address
	bench    *bench
	progress io.Writer
}

// trials hands over each trial when it is done, the first in detail.
func (m *measurement) trials(done func(trial)) error {
	sites := map[string]bool{}
	for i := range m.all {
		sites[m.all[i].site] = true
	}
	unseen := func(l *line) bool { return !sites[siteOf(l.host())] }
	lexical, err := m.bench.lexical(m.folder, unseen)
	if err != nil {
		return err
	}
	bySite, err := m.email("sites", func(a *address) int { return part(a.site) },
		func(e *example, k int) bool { return part(e.site) != k })
	if err != nil {
		return err
	}
	done(trial{"sites held out", bySite, lexical, true})
	byHost, err := m.email("hosts", func(a *address) int { return part(a.host) },
		func(e *example, k int) bool { return !e.mail || part(e.domain) != k })
	if err != nil {
		return err
	}
	done(trial{name: "mail hosts held out", email: byHost, lexical: lexical})
	both := trial{name: "lists of both labels absent", email: slices.Clone(bySite), lexical: slices.Clone(lexical)}
	for _, bad := range []bool{true, false} {
		t := trial{name: "good lists absent", email: slices.Clone(bySite), lexical: slices.Clone(lexical)}
		if bad {
			t.name = "bad lists absent"
		}
		group := m.lists(bad)
		tested := func(a *address) int {
			if a.bad != bad {
				return -1
			}
			return group[family(a.list)]
		}
		away := func(list string, label bool, k int) bool {
			g, known := group[family(list)]
			return label == bad && known && g == k
		}
		concerned := map[string]map[int]bool{} // parts by the sites of their addresses
		for i := range m.all {
			if a := &m.all[i]; concerned[a.site] == nil {
				concerned[a.site] = map[int]bool{tested(a): true}
			} else {
				concerned[a.site][tested(a)] = true
			}
		}
		email, err := m.email("lists", tested, func(e *example, k int) bool {
			return !away(e.list, e.bad, k) &&
				!concerned[e.site][k]
		})
		if err != nil {
			return err
		}
		for k := range listParts {
			fmt.Fprintf(m.progress, "lexical without lists, part %d of %d\n", k+1, listParts)
			points, err := m.bench.lexical(m.folder, func(l *line) bool {
				return unseen(l) &&
					!away(l.list(), l.Label == 1, k)
			})
			if err != nil {
				return err
			}
			for i := range m.all {
				if tested(&m.all[i]) == k {
					t.email[i], t.lexical[i] = email[i], points[i]
					both.email[i], both.lexical[i] = email[i], points[i]
				}
			}
		}
		done(t)
	}
	done(both)
	return nil
}

// email asks the email layer for every address, trained on those rows that keep takes for the address's part; -1 is no
// part.
func (m *measurement) email(name string, of func(*address) int, keep func(e *example, k int) bool) ([]int, error) {
	points := make([]int, len(m.all))
	for k := range parts {
		if !slices.ContainsFunc(m.all, func(a address) bool { return of(&a) == k }) {
			continue
		}
		fmt.Fprintf(m.progress, "email without %s, part %d\n", name, k+1)
		var kept []example
		for i := range m.rows {
			if keep(&m.rows[i], k) {
				kept = append(kept, m.rows[i])
			}
		}
		got, err := m.bench.ask("email", learnAll(kept).files())
		if err != nil {
			return nil, err
		}
		for i := range m.all {
			if of(&m.all[i]) == k {
				points[i] = got[i]
			}
		}
	}
	return points, nil
}

func part(s string) int { return int(mix(s) % parts) }

// family names the publisher of a list: lists of one copy from each other, and share the name's first word.
func family(list string) string {
	first, _, _ := strings.Cut(list, "_")
	return first
}

// lists deals the families of lists that a label's addresses come from out to parts, the largest first, back and forth.
func (m *measurement) lists(bad bool) map[string]int {
	size := map[string]int{}
	for i := range m.all {
		if a := &m.all[i]; a.bad == bad {
			size[family(a.list)]++
		}
	}
	names := slices.SortedFunc(maps.Keys(size),
		func(a, b string) int { return cmp.Or(cmp.Compare(size[b], size[a]), cmp.Compare(a, b)) })
	group := map[string]int{}
	for i, name := range names {
		g := i % (2 * listParts)
		group[name] = min(g, 2*listParts-1-g)
	}
	return group
}

// fuse returns each address's fused score, -1 where it is refused.
func fuse(lineup registry.LineupDocument, t trial, fixed map[string][]int) []float64 {
	points := maps.Clone(fixed)
	points["email"], points["lexical"] = t.email, t.lexical
	scores := make([]float64, len(t.email))
	for i := range scores {
		odds := lineup.Bias
		for _, l := range lineup.Layers {
			if p, ok := points[l.Layer]; ok {
				odds += l.Weight * float64(p[i]) / 100
			}
		}
		scores[i] = math.Round(100 / (1 + math.Exp(-odds)))
		if t.email[i] < 0 {
			scores[i] = -1
		}
	}
	return scores
}

func alone(points []int) []float64 {
	scores := make([]float64, len(points))
	for i, p := range points {
		scores[i] = float64(p)
	}
	return scores
}

func report(out io.Writer, name string, all []address, scores []float64, bands registry.Bands) {
	var kept []float64
	var bad []bool
	var n, blocked, reviewed [2]float64
	for i, s := range scores {
		if s < 0 {
			continue
		}
		kept, bad = append(kept, s), append(bad, all[i].bad)
		label := ones(all[i].bad)
		n[label]++
		if s >= float64(bands.Block) {
			blocked[label]++
		}
		if s >= float64(bands.Review) {
			reviewed[label]++
		}
	}
	c := eval.NewCurve(kept, bad)
	auc, within := c.AUC()
	found := c.Bootstrap(0.01)[0]
	fmt.Fprintf(out, "%-30s %6d  %.4f ±%.4f  %.3f %.3f-%.3f ", name, len(kept), auc, float64(within[1]-within[0])/2,
		c.At(0.01).Recall, float64(found[0]), float64(found[1]))
	for label := range n {
		fmt.Fprintf(out, "  %.2f%% / %.2f%%", 100*blocked[label]/n[label], 100*reviewed[label]/n[label])
	}
	fmt.Fprintln(out)
}

// bySource prints the share of each source's addresses from the mark of 1% false positives on.
func bySource(out io.Writer, all []address, scores []float64) {
	bad := make([]bool, len(all))
	for i := range all {
		bad[i] = all[i].bad
	}
	mark := eval.NewCurve(scores, bad).At(0.01).Threshold
	type count struct{ rows, above int }
	counts := map[string]*count{}
	for i := range all {
		key := [2]string{"good ", "bad "}[ones(all[i].bad)] + all[i].source
		if counts[key] == nil {
			counts[key] = &count{}
		}
		counts[key].rows++
		counts[key].above += ones(scores[i] >= mark)
	}
	fmt.Fprintf(out, "  %-50s   rows  share from a score of %.0f on\n", "", mark)
	for _, key := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(out, "  %-50s %6d  %.3f\n", key, counts[key].rows,
			float64(counts[key].above)/float64(counts[key].rows))
	}
}
