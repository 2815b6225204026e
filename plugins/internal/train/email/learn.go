package main

import (
	"math"
	"slices"
	"strings"

	"assay/plugins/mailbox/spelling"
)

// learned is the layer's learned data.
type learned struct {
	weights  spelling.Weights
	families string // sorted, one per line
}

// files returns the contents of the layers' files by layer and name.
func (l learned) files() map[string]map[string]string {
	return map[string]map[string]string{
		"mailbox": {"weights.txt": string(l.weights)},
		"email":   {"families.txt": l.families},
	}
}

func learnAll(rows []example) learned { return learned{learn(rows), families(rows)} }

// Hyperparameters of a logistic regression by AdaGrad (Duchi, Hazan and Singer, 2011).
const (
	epochs  = 3
	rate    = 0.05
	decay   = 2e-5 // L2 regularisation
	epsilon = 1    // added to the sum of squared gradients, to limit the first steps
)

// learn fits one weight per slot. Both labels have the same total weight, so that sums of different folds are
// comparable. The explicit conversions round every product (Go specification, floating-point operators), so that
// machines with fused multiply-add learn the same bits.
func learn(rows []example) spelling.Weights {
	weights, squares := make([]float64, spelling.Slots), make([]float64, spelling.Slots)
	total := map[bool]float64{}
	for i := range rows {
		total[rows[i].bad] += rows[i].weight
	}
	balance := 1.0
	if total[true] > 0 {
		balance = total[false] / total[true]
	}
	for range epochs {
		for i := range rows {
			e := &rows[i]
			if e.weight == 0 {
				continue
			}
			sum := 0.0
			for _, f := range e.features {
				sum += weights[f.Slot]
			}
			residual := 1 / (1 + math.Exp(-sum))
			if e.bad {
				residual--
			}
			residual *= e.weight
			if e.bad {
				residual = float64(residual * balance)
			}
			for _, f := range e.features {
				g := residual + float64(decay*weights[f.Slot])
				squares[f.Slot] += float64(g * g)
				weights[f.Slot] -= float64(rate*g) / math.Sqrt(squares[f.Slot]+epsilon)
			}
		}
	}
	return spelling.Encode(weights)
}

// families lists the sites with several disposable mail hosts and no other labelled mail host.
func families(rows []example) string {
	hosts := map[string]int{}
	legitimate := map[string]bool{}
	for i := range rows {
		switch e := &rows[i]; {
		case e.mail && e.category == disposable:
			hosts[e.site]++
		case e.mail:
			legitimate[e.site] = true
		}
	}
	var list []string
	for site, n := range hosts {
		if n > 1 && !legitimate[site] {
			list = append(list, site+"\n")
		}
	}
	slices.Sort(list)
	return strings.Join(list, "")
}
