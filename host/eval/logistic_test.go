package eval

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestSolve checks the Karush-Kuhn-Tucker conditions: the gradient is zero for free coefficients, and does not point
// inward for those at a bound.
func TestSolve(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(9, 9))
	atBound := 0
	for range 200 {
		r := regression{features: 1 + random.IntN(5), l2: math.Pow(10, -6*random.Float64()), maxWeight: 3}
		for range 5 + random.IntN(40) {
			c := weightedCase{malicious: random.IntN(2) == 0, weight: random.Float64()}
			for range r.features {
				c.features = append(c.features, float64(random.IntN(3))/2)
			}
			r.cases = append(r.cases, c)
		}
		if fixed := 1.0; random.IntN(2) == 0 {
			r.bias = &fixed
		}
		x := r.solve(nil)
		_, gradient, _ := r.derive(x)
		for i := range x {
			low, high := r.bounds(i)
			if x[i] < low || x[i] > high {
				t.Fatalf("coefficient %d is %v, outside %v to %v", i, x[i], low, high)
			}
			if x[i] == low || x[i] == high {
				atBound++
			}
			if (x[i] > low && gradient[i] > 1e-7) || (x[i] < high && gradient[i] < -1e-7) {
				t.Fatalf("coefficient %d is %v with gradient %v in %+v", i, x[i], gradient[i], r)
			}
		}
	}
	if atBound < 50 {
		t.Errorf("only %d coefficients are at a bound", atBound)
	}
}

// TestDerive compares the derivatives with finite differences.
func TestDerive(t *testing.T) {
	t.Parallel()
	r := regression{features: 2, l2: .1, maxWeight: 20, cases: []weightedCase{
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
		if difference := (above - below) / (2 * h); math.Abs(difference-gradient[i]) > 1e-8 ||
			math.Abs(r.value(up)-above) > 1e-12 {
			t.Errorf("gradient %d is %v, by differences %v", i, gradient[i], difference)
		}
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
		if got := (&weightedCase{malicious: c.malicious}).loss(c.z); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("malicious %t at %v: %v, want %v", c.malicious, c.z, got, c.want)
		}
	}
}
