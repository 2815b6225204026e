package train

import (
	"hash/fnv"
	"sync"
)

// Split is one division of domains, by their indices, into those to train on and those to test on.
type Split struct{ Train, Test []int32 }

// Holdout is a set of splits that are evaluated together.
type Holdout struct {
	Name   string
	Splits []Split
}

// HoldOutLetters holds out a fifth of the domains at a time, by their names' first letters. Splits know all sources.
func HoldOutLetters(domains []*Domain) Holdout {
	return holdOut("letters held out", domains, func(d *Domain) Labelled {
		return Labelled{Split: true}
	})
}

// holdOut makes a split for each fold of the domains.
func holdOut(name string, domains []*Domain, labelled func(*Domain) Labelled) Holdout {
	rows := make([]Labelled, len(domains))
	for i, d := range domains {
		rows[i] = labelled(d)
		rows[i].Letters = Letters(d.Host.Name)
	}
	h := Holdout{Name: name}
	for _, f := range Folds(rows) {
		s := Split{Test: f.Test}
		for i, d := range domains {
			if !d.TestOnly && f.Allows(d.Source, rows[i].Letters) {
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
