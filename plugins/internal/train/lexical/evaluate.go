package main

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"assay/host/measure/eval"
	"assay/plugins/internal/brand"
	"assay/plugins/internal/train"
)

// The layer's scale of points: an uninformative name has 0, and its range is that of the manifest.
const (
	perUnit = 20 // points per unit of log-odds
	lowest  = -45
	highest = 70
)

// model is what the layer stores.
type model struct {
	weights []float32 // rounded to steps
	steps   []int8
	size    float64 // of a step
}

// fit trains on the rows at indices, with weights rounded as the layer stores them.
func fit(rows []row, indices []int32) *model {
	m := &model{weights: learn(rows, indices)}
	m.steps, m.size = quantise(m.weights)
	for k, s := range m.steps {
		m.weights[k] = float32(float64(s) * m.size)
	}
	return m
}

// bias returns the points that make the odds of a name that tells nothing even.
func bias() float64 { return -perUnit * math.Log(prevalence) }

// points returns the points that the layer gives to a row.
func (m *model) points(r *row) float64 {
	if brand.OwnerName(&r.Host) != "" {
		return lowest
	}
	points := perUnit*r.margin(m.weights) + bias() + float64(r.more)
	return min(max(math.Floor(points+0.5), lowest), highest)
}

// minSuffixRows is from how many honest names on a suffix is reported on, if 1 in 50 of them reach the threshold.
const minSuffixRows = 40

// report prints how well the model tells the reported rows from the honest ones, for each source of reports, and how
// many of the names of each honest source reach the threshold that one honest name in a hundred reaches.
func report(out io.Writer, rows []row, points []float64) {
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
		keys := []string{r.Source}
		if r.Hosted {
			keys = append(keys, "shared hosts")
		} else {
			keys = append(keys, "."+r.Host.TLD)
		}
		for _, key := range keys {
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

// leaveOut prints how well models find the rows of each source of reports that they did not train on, among the honest
// names that validate.
func leaveOut(out io.Writer, rows []row, indices, validate []int32, progress train.Progress) {
	sources := map[string][]int32{}
	for _, i := range indices {
		if rows[i].Malicious {
			sources[rows[i].Source] = append(sources[rows[i].Source], i)
		}
	}
	fmt.Fprintf(out, "\n%-28s %8s %8s  %s\n", "left out", "rows", "AUC", "recall at 1% and 0.1% false positives")
	var aucs, recalls float64
	for _, source := range slices.Sorted(maps.Keys(sources)) {
		some := slices.DeleteFunc(slices.Clone(indices), func(i int32) bool { return rows[i].Source == source })
		m := fit(rows, some)
		var scores []float64
		var malicious []bool
		for _, i := range append(slices.Clone(validate), sources[source]...) {
			if r := &rows[i]; !r.Malicious || r.Source == source {
				scores, malicious = append(scores, m.points(r)), append(malicious, r.Malicious)
			}
		}
		curve := eval.NewCurve(scores, malicious)
		auc, _ := curve.AUC()
		recall := curve.At(0.01).Recall
		aucs, recalls = aucs+auc, recalls+recall
		fmt.Fprintf(out, "%-28s %8d %8.4f  %.3f %.3f\n", source, len(sources[source]), auc, recall,
			curve.At(0.001).Recall)
		progress("without %s", source)
	}
	n := float64(len(sources))
	fmt.Fprintf(out, "%-28s %8s %8.4f  %.3f\n", "mean", "", aucs/n, recalls/n)
}
