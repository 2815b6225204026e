package eval

import "math"

// regression is a logistic regression with bounded coefficients and linear limits. It minimises
//
//	sum(weight * loss) / sum(weight) + sum(l2/2 * (coefficient-around)^2)
//
// over a bias, which is not penalised, and one coefficient per feature.
type regression struct {
	cases     []weightedCase
	l2        []float64 // penalties on the coefficients; that of the bias is ignored, as in around
	low, high []float64 // bounds of the bias and the coefficients
	around    []float64 // the values to which the penalties draw the coefficients
	limits    []limit

	// of the augmented Lagrangian
	multipliers []float64
	penalty     float64
}

// weightedCase represents all rows with the same features and label.
type weightedCase struct {
	features  []float64
	malicious bool
	weight    float64
}

// limit is the condition sum(coefficients[i]*x[i]) >= atLeast. The solver aims for margin more than that.
type limit struct {
	name            string
	coefficients    []float64
	atLeast, margin float64
}

// slack returns by how much x exceeds the limit; it is negative if x breaks it.
func (l limit) slack(x []float64) float64 {
	sum := -l.atLeast
	for i, c := range l.coefficients {
		sum += c * x[i]
	}
	return sum
}

// The solver stops when the gradient of all free coefficients is below flat, or after maxSteps steps.
const (
	flat     = 1e-10
	maxSteps = 200
)

// solve returns the bias and the coefficients, and the multipliers of the limits: what meeting each costs. It is the
// method of multipliers (Hestenes, J. Optimization Theory and Applications 4, 1969), which adds the limits to the loss
// and needs no start within them. The problem is convex, so the result doesn't depend on the start x, which may be nil.
// If no coefficients meet all limits, the result breaks some of them a little.
func (r regression) solve(x []float64) (solved, multipliers []float64) {
	const rounds, tolerance = 40, 1e-6
	x = append([]float64(nil), x...)
	for i := range r.low {
		if i == len(x) {
			x = append(x, 0)
		}
		x[i] = min(r.high[i], max(r.low[i], x[i]))
	}
	r.multipliers, r.penalty = make([]float64, len(r.limits)), 1
	last := math.Inf(1)
	for range rounds {
		x = r.minimise(x)
		worst := 0.0
		for i, l := range r.limits {
			short := l.margin - l.slack(x)
			worst = max(worst, short)
			r.multipliers[i] = max(0, r.multipliers[i]+r.penalty*short)
		}
		if worst < tolerance {
			break
		}
		if worst > last/4 {
			r.penalty = min(10*r.penalty, 1e6)
		}
		last = worst
	}
	return x, r.multipliers
}

// minimise uses projected Newton steps on the free coefficients, those not at a bound, with a line search (Bertsekas,
// "Projected Newton methods for optimization problems with simple constraints", SIAM J. Control 20, 1982).
func (r regression) minimise(x []float64) []float64 {
	value, gradient, hessian := r.derive(x)
	for range maxSteps {
		var free []int
		slope := 0.0
		for i := range x {
			if (x[i] <= r.low[i] && gradient[i] >= 0) || (x[i] >= r.high[i] && gradient[i] <= 0) {
				continue
			}
			free = append(free, i)
			slope = max(slope, math.Abs(gradient[i]))
		}
		if slope < flat {
			break
		}
		direction := newtonStep(hessian, gradient, free)
		next, moved := r.search(x, value, gradient, direction)
		if !moved {
			break
		}
		x = next
		value, gradient, hessian = r.derive(x)
	}
	return x
}

// search halves the step along direction, projected into the bounds, until the loss decreases enough (Armijo's rule).
func (r regression) search(x []float64, value float64, gradient, direction []float64) (next []float64, moved bool) {
	next = make([]float64, len(x))
	for step := 1.0; step > 1e-12; step /= 2 {
		expected := 0.0
		for i := range x {
			next[i] = min(r.high[i], max(r.low[i], x[i]+step*direction[i]))
			expected += gradient[i] * (next[i] - x[i])
		}
		if expected < 0 && r.value(next) <= value+1e-4*expected {
			return next, true
		}
	}
	return x, false
}

// newtonStep solves hessian * d = -gradient for the free coefficients by Cholesky decomposition. It increases the ridge
// until the matrix is positive definite. Without such a matrix, because numbers overflowed, there is no step.
func newtonStep(hessian [][]float64, gradient []float64, free []int) []float64 {
	n, d := len(free), make([]float64, len(gradient))
	for ridge := 1e-14; !math.IsInf(ridge, 1); ridge *= 100 {
		l, ok := cholesky(hessian, free, ridge)
		if !ok {
			continue
		}
		y := make([]float64, n)
		for i := range n {
			y[i] = -gradient[free[i]]
			for k := range i {
				y[i] -= l[i][k] * y[k]
			}
			y[i] /= l[i][i]
		}
		for i := n - 1; i >= 0; i-- {
			for k := i + 1; k < n; k++ {
				y[i] -= l[k][i] * y[k]
			}
			y[i] /= l[i][i]
		}
		for i, f := range free {
			d[f] = y[i]
		}
		break
	}
	return d
}

// cholesky returns the lower triangle of the decomposition of a, restricted to the rows and columns of, plus ridge on
// the diagonal. ok is false if the matrix is not positive definite.
func cholesky(a [][]float64, of []int, ridge float64) (l [][]float64, ok bool) {
	l = make([][]float64, len(of))
	for i := range of {
		l[i] = make([]float64, i+1)
		for j := range i + 1 {
			sum := a[of[i]][of[j]]
			if i == j {
				sum += ridge
			}
			for k := range j {
				sum -= l[i][k] * l[j][k]
			}
			if i != j {
				l[i][j] = sum / l[j][j]
				continue
			}
			if !(sum > 0) {
				return nil, false
			}
			l[i][i] = math.Sqrt(sum)
		}
	}
	return l, true
}

// value returns the objective at x.
func (r regression) value(x []float64) float64 {
	sum, total := 0.0, 0.0
	for i := range r.cases {
		c := &r.cases[i]
		sum += c.weight * c.loss(c.logOdds(x))
		total += c.weight
	}
	sum /= total
	for i, w := range x[1:] {
		sum += r.l2[i+1] / 2 * (w - r.around[i+1]) * (w - r.around[i+1])
	}
	for i := range r.limits {
		missed := r.missed(i, x)
		sum += missed * missed / (2 * r.penalty)
	}
	return sum
}

// missed returns the multiplier that limit i would have next, the derivative of its term in the augmented Lagrangian.
func (r regression) missed(i int, x []float64) float64 {
	return max(0, r.multipliers[i]+r.penalty*(r.limits[i].margin-r.limits[i].slack(x)))
}

// derive returns the objective at x with its gradient and Hessian.
func (r regression) derive(x []float64) (value float64, gradient []float64, hessian [][]float64) {
	n := len(x)
	gradient, hessian = make([]float64, n), make([][]float64, n)
	for i := range hessian {
		hessian[i] = make([]float64, n)
	}
	total := 0.0
	for _, c := range r.cases {
		total += c.weight
	}
	at := func(c *weightedCase, i int) float64 {
		if i == 0 {
			return 1
		}
		return c.features[i-1]
	}
	for k := range r.cases {
		c := &r.cases[k]
		z, weight := c.logOdds(x), c.weight/total
		p := 1 / (1 + math.Exp(-z))
		value += weight * c.loss(z)
		residual := p
		if c.malicious {
			residual--
		}
		for i := range n {
			f := at(c, i)
			if f == 0 {
				continue
			}
			gradient[i] += weight * residual * f
			for j := range i + 1 {
				hessian[i][j] += weight * p * (1 - p) * f * at(c, j)
			}
		}
	}
	for i := 1; i < n; i++ {
		off := x[i] - r.around[i]
		value += r.l2[i] / 2 * off * off
		gradient[i] += r.l2[i] * off
		hessian[i][i] += r.l2[i]
	}
	for k, l := range r.limits {
		missed := r.missed(k, x)
		if missed == 0 {
			continue
		}
		value += missed * missed / (2 * r.penalty)
		for i, c := range l.coefficients {
			gradient[i] -= missed * c
			for j := range i + 1 {
				hessian[i][j] += r.penalty * c * l.coefficients[j]
			}
		}
	}
	for i := range n {
		for j := range i {
			hessian[j][i] = hessian[i][j]
		}
	}
	return value, gradient, hessian
}

func (c *weightedCase) logOdds(x []float64) float64 {
	z := x[0]
	for i, f := range c.features {
		z += x[i+1] * f
	}
	return z
}

// loss returns the negative log-likelihood of the case's label at log-odds z, without overflow.
func (c *weightedCase) loss(z float64) float64 {
	if c.malicious {
		z = -z
	}
	if z > 0 {
		return z + math.Log1p(math.Exp(-z))
	}
	return math.Log1p(math.Exp(z))
}
