package main

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"

	"assay/host/eval"
)

// trial is a way to hold rows out, measured over all its splits.
type trial struct {
	name   string
	splits []split
	pooled bool // the splits' scores are comparable, so that they are measured as one
}

// split says which rows are learned from and which tested.
type split struct {
	train, test []*row
}

// groups is into how many parts sites and families of sources are cut.
const groups = 4

// trials cuts rows in four ways: by site, then whole families of bad sources, of good ones, and of both, absent from
// training. Only target rows are tested; absent families are tested by the pool alone.
func trials(rows []*row) []trial {
	part := deal(rows)
	bySite := trial{name: "sites held out", pooled: true}
	for g := range groups {
		var s split
		for _, r := range rows {
			if r.target && partOf(r.site) == g {
				s.test = append(s.test, r)
			} else {
				s.train = append(s.train, r)
			}
		}
		bySite.splits = append(bySite.splits, s)
	}
	all := []trial{bySite}
	for _, absent := range []struct {
		name      string
		bad, good bool
	}{{"bad sources absent", true, false}, {"good sources absent", false, true}, {"both absent", true, true}} {
		t := trial{name: absent.name}
		for g := range groups {
			var s split
			for _, r := range rows {
				concerned := r.bad && absent.bad || !r.bad && absent.good
				away := concerned && part[r.family] == g
				switch {
				case r.target && (away || !concerned):
					s.test = append(s.test, r)
				case !r.target && !away:
					s.train = append(s.train, r)
				}
			}
			t.splits = append(t.splits, s)
		}
		all = append(all, t)
	}
	return all
}

func partOf(site string) int {
	h := fnv.New64a()
	h.Write([]byte(site))
	return int(h.Sum64() % groups)
}

// deal puts the families of each side into parts, the largest first, back and forth.
func deal(rows []*row) map[string]int {
	size := map[string]int{}
	for _, r := range rows {
		if r.target {
			size[r.family]++
		}
	}
	part, dealt := map[string]int{}, map[string]int{}
	for _, family := range slices.SortedFunc(maps.Keys(size), func(a, b string) int {
		return cmp.Or(cmp.Compare(size[b], size[a]), cmp.Compare(a, b))
	}) {
		s, _, _ := strings.Cut(family, " ")
		n := dealt[s] % (2 * groups)
		dealt[s]++
		part[family] = min(n, 2*groups-1-n)
	}
	return part
}

// run learns from each split and returns its test rows' points in order, at most jobs splits at a time.
func (t trial) run(jobs int, done func()) [][]float64 {
	points := make([][]float64, len(t.splits))
	slot := make(chan struct{}, jobs)
	var wg sync.WaitGroup
	var mu sync.Mutex // done is not called concurrently
	for i, s := range t.splits {
		wg.Go(func() {
			slot <- struct{}{}
			defer func() { <-slot }()
			m := learn(s.train)
			points[i] = make([]float64, len(s.test))
			for j, r := range s.test {
				points[i][j] = float64(m.score(r))
			}
			mu.Lock()
			defer mu.Unlock()
			done()
		})
	}
	wg.Wait()
	return points
}

// falseAlarms is the share of good rows at which recall is measured.
const falseAlarms = 0.01

// scored is a tested row with its score, for tables the distance from its split's mark.
type scored struct {
	*row
	score float64
}

// measure prints how well rows held out are told apart.
func measure(out io.Writer, rows []*row, jobs int, absent bool, say func(string, ...any)) {
	fmt.Fprintf(out, "%-22s %8s %8s  %s\n", "", "rows", "AUC", "recall at 1% false alarms")
	for _, t := range trials(rows) {
		if !t.pooled && !absent {
			continue
		}
		done := 0
		points := t.run(jobs, func() { done++; say("%s: %d of %d", t.name, done, len(t.splits)) })
		var parts [][]scored
		for i, s := range t.splits {
			part := make([]scored, len(s.test))
			for j, r := range s.test {
				part[j] = scored{r, points[i][j]}
			}
			parts = append(parts, part)
		}
		if t.pooled {
			parts = [][]scored{slices.Concat(parts...)}
		}
		var all []scored
		var area, recall float64
		for _, part := range parts {
			a, at := judge(part)
			area += a / float64(len(parts))
			recall += at.Recall / float64(len(parts))
			for j := range part {
				part[j].score -= at.Threshold
			}
			all = append(all, part...)
		}
		fmt.Fprintf(out, "%-22s %8d %8.4f  %.3f\n", t.name, len(all), area, recall)
		if t.pooled {
			for _, some := range []struct {
				name string
				has  func(scored) bool
			}{
				{"  under .com alone", func(s scored) bool { return s.host.Suffix == "com" }},
				{"  shared hosts alone", func(s scored) bool { return s.host.OnSharedHosting() }},
			} {
				these := slices.DeleteFunc(slices.Clone(all), func(s scored) bool { return !some.has(s) })
				a, at := judge(these)
				fmt.Fprintf(out, "%-22s %8d %8.4f  %.3f\n", some.name, len(these), a, at.Recall)
			}
		}
		table(out, all)
	}
}

// judge gives the area under the curve and the point of 1% false alarms.
func judge(all []scored) (area float64, at eval.Point) {
	scores, bad := make([]float64, len(all)), make([]bool, len(all))
	for i, s := range all {
		scores[i], bad[i] = s.score, s.row.bad
	}
	curve := eval.NewCurve(scores, bad)
	area, _ = curve.AUC()
	at = curve.At(falseAlarms)
	if math.IsNaN(at.Threshold) {
		at.Threshold = math.MaxInt16
	}
	return area, at
}

// table prints, by source and category, the share of rows at or above their mark.
func table(out io.Writer, all []scored) {
	n, over := map[string]int{}, map[string]int{}
	for _, s := range all {
		k := strings.TrimSpace(side(s.bad) + " " + s.source + " " + s.category)
		n[k]++
		if s.score >= 0 {
			over[k]++
		}
	}
	for _, k := range slices.Sorted(maps.Keys(n)) {
		fmt.Fprintf(out, "  %-50s %6d  %.3f\n", k, n[k], float64(over[k])/float64(n[k]))
	}
	fmt.Fprintln(out)
}
