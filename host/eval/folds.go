package eval

import (
	"cmp"
	"maps"
	"slices"

	"assay/host/entity"
)

// How rows are put into folds.
const (
	parts     = 5   // that rows without a source, or of one that cannot be left out, are split into
	leastLeft = 0.1 // of a type's rows of either label must be left when a source is left out
)

// fold is the rows of a source, or part of those that are split.
type fold struct {
	source string
	part   uint64
}

// crossValidate returns every row's log-odds by weights fitted without the rows of its source: what holds there does
// not only tell sources apart. A source without which a type's rows of one label would be all but gone is split by a
// hash of the values instead, as are rows without a source; split names those. All folds keep the bias of start: rows
// that no layer has anything to say of must score alike in all of them, or the folds' differences would pass for skill,
// or hide it.
func (s *sample) crossValidate(start []float64, prevalence map[entity.Type]float64, o FitOptions) (logOdds []float64,
	folds int, split map[entity.Type][]string) {
	whole, kept := s.whole(), *s
	kept.bias = &start[0]
	split = map[entity.Type][]string{}
	members := map[fold][]int{}
	for i, r := range s.rows {
		f := fold{source: r.Source}
		if !whole[typedSource{r.Type, r.Source}] {
			f = fold{part: 1 + spread(r.Value)%parts}
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
		x := kept.solve(counts, prevalence, o.L2, start)
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

// whole says which sources of which types can be left out whole.
func (s *sample) whole() map[typedSource]bool {
	type class struct {
		kind      entity.Type
		malicious bool
	}
	total, of := map[class]int{}, map[typedSource]map[class]int{}
	for _, r := range s.rows {
		c, ts := class{r.Type, r.Malicious}, typedSource{r.Type, r.Source}
		total[c]++
		if of[ts] == nil {
			of[ts] = map[class]int{}
		}
		of[ts][c]++
	}
	whole := map[typedSource]bool{}
	for ts, counts := range of {
		whole[ts] = ts.source != ""
		for c, n := range counts {
			if float64(total[c]-n) < leastLeft*float64(total[c]) {
				whole[ts] = false
			}
		}
	}
	return whole
}
