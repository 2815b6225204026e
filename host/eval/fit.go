package eval

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"assay/host/check"
	"assay/host/entity"
	"assay/registry"
)

// FitOptions are the options of [FitLineup].
type FitOptions struct {
	L2         float64 // penalty on the sum of the squared weights
	Prevalence float64 // the share of fraud in production, initially for every type
	ReviewFPR  float64 // maximum share of a type's benign rows that are reviewed or blocked
	BlockFPR   float64 // maximum share of a type's benign rows that are blocked
}

// Fit is the result of [FitLineup].
type Fit struct {
	Bias     float64    `json:"bias"`
	Weights  []float64  `json:"weights"`     // by index into Model.Layers
	Rows     int        `json:"rows"`        // number of rows fitted to
	Dropped  int        `json:"dropped"`     // number of rows with invalid values or failed layers
	BiasKept bool       `json:"bias_kept"`   // the rows lack a type that the lineup scores
	Kept     []string   `json:"layers_kept"` // layers that scored none of the rows and keep their weights
	Folds    int        `json:"folds"`       // number of folds of the cross-validation
	Types    []*FitType `json:"types"`       // types with rows, in the order of entity.Types
}

// FitType is the quality of the fit for one type.
type FitType struct {
	Type      entity.Type `json:"type"`
	N         int         `json:"n"`
	Positives int         `json:"positives"`
	// FitOptions.Prevalence, or less to meet the limits on false positives
	Prevalence Number `json:"prevalence"`
	// whether the rows fitted to meet the limits on false positives
	TargetsMet bool     `json:"targets_met"`
	SplitNames []string `json:"split_sources,omitempty"` // sources split at random in the cross-validation
	Before     Figures  `json:"before"`                  // with the original weights
	Fitted     Figures  `json:"fitted"`                  // with the new weights, on the rows fitted to
	OutOfFold  Figures  `json:"out_of_fold"`             // each row with weights fitted without its source
}

// MaxWeight is the maximum of weights. The bias is from -MaxWeight to MaxWeight.
const MaxWeight = registry.MaxWeight

// FitLineup fits weights and bias to scored rows by logistic regression.
//
// Labelled files contain more fraud than production, so rows are weighted: within a type, the weights of malicious rows
// sum to the prevalence and those of benign rows to the rest (the weighted estimator for samples drawn by outcome:
// Manski and Lerman, Econometrica 45, 1977; King and Zeng, Political Analysis 9, 2001). Every type weighs the same. All
// types share the bias and the bands. While a type's benign rows exceed a limit on false positives, its prevalence is
// lowered by a factor of exp(-0.1) in odds and everything is fitted again. So a type with weak layers loses recall, and
// the other types don't.
//
// If the rows lack a type that the lineup scores, the bias is kept, because changing it would change the scores of that
// type without a measurement.
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
		var before, fitted, heldOut []float64
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
			fitted = append(fitted, float64(lineup.score(s.patterns[s.patternOf[i]].logOdds(x))))
			heldOut = append(heldOut, float64(lineup.score(outOfFold[i])))
		}
		ft.Before = figures(NewCurve(before, labels), lineup.Bands)
		ft.Fitted = figures(NewCurve(fitted, labels), lineup.Bands)
		ft.OutOfFold = figures(NewCurve(heldOut, labels), lineup.Bands)
		f.Types = append(f.Types, ft)
	}
	return f, nil
}

// sample is a set of rows to fit to. Rows with the same type, label and layer scores share a pattern.
type sample struct {
	lineup    Model
	types     []entity.Type
	rows      []*Scored
	used      []int     // indices of the layers to fit: those that scored a row above 0
	bias      *float64  // fixed bias; nil to fit it
	patterns  []pattern // distinct patterns of all rows
	patternOf []int     // index of each row's pattern
	counts    []int     // number of rows with each pattern
}

type pattern struct {
	weightedCase
	kind entity.Type
}

func newSample(lineup Model, scored []Scored) (*sample, error) {
	s := &sample{lineup: lineup}
	for i := range scored {
		if r := &scored[i]; r.Invalid == "" && !r.hasFailure() {
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
			s.patterns = append(s.patterns, pattern{weightedCase{features: features, malicious: r.Malicious}, r.Type})
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
				bias := s.lineup.Bias[t]
				s.bias = &bias
			}
		case n[true] == 0 || n[false] == 0:
			return nil, fmt.Errorf("fitting weights: the %s rows all have the same label", t)
		default:
			s.types = append(s.types, t)
		}
	}
	if len(s.types) == 0 {
		return nil, errors.New("fitting weights: no row was scored")
	}
	return s, nil
}

// solve fits to counts rows of each pattern, weighted to the prevalence of each type.
func (s *sample) solve(counts []int, prevalence map[entity.Type]float64, l2 float64, start []float64) []float64 {
	type class struct {
		kind      entity.Type
		malicious bool
	}
	n := map[class]int{}
	for i, p := range s.patterns {
		n[class{p.kind, p.malicious}] += counts[i]
	}
	r := regression{features: len(s.used), l2: l2, maxWeight: MaxWeight, bias: s.bias}
	for i, p := range s.patterns {
		if counts[i] == 0 {
			continue
		}
		classWeight := 1 - prevalence[p.kind]
		if p.malicious {
			classWeight = prevalence[p.kind]
		}
		p.weight = classWeight * float64(counts[i]) / float64(n[class{p.kind, p.malicious}])
		r.cases = append(r.cases, p.weightedCase)
	}
	return r.solve(start)
}

// fitWithin fits to all rows within the limits on false positives, and reports which types meet them. The coefficients
// are rounded to two decimals.
func (s *sample) fitWithin(o FitOptions) (x []float64, prevalence map[entity.Type]float64, met map[entity.Type]bool) {
	const minPrevalence, step = 1e-6, 0.1 // step in log-odds
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
			if !met[t] && prevalence[t] > minPrevalence {
				odds := prevalence[t] / (1 - prevalence[t]) * math.Exp(-step)
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

// falsePositives returns the share of a type's benign rows that are reviewed or blocked, and the share that are
// blocked.
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

// fusion returns the bias and the weights of all layers. Layers that were not fitted keep their weights.
func (s *sample) fusion(x []float64) (bias float64, weights []float64) {
	weights = make([]float64, len(s.lineup.Layers))
	for i, l := range s.lineup.Layers {
		weights[i] = l.Weight[l.Types[0]]
	}
	for i, l := range s.used {
		weights[l] = x[i+1]
	}
	return x[0], weights
}
