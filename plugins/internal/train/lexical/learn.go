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
	rate   = 0.05 // the learning rate of AdaGrad
	seed   = 4
)

// labelFactors multiply the weights of good and of bad rows.
type labelFactors struct{ good, bad float32 }

// balance returns the factors that give the good and the bad rows at indices the same total weight, so that an
// uninformative name has even odds whatever was held out.
func balance(rows []row, indices []int32) labelFactors {
	var good, bad float64
	for _, i := range indices {
		if r := &rows[i]; r.Malicious {
			bad += float64(r.Weight)
		} else {
			good += float64(r.Weight)
		}
	}
	return labelFactors{float32((good + bad) / (2 * good)), float32((good + bad) / (2 * bad))}
}

// learn fits a logistic model to the rows at indices by AdaGrad (Duchi, Hazan and Singer, 2011), one row at a time in
// an order that depends on the seed. The explicit conversions round every product, so that machines with fused
// multiply-add learn the same bits.
func learn(rows []row, indices []int32) []float32 {
	factors := balance(rows, indices)
	order := make([]int32, len(indices))
	copy(order, indices)
	weights, squares := make([]float32, ngram.Slots), make([]float32, ngram.Slots)
	random := rand.NewPCG(seed, seed)
	for range epochs {
		for i := len(order) - 1; i > 0; i-- {
			j := int(random.Uint64() % uint64(i+1))
			order[i], order[j] = order[j], order[i]
		}
		for _, i := range order {
			r := &rows[i]
			want, weight := float32(0), float32(r.Weight*factors.good)
			if r.Malicious {
				want, weight = 1, float32(r.Weight*factors.bad)
			}
			p := float32(train.Logistic(float64(sum(weights, r.slots))))
			gradient := float32((p - want) * weight)
			square := float32(gradient * gradient)
			for _, k := range r.slots {
				squares[k] += square
				weights[k] -= float32(rate*gradient) / float32(math.Sqrt(float64(squares[k]+1)))
			}
		}
	}
	return weights
}

func sum(weights []float32, slots []uint32) float32 {
	var s float32
	for _, k := range slots {
		s += weights[k]
	}
	return s
}

// usage returns the total weight of the rows at indices that use each slot.
func usage(rows []row, indices []int32) []float32 {
	used := make([]float32, ngram.Slots)
	for _, i := range indices {
		for _, k := range rows[i].slots {
			used[k] += rows[i].Weight
		}
	}
	return used
}

// quantise maps each weight to the nearest of a few levels, which Lloyd's algorithm fits to a histogram of the weights
// by use. The first level is 0, the level of unused slots.
func quantise(weights, used []float32) (levels [ngram.Levels]float32, at []byte) {
	const bins, reach = 8192, 4.0 // the bins cover -reach to reach, and clamp weights beyond
	var mass, moment [bins]float64
	for k, w := range weights {
		bin := min(max(int((float64(w)+reach)*(bins/(2*reach))), 0), bins-1)
		mass[bin] += float64(used[k])
		moment[bin] += float64(float64(used[k]) * float64(w))
	}
	var centre [ngram.Levels]float64
	for i := range centre {
		centre[i] = float64(i)/(ngram.Levels-1) - 0.5 // ascending, so the nearest centre only moves right
	}
	for range 100 {
		var m, s [ngram.Levels]float64
		j := 0
		for bin := range bins {
			if mass[bin] == 0 {
				continue
			}
			w := moment[bin] / mass[bin]
			for j+1 < len(centre) && math.Abs(centre[j+1]-w) < math.Abs(centre[j]-w) {
				j++
			}
			m[j] += mass[bin]
			s[j] += moment[bin]
		}
		for j := range centre {
			if m[j] > 0 {
				centre[j] = s[j] / m[j]
			}
		}
	}
	zero := 0
	for j := range centre {
		if math.Abs(centre[j]) < math.Abs(centre[zero]) {
			zero = j
		}
	}
	centre[zero], centre[0] = centre[0], 0
	for j := range levels {
		levels[j] = float32(centre[j])
	}
	at = make([]byte, len(weights))
	for k, w := range weights {
		for j := range levels {
			if used[k] > 0 && math.Abs(float64(levels[j]-w)) < math.Abs(float64(levels[at[k]]-w)) {
				at[k] = byte(j)
			}
		}
	}
	return levels, at
}

// pack encodes levels in the format of [ngram.Open].
func pack(at []byte) [][]byte {
	packed := make([]byte, len(at)/2)
	for i := range packed {
		packed[i] = at[2*i] | at[2*i+1]<<4
	}
	each := len(packed) / ngram.Pieces
	pieces := make([][]byte, ngram.Pieces)
	for i := range pieces {
		pieces[i] = packed[i*each : (i+1)*each]
	}
	return pieces
}
