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
	sample    = 3    // a pattern's odds are learned from one row in this many
	minFactor = 0.5  // of the sum of weights; rows of one campaign alone would turn it around
	prior     = 20.0 // strength of the pull of a pattern's odds towards 0, in units of a row's information at p = 1/2
)

// learnOdds fits the odds to the rows at indices by coordinate-wise Newton steps. margins holds each row's log-odds by
// a model that did not see the row. Within their bounds, patterns thus learn only what the characters and words do not
// tell. The bias makes the odds of a name that tells nothing even.
func learnOdds(rows []row, indices []int32, margins []float64) *odds {
	o := &odds{factor: 1}
	holders := make([][]int32, pattern.Features)
	weights, x := make([]float64, len(rows)), make([]float64, len(rows))
	indices = slices.DeleteFunc(slices.Clone(indices), func(i int32) bool {
		return train.Hash(rows[i].Site)%sample != 0
	})
	for _, i := range indices {
		weights[i], x[i] = float64(rows[i].Weight), margins[i]
		for _, id := range rows[i].patterns {
			holders[id] = append(holders[id], i)
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
	o.patterns[pattern.Bias] -= math.Log(prevalence)
	return o
}

// points returns the points of a row with a margin.
func (o *odds) points(r *row, margin float64) float64 {
	points := perUnit*o.factor*margin + math.Round(perUnit*o.patterns[pattern.Bias])
	for _, id := range r.patterns {
		points += math.Round(perUnit * o.patterns[id])
	}
	return points
}
