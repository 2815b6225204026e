package eval

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"slices"
	"strings"

	"assay/host/check"
	"assay/host/entity"
)

// Options are the options of [Measure].
type Options struct {
	Prevalence float64 // the share of malicious rows to assume for the calibration; 0 for that of the rows
	Worst      int     // number of worst errors to list per label
}

// False positive rates for which the recall is reported.
const (
	onePct   = 0.01
	tenthPct = 0.001
)

// Measure returns a report on scored rows, by type. Its worst errors lack the layers' results until [Report.Explain].
func Measure(lineup Model, scored []Scored, o Options) *Report {
	r := &Report{Lineup: LineupLine{lineup.Revision, lineup.Bias, lineup.Bands}, Rows: len(scored), Files: []string{},
		Warnings: []string{}, model: lineup}
	byType := map[entity.Type][]*Scored{}
	for i := range scored {
		s := &scored[i]
		byType[s.Type] = append(byType[s.Type], s)
	}
	for _, t := range entity.Types() {
		if rows := byType[t]; len(rows) > 0 {
			r.Types = append(r.Types, measureType(lineup, t, rows, o))
		}
	}
	r.warn()
	return r
}

// warn adds warnings about rows that the figures do not cover as expected.
func (r *Report) warn() {
	warn := func(format string, args ...any) { r.Warnings = append(r.Warnings, fmt.Sprintf(format, args...)) }
	for _, t := range r.Types {
		if n := t.Invalid.Benign + t.Invalid.Malicious; n > 0 {
			warn("%s: %d rows are invalid and excluded, %d of them malicious; the first: %s",
				t.Type, n, t.Invalid.Malicious, t.Invalid.Reasons[0])
		}
		if t.N > 0 && (t.Positives == 0 || t.Positives == t.N) {
			warn("%s: all rows have the same label, so AUC and recall are undefined", t.Type)
		}
		if t.Unknown > 0 {
			warn("%s: rows for which a fact source did not respond in time: %d", t.Type, t.Unknown)
		}
		for _, layer := range slices.Sorted(maps.Keys(t.HeldOut)) {
			if !slices.ContainsFunc(t.Layers, func(l LayerReport) bool { return l.Name == layer }) {
				warn("%s: the lineup has no layer %s, so its held-out scores do not count", t.Type, layer)
				continue
			}
			warn("%s: of layer %s, %d of %d rows carry the score of a model that never saw them", t.Type, layer,
				t.HeldOut[layer], t.N)
		}
		for _, l := range t.Layers {
			for _, reason := range slices.Sorted(maps.Keys(l.Failures)) {
				warn("%s: layer %s failed on %d rows (%s); they count with the score that the API would return",
					t.Type, l.Name, l.Failures[reason], reason)
			}
			if len(l.FailedOn) > 0 {
				warn("%s: run 'assay check' for details of the failures of layer %s, for example on %s", t.Type, l.Name,
					printable(strings.Join(l.FailedOn, ", ")))
			}
		}
	}
}

func measureType(lineup Model, t entity.Type, all []*Scored, o Options) *TypeReport {
	r := &TypeReport{Type: t}
	var rows []*Scored
	for _, s := range all {
		if s.Invalid == "" {
			rows = append(rows, s)
		} else {
			r.Invalid.add(s)
		}
	}
	labels, scores, logOdds := make([]bool, len(rows)), make([]float64, len(rows)), make([]float64, len(rows))
	for i, s := range rows {
		labels[i], scores[i] = s.Malicious, float64(s.Score)
		logOdds[i] = lineup.logOdds(s, -1)
		if s.unknown {
			r.Unknown++
		}
		if s.Malicious {
			r.Histogram.Malicious[s.Score]++
		} else {
			r.Histogram.Benign[s.Score]++
		}
	}
	r.curve = NewCurve(scores, labels)
	r.N, r.Positives = len(rows), r.curve.malicious
	r.Figures = figures(r.curve, lineup.Bands)
	intervals := r.curve.Bootstrap(onePct, tenthPct)
	r.Interval1, r.Interval01 = intervals[0], intervals[1]
	r.Unrounded = figures(NewCurve(logOdds, labels), check.Bands{})
	r.Calibration = calibrate(scores, labels, float64(r.Positives)/float64(r.N), o.Prevalence)
	for i, l := range lineup.Layers {
		if slices.Contains(l.Types, t) {
			r.Layers = append(r.Layers, measureLayer(lineup, t, i, rows, labels))
		}
	}
	r.Sources = groups(lineup.Bands, rows, r.Threshold1, func(s *Scored) string { return s.Source })
	r.Suffixes = falsePositives(lineup.Bands, rows, minSuffixRows, bySuffix)
	r.TopSites = falsePositives(lineup.Bands, rows, 1, byTopRank)
	r.Threats = threats(lineup.Bands, rows)
	r.HeldOut = heldOut(rows)
	r.Categories = groups(lineup.Bands, rows, r.Threshold1, func(s *Scored) string { return s.Category })
	r.Errors = Errors{
		Benign: worst(rows, func(s *Scored) bool { return !s.Malicious && lineup.logOdds(s, -1) > lineup.Bias[t] },
			o.Worst, func(s *Scored) float64 { return lineup.logOdds(s, -1) }),
		Malicious: worst(rows, func(s *Scored) bool { return s.Malicious && s.Score < lineup.Bands.Block },
			o.Worst, func(s *Scored) float64 { return -lineup.logOdds(s, -1) }),
	}
	return r
}

// maxExamples is the maximum number of examples of invalid rows and of failures.
const maxExamples = 5

func (r *Invalid) add(s *Scored) {
	if s.Malicious {
		r.Malicious++
	} else {
		r.Benign++
	}
	if len(r.Reasons) < maxExamples {
		r.Reasons = append(r.Reasons, s.Invalid)
	}
}

// logOdds returns the fused log-odds of a row without the layer at index without; -1 includes all layers.
func (l Model) logOdds(s *Scored, without int) float64 {
	sum := l.Bias[s.Type]
	for i, r := range s.layers {
		if i != without {
			sum += l.Layers[i].Weight[s.Type] * float64(r.score) / 100
		}
	}
	return sum
}

// score returns the score that check.Fuse computes from log-odds.
func (l Model) score(logOdds float64) int {
	return check.Fuse(0, l.Bands, []check.Outcome{{Contribution: logOdds}}).Score
}

func measureLayer(lineup Model, t entity.Type, i int, rows []*Scored, labels []bool) LayerReport {
	l := lineup.Layers[i]
	r := LayerReport{Name: l.Name, Version: l.Version, Weight: l.Weight[t], Failures: map[string]int{}}
	alone, without := make([]float64, len(rows)), make([]float64, len(rows))
	for j, s := range rows {
		result := s.layers[i]
		alone[j], without[j] = float64(result.score), float64(lineup.score(lineup.logOdds(s, i)))
		switch {
		case result.failure != "":
			r.Failures[string(result.failure)]++
			if len(r.FailedOn) < maxExamples {
				r.FailedOn = append(r.FailedOn, s.Value)
			}
		case result.abstained:
			r.Abstained++
		case result.score != 0:
			r.Scored++
		}
	}
	r.Figures = figures(NewCurve(alone, labels), lineup.Bands)
	r.Without = figures(NewCurve(without, labels), lineup.Bands)
	return r
}

// figures returns the figures of a curve. They include bands unless bands is zero.
func figures(c *Curve, bands check.Bands) Figures {
	auc, interval := c.AUC()
	at1, at01 := c.At(onePct), c.At(tenthPct)
	f := Figures{
		AUC: Number(auc), AUCInterval: interval,
		Recall1: Number(at1.Recall), Threshold1: Number(at1.Threshold), FPR1: Number(at1.FPR),
		Recall01: Number(at01.Recall), Threshold01: Number(at01.Threshold), FPR01: Number(at01.FPR),
	}
	if bands.Block > 0 {
		f.Bands = &Bands{Allow: c.band(0, bands.Review-1), Review: c.band(bands.Review, bands.Block-1),
			Block: c.band(bands.Block, 100)}
	}
	return f
}

func (c *Curve) band(from, to int) Band {
	b := Band{From: from, To: to}
	for _, s := range c.steps {
		if s.score < float64(from) {
			continue
		}
		b.TruePositives += s.malicious
		b.FalsePositives += s.benign
		if s.score <= float64(to) {
			b.Malicious += s.malicious
			b.Benign += s.benign
		}
	}
	b.FalseNegatives, b.TrueNegatives = c.malicious-b.TruePositives, c.benign-b.FalsePositives
	b.Recall, b.RecallInterval = share(b.TruePositives, c.malicious), Wilson(b.TruePositives, c.malicious)
	b.FPR, b.FPRInterval = share(b.FalsePositives, c.benign), Wilson(b.FalsePositives, c.benign)
	return b
}

func share(k, n int) Number {
	if n == 0 {
		return Number(math.NaN())
	}
	return Number(float64(k) / float64(n))
}

// groupKey names the rows with one label and, for instance, one source.
type groupKey struct {
	name      string
	malicious bool
}

// groups returns the figures of rows by name and label: malicious groups first, in ascending order of recall, then
// benign ones, in descending order of false positives. Rows without a name are excluded.
func groups(bands check.Bands, rows []*Scored, threshold Number, name func(*Scored) string) []Group {
	type counts struct {
		verdicts
		flagged, scores int
	}
	byKey := map[groupKey]*counts{}
	for _, s := range rows {
		k := groupKey{name(s), s.Malicious}
		if k.name == "" {
			continue
		}
		t := entry(byKey, k)
		t.add(bands.Verdict(s.Score))
		t.scores += s.Score
		if float64(s.Score) >= float64(threshold) { // false if the threshold is NaN
			t.flagged++
		}
	}
	all := []Group{}
	for k, t := range byKey {
		all = append(all, Group{
			Name: k.name, Malicious: k.malicious, N: t.n, AtOnePct: share(t.flagged, t.n),
			Interval: Wilson(t.flagged, t.n),
			Review:   share(t.review, t.n), Block: share(t.block, t.n), MeanScore: share(t.scores, t.n),
		})
	}
	slices.SortFunc(all, func(a, b Group) int {
		if a.Malicious != b.Malicious {
			return map[bool]int{true: -1, false: 1}[a.Malicious]
		}
		worse := cmp.Compare(a.AtOnePct, b.AtOnePct)
		if !a.Malicious {
			worse = -worse
		}
		return cmp.Or(worse, cmp.Compare(a.Name, b.Name))
	})
	return all
}

// worst returns the n rows with an error of the largest size, in descending order. A hash of the value breaks ties,
// because alphabetical order would favour similar values.
func worst(rows []*Scored, isError func(*Scored) bool, n int, size func(*Scored) float64) []Mistake {
	var wrong []*Scored
	for _, s := range rows {
		if isError(s) {
			wrong = append(wrong, s)
		}
	}
	slices.SortFunc(wrong, func(a, b *Scored) int {
		return cmp.Or(cmp.Compare(size(b), size(a)), cmp.Compare(Hash(a.Value), Hash(b.Value)),
			cmp.Compare(a.Value, b.Value))
	})
	mistakes := []Mistake{}
	for _, s := range wrong[:min(n, len(wrong))] {
		mistakes = append(mistakes, Mistake{Value: s.Value, Source: s.Source, Category: s.Category, Country: s.Country,
			Score: s.Score, row: s.Row})
	}
	return mistakes
}

// Hash returns the 64-bit FNV-1a hash of value, the same in every process.
func Hash(value string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(value))
	return h.Sum64()
}
