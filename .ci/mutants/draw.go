package main

import (
	"maps"
	"math/rand/v2"
	"slices"
)

// target is a package to break.
type target struct {
	path    string
	lines   int
	mutants map[string][]Mutant // by kind
}

// draw chooses mutants. Each package's share is proportional to its lines, and all kinds are equally likely.
type draw struct {
	random *rand.Rand
	slots  []*target // the packages of the next mutants
	rest   []*target // all packages, used when one has no more mutants
}

func newDraw(targets []*target, seed uint64, count int) *draw {
	d := &draw{random: rand.New(rand.NewPCG(seed, 0))}
	total := 0
	for _, t := range targets {
		if len(t.mutants) > 0 {
			d.rest = append(d.rest, t)
			total += t.lines
		}
	}
	// Lay the packages end to end, and draw one mutant from each of count equal parts.
	offset := d.random.Float64()
	end := 0
	for _, t := range d.rest {
		end += t.lines
		for float64(len(d.slots))+offset < float64(count)*float64(end)/float64(max(total, 1)) {
			d.slots = append(d.slots, t)
		}
	}
	d.random.Shuffle(len(d.slots), func(i, j int) { d.slots[i], d.slots[j] = d.slots[j], d.slots[i] })
	return d
}

// next returns another mutant and its package.
func (d *draw) next() (*target, Mutant, bool) {
	d.rest = slices.DeleteFunc(d.rest, func(t *target) bool { return len(t.mutants) == 0 })
	if len(d.rest) == 0 {
		return nil, Mutant{}, false
	}
	t := d.rest[0]
	if len(d.slots) > 0 {
		t, d.slots = d.slots[0], d.slots[1:]
	}
	if len(t.mutants) == 0 {
		t = d.rest[d.random.IntN(len(d.rest))]
	}
	kinds := sorted(t.mutants)
	kind := kinds[d.random.IntN(len(kinds))]
	all := t.mutants[kind]
	i := d.random.IntN(len(all))
	m := all[i]
	if t.mutants[kind] = slices.Delete(all, i, i+1); len(all) == 1 {
		delete(t.mutants, kind)
	}
	return t, m, true
}

// replace makes the next mutant one of the same package.
func (d *draw) replace(t *target) { d.slots = slices.Insert(d.slots, 0, t) }

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
