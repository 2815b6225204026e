package eval

import (
	"fmt"
	"math"
	"slices"

	"assay/host/check"
	"assay/host/entity"
	"assay/registry"
)

// FitOptions says how weights are fitted.
type FitOptions struct {
	L2         float64 // penalty on the squares of weights
	Prevalence float64 // the share of fraud in life that the scores are to mean, at first for every type
	ReviewFPR  float64 // at most this share of a type's benign rows may be reviewed or blocked
	BlockFPR   float64 // at most this share may be blocked
}

// Fit is a fitted fusion.
type Fit struct {
	Bias     float64    `json:"bias"`
	Weights  []float64  `json:"weights"`     // by index into Lineup.Layers
	Rows     int        `json:"rows"`        // that it was fitted to
	Dropped  int        `json:"dropped"`     // rows that were refused, or that a layer was lost on
	BiasKept bool       `json:"bias_kept"`   // as some type that the lineup scores has no rows
	Kept     []string   `json:"layers_kept"` // layers that had nothing to say of these rows, and keep their weights
	Folds    int        `json:"folds"`       // of the cross-validation
	Types    []*FitType `json:"types"`       // in the order of entity.Types, those with rows
}

// FitType is how the fitted fusion does on one type.
type FitType struct {
	Type      entity.Type `json:"type"`
	N         int         `json:"n"`
	Positives int         `json:"positives"`
	// that the type was fitted for: the wanted one, or less where the bands asked for it
	Prevalence Number `json:"prevalence"`
	// whether the shares of false positives at the bands hold, on the rows fitted to
	TargetsMet bool     `json:"targets_met"`
	SplitNames []string `json:"split_sources,omitempty"`
	Before     Figures  `json:"before"`      // with the weights as they were
	Fitted     Figures  `json:"fitted"`      // on the rows that were fitted to
	OutOfFold  Figures  `json:"out_of_fold"` // every row by weights that saw no row of its source
}

// MostWeight bounds weights, and the bias both ways.
const MostWeight = registry.MaxWeight

// FitLineup fits weights and bias to scored rows by logistic regression.
//
// A file for fitting holds more fraud than life does, so its rows are weighed: within a type, malicious ones count as
// the wanted prevalence and benign ones as the rest, and each type counts the same (the weighted estimator for samples
// drawn by outcome: Manski and Lerman, Econometrica 45, 1977; King and Zeng, Political Analysis 9, 2001). Bias and
// bands are one for all types. Where a type's benign rows reach a band more often than they may, its prevalence is
// lowered by a tenth of log-odds and all is fitted anew, until the bands hold for every type: so a type with weak
// layers pays for it with its own recall, and not with that of the others.
//
// When the rows lack a type that the lineup scores, the bias stays as it is: to move it would move what nobody has
// measured.
func FitLineup(lineup Model, scored []Scored, o FitOptions) (*Fit, error) {
	s, err := newSample(lineup, scored)
	if err != nil {
		return nil, err
	}
	f := &Fit{Rows: len(s.rows), Dropped: len(scored) - len(s.rows), BiasKept: s.bias != nil, Kept: []string{}}
	for i, l := range lineup.Layers {
		if !slices.Contains(s.used, i) {
			f.Kept = append(f.Kept, l.Name)
		}
	}
	x, prevalence, met := s.fitWithin(o)
	f.Bias, f.Weights = s.fusion(x)
	outOfFold, folds, split := s.crossValidate(x, prevalence, o)
	f.Folds = folds
	for _, t := range s.types {
		ft := &FitType{Type: t, Prevalence: Number(prevalence[t]), TargetsMet: met[t], SplitNames: split[t]}
		var labels []bool
		var before, after, held []float64
		for i, r := range s.rows {
			if r.Type != t {
				continue
			}
			ft.N++
			if r.Malicious {
				ft.Positives++
			}
			labels = append(labels, r.Malicious)
			before = append(before, float64(lineup.score(lineup.logOdds(r, -1))))
			after = append(after, float64(lineup.score(s.patterns[s.patternOf[i]].logOdds(x))))
			held = append(held, float64(lineup.score(outOfFold[i])))
		}
		ft.Before, ft.Fitted, ft.OutOfFold = figures(NewCurve(before, labels), lineup.Bands),
			figures(NewCurve(after, labels), lineup.Bands), figures(NewCurve(held, labels), lineup.Bands)
		f.Types = append(f.Types, ft)
	}
	return f, nil
}

// sample is rows ready to be fitted to. Rows of one type and label that the layers score alike are one pattern.
type sample struct {
	lineup    Model
	types     []entity.Type
	rows      []*Scored
	used      []int     // layers to fit
	bias      *float64  // to keep
	patterns  []pattern // of all rows
	patternOf []int     // by index into rows
	counts    []int     // by index into patterns
}

type pattern struct {
	weighedCase
	kind entity.Type
}

func newSample(lineup Model, scored []Scored) (*sample, error) {
	s := &sample{lineup: lineup}
	for i := range scored {
		if r := &scored[i]; r.Refused == "" &&
			!slices.ContainsFunc(r.layers, func(m mark) bool { return m.lost != "" }) {
			s.rows = append(s.rows, r)
		}
	}
	for i := range lineup.Layers {
		if slices.ContainsFunc(s.rows, func(r *Scored) bool { return r.layers[i].score > 0 }) {
			s.used = append(s.used, i)
		}
	}
	labels := map[entity.Type]map[bool]int{}
	index := map[string]int{}
	for _, r := range s.rows {
		key := []byte(fmt.Sprint(r.Type, r.Malicious))
		features := make([]float64, len(s.used))
		for i, l := range s.used {
			features[i] = float64(r.layers[l].score) / 100
			key = append(key, byte(r.layers[l].score))
		}
		p, ok := index[string(key)]
		if !ok {
			p = len(s.patterns)
			index[string(key)] = p
			s.patterns = append(s.patterns, pattern{weighedCase{features: features, malicious: r.Malicious}, r.Type})
			s.counts = append(s.counts, 0)
		}
		s.patternOf = append(s.patternOf, p)
		s.counts[p]++
		if labels[r.Type] == nil {
			labels[r.Type] = map[bool]int{}
		}
		labels[r.Type][r.Malicious]++
	}
	for _, t := range entity.Types() {
		switch n := labels[t]; {
		case n == nil:
			if slices.ContainsFunc(lineup.Layers, func(l Layer) bool { return slices.Contains(l.Types, t) }) {
				s.bias = &s.lineup.Bias
			}
		case n[true] == 0 || n[false] == 0:
			return nil, fmt.Errorf("fitting weights: the %s rows have one label only, and nothing to tell apart", t)
		default:
			s.types = append(s.types, t)
		}
	}
	if len(s.types) == 0 {
		return nil, fmt.Errorf("fitting weights: no row was scored")
	}
	return s, nil
}

// solve fits to the patterns as often as counted, each type's malicious rows counting as its prevalence.
func (s *sample) solve(counts []int, prevalence map[entity.Type]float64, l2 float64, start []float64) []float64 {
	type class struct {
		kind      entity.Type
		malicious bool
	}
	n := map[class]int{}
	for i, p := range s.patterns {
		n[class{p.kind, p.malicious}] += counts[i]
	}
	r := regression{features: len(s.used), l2: l2, most: MostWeight, bias: s.bias}
	for i, p := range s.patterns {
		if counts[i] == 0 {
			continue
		}
		part := 1 - prevalence[p.kind]
		if p.malicious {
			part = prevalence[p.kind]
		}
		p.weight = part * float64(counts[i]) / float64(n[class{p.kind, p.malicious}])
		r.cases = append(r.cases, p.weighedCase)
	}
	return r.solve(start)
}

// fitWithin fits to all rows so that the bands hold, and says for which types they do. Coefficients have two decimals.
func (s *sample) fitWithin(o FitOptions) (x []float64, prevalence map[entity.Type]float64, met map[entity.Type]bool) {
	const leastPrevalence, lower = 1e-6, 0.1
	prevalence, met = map[entity.Type]float64{}, map[entity.Type]bool{}
	for _, t := range s.types {
		prevalence[t] = o.Prevalence
	}
	var exact []float64
	for {
		exact = s.solve(s.counts, prevalence, o.L2, exact)
		x = rounded(exact)
		again := false
		for _, t := range s.types {
			review, block := s.falsePositives(t, x)
			met[t] = review <= o.ReviewFPR && block <= o.BlockFPR
			if !met[t] && prevalence[t] > leastPrevalence {
				odds := prevalence[t] / (1 - prevalence[t]) * math.Exp(-lower)
				prevalence[t], again = odds/(1+odds), true
			}
		}
		if !again {
			return x, prevalence, met
		}
	}
}

func rounded(x []float64) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = math.Round(v*100) / 100
	}
	return out
}

// falsePositives are the shares of a type's benign rows that are reviewed or blocked, and that are blocked.
func (s *sample) falsePositives(t entity.Type, x []float64) (review, block float64) {
	n := 0
	for i, p := range s.patterns {
		if p.kind != t || p.malicious {
			continue
		}
		n += s.counts[i]
		switch s.lineup.Bands.Verdict(s.lineup.score(p.logOdds(x))) {
		case check.Block:
			block += float64(s.counts[i])
			review += float64(s.counts[i])
		case check.Review:
			review += float64(s.counts[i])
		}
	}
	return review / float64(n), block / float64(n)
}

// fusion is bias and weights of the whole lineup.
func (s *sample) fusion(x []float64) (bias float64, weights []float64) {
	weights = make([]float64, len(s.lineup.Layers))
	for i, l := range s.lineup.Layers {
		weights[i] = l.Weight
	}
	for i, l := range s.used {
		weights[l] = x[i+1]
	}
	return x[0], weights
}
