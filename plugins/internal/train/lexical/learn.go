package main

import (
	"math"
	"math/rand/v2"

	"assay/plugins/internal/train"
	"assay/plugins/lexical/ngram"
)

// Hyperparameters.
const (
	epochs = 2
	rate   = 0.3 // the learning rate of AdaGrad
	decay  = 1e-5
	seed   = 4
)

// learn fits a logistic model to the rows at indices by AdaGrad (Duchi, Hazan and Singer, 2011), one row at a time in
// an order that depends on the seed. The explicit conversions round every product, so that machines with fused
// multiply-add learn the same bits.
func learn(rows []row, indices []int32) []float32 {
	order := make([]int32, len(indices))
	copy(order, indices)
	weights, squares := make([]float32, ngram.Slots), make([]float32, ngram.Slots)
	for i := range squares {
		squares[i] = 1e-6
	}
	random := rand.NewPCG(seed, seed)
	for range epochs {
		for i := len(order) - 1; i > 0; i-- {
			j := int(random.Uint64() % uint64(i+1))
			order[i], order[j] = order[j], order[i]
		}
		for _, i := range order {
			r := &rows[i]
			want := float32(0)
			if r.Malicious {
				want = 1
			}
			p := float32(train.Logistic(r.margin(weights)))
			gradient := float32(float32((p-want)*r.Weight) * r.scale)
			shrink := float32(decay * r.Weight)
			for _, k := range r.slots {
				g := gradient + float32(shrink*weights[k])
				squares[k] += float32(g * g)
				weights[k] -= float32(rate*g) / float32(math.Sqrt(float64(squares[k])))
			}
		}
	}
	return weights
}

// margin returns the log-odds of a row by weights.
func (r *row) margin(weights []float32) float64 {
	var s float32
	for _, k := range r.slots {
		s += weights[k]
	}
	return float64(s * r.scale)
}

// clipped is the share of the used weights that may exceed the largest that a byte can hold.
const clipped = 1e-4

// quantise returns weights in steps from -127 to 127, and the size of a step. Slots that no row uses get 0.
func quantise(weights []float32) (steps []int8, size float64) {
	const bins, reach = 1 << 14, 16.0
	var histogram [bins]int
	used := 0
	for _, w := range weights {
		if w != 0 {
			used++
			histogram[min(int(math.Abs(float64(w))*(bins/reach)), bins-1)]++
		}
	}
	bin := bins
	for over := 0; bin > 1 && over+histogram[bin-1] <= int(clipped*float64(used)); bin-- {
		over += histogram[bin-1]
	}
	size = float64(bin) * (reach / bins) / 127
	steps = make([]int8, len(weights))
	for k, w := range weights {
		steps[k] = int8(math.Round(min(max(float64(w)/size, -127), 127)))
	}
	return steps, size
}
