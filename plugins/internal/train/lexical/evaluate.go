package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"assay/host/measure/eval"
	"assay/plugins/internal/train"
	"assay/plugins/lexical/learn"
)

// minSuffixRows is the number of honest names from which a suffix is printed, if 1 in 50 of them reaches the threshold.
const minSuffixRows = 40

// report prints how well the model tells the reported rows from the honest ones, for each source of reports, and how
// many of the names of each honest source reach the threshold that one honest name in a hundred reaches.
func report(out io.Writer, rows []learn.Row, points []float64) {
	sources := map[string]bool{}
	for i := range rows {
		if rows[i].Malicious {
			sources[rows[i].Source] = true
		}
	}
	fmt.Fprintf(out, "%-22s %8s %8s  %s\n", "reports", "rows", "AUC", "recall at 1% and 0.1% false positives")
	threshold := 0.0
	for _, source := range append([]string{""}, slices.Sorted(maps.Keys(sources))...) {
		var scores []float64
		var malicious []bool
		n := 0
		for i := range rows {
			if r := &rows[i]; !r.Malicious || source == "" || r.Source == source {
				scores, malicious = append(scores, points[i]), append(malicious, r.Malicious)
				if r.Malicious {
					n++
				}
			}
		}
		curve := eval.NewCurve(scores, malicious)
		auc, _ := curve.AUC()
		if source == "" {
			source, threshold = "all", curve.At(0.01).Threshold
		}
		fmt.Fprintf(out, "%-22s %8d %8.4f  %.3f %.3f\n", source, n, auc, curve.At(0.01).Recall, curve.At(0.001).Recall)
	}
	all, above := map[string]int{}, map[string]int{}
	for i := range rows {
		r := &rows[i]
		if r.Malicious {
			continue
		}
		name := "." + r.Host.TLD
		if r.Hosted {
			name = "shared hosts"
		}
		for _, key := range []string{r.Source, name} {
			all[key]++
			if points[i] >= threshold {
				above[key]++
			}
		}
	}
	fmt.Fprintf(out, "\n%-22s %8s  %s\n", "honest", "rows", fmt.Sprintf("share with at least %.0f points", threshold))
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if strings.HasPrefix(key, ".") && (all[key] < minSuffixRows || above[key]*50 < all[key]) {
			continue
		}
		fmt.Fprintf(out, "%-22s %8d  %.4f\n", key, all[key], float64(above[key])/float64(all[key]))
	}
}

// The points from which a name's style leads to a review and to a block.
const (
	review = 47
	proven = 94
)

// leaveOut prints how models score each source that they were not trained on: how well they find its reports among the
// honest names of validate, or how many of its honest names they would have reviewed or blocked.
func leaveOut(out io.Writer, rows []learn.Row, indices, validate []int32, progress train.Progress) {
	for _, malicious := range [...]bool{true, false} {
		sources := map[string][]int32{}
		for _, i := range indices {
			if r := &rows[i]; r.Malicious == malicious {
				sources[r.Source] = append(sources[r.Source], i)
			}
		}
		heading := "AUC, recall at 1% and 0.1% false positives"
		if !malicious {
			heading = "share with the points of a review and of a block"
		}
		fmt.Fprintf(out, "\n%-28s %8s  %s\n", "left out", "rows", heading)
		var sums [3]float64
		for _, source := range slices.Sorted(maps.Keys(sources)) {
			left := sources[source]
			some := slices.DeleteFunc(slices.Clone(indices), func(i int32) bool {
				return rows[i].Source == source && rows[i].Malicious == malicious
			})
			figures := measure(learn.New(rows, some), rows, left, validate)
			fmt.Fprintf(out, "%-28s %8d  %.4f\n", source, len(left), figures)
			for i, f := range figures {
				sums[i] += f / float64(len(sources))
			}
			progress("without %s", source)
		}
		fmt.Fprintf(out, "%-28s %8d  %.4f\n", "mean", len(sources), sums)
	}
}

// measure returns a line of leaveOut for the rows at left.
func measure(m *learn.Model, rows []learn.Row, left, validate []int32) (figures [3]float64) {
	if !rows[left[0]].Malicious {
		for _, i := range left {
			points := m.Points(&rows[i])
			for at, bar := range [...]float64{review, proven} {
				if points >= bar {
					figures[at] += 1 / float64(len(left))
				}
			}
		}
		return figures
	}
	var scores []float64
	var malicious []bool
	for _, i := range append(slices.Clone(validate), left...) {
		if r := &rows[i]; !r.Malicious || r.Source == rows[left[0]].Source {
			scores, malicious = append(scores, m.Points(r)), append(malicious, r.Malicious)
		}
	}
	curve := eval.NewCurve(scores, malicious)
	auc, _ := curve.AUC()
	return [3]float64{auc, curve.At(0.01).Recall, curve.At(0.001).Recall}
}
