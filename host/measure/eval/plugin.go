package eval

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"assay/host/check"
	"assay/host/entity"
)

// MeasurePlugin reports what the last layer of a lineup, a plugin, finds alone and adds to the others. limits are those
// of the lineup without it. Weights are fitted with and without it on the same folds, as in [FitLineup], and rows are
// scored out of fold. worst is the number of errors to list per label; [PluginReport.Explain] adds what the plugin did.
// progress, if not nil, is called before each fit.
func MeasurePlugin(
	with Model, limits map[entity.Type][]Limit, scored []Scored, o FitOptions, worst int,
	progress func(done, total int, what string),
) (*PluginReport, error) {
	last := len(with.Layers) - 1
	plugin := with.Layers[last]
	r := &PluginReport{Plugin: plugin.Name + "@" + plugin.Version, Files: []string{}, Warnings: []string{},
		Lineup: LineupLine{with.Revision, with.Bias, with.Bands}, Rows: len(scored)}
	without := with
	without.Limits, without.Layers = limits, slices.Clone(with.Layers)
	without.Layers[last].Types = nil
	byType := map[entity.Type][]*Scored{}
	for i := range scored {
		byType[scored[i].Type] = append(byType[scored[i].Type], &scored[i])
	}
	m := pluginMeasurer{without: without, with: with, options: o, worst: worst, report: r, fitting: func(string) {}}
	if progress != nil {
		done := 0
		m.fitting = func(what string) {
			progress(done, 2*len(byType), what)
			done++
		}
	}
	for _, t := range entity.Types() {
		if len(byType[t]) == 0 {
			continue
		}
		if err := m.measure(t, byType[t]); err != nil {
			return nil, err
		}
	}
	if len(r.Types) == 0 {
		return nil, errors.New(strings.Join(append(r.Warnings, "there are no rows of both labels to measure"), "; "))
	}
	return r, nil
}

// pluginMeasurer measures a plugin type by type.
type pluginMeasurer struct {
	without, with Model
	options       FitOptions
	worst         int
	report        *PluginReport
	fitting       func(what string) // called before each fit
}

func (m pluginMeasurer) warn(format string, args ...any) {
	m.report.Warnings = append(m.report.Warnings, fmt.Sprintf(format, args...))
}

// complete returns the rows that all layers scored, and warns of the others.
func (m pluginMeasurer) complete(r *PluginType, all []*Scored, last int) (rows []*Scored) {
	invalid, failed := 0, 0
	for _, s := range all {
		switch {
		case s.Invalid != "":
			invalid++
		case s.hasFailure():
			failed++
			if s.layers[last].failure != "" {
				r.Failed++
			}
		default:
			rows = append(rows, s)
		}
	}
	if invalid > 0 {
		m.warn("%s: rows with invalid values, which are left out: %d", r.Type, invalid)
	}
	if failed > 0 {
		m.warn("%s: rows on which a layer failed, which are left out: %d, on %d of them the plugin", r.Type, failed,
			r.Failed)
	}
	return rows
}

func (m pluginMeasurer) measure(t entity.Type, all []*Scored) error {
	last := len(m.with.Layers) - 1
	r := &PluginType{Type: t}
	rows := m.complete(r, all, last)
	labels, alone := make([]bool, len(rows)), make([]float64, len(rows))
	for i, s := range rows {
		labels[i], alone[i] = s.Malicious, float64(s.layers[last].score)
	}
	r.curves.alone = NewCurve(alone, labels)
	r.N, r.Positives = len(rows), r.curves.alone.malicious
	if r.Positives == 0 || r.Positives == r.N {
		m.warn("%s: nothing can be measured, because there are no rows of both labels", t)
		return nil
	}
	r.Alone = figures(r.curves.alone, check.Bands{})
	m.fitting(string(t) + " without the layer")
	base, err := fitType(m.without, t, rows, m.options)
	if err != nil {
		return err
	}
	m.fitting(string(t) + " with the layer")
	next, err := fitType(m.with, t, rows, m.options)
	if err != nil {
		return err
	}
	r.curves.without, r.curves.with = NewCurve(base.outOfFold, labels), NewCurve(next.outOfFold, labels)
	r.Without, r.With = base.OutOfFold, next.OutOfFold
	for _, of := range []struct {
		*Curve
		*Figures
	}{{r.curves.alone, &r.Alone}, {r.curves.without, &r.Without}, {r.curves.with, &r.With}} {
		intervals := of.Bootstrap(onePct, tenthPct)
		of.Interval1, of.Interval01 = intervals[0], intervals[1]
	}
	r.AUCGain, r.Recall1 = gains(rows, base.outOfFold, next.outOfFold)
	r.Folds, r.ByLetters = next.Folds, next.ByLetters
	var promised []string
	if r.Weight, promised, err = m.weigh(t, rows); err != nil {
		return err
	}
	if len(next.Broken) > len(base.Broken) {
		m.warn("%s: no weights meet all limits of the lineup with the plugin; broken: %s", t,
			strings.Join(next.Broken, "; "))
	}
	if len(promised) > 0 {
		m.warn("%s: the plugin's weight is not what fits best, but what its signals warrant: %s", t,
			strings.Join(promised, "; "))
	}
	r.Malicious, r.Benign = spoke(rows, last, true), spoke(rows, last, false)
	r.Signals = signalRates(rows, r)
	r.Repeats = m.overlaps(t, rows)
	groups := func(atLeast int, name func(*Scored) string) []PluginGroup {
		return pluginGroups(rows, last, r, base.outOfFold, next.outOfFold, atLeast, name)
	}
	r.Sources = groups(1, func(s *Scored) string { return s.Source })
	r.Suffixes = groups(minSuffixRows, bySuffix)
	r.Errors = examples(rows, last, next.outOfFold, m.worst)
	m.report.Types = append(m.report.Types, r)
	return nil
}

// weigh fits the plugin's weight to an otherwise unchanged lineup, within its limits. promised names the limits on the
// plugin's signals that decide the weight.
func (m pluginMeasurer) weigh(t entity.Type, rows []*Scored) (weight float64, promised []string, err error) {
	name := m.with.Layers[len(m.with.Layers)-1].Name
	m.options.Only = []string{name}
	s, err := newSample(m.with, t, rows, m.options)
	if err != nil {
		return 0, nil, err
	}
	own := len(s.layers) // the coefficient of the last layer
	s.limits = slices.DeleteFunc(s.limits, func(l limit) bool { return l.coefficients[own] == 0 })
	fit := s.fitWithin()
	for i, l := range s.limits {
		if strings.HasPrefix(l.name, name+":") && fit.multipliers[i] > flat {
			promised = append(promised, l.name)
		}
	}
	return fit.x[own], promised, nil
}

// leastGain is the minimum difference of a figure that has a meaning: reports show four decimals.
const leastGain = 5e-5

// gains returns how much the AUC and the recall at 1% false positives gain from one score of the rows to another, both
// from 0 to 100. The 95% intervals are percentiles of a paired bootstrap. It draws all rows that share their first
// letters together, because names of one campaign are hardly independent. The weights are not fitted again.
func gains(rows []*Scored, before, after []float64) (auc, recall Gain) {
	byLetters := map[string][]int{}
	for i, s := range rows {
		byLetters[s.letters] = append(byLetters[s.letters], i)
	}
	groups := make([][]int, 0, len(byLetters))
	for _, letters := range slices.Sorted(maps.Keys(byLetters)) {
		groups = append(groups, byLetters[letters])
	}
	difference := func(drawn []int) (auc, recall float64) {
		a, b := emptyCurve(), emptyCurve()
		for _, group := range drawn {
			for _, i := range groups[group] {
				a.add(before[i], rows[i].Malicious)
				b.add(after[i], rows[i].Malicious)
			}
		}
		aucBefore, _ := a.AUC()
		aucAfter, _ := b.AUC()
		return aucAfter - aucBefore, b.At(onePct).Recall - a.At(onePct).Recall
	}
	drawn := make([]int, len(groups))
	for i := range drawn {
		drawn[i] = i
	}
	x, y := difference(drawn)
	var aucs, recalls []float64
	random := rand.New(rand.NewPCG(1, 1))
	for range replicates {
		for i := range drawn {
			drawn[i] = random.IntN(len(groups))
		}
		if x, y := difference(drawn); !math.IsNaN(x) { // rows of both labels were drawn
			aucs, recalls = append(aucs, x), append(recalls, y)
		}
	}
	return newGain(x, aucs), newGain(y, recalls)
}

// newGain returns a gain with the interval of its bootstrap samples.
func newGain(value float64, samples []float64) Gain {
	g := Gain{Value: Number(value), Interval: undefined, Noise: true}
	if len(samples) >= replicates/2 {
		g.Interval = percentiles(samples)
		g.Noise = g.Interval[0] <= 0 && g.Interval[1] >= 0 || math.Abs(value) < leastGain
	}
	return g
}

// spoke returns the share of the rows with a label to which a layer gives a score other than 0.
func spoke(rows []*Scored, layer int, malicious bool) Rate {
	n, scored := 0, 0
	for _, s := range rows {
		if s.Malicious == malicious {
			n++
			if s.layers[layer].score != 0 {
				scored++
			}
		}
	}
	return rate(scored, n)
}

// signalRates counts the rows with each signal of the traced layer.
func signalRates(rows []*Scored, r *PluginType) []SignalRates {
	counts := map[string]*[2]int{}
	for _, s := range rows {
		for _, code := range s.codes {
			c := entry(counts, code)
			if s.Malicious {
				c[1]++
			} else {
				c[0]++
			}
		}
	}
	all := []SignalRates{}
	for _, code := range slices.Sorted(maps.Keys(counts)) {
		all = append(all, SignalRates{code, rate(counts[code][1], r.Positives), rate(counts[code][0], r.N-r.Positives)})
	}
	slices.SortStableFunc(all, func(a, b SignalRates) int { return cmp.Compare(b.Malicious.Count, a.Malicious.Count) })
	return all
}

// overlaps compares the last layer with the others of the type.
func (m pluginMeasurer) overlaps(t entity.Type, rows []*Scored) []Overlap {
	last := len(m.with.Layers) - 1
	all := []Overlap{}
	for i, l := range m.with.Layers[:last] {
		if !slices.Contains(l.Types, t) {
			continue
		}
		o := Overlap{Layer: l.Name + "@" + l.Version}
		n, also := 0, 0
		for _, s := range rows {
			if s.layers[last].score != 0 {
				n++
				if s.layers[i].score != 0 {
					also++
				}
			}
		}
		o.Also = rate(also, n)
		o.Correlation, o.SameLabel = correlation(rows, last, i, false), correlation(rows, last, i, true)
		all = append(all, o)
	}
	slices.SortStableFunc(all, func(a, b Overlap) int { // NaN is last
		return cmp.Compare(b.Correlation, a.Correlation)
	})
	return all
}

// correlation returns Pearson's correlation of two layers' scores or, with sameLabel, of their differences from the
// mean of the rows with the same label. It is NaN if one of the scores does not vary.
func correlation(rows []*Scored, a, b int, sameLabel bool) Number {
	var n, sumA, sumB [2]float64
	of := func(s *Scored) int {
		if sameLabel && s.Malicious {
			return 1
		}
		return 0
	}
	for _, s := range rows {
		k := of(s)
		n[k]++
		sumA[k] += float64(s.layers[a].score)
		sumB[k] += float64(s.layers[b].score)
	}
	var product, squareA, squareB float64
	for _, s := range rows {
		k := of(s)
		x, y := float64(s.layers[a].score)-sumA[k]/n[k], float64(s.layers[b].score)-sumB[k]/n[k]
		product += x * y
		squareA += x * x
		squareB += y * y
	}
	return Number(product / math.Sqrt(squareA*squareB))
}

// pluginGroups returns the figures of rows by name and label: malicious groups first, in descending order of how many
// more rows the plugin flags. Rows without a name are excluded, and so are groups of fewer than atLeast rows.
func pluginGroups(
	rows []*Scored, plugin int, r *PluginType, without, with []float64, atLeast int, name func(*Scored) string,
) []PluginGroup {
	members := map[groupKey][]int{}
	for i, s := range rows {
		if k := (groupKey{name(s), s.Malicious}); k.name != "" {
			members[k] = append(members[k], i)
		}
	}
	all := []PluginGroup{}
	for k, of := range members {
		if len(of) < atLeast {
			continue
		}
		var group []*Scored
		sum, before, after := 0, 0, 0
		for _, i := range of {
			group = append(group, rows[i])
			sum += int(rows[i].layers[plugin].score)
			if without[i] >= float64(r.Without.Threshold1) { // false if the threshold is NaN
				before++
			}
			if with[i] >= float64(r.With.Threshold1) {
				after++
			}
		}
		n := len(of)
		all = append(all, PluginGroup{Name: k.name, Malicious: k.malicious, Spoke: spoke(group, plugin, k.malicious),
			MeanScore: share(sum, n), Without: share(before, n), With: share(after, n)})
	}
	slices.SortFunc(all, func(a, b PluginGroup) int {
		if a.Malicious != b.Malicious {
			return map[bool]int{true: -1, false: 1}[a.Malicious]
		}
		return cmp.Or(cmp.Compare(b.With-b.Without, a.With-a.Without), cmp.Compare(b.Spoke.N, a.Spoke.N),
			cmp.Compare(a.Name, b.Name))
	})
	return all
}

// examples returns the n worst errors of the plugin for each label.
func examples(rows []*Scored, plugin int, with []float64, n int) Examples {
	list := func(malicious bool, sign int) []Example {
		all := []Example{}
		for i, s := range rows {
			l := s.layers[plugin]
			wrong := l.score > 0
			if malicious {
				wrong = l.score <= 0 && !l.abstained
			}
			if s.Malicious == malicious && wrong {
				all = append(all, Example{Value: s.Value, Source: s.Source, Score: int(l.score), Lineup: int(with[i]),
					row: s.Row})
			}
		}
		slices.SortFunc(all, func(a, b Example) int { // a hash breaks ties, as in worst
			return cmp.Or(sign*cmp.Compare(a.Score, b.Score), sign*cmp.Compare(a.Lineup, b.Lineup),
				cmp.Compare(Hash(a.Value), Hash(b.Value)), cmp.Compare(a.Value, b.Value))
		})
		return all[:min(n, len(all))]
	}
	return Examples{Benign: list(false, -1), Malicious: list(true, 1)}
}
