package eval

import (
	"cmp"
	"maps"
	"slices"

	"assay/host/entity"
)

const (
	randomFolds  = 5   // number of folds for rows that are not held out by source
	minRemaining = 0.1 // minimum share of a type's rows of each label that remain if a source is held out
)

// fold identifies the rows to hold out together: those of a source, or a random part of those not held out by source.
type fold struct {
	source string
	part   uint64 // 1 to randomFolds, or 0 for a source
}

// crossValidate returns every row's log-odds by weights fitted without the rows of its source, which shows whether the
// weights generalise to new sources. If holding out a source would leave too few rows of a type and label, its rows are
// split at random by a hash of their values, and split lists the source. Rows without a source are split likewise. All
// folds keep the bias of start, because rows without any signals must score the same in all folds: the folds' different
// biases would distort the AUC.
func (s *sample) crossValidate(start []float64, prevalence map[entity.Type]float64, o FitOptions) (logOdds []float64,
	folds int, split map[entity.Type][]string) {
	canHoldOut, fixedBias := s.sourcesToHoldOut(), *s
	fixedBias.bias = &start[0]
	split = map[entity.Type][]string{}
	members := map[fold][]int{}
	for i, r := range s.rows {
		f := fold{source: r.Source}
		if !canHoldOut[typedSource{r.Type, r.Source}] {
			f = fold{part: 1 + stableHash(r.Value)%randomFolds}
			if r.Source != "" && !slices.Contains(split[r.Type], r.Source) {
				split[r.Type] = append(split[r.Type], r.Source)
			}
		}
		members[f] = append(members[f], i)
	}
	logOdds = make([]float64, len(s.rows))
	for _, f := range slices.SortedFunc(maps.Keys(members), func(a, b fold) int {
		return cmp.Or(cmp.Compare(a.source, b.source), cmp.Compare(a.part, b.part))
	}) {
		counts := slices.Clone(s.counts)
		for _, i := range members[f] {
			counts[s.patternOf[i]]--
		}
		x := fixedBias.solve(counts, prevalence, o.L2, start)
		for _, i := range members[f] {
			logOdds[i] = s.patterns[s.patternOf[i]].logOdds(x)
		}
	}
	return logOdds, len(members), split
}

type typedSource struct {
	kind   entity.Type
	source string
}

// sourcesToHoldOut reports which sources of which types leave enough rows of both labels when held out.
func (s *sample) sourcesToHoldOut() map[typedSource]bool {
	type class struct {
		kind      entity.Type
		malicious bool
	}
	total, bySource := map[class]int{}, map[typedSource]map[class]int{}
	for _, r := range s.rows {
		c, ts := class{r.Type, r.Malicious}, typedSource{r.Type, r.Source}
		total[c]++
		if bySource[ts] == nil {
			bySource[ts] = map[class]int{}
		}
		bySource[ts][c]++
	}
	canHoldOut := map[typedSource]bool{}
	for ts, counts := range bySource {
		canHoldOut[ts] = ts.source != ""
		for c, n := range counts {
			if float64(total[c]-n) < minRemaining*float64(total[c]) {
				canHoldOut[ts] = false
			}
		}
	}
	return canHoldOut
}
