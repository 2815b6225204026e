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

// Options says how a measurement is reported.
type Options struct {
	Prevalence float64 // what calibration is reckoned for; 0: the rows' own share of malicious ones
	Worst      int     // how many of the worst errors of each label are listed
}

// The shares of false positives that recall is reported at.
const (
	onePct   = 0.01
	tenthPct = 0.001
)

// Measure turns scored rows into a report, each type by itself. The worst errors have no explanations yet: see
// [Explain].
func Measure(lineup Model, scored []Scored, o Options) *Report {
	r := &Report{Lineup: LineupLine{lineup.Revision, lineup.Bias, lineup.Bands}, Rows: len(scored), Files: []string{},
		Warnings: []string{}}
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

// warn says what a reader must know before believing the figures.
func (r *Report) warn() {
	warn := func(format string, args ...any) { r.Warnings = append(r.Warnings, fmt.Sprintf(format, args...)) }
	for _, t := range r.Types {
		if n := t.Refused.Benign + t.Refused.Malicious; n > 0 {
			warn("%s: refused as no such entity, and left out: %d rows, %d of them malicious, the first because: %s",
				t.Type, n, t.Refused.Malicious, t.Refused.Reasons[0])
		}
		if t.N > 0 && (t.Positives == 0 || t.Positives == t.N) {
			warn("%s: the rows have one label only, so there is nothing to tell apart", t.Type)
		}
		if t.Unknown > 0 {
			warn("%s: rows for which a source of facts did not answer in time: %d", t.Type, t.Unknown)
		}
		for _, l := range t.Layers {
			for _, reason := range slices.Sorted(maps.Keys(l.Lost)) {
				warn("%s: layer %s was lost on %d rows (%s), twice; they count as customers would have been answered",
					t.Type, l.Name, l.Lost[reason], reason)
			}
			if len(l.LostValues) > 0 {
				warn("%s: 'assay check' tells more of what layer %s was lost on, such as %s", t.Type, l.Name,
					printable(strings.Join(l.LostValues, ", ")))
			}
			if l.OverBudget > 0 {
				warn("%s: layer %s took longer than its budget for %d rows, twice: in a check it would have been lost",
					t.Type, l.Name, l.OverBudget)
			}
		}
	}
}

func measureType(lineup Model, t entity.Type, all []*Scored, o Options) *TypeReport {
	r := &TypeReport{Type: t}
	var rows []*Scored
	for _, s := range all {
		if s.Refused == "" {
			rows = append(rows, s)
			continue
		}
		r.Refused.add(s)
	}
	labels, scores, logOdds := make([]bool, len(rows)), make([]float64, len(rows)), make([]float64, len(rows))
	for i, s := range rows {
		labels[i], scores[i] = s.Malicious, float64(s.Score)
		logOdds[i] = lineup.logOdds(s, -1)
		if s.unknown {
			r.Unknown++
		}
		if s.Malicious {
			r.Positives++
			r.Histogram.Malicious[s.Score]++
		} else {
			r.Histogram.Benign[s.Score]++
		}
	}
	r.N = len(rows)
	r.curve = NewCurve(scores, labels)
	r.Figures = figures(r.curve, lineup.Bands)
	intervals := r.curve.Bootstrap(onePct, tenthPct)
	r.Interval1, r.Interval01 = intervals[0], intervals[1]
	r.Unrounded = figures(NewCurve(logOdds, labels), check.Bands{})
	r.Calibration = calibrate(scores, labels, o.Prevalence)
	for i, l := range lineup.Layers {
		if slices.Contains(l.Types, t) {
			r.Layers = append(r.Layers, measureLayer(lineup, i, rows, labels))
		}
	}
	r.Sources = groups(lineup.Bands, rows, r.Threshold1, func(s *Scored) string { return s.Source })
	r.Categories = groups(lineup.Bands, rows, r.Threshold1, func(s *Scored) string { return s.Category })
	r.Errors = Errors{
		Benign:    worst(rows, lineup.suspects, o.Worst, func(s *Scored) float64 { return lineup.logOdds(s, -1) }),
		Malicious: worst(rows, lineup.misses, o.Worst, func(s *Scored) float64 { return -lineup.logOdds(s, -1) }),
	}
	return r
}

// shown is how many examples of trouble are kept.
const shown = 5

func (r *Refused) add(s *Scored) {
	if s.Malicious {
		r.Malicious++
	} else {
		r.Benign++
	}
	if len(r.Reasons) < shown {
		r.Reasons = append(r.Reasons, s.Refused)
	}
}

// logOdds is a row's fused log-odds with layer without (an index, or -1) left out.
func (l Model) logOdds(s *Scored, without int) float64 {
	sum := l.Bias
	for i, m := range s.layers {
		if i != without {
			sum += l.Layers[i].Weight * float64(m.score) / 100
		}
	}
	return sum
}

// score is logOdds as check.Fuse makes a score of it.
func (l Model) score(logOdds float64) int {
	return check.Fuse(0, l.Bands, []check.Outcome{{Contribution: logOdds}}).Score
}

func measureLayer(lineup Model, i int, rows []*Scored, labels []bool) LayerReport {
	l := lineup.Layers[i]
	r := LayerReport{Name: l.Name, Version: l.Version, Weight: l.Weight, Lost: map[string]int{}}
	alone, without := make([]float64, len(rows)), make([]float64, len(rows))
	for j, s := range rows {
		m := s.layers[i]
		alone[j], without[j] = float64(m.score), float64(lineup.score(lineup.logOdds(s, i)))
		switch {
		case m.lost != "":
			r.Lost[string(m.lost)]++
			if len(r.LostValues) < shown {
				r.LostValues = append(r.LostValues, s.Value)
			}
		case m.abstained:
			r.Abstained++
		case m.score > 0:
			r.Spoke++
		}
		if m.over {
			r.OverBudget++
		}
	}
	r.Figures = figures(NewCurve(alone, labels), lineup.Bands)
	r.LeftOut = figures(NewCurve(without, labels), lineup.Bands)
	return r
}

// figures reads what there is to say from a curve; with bands, the confusion at each.
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

// groups reckons rows by name and label: malicious ones first, the worst caught at the top; then benign ones, the worst
// treated at the top. Rows without a name are left out.
func groups(bands check.Bands, rows []*Scored, threshold Number, name func(*Scored) string) []Group {
	type key struct {
		name      string
		malicious bool
	}
	type tally struct{ n, flagged, review, block, scores int }
	tallies := map[key]*tally{}
	for _, s := range rows {
		k := key{name(s), s.Malicious}
		if k.name == "" {
			continue
		}
		t := tallies[k]
		if t == nil {
			t = &tally{}
			tallies[k] = t
		}
		t.n++
		t.scores += s.Score
		if float64(s.Score) >= float64(threshold) { // never when there is no threshold
			t.flagged++
		}
		switch bands.Verdict(s.Score) {
		case check.Block:
			t.block++
			t.review++
		case check.Review:
			t.review++
		}
	}
	all := []Group{}
	for k, t := range tallies {
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

// suspects says whether a benign row has anything said against it.
func (l Model) suspects(s *Scored) bool { return !s.Malicious && l.logOdds(s, -1) > l.Bias }

// misses says whether a malicious row is not blocked.
func (l Model) misses(s *Scored) bool { return s.Malicious && s.Score < l.Bands.Block }

// worst returns the n of the rows with an error that are the most wrong, the most wrong first. Among many that are
// equally wrong, a hash of the value decides: the alphabet would show those of one kind.
func worst(rows []*Scored, isError func(*Scored) bool, n int, wrong func(*Scored) float64) []Mistake {
	var of []*Scored
	for _, s := range rows {
		if isError(s) {
			of = append(of, s)
		}
	}
	slices.SortFunc(of, func(a, b *Scored) int {
		return cmp.Or(cmp.Compare(wrong(b), wrong(a)), cmp.Compare(spread(a.Value), spread(b.Value)),
			cmp.Compare(a.Value, b.Value))
	})
	mistakes := []Mistake{}
	for _, s := range of[:min(n, len(of))] {
		mistakes = append(mistakes, Mistake{Value: s.Value, Source: s.Source, Category: s.Category, Country: s.Country,
			Score: s.Score})
	}
	return mistakes
}

// spread is a hash that is the same in every run.
func spread(value string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(value))
	return h.Sum64()
}
