package main

import (
	"math"
	"slices"

	"assay/plugins/internal/train"
	"assay/plugins/lexical/pattern"
)

// odds are what the model learns beyond the runs of characters: a factor for their sum of weights, and the log-odds of
// the patterns.
type odds struct {
	factor   float64
	patterns [pattern.Features]float64
}

const (
	rounds    = 5
	sample    = 3    // a pattern's odds are learned from every target row and one pool row in this many
	minFactor = 0.5  // of the sum of weights; rows of one campaign alone would turn it around
	prior     = 20.0 // strength of the pull of a pattern's odds towards 0, in units of a row's information at p = 1/2
)

// learnOdds fits the odds to the rows at indices by coordinate-wise Newton steps. margins holds each row's sum of
// weights, by a model that did not see the row. Within their bounds, patterns thus learn only what the runs of
// characters do not tell.
func learnOdds(rows []row, indices []int32, margins []float64, rarity *pattern.Rarity) *odds {
	o := &odds{factor: 1}
	factors := balance(rows, indices)
	holders := make([][]int32, pattern.Features)
	weights, x := make([]float64, len(rows)), make([]float64, len(rows))
	indices = slices.DeleteFunc(slices.Clone(indices), func(i int32) bool {
		return !rows[i].Target && train.Hash(rows[i].Site)%sample != 0
	})
	for _, i := range indices {
		r := &rows[i]
		weights[i] = float64(r.Weight * factors.good)
		if r.Malicious {
			weights[i] = float64(r.Weight * factors.bad)
		}
		x[i] = margins[i]
		name := *r.name // Features writes to it, and splits are trained concurrently
		for _, f := range name.Features(rarity) {
			holders[f.ID] = append(holders[f.ID], i)
		}
	}
	holders[pattern.Bias] = indices
	slope := func(i int32) (gradient, curvature float64) {
		p, want := train.Logistic(x[i]), 0.0
		if rows[i].Malicious {
			want = 1
		}
		return weights[i] * (p - want), weights[i] * float64(p*(1-p))
	}
	for range rounds {
		gradient, curvature := 0.0, 1e-9
		for _, i := range indices {
			g, h := slope(i)
			gradient += float64(g * margins[i])
			curvature += float64(h * float64(margins[i]*margins[i]))
		}
		step := o.factor - max(o.factor-gradient/curvature, minFactor)
		o.factor -= step
		for _, i := range indices {
			x[i] -= float64(step * margins[i])
		}
		for id := range o.patterns {
			gradient, curvature := float64(prior/4*o.patterns[id]), prior/4
			for _, i := range holders[id] {
				g, h := slope(i)
				gradient += g
				curvature += h
			}
			low, high := pattern.Bounds(id)
			next := min(max(o.patterns[id]-gradient/curvature, o.patterns[id]-2, float64(low)/perUnit),
				o.patterns[id]+2, float64(high)/perUnit)
			if step := next - o.patterns[id]; step != 0 {
				for _, i := range holders[id] {
					x[i] += step
				}
				o.patterns[id] = next
			}
		}
	}
	return o
}

// points returns the points of a row with a sum of weights.
func (o *odds) points(r *row, margin float64, rarity *pattern.Rarity) float64 {
	points := perUnit*o.factor*margin + math.Round(perUnit*o.patterns[pattern.Bias])
	name := *r.name // Features writes to it, and splits are scored concurrently
	for _, f := range name.Features(rarity) {
		points += math.Round(perUnit * o.patterns[f.ID])
	}
	return points
}

// pseudocount is added to the count of each pair of letters.
const pseudocount = 0.5

// rarityOf returns the rarity of pairs of letters in the longest runs of letters of good names.
func rarityOf(rows []row) pattern.Rarity {
	var counts [pattern.RarityRows][pattern.RarityColumns]float64
	for _, r := range rows {
		if r.Malicious || r.Synthetic || r.TestOnly {
			continue
		}
		previous := 0
		for _, c := range r.name.Letters {
			counts[previous][c-'a']++
			previous = int(c-'a') + 1
		}
		if previous > 0 {
			counts[previous][pattern.RarityColumns-1]++
		}
	}
	table := make([]byte, 0, pattern.RarityRows*pattern.RarityColumns)
	for _, row := range counts {
		total := 0.0
		for _, n := range row {
			total += n + pseudocount
		}
		for _, n := range row {
			bits := math.Round(-4 * math.Log2((n+pseudocount)/total))
			table = append(table, pattern.RarityZero+byte(min(max(bits, 0), 57)))
		}
	}
	return pattern.Rarity(table)
}
