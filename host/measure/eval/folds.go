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

// fold identifies the rows to hold out together: all rows of a source or, for sources that are not held out whole, the
// rows whose first letters fall into the same part.
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
		letters := map[string]bool{}
		for _, i := range members[f] {
			letters[s.rows[i].letters] = true
		}
		counts := slices.Clone(s.counts)
		for i, r := range s.rows {
			if letters[r.letters] {
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
	canHoldOut, counts := map[string]bool{}, map[groupKey]int{}
	only := map[string]string{} // the source of each category; "" if there are several
	for _, r := range s.rows {
		canHoldOut[r.Source] = r.Source != ""
		counts[groupKey{r.Source, r.Malicious}]++
		if source, known := only[r.Category]; !known || source == r.Source {
			only[r.Category] = r.Source
		} else {
			only[r.Category] = ""
		}
	}
	for category, source := range only {
		if category != "" {
			canHoldOut[source] = false // the other folds would know nothing about the category
		}
	}
	for of, n := range counts {
		if total := s.labels[of.malicious]; float64(total-n) < minRemaining*float64(total) {
			canHoldOut[of.name] = false
		}
	}
	return canHoldOut
}
