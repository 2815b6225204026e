package train

import (
	"cmp"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"sync"
)

// Split is one division of domains, by their indices, into those to train on and those to test on.
type Split struct{ Train, Test []int32 }

// Holdout is a set of splits that are evaluated together.
type Holdout struct {
	Name   string
	Splits []Split
}

const (
	letterFolds = 5 // splits of HoldOutLetters
	letters     = 6 // names with the same first letters are never separated
)

// Letters returns the first six characters of the domain's name. Names that share them are often of one campaign.
func (d *Domain) Letters() string {
	n := 0
	for i := range d.Host.Name {
		if n == letters {
			return d.Host.Name[:i]
		}
		n++
	}
	return d.Host.Name
}

// HoldOutLetters holds out a fifth of the domains at a time, by their names' first letters. Splits know all sources.
func HoldOutLetters(domains []*Domain) Holdout {
	return holdOut("letters held out", domains, func(d *Domain) string {
		if d.Synthetic {
			return ""
		}
		return strconv.Itoa(int(Hash(d.Letters())%letterFolds) + 1)
	})
}

// HoldOutSources holds out one source at a time, as if its list were new: a split tests on the source's target domains
// and those that are only tested. It trains on no domain of the source, and on none that shares its first letters with
// a tested one. A source may be benign.
func HoldOutSources(domains []*Domain) Holdout {
	return holdOut("sources held out", domains, func(d *Domain) string {
		if d.Synthetic || !d.Target && !d.TestOnly {
			return ""
		}
		return d.Source
	})
}

// holdOut makes a split for each group of domains other than "".
func holdOut(name string, domains []*Domain, group func(*Domain) string) Holdout {
	tests, sources, taken := map[string][]int32{}, map[string]map[string]bool{}, map[string]map[string]bool{}
	for i, d := range domains {
		g := group(d)
		if g == "" {
			continue
		}
		if tests[g] == nil {
			sources[g], taken[g] = map[string]bool{}, map[string]bool{}
		}
		tests[g] = append(tests[g], int32(i))
		taken[g][d.Letters()] = true
		sources[g][d.Source] = true
	}
	h := Holdout{Name: name}
	for _, g := range slices.Sorted(maps.Keys(tests)) {
		s := Split{Test: tests[g]}
		for i, d := range domains {
			if !d.TestOnly && !taken[g][d.Letters()] && (len(sources[g]) > 1 || !sources[g][d.Source]) {
				s.Train = append(s.Train, int32(i))
			}
		}
		h.Splits = append(h.Splits, s)
	}
	return h
}

// Hash returns the 64-bit FNV-1a hash of s.
func Hash(s string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(s))
	return h.Sum64()
}

// Deal divides names into n groups of similar total size: in descending order of size, to groups 0 to n-1 and back.
func Deal(sizes map[string]int, n int) map[string]int {
	group := map[string]int{}
	for i, name := range slices.SortedFunc(maps.Keys(sizes), func(a, b string) int {
		return cmp.Or(cmp.Compare(sizes[b], sizes[a]), cmp.Compare(a, b))
	}) {
		g := i % (2 * n)
		group[name] = min(g, 2*n-1-g)
	}
	return group
}

// Run trains on each split, at most jobs at a time, and returns the score of each tested domain, by index; others have
// 0. fit trains on a split's Train indices, and returns a function that scores the domain at an index.
func (h Holdout) Run(domains []*Domain, jobs int, fit func(train []int32) func(i int32) float64,
	progress Progress) []float64 {
	scores := make([]float64, len(domains))
	slot := make(chan struct{}, jobs)
	var wg sync.WaitGroup
	var mu sync.Mutex // guards done and serialises progress
	done := 0
	for _, s := range h.Splits {
		wg.Go(func() {
			slot <- struct{}{}
			defer func() { <-slot }()
			score := fit(s.Train)
			for _, at := range s.Test {
				scores[at] = score(at) // each domain is in one split
			}
			mu.Lock()
			defer mu.Unlock()
			done++
			progress("%s: %d of %d", h.Name, done, len(h.Splits))
		})
	}
	wg.Wait()
	return scores
}

// Targets returns the target's domains with their scores.
func Targets(domains []*Domain, scores []float64) []Scored {
	var all []Scored
	for i, d := range domains {
		if d.Target && !d.Synthetic {
			all = append(all, Scored{d, scores[i]})
		}
	}
	return all
}
