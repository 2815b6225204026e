package eval

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"assay/host/check"
	"assay/host/entity"
	"assay/registry"
)

// FitOptions are the options of [FitLineup].
type FitOptions struct {
	// L2 is the penalty on the mean squared contribution of each style layer. It separates the scores of honest values,
	// which would all round to 0, and leaves findings room above style. Other layers have a thousandth of it.
	L2         float64
	Prevalence float64  // the maximum share of fraud in production
	ReviewFPR  float64  // maximum share of a type's benign rows that are reviewed or blocked
	BlockFPR   float64  // maximum share of a type's benign rows that are blocked
	SuffixFPR  float64  // maximum share of a suffix's benign rows that are reviewed or blocked, if it has 50 or more
	Only       []string // the layers to fit; the bias and other weights are kept. Empty: all
}

// Fit is the result of [FitLineup].
type Fit struct {
	Rows    int        `json:"rows"`    // number of rows fitted to
	Dropped int        `json:"dropped"` // number of rows with invalid values or failed layers
	Types   []*FitType `json:"types"`   // types with rows, in the order of entity.Types
}

// FitType is the fit for one type.
type FitType struct {
	Type      entity.Type `json:"type"`
	N         int         `json:"n"`
	Positives int         `json:"positives"`
	Bias      float64     `json:"bias"`
	Weights   []float64   `json:"weights"`     // by index into Model.Layers; 0 for layers of other types
	Kept      []string    `json:"layers_kept"` // layers that scored none of the rows; a limit may raise their weights
	// FitOptions.Prevalence, or less to meet the limits on false positives
	Prevalence Number `json:"prevalence"`
	// whether the rows fitted to meet the limits on false positives
	TargetsMet bool     `json:"targets_met"`
	Binding    []string `json:"binding"` // names of the limits that hold with equality
	Broken     []string `json:"broken"`  // names of the limits that no weights meet together
	Folds      int      `json:"folds"`   // number of folds of the cross-validation
	// sources that are not held out whole, but by their rows' first letters
	ByLetters []string `json:"by_letters,omitempty"`
	Before    Figures  `json:"before"`      // with the original weights
	Free      Figures  `json:"free"`        // with weights that ignore the lineup's limits
	Fitted    Figures  `json:"fitted"`      // with the new weights, on the rows fitted to
	OutOfFold Figures  `json:"out_of_fold"` // each row with weights fitted without its source and rows like it

	outOfFold []float64 // the rows' scores
}

// MaxWeight is the maximum of weights. The bias is from -MaxWeight to MaxWeight.
const MaxWeight = registry.MaxWeight

// FitLineup fits each type's bias and weights to scored rows by logistic regression within the lineup's limits.
//
// Labelled files contain more fraud than production, so rows are weighted: the weights of malicious rows sum to the
// prevalence and those of benign rows to the rest (the weighted estimator for samples drawn by outcome: Manski and
// Lerman, Econometrica 45, 1977; King and Zeng, Political Analysis 9, 2001). While benign rows exceed a limit on false
// positives, the prevalence is lowered, which mostly lowers the bias.
func FitLineup(lineup Model, scored []Scored, o FitOptions) (*Fit, error) {
	f := &Fit{}
	byType := map[entity.Type][]*Scored{}
	for i := range scored {
		if r := &scored[i]; r.Invalid == "" && !r.hasFailure() {
			byType[r.Type] = append(byType[r.Type], r)
			f.Rows++
		}
	}
	f.Dropped = len(scored) - f.Rows
	for _, t := range entity.Types() {
		if len(byType[t]) == 0 {
			continue
		}
		ft, err := fitType(lineup, t, byType[t], o)
		if err != nil {
			return nil, err
		}
		f.Types = append(f.Types, ft)
	}
	if len(f.Types) == 0 {
		return nil, errors.New("fitting weights: no row was scored")
	}
	return f, nil
}

func fitType(lineup Model, t entity.Type, rows []*Scored, o FitOptions) (*FitType, error) {
	s, err := newSample(lineup, t, rows, o)
	if err != nil {
		return nil, err
	}
	f := &FitType{Type: t, N: len(rows), Positives: s.labels[true],
		Weights: make([]float64, len(lineup.Layers)), Kept: []string{},
		Binding: []string{}, Broken: []string{}}
	best := s.fitWithin()
	unlimited := best
	if len(s.limits) > 0 {
		free := *s
		free.limits = nil
		unlimited = free.fitWithin()
	}
	f.Bias, f.Prevalence, f.TargetsMet = best.x[0], Number(best.prevalence), best.met
	for i, l := range s.layers {
		f.Weights[l] = best.x[i+1]
		if !slices.ContainsFunc(rows, func(r *Scored) bool { return r.layers[l].score != 0 }) {
			f.Kept = append(f.Kept, lineup.Layers[l].Name)
		}
	}
	for i, l := range s.limits {
		switch slack := l.slack(best.x); {
		case slack < 0:
			f.Broken = append(f.Broken, l.name)
		case best.multipliers[i] > flat:
			f.Binding = append(f.Binding, l.name)
		}
	}
	outOfFold, folds, byLetters := s.crossValidate(best)
	f.Folds, f.ByLetters = folds, byLetters
	labels, scores := make([]bool, len(rows)), []float64(nil)
	scoreAll := func(logOdds func(i int) float64) Figures {
		scores = make([]float64, len(rows))
		for i := range rows {
			scores[i] = float64(lineup.score(logOdds(i)))
		}
		return figures(NewCurve(scores, labels), lineup.Bands)
	}
	for i, r := range rows {
		labels[i] = r.Malicious
	}
	f.Before = scoreAll(func(i int) float64 { return lineup.logOdds(rows[i], -1) })
	f.Free = scoreAll(func(i int) float64 { return s.patterns[s.patternOf[i]].logOdds(unlimited.x) })
	f.Fitted = scoreAll(func(i int) float64 { return s.patterns[s.patternOf[i]].logOdds(best.x) })
	f.OutOfFold = scoreAll(func(i int) float64 { return outOfFold[i] })
	f.outOfFold = scores
	return f, nil
}

// sample is a set of rows of one type to fit to. Rows with the same label and layer scores share a pattern.
type sample struct {
	lineup    Model
	options   FitOptions
	rows      []*Scored
	layers    []int     // indices of the type's layers; coefficient i+1 is the weight of layers[i]
	current   []float64 // the lineup's coefficients
	low, high []float64 // bounds of the coefficients
	limits    []limit
	patterns  []weightedCase
	patternOf []int        // index of each row's pattern
	counts    []int        // number of rows with each pattern
	labels    map[bool]int // number of malicious and of other rows
}

func newSample(lineup Model, t entity.Type, rows []*Scored, o FitOptions) (*sample, error) {
	s := &sample{lineup: lineup, options: o, rows: rows, current: []float64{lineup.Bias[t]}, low: []float64{-MaxWeight},
		high: []float64{MaxWeight}, labels: map[bool]int{}}
	for i, l := range lineup.Layers {
		if slices.Contains(l.Types, t) {
			s.layers = append(s.layers, i)
			s.current = append(s.current, l.Weight[t])
			s.low, s.high = append(s.low, 0), append(s.high, MaxWeight)
		}
	}
	if len(o.Only) > 0 {
		for i, w := range s.current {
			if i == 0 || !slices.Contains(o.Only, lineup.Layers[s.layers[i-1]].Name) {
				s.low[i], s.high[i] = w, w
			}
		}
	}
	for _, l := range lineup.Limits[t] {
		s.limits = append(s.limits, l.within(s.layers))
	}
	index := map[string]int{}
	for _, r := range rows {
		key := []byte(fmt.Sprint(r.Malicious))
		features := make([]float64, len(s.layers))
		for i, l := range s.layers {
			features[i] = float64(r.layers[l].score) / 100
			key = append(key, byte(r.layers[l].score)) // distinct within -100 to 100
		}
		p, ok := index[string(key)]
		if !ok {
			p = len(s.patterns)
			index[string(key)] = p
			s.patterns = append(s.patterns, weightedCase{features: features, malicious: r.Malicious})
			s.counts = append(s.counts, 0)
		}
		s.patternOf = append(s.patternOf, p)
		s.counts[p]++
		s.labels[r.Malicious]++
	}
	if s.labels[true] == 0 || s.labels[false] == 0 {
		return nil, fmt.Errorf("fitting weights: the %s rows all have the same label", t)
	}
	return s, nil
}

// Limit is a condition that the bias and weights of a type must meet:
//
//	Bias*bias + sum(Weights[i]*weight of Model.Layers[i]) >= AtLeast
type Limit struct {
	Name    string // such as "domain:brand:slip reaches review"
	Bias    float64
	Weights []float64
	AtLeast float64
}

// within returns the limit on the coefficients of a sample with the given layers. It is a little narrower, so that the
// coefficients can be rounded to two decimals.
func (l Limit) within(layers []int) limit {
	out := limit{name: l.Name, coefficients: []float64{l.Bias}, atLeast: l.AtLeast}
	for _, i := range layers {
		out.coefficients = append(out.coefficients, l.Weights[i])
	}
	for _, c := range out.coefficients {
		out.margin += .005 * math.Abs(c)
	}
	return out
}

// solution is the result of a fit to some of the rows of a sample.
type solution struct {
	x           []float64 // the coefficients
	multipliers []float64 // of the sample's limits; 0 if a limit does not bind
	prevalence  float64
	met         bool // the limits on false positives hold
}

// solve fits to counts rows of each pattern, weighted to the prevalence of start. Without rows of both labels it
// returns start.
func (s *sample) solve(counts []int, start solution) solution {
	n := map[bool]int{}
	for i, p := range s.patterns {
		n[p.malicious] += counts[i]
	}
	if n[true] == 0 || n[false] == 0 {
		return start
	}
	prevalence := start.prevalence
	r := regression{l2: make([]float64, len(s.low)), low: slices.Clone(s.low), high: s.high,
		around: make([]float64, len(s.low)), limits: s.limits}
	for i, p := range s.patterns {
		if counts[i] == 0 {
			continue
		}
		share := 1 - prevalence
		if p.malicious {
			share = prevalence
		}
		of := float64(counts[i]) / float64(n[p.malicious])
		for j, f := range p.features {
			r.l2[j+1] += s.penalty(j) * of * f * f / 2 // by the mean square of a feature, with both labels alike
		}
		p.weight = share * of
		r.cases = append(r.cases, p)
	}
	for i := 1; i < len(r.l2); i++ {
		if r.l2[i] == 0 { // without evidence, a weight is kept, or raised to meet a limit
			r.l2[i], r.around[i], r.low[i] = s.penalty(i-1), s.current[i], s.current[i]
		}
	}
	x, multipliers := r.solve(start.x)
	return solution{x: x, multipliers: multipliers, prevalence: prevalence}
}

// penalty returns the penalty on the layer at index i of the sample's layers.
func (s *sample) penalty(i int) float64 {
	if s.lineup.Layers[s.layers[i]].Style {
		return s.options.L2
	}
	return s.options.L2 / 1000
}

// fitWithin fits to all rows with the highest prevalence that meets the limits on false positives or, if none does,
// comes as close to them as the lowest. The coefficients are rounded to two decimals.
func (s *sample) fitWithin() solution {
	const minPrevalence, steps = 1e-6, 12
	var exact []float64
	at := func(logOdds float64) (fit solution, excess float64) {
		fit = s.solve(s.counts, solution{x: exact, prevalence: 1 / (1 + math.Exp(-logOdds))})
		exact = slices.Clone(fit.x)
		for i, v := range fit.x {
			fit.x[i] = math.Round(v*100) / 100
		}
		excess = s.excess(fit.x)
		fit.met = excess == 0
		return fit, excess
	}
	logOdds := func(p float64) float64 { return math.Log(p / (1 - p)) }
	low, high := logOdds(minPrevalence), logOdds(s.options.Prevalence)
	best, excess := at(high)
	if excess == 0 {
		return best
	}
	best, allowed := at(low)
	for range steps {
		middle := (low + high) / 2
		if fit, excess := at(middle); excess <= allowed {
			best, low = fit, middle
		} else {
			high = middle
		}
	}
	return best
}

// excess returns how far the benign rows' shares exceed the limits on false positives, over all and by suffix.
func (s *sample) excess(x []float64) float64 {
	byPattern := make([]check.Verdict, len(s.patterns))
	for i, p := range s.patterns {
		byPattern[i] = s.lineup.Bands.Verdict(s.lineup.score(p.logOdds(x)))
	}
	all, bySuffix := verdicts{}, map[string]*verdicts{}
	for i, r := range s.rows {
		if r.Malicious {
			continue
		}
		verdict := byPattern[s.patternOf[i]]
		all.add(verdict)
		entry(bySuffix, r.suffix).add(verdict)
	}
	over := func(count, n int, limit float64) float64 { return max(0, float64(count)/float64(n)-limit) }
	sum := over(all.review, all.n, s.options.ReviewFPR) + over(all.block, all.n, s.options.BlockFPR)
	for _, suffix := range slices.Sorted(maps.Keys(bySuffix)) {
		if c := bySuffix[suffix]; suffix != "" && c.n >= minSuffixRows {
			sum += over(c.review, c.n, s.options.SuffixFPR)
		}
	}
	return sum
}
