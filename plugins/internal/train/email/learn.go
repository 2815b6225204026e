package main

import (
	"math"
	"slices"
	"strings"

	"assay/plugins/email/spelling"
)

// learned is what training gives the layer.
type learned struct {
	weights  spelling.Weights
	families string // sorted, each followed by a line end
}

func (l learned) files() map[string]string {
	return map[string]string{"weights.txt": string(l.weights), "families.txt": l.families}
}

func learnAll(rows []example) learned { return learned{learn(rows), families(rows)} }

// How the model learns: logistic regression by AdaGrad (Duchi, Hazan and Singer, 2011).
const (
	rounds = 3
	rate   = 0.05
	decay  = 2e-5 // of each weight, at each example that has it
	calm   = 1    // what keeps the first steps of a weight short
)

// learn fits one weight a slot and gives them in the form that spelling reads. Products are rounded before they are
// added (Go specification, floating-point operators), so that every machine gives the same bytes.
func learn(rows []example) spelling.Weights {
	weights, seen := make([]float64, spelling.Slots), make([]float64, spelling.Slots)
	for range rounds {
		for i := range rows {
			e := &rows[i]
			if e.weight == 0 {
				continue
			}
			sum := 0.0
			for _, f := range e.features {
				sum += weights[f.Slot]
			}
			miss := 1 / (1 + math.Exp(-sum))
			if e.bad {
				miss--
			}
			miss *= e.weight
			for _, f := range e.features {
				g := miss + float64(decay*weights[f.Slot])
				seen[f.Slot] += float64(g * g)
				weights[f.Slot] -= float64(rate*g) / math.Sqrt(seen[f.Slot]+calm)
			}
		}
	}
	return spelling.Encode(weights)
}

// families lists the sites that hold several throw-away hosts, and no other labelled mail host.
func families(rows []example) string {
	hosts := map[string]int{}
	honest := map[string]bool{}
	for i := range rows {
		switch e := &rows[i]; {
		case e.mail && e.category == disposable:
			hosts[e.site]++
		case e.mail:
			honest[e.site] = true
		}
	}
	var list []string
	for site, n := range hosts {
		if n > 1 && !honest[site] {
			list = append(list, site+"\n")
		}
	}
	slices.Sort(list)
	return strings.Join(list, "")
}
