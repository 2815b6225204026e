package eval

import (
	"cmp"
	"maps"
	"slices"
)

const (
	letterFolds  = 5   // number of folds for rows that are not held out by source
	minRemaining = 0.1 // minimum share of the rows of each label that remain if a source is held out
)

// fold identifies the rows to hold out together: those of a source or, of the sources that are not held out whole,
// those whose first letters fall into the same part.
type fold struct {
	source string
	part   uint64 // 1 to letterFolds, or 0 for a source
}

// crossValidate returns every row's log-odds by weights fitted without the rows of its source, and without all rows
// that share their first letters with one of these: similar names from one campaign would flatter the figures. If
// holding out a source would leave too few rows of a label, or none of a category, its rows are divided by a hash of
// their letters, and byLetters lists the source. Rows without a source are divided in the same way. All folds keep the
// bias of fitted, because rows without any signals must score the same in all folds: the folds' different biases would
// distort the AUC.
func (s *sample) crossValidate(fitted solution) (logOdds []float64, folds int, byLetters []string) {
	canHoldOut, fixedBias := s.sourcesToHoldOut(), *s
	fixedBias.low, fixedBias.high = slices.Clone(s.low), slices.Clone(s.high)
	fixedBias.low[0], fixedBias.high[0] = fitted.x[0], fitted.x[0]
	members := map[fold][]int{}
	for i, r := range s.rows {
		f := fold{source: r.Source}
		if !canHoldOut[r.Source] {
			f = fold{part: 1 + Hash(r.letters)%letterFolds}
			if r.Source != "" && !slices.Contains(byLetters, r.Source) {
				byLetters = append(byLetters, r.Source)
			}
		}
		members[f] = append(members[f], i)
	}
	logOdds = make([]float64, len(s.rows))
	for _, f := range slices.SortedFunc(maps.Keys(members), func(a, b fold) int {
		return cmp.Or(cmp.Compare(a.source, b.source), cmp.Compare(a.part, b.part))
	}) {
		out, letters := map[int]bool{}, map[string]bool{}
		for _, i := range members[f] {
			out[i], letters[s.rows[i].letters] = true, true
		}
		counts := slices.Clone(s.counts)
		for i, r := range s.rows {
			if out[i] || letters[r.letters] {
				counts[s.patternOf[i]]--
			}
		}
		x := fixedBias.solve(counts, fitted).x
		for _, i := range members[f] {
			logOdds[i] = s.patterns[s.patternOf[i]].logOdds(x)
		}
	}
	return logOdds, len(members), byLetters
}

// sourcesToHoldOut reports which sources leave enough rows of both labels, and rows of each category, when held out.
func (s *sample) sourcesToHoldOut() map[string]bool {
	total, bySource := map[bool]int{}, map[string]map[bool]int{}
	for _, r := range s.rows {
		total[r.Malicious]++
		if bySource[r.Source] == nil {
			bySource[r.Source] = map[bool]int{}
		}
		bySource[r.Source][r.Malicious]++
	}
	sources := map[string]map[string]bool{} // by category
	for _, r := range s.rows {
		if sources[r.Category] == nil {
			sources[r.Category] = map[string]bool{}
		}
		sources[r.Category][r.Source] = true
	}
	canHoldOut := map[string]bool{}
	for source := range bySource {
		canHoldOut[source] = source != ""
	}
	for category, of := range sources {
		if category != "" && len(of) == 1 {
			for source := range of {
				canHoldOut[source] = false // nothing would be known of the category
			}
		}
	}
	for source, counts := range bySource {
		for label, n := range counts {
			if float64(total[label]-n) < minRemaining*float64(total[label]) {
				canHoldOut[source] = false
			}
		}
	}
	return canHoldOut
}
