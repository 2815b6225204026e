package main

import (
	"math"

	"assay/plugins/internal/bait"
	"assay/plugins/internal/train"
	"assay/plugins/patterns/feature"
)

// model is the learned data of the layer.
type model struct {
	rarity feature.Rarity
	odds   []int8 // by feature, in tenths of the natural logarithm
}

// score returns the sum of the odds of r's features, in tenths of the natural logarithm.
func (m *model) score(r row) int {
	var buffer [feature.MaxFeatures]feature.Feature
	sum := int(m.odds[feature.Bias])
	for _, f := range r.name.Features(&m.rarity, buffer[:0]) {
		sum += int(m.odds[f.ID])
	}
	return sum
}

// Hyperparameters.
const (
	rounds      = 6
	minRows     = 3  // bad rows of a family with a bait word, for the family to support it
	minFamilies = 3  // supporting families, for a bait word to have odds above 0
	minGood     = 10 // good rows with a bait word, for it to have odds below 0

	priorScale = 0.25 // the weight of one unit of prior: the information of a row with p = 0.5
)

// learn fits the odds of a logistic regression to rows by coordinate-wise Newton steps, within the bounds of the
// features' groups and with a normal prior around 0. Bait words have narrower bounds, see baitBounds.
func learn(rows []row) *model {
	m := &model{rarity: rarityOf(rows)}
	size := feature.WordAt
	bait.Each(func(string, bait.Class) { size++ })
	groups := append(feature.Groups(), feature.WordGroup(size-feature.WordAt))

	holders := make([][]int32, size) // rows by feature
	for i, r := range rows {
		var buffer [feature.MaxFeatures]feature.Feature
		holders[feature.Bias] = append(holders[feature.Bias], int32(i))
		for _, f := range r.name.Features(&m.rarity, buffer[:0]) {
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
				low, high := g.Min/10, g.Max/10
				if g.Bait {
					low, high = baitBounds(rows, holders[id], low, high)
				}
				gradient, curvature := float64(g.Prior*odds[id])*priorScale, g.Prior*priorScale+1e-9
				for _, i := range holders[id] {
					r := rows[i]
					p, weight := train.Logistic(margin[i]), float64(r.Weight)
					want := 0.0
					if r.Malicious {
						want = 1
					}
					gradient += float64(weight * (p - want))
					curvature += float64(weight * float64(p*(1-p)))
				}
				next := min(max(odds[id]-gradient/curvature, odds[id]-2, low), odds[id]+2, high)
				if round == rounds-1 {
					next = math.Round(next*10) / 10 // features fitted later compensate for the rounding
				}
				if step := next - odds[id]; step != 0 {
					for _, i := range holders[id] {
						margin[i] += step
					}
				}
				odds[id] = next
			}
		}
	}
	m.odds = make([]int8, size)
	for id, o := range odds {
		m.odds[id] = int8(math.Round(o * 10))
	}
	return m
}

// baitBounds narrows the bounds of a bait word's odds. A word that few families report can't count against a name,
// however often one of them reports it, and a word that few good names contain can't count for one.
func baitBounds(rows []row, holders []int32, low, high float64) (float64, float64) {
	bad := map[string]int{} // by family
	good := 0
	for _, i := range holders {
		if r := rows[i]; r.Malicious {
			bad[r.Family]++
		} else {
			good++
		}
	}
	supporting := 0
	for _, n := range bad {
		if n >= minRows {
			supporting++
		}
	}
	if supporting < minFamilies {
		high = min(high, 0)
	}
	if good < minGood {
		low = max(low, 0)
	}
	return low, high
}

// pseudocount is added to the count of each pair of letters.
const pseudocount = 0.5

// rarityOf returns the rarity of pairs of letters in the longest runs of letters of good names.
func rarityOf(rows []row) feature.Rarity {
	var counts [feature.RarityRows][feature.RarityColumns]float64
	for _, r := range rows {
		if r.Malicious {
			continue
		}
		previous := 0
		for _, c := range r.name.Letters {
			counts[previous][c-'a']++
			previous = int(c-'a') + 1
		}
		if previous > 0 {
			counts[previous][feature.RarityColumns-1]++
		}
	}
	table := make([]byte, 0, feature.RarityRows*feature.RarityColumns)
	for _, row := range counts {
		total := 0.0
		for _, n := range row {
			total += n + pseudocount
		}
		for _, n := range row {
			bits := math.Round(-4 * math.Log2((n+pseudocount)/total))
			table = append(table, feature.RarityZero+byte(min(max(bits, 0), 57)))
		}
	}
	return feature.Rarity(table)
}
