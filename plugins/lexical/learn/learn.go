// Package learn fits the model of the lexical layer to labelled domains.
package learn

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"assay/plugins/internal/brand"
	"assay/plugins/internal/train"
	"assay/plugins/lexical/ngram"
)

// Model is a model of the lexical layer, with weights as the layer stores them.
type Model struct {
	steps   []int8
	weights []float32 // steps by the size of a step
	size    float64
	bias    float64 // the points of an uninformative name
}

// The layer's scale of points: an uninformative name has 0.
const (
	perUnit = 20  // points per unit of log-odds
	lowest  = -38 // of the layer
)

// New fits a model to the rows at indices. Its weights are the means of those learned in several orders of the rows,
// which depend less on chance.
func New(rows []Row, indices []int32) *Model {
	const orders = 4
	var learned [orders][]float32
	var wg sync.WaitGroup
	for i := range learned {
		learned[i] = make([]float32, ngram.Slots)
		wg.Go(func() {
			learn(learned[i], rows, indices,
				plan{epochs: 2, rate: 0.3, prior: 1e-6, decay: 1e-5, seed: seed + uint64(i)})
		})
	}
	wg.Wait()
	weights := make([]float32, ngram.Slots)
	for k := range weights {
		for _, one := range learned {
			weights[k] += one[k] / orders
		}
	}
	steps, size := quantise(weights)
	return stored(steps, size, -perUnit*math.Log(prevalence))
}

// Released returns the released model.
func Released() (*Model, error) {
	file, pieces := ngram.Released()
	head, err := ngram.OpenHead(file)
	if err != nil {
		return nil, err
	}
	var steps []int8
	for _, piece := range pieces {
		for _, step := range piece {
			steps = append(steps, int8(step))
		}
	}
	return stored(steps, head.Points/perUnit, head.Bias), nil
}

// Refit weighs rows, and returns a model that learned them. It starts from the weights of m and keeps the size of its
// steps.
func (m *Model) Refit(rows []Row) *Model {
	indices := make([]int32, len(rows))
	for i := range indices {
		indices[i] = int32(i)
	}
	Weigh(rows, indices, nil)
	weights := slices.Clone(m.weights)
	learn(weights, rows, indices, plan{epochs: 2, rate: 0.3, prior: 0.1, decay: 0.01, seed: seed})
	return stored(rounded(weights, m.size), m.size, m.bias)
}

// toward returns a model whose weights are a share of the way from those of m to those of other.
func (m *Model) toward(other *Model, share float64) *Model {
	weights := make([]float32, len(m.weights))
	for k, w := range m.weights {
		weights[k] = w + float32(float32(share)*(other.weights[k]-w))
	}
	return stored(rounded(weights, m.size), m.size, m.bias)
}

// stored returns the model that a layer with these steps has.
func stored(steps []int8, size, bias float64) *Model {
	m := &Model{steps: steps, weights: make([]float32, len(steps)), size: size, bias: bias}
	for k, s := range steps {
		m.weights[k] = float32(float64(s) * size)
	}
	return m
}

// Points returns the points of a row before the layer limits those that may not block.
func (m *Model) Points(r *Row) float64 {
	if brand.OwnerName(&r.Host) != "" {
		return lowest
	}
	return max(math.Floor(perUnit*r.margin(m.weights)+m.bias+float64(r.more)+0.5), lowest)
}

// Head returns the head of the layer's table for a model that may block names with at least bar points.
func (m *Model) Head(bar int) []byte {
	return ngram.Head{Points: perUnit * m.size, Bias: m.bias, Bar: float64(bar)}.Encode()
}

// Pieces returns the pieces of the layer's table.
func (m *Model) Pieces() [][]byte {
	pieces := make([][]byte, ngram.Pieces)
	for k, s := range m.steps {
		at := k * ngram.Pieces / len(m.steps)
		pieces[at] = append(pieces[at], byte(s))
	}
	return pieces
}

// plan says how to learn.
type plan struct {
	epochs int
	rate   float64 // the learning rate of AdaGrad
	prior  float32 // the sum of squares that it begins with; the larger, the smaller the first steps
	decay  float64 // of weights, towards those that learning begins with
	seed   uint64  // of the order of the rows
}

const seed = 4

// learn fits a logistic model to the rows at indices by AdaGrad (Duchi, Hazan and Singer, 2011), one row at a time. It
// changes weights. The explicit conversions round every product, so that machines with fused multiply-add learn the
// same bits.
func learn(weights []float32, rows []Row, indices []int32, p plan) {
	order := make([]int32, len(indices))
	copy(order, indices)
	squares := make([]float32, len(weights))
	for i := range squares {
		squares[i] = p.prior
	}
	begin := slices.Clone(weights)
	random := rand.NewPCG(p.seed, p.seed)
	for range p.epochs {
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
			odds := float32(train.Logistic(r.margin(weights)))
			gradient := float32(float32((odds-want)*r.Weight) * r.scale)
			shrink := float32(float32(p.decay) * r.Weight)
			for _, k := range r.slots {
				g := gradient + float32(shrink*(weights[k]-begin[k]))
				squares[k] += float32(g * g)
				weights[k] -= float32(float32(p.rate)*g) / float32(math.Sqrt(float64(squares[k])))
			}
		}
	}
}

// margin returns the log-odds of a row by weights.
func (r *Row) margin(weights []float32) float64 {
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
	return rounded(weights, size), size
}

// rounded returns weights in steps of a size.
func rounded(weights []float32, size float64) []int8 {
	steps := make([]int8, len(weights))
	for k, w := range weights {
		steps[k] = int8(math.Round(min(max(float64(w)/size, -127), 127)))
	}
	return steps
}
