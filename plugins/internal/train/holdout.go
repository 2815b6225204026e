package train

import (
	"cmp"
	"hash/fnv"
	"maps"
	"slices"
	"sync"
)

// Split is one division of domains, by their indices, into those to train on and those to test on.
type Split struct{ Train, Test []int32 }

// Holdout is a set of splits that are evaluated together.
type Holdout struct {
	Name   string
	Splits []Split
}

// groups is the number of splits of a Holdout by site or by groups of families.
const groups = 4

// HoldOutSites holds out the target's sites, a quarter at a time.
func HoldOutSites(domains []*Domain) Holdout {
	h := Holdout{Name: "sites held out"}
	for g := range uint64(groups) {
		var s Split
		for i, d := range domains {
			if d.Target && Hash(d.Site)%groups == g {
				s.Test = append(s.Test, int32(i))
			} else {
				s.Train = append(s.Train, int32(i))
			}
		}
		h.Splits = append(h.Splits, s)
	}
	return h
}

// HoldOutFamilies holds out families of bad sources, of good sources, and of both, a quarter at a time. A split trains
// on the pool, without synthetic domains because they may derive from a family that it holds out. It tests on the
// target's domains: those of the held-out families, and all domains of a label whose families are not held out.
func HoldOutFamilies(domains []*Domain) []Holdout {
	sizes := map[bool]map[string]int{true: {}, false: {}}
	for _, d := range domains {
		if d.Target {
			sizes[d.Malicious][d.Family]++
		}
	}
	group := Deal(sizes[true], groups)
	maps.Copy(group, Deal(sizes[false], groups))
	var all []Holdout
	for _, absent := range []struct {
		name      string
		bad, good bool
	}{
		{"bad sources absent", true, false},
		{"good sources absent", false, true},
		{"both absent", true, true},
	} {
		h := Holdout{Name: absent.name}
		for g := range groups {
			var s Split
			for i, d := range domains {
				affected := d.Malicious && absent.bad || !d.Malicious && absent.good
				heldOut := affected && group[d.Family] == g
				switch {
				case d.Target && (heldOut || !affected):
					s.Test = append(s.Test, int32(i))
				case !d.Target && !heldOut && !d.Synthetic:
					s.Train = append(s.Train, int32(i))
				}
			}
			h.Splits = append(h.Splits, s)
		}
		all = append(all, h)
	}
	return all
}

// HoldOutEachFamily holds out one family at a time, as if its lists were new: a split tests on the family's target
// domains, and trains on all other families. Synthetic domains are left out because they may derive from the family.
func HoldOutEachFamily(domains []*Domain) Holdout {
	families := map[string]bool{}
	for _, d := range domains {
		if d.Target {
			families[d.Family] = true
		}
	}
	h := Holdout{Name: "one family absent"}
	for _, family := range slices.Sorted(maps.Keys(families)) {
		var s Split
		for i, d := range domains {
			switch heldOut := d.Family == family; {
			case heldOut && d.Target:
				s.Test = append(s.Test, int32(i))
			case !heldOut && !d.Synthetic:
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

// Run trains on each split, at most jobs at a time, and returns each split's test domains with their scores. fit
// trains on a split's Train indices, and returns a function that scores the domain at an index.
func (h Holdout) Run(domains []*Domain, jobs int, fit func(train []int32) func(i int32) float64,
	progress Progress) [][]Scored {
	scored := make([][]Scored, len(h.Splits))
	slot := make(chan struct{}, jobs)
	var wg sync.WaitGroup
	var mu sync.Mutex // guards done and serialises progress
	done := 0
	for i, s := range h.Splits {
		wg.Go(func() {
			slot <- struct{}{}
			defer func() { <-slot }()
			score := fit(s.Train)
			scored[i] = make([]Scored, len(s.Test))
			for j, at := range s.Test {
				scored[i][j] = Scored{domains[at], score(at)}
			}
			mu.Lock()
			defer mu.Unlock()
			done++
			progress("%s: %d of %d", h.Name, done, len(h.Splits))
		})
	}
	wg.Wait()
	return scored
}
