package eval

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"assay/registry/expect"
)

// TestSolve checks the Karush-Kuhn-Tucker conditions. With the multipliers of the limits, the gradient is zero for free
// coefficients and does not point inward for those at a bound; the limits hold, and only those that bind cost anything.
func TestSolve(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(9, 9))
	atBound, binding := 0, 0
	for range 200 {
		features := 1 + random.IntN(5)
		r := regression{l2: slices.Repeat([]float64{math.Pow(10, -6*random.Float64())}, features+1)}
		inside := []float64{0} // meets all limits
		for range features {
			inside = append(inside, 3*random.Float64())
		}
		for i := range features + 1 {
			r.low, r.high, r.around = append(r.low, 0), append(r.high, 3), append(r.around, float64(random.IntN(2)))
			if i == 0 {
				r.low[0] = -3
			}
		}
		if random.IntN(2) == 0 {
			inside[0] = 1
			r.low[0], r.high[0] = 1, 1
		}
		for range 5 + random.IntN(40) {
			c := weightedCase{malicious: random.IntN(2) == 0, weight: random.Float64()}
			for range features {
				c.features = append(c.features, float64(random.IntN(3))/2)
			}
			r.cases = append(r.cases, c)
		}
		for range random.IntN(4) {
			l := limit{margin: .01}
			for range features + 1 {
				l.coefficients = append(l.coefficients, random.Float64()-.5)
			}
			l.atLeast = l.slack(inside) - .02 - random.Float64()/2
			r.limits = append(r.limits, l)
		}
		x, multipliers := r.solve(nil)
		for i, l := range r.limits {
			slack := l.slack(x) - l.margin
			expect.Must(t, slack >= -1e-5 && multipliers[i] >= 0 && (multipliers[i] <= 1e-6 || slack <= 1e-4),
				"limit %d has slack %v and multiplier %v in %+v", i, slack, multipliers[i], r)
			if multipliers[i] > 1e-6 {
				binding++
			}
		}
		limits := r.limits
		r.limits = nil
		_, gradient, _ := r.derive(x)
		for i := range x {
			for k, l := range limits {
				gradient[i] -= multipliers[k] * l.coefficients[i]
			}
			expect.Must(t, x[i] >= r.low[i] && x[i] <= r.high[i], "coefficient %d is %v, outside %v to %v", i, x[i],
				r.low[i], r.high[i])
			if x[i] == r.low[i] || x[i] == r.high[i] {
				atBound++
			}
			expect.Must(t, (x[i] <= r.low[i] || gradient[i] <= 1e-5) && (x[i] >= r.high[i] || gradient[i] >= -1e-5),
				"coefficient %d is %v with gradient %v in %+v", i, x[i], gradient[i], r)
		}
	}
	expect.That(t, atBound >= 50 && binding >= 50, "only %d coefficients are at a bound, and %d limits bind", atBound,
		binding)
}

// Without coefficients that meet all limits, the solver ends, and breaks them.
func TestSolveContradiction(t *testing.T) {
	t.Parallel()
	r := regression{l2: []float64{0, 0}, low: []float64{-3, 0}, high: []float64{3, 3}, around: []float64{0, 0},
		limits: []limit{{coefficients: []float64{1, 0}, atLeast: 1}, {coefficients: []float64{-1, 0}, atLeast: 1}},
		cases:  []weightedCase{{[]float64{1}, true, 1}, {[]float64{0}, false, 1}}}
	x, _ := r.solve(nil)
	expect.That(t, (r.limits[0].slack(x) < 0 || r.limits[1].slack(x) < 0) && !math.IsNaN(x[0]), "solved as %v", x)
	step := newtonStep([][]float64{{math.NaN()}}, []float64{1}, []int{0}) // of terms that overflow
	expect.That(t, slices.Equal(step, []float64{0}), "the step is %v", step)
}

// TestDerive compares the derivatives with finite differences.
func TestDerive(t *testing.T) {
	t.Parallel()
	r := regression{l2: []float64{0, .1, .2}, around: []float64{0, .5, 0}, multipliers: []float64{.3, .1}, penalty: 2,
		limits: []limit{{coefficients: []float64{1, .5, 0}, atLeast: 1, margin: .1},
			{coefficients: []float64{-1, 0, 0}, atLeast: .5}}, cases: []weightedCase{
			{[]float64{.2, 1}, true, 2}, {[]float64{.7, 0}, false, 1}, {[]float64{0, .5}, true, .5},
			{[]float64{0, 0}, false, 3},
		}}
	x, h := []float64{-1, 2, .5}, 1e-5
	_, gradient, hessian := r.derive(x)
	for i := range x {
		up, down := append([]float64{}, x...), append([]float64{}, x...)
		up[i], down[i] = x[i]+h, x[i]-h
		above, slopeAbove, _ := r.derive(up)
		below, slopeBelow, _ := r.derive(down)
		difference := (above - below) / (2 * h)
		expect.That(t, math.Abs(difference-gradient[i]) <= 1e-8 && math.Abs(r.value(up)-above) <= 1e-12,
			"gradient %d is %v, by differences %v", i, gradient[i], difference)
		for j := range x {
			if difference := (slopeAbove[j] - slopeBelow[j]) / (2 * h); math.Abs(difference-hessian[i][j]) > 1e-7 {
				t.Errorf("second derivative %d,%d is %v, by differences %v", i, j, hessian[i][j], difference)
			}
		}
	}
}

func TestLossDoesNotOverflow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		malicious bool
		z, want   float64
	}{{true, -1000, 1000}, {true, 1000, 0}, {false, 1000, 1000}, {false, -1000, 0}, {true, 0, math.Ln2}} {
		got := (&weightedCase{malicious: c.malicious}).loss(c.z)
		expect.That(t, math.Abs(got-c.want) <= 1e-9, "malicious %t at %v: %v, want %v", c.malicious, c.z, got, c.want)
	}
}
