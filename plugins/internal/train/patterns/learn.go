package main

import (
	"math"

	"assay/plugins/internal/bait"
	"assay/plugins/patterns/feature"
)

// model is what is learned: how rare pairs of letters are, and odds for each feature in whole tenths.
type model struct {
	rarity feature.Rarity
	odds   []int8
}

// score is the sum of r's odds, in tenths of the natural logarithm.
func (m *model) score(r *row) int {
	var space [feature.MaxFeatures]feature.Feature
	sum := int(m.odds[feature.Bias])
	for _, f := range r.name.Features(&m.rarity, space[:0]) {
		sum += int(m.odds[f.ID])
	}
	return sum
}

// How odds are learned.
const (
	rounds       = 6
	leastRows    = 3 // of a family of bad sources with a feature, for the family to back it
	leastBackers = 3 // families, for a lure to count against a name
	leastHonest  = 10
)

// learn fits the odds of a logistic regression to rows, one feature after the other by Newton's method, within the
// bounds of the features' groups and against a normal prior around 0. A lure that fewer than leastBackers families of
// sources know counts nothing by itself against a name, however often one of them reports it, and one that few honest
// names have counts nothing for it.
func learn(rows []*row) *model {
	m := &model{rarity: rarityOf(rows)}
	size := feature.WordAt
	bait.Each(func(string, bait.Class) { size++ })
	groups := append(feature.Groups(), feature.WordGroup(size-feature.WordAt))

	holders := make([][]int32, size) // rows by feature
	for i, r := range rows {
		var space [feature.MaxFeatures]feature.Feature
		holders[feature.Bias] = append(holders[feature.Bias], int32(i))
		for _, f := range r.name.Features(&m.rarity, space[:0]) {
			holders[f.ID] = append(holders[f.ID], int32(i))
		}
	}
	odds, margin := make([]float64, size), make([]float64, len(rows))
	for round := range rounds {
		for _, g := range groups {
			for id := g.From; id < g.From+g.Size; id++ {
				if len(holders[id]) == 0 {
					continue
				}
				least, most := g.Min/10, g.Max/10
				if g.Bait {
					least, most = believed(rows, holders[id], least, most)
				}
				slope, bend := float64(g.Prior*odds[id])*priorScale, g.Prior*priorScale+1e-9
				for _, i := range holders[id] {
					r := rows[i]
					p := logistic(margin[i])
					want := 0.0
					if r.bad {
						want = 1
					}
					slope += float64(r.weight * (p - want))
					bend += float64(r.weight * float64(p*(1-p)))
				}
				step := min(max(odds[id]-slope/bend, odds[id]-2, least), odds[id]+2, most)
				if round == rounds-1 {
					step = math.Round(step*10) / 10 // what is learned later makes up for what rounding takes
				}
				if move := step - odds[id]; move != 0 {
					for _, i := range holders[id] {
						margin[i] += move
					}
				}
				odds[id] = step
			}
		}
	}
	m.odds = make([]int8, size)
	for id, o := range odds {
		m.odds[id] = int8(math.Round(o * 10))
	}
	return m
}

// priorScale is the information that a row of doubt holds: that of a row whose label is open.
const priorScale = 0.25

// believed narrows the bounds of a lure to what its backers allow.
func believed(rows []*row, holders []int32, least, most float64) (float64, float64) {
	var families [64]int
	names := map[string]int{}
	honest, backers := 0, 0
	for _, i := range holders {
		r := rows[i]
		if !r.bad {
			honest++
			continue
		}
		k, ok := names[r.family]
		if !ok {
			k = len(names)
			names[r.family] = k
		}
		if families[k]++; families[k] == leastRows {
			backers++
		}
	}
	if backers < leastBackers {
		most = min(most, 0)
	}
	if honest < leastHonest {
		least = max(least, 0)
	}
	return least, most
}

// logistic is 1/(1+exp(-x)), with exp as a power of 2^20 that takes multiplications only: math.Exp may differ in its
// last bit from machine to machine.
func logistic(x float64) float64 {
	e := 1 - min(max(x, -30), 30)/(1<<20)
	for range 20 {
		e *= e
	}
	return 1 / (1 + e)
}

// rarityOf counts pairs of letters in the longest runs of good names.
func rarityOf(rows []*row) feature.Rarity {
	var counts [feature.RarityRows][feature.RarityColumns]float64
	for _, r := range rows {
		if r.bad {
			continue
		}
		before := 0
		for _, c := range r.name.Letters {
			counts[before][c-'a']++
			before = int(c-'a') + 1
		}
		if before > 0 {
			counts[before][feature.RarityColumns-1]++
		}
	}
	table := make([]byte, 0, feature.RarityRows*feature.RarityColumns)
	for _, after := range counts {
		total := 0.0
		for _, n := range after {
			total += n + unseen
		}
		for _, n := range after {
			rare := math.Round(-4 * math.Log2((n+unseen)/total))
			table = append(table, feature.RarityZero+byte(min(max(rare, 0), 57)))
		}
	}
	return feature.Rarity(table)
}

// unseen is what a pair counts beyond its occurrences.
const unseen = 0.5
