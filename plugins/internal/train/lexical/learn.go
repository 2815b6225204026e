package main

import (
	"math"
	"math/rand/v2"

	"assay/plugins/lexical/ngram"
)

// How the weights are learned.
const (
	slots  = 1_899_996 // four bits each: 949,998 bytes
	epochs = 2
	pace   = 0.05 // of AdaGrad
	seed   = 4
)

// sides says by what the weights of good and of bad rows are multiplied.
type sides struct{ good, bad float32 }

// evenly returns what makes the good and the bad rows that train names weigh alike.
func evenly(rows []row, train []int32) sides {
	var good, bad float64
	for _, i := range train {
		if r := &rows[i]; r.bad {
			bad += float64(r.weight)
		} else {
			good += float64(r.weight)
		}
	}
	return sides{float32((good + bad) / (2 * good)), float32((good + bad) / (2 * bad))}
}

// learn fits the weights of a logistic model to the rows that train names: AdaGrad, one row at a time, in an order that
// the seed decides. Products are rounded one by one, so that a machine with fused operations learns the same bits.
// progress is called after each epoch.
func learn(rows []row, train []int32, share sides, progress func(epoch int)) []float32 {
	order := make([]int32, len(train))
	copy(order, train)
	weights, squares := make([]float32, slots), make([]float32, slots)
	random := rand.NewPCG(seed, seed)
	for epoch := range epochs {
		for i := len(order) - 1; i > 0; i-- {
			j := int(random.Uint64() % uint64(i+1))
			order[i], order[j] = order[j], order[i]
		}
		for _, i := range order {
			r := &rows[i]
			want, weight := float32(0), float32(r.weight*share.good)
			if r.bad {
				want, weight = 1, float32(r.weight*share.bad)
			}
			slope := float32((logistic(sum(weights, r.features)) - want) * weight)
			square := float32(slope * slope)
			for _, hash := range r.features {
				k := ngram.Slot(hash, slots)
				squares[k] += square
				weights[k] -= float32(pace*slope) / float32(math.Sqrt(float64(squares[k]+1)))
			}
		}
		progress(epoch + 1)
	}
	return weights
}

func sum(weights []float32, features []uint32) float32 {
	var s float32
	for _, hash := range features {
		s += weights[ngram.Slot(hash, slots)]
	}
	return s
}

// logistic is 1/(1+exp(-x)), with exp as a power of 2^20 that takes multiplications only: math.Exp may differ in its
// last bit from machine to machine.
func logistic(x float32) float32 {
	e := 1 - float64(min(max(x, -30), 30))/(1<<20)
	for range 20 {
		e *= e
	}
	return float32(1 / (1 + e))
}

// usage counts, by weight, how often the rows that train names use each slot.
func usage(rows []row, train []int32) []float32 {
	used := make([]float32, slots)
	for _, i := range train {
		for _, hash := range rows[i].features {
			used[ngram.Slot(hash, slots)] += rows[i].weight
		}
	}
	return used
}

// quantise replaces every weight by one of a few levels, chosen (Lloyd's algorithm on a histogram) to be near where use
// is. The first level is 0, which is what slots that no row uses get.
func quantise(weights, used []float32) (levels [ngram.Levels]float32, at []byte) {
	const bins, reach = 8192, 4.0 // weights beyond -reach..reach count as at the end
	var mass, moment [bins]float64
	for k, w := range weights {
		bin := min(max(int((float64(w)+reach)*(bins/(2*reach))), 0), bins-1)
		mass[bin] += float64(used[k])
		moment[bin] += float64(float64(used[k]) * float64(w))
	}
	var centre [ngram.Levels]float64
	for i := range centre {
		centre[i] = (float64(i)/(ngram.Levels-1) - 0.5) // ascending throughout: nearest only ever moves right
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

// pack lays levels out as [ngram.Open] reads them.
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
