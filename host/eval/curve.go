package eval

import (
	"math"
	"math/rand/v2"
	"slices"
)

// Curve is how a score tells malicious rows from benign ones: how many of each have each score.
type Curve struct {
	steps             []step // highest score first
	benign, malicious int
}

type step struct {
	score             float64
	benign, malicious int
}

// NewCurve sorts scores, each with its row's label. A higher score is to mean more malicious.
func NewCurve(scores []float64, malicious []bool) *Curve {
	order := make([]int, len(scores))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		switch {
		case scores[a] > scores[b]:
			return -1
		case scores[a] < scores[b]:
			return 1
		}
		return 0
	})
	c := &Curve{}
	for _, i := range order {
		if last := len(c.steps) - 1; last < 0 || c.steps[last].score != scores[i] {
			c.steps = append(c.steps, step{score: scores[i]})
		}
		s := &c.steps[len(c.steps)-1]
		if malicious[i] {
			s.malicious++
			c.malicious++
		} else {
			s.benign++
			c.benign++
		}
	}
	return c
}

// z95 is the normal distribution's 97.5% point, for two-sided intervals of 95%.
const z95 = 1.959963984540054

// AUC is the area under the ROC curve: the chance that a malicious row scores higher than a benign one, a tie counting
// half; with its 95% interval by DeLong, DeLong and Clarke-Pearson (Biometrics 44, 1988), held to 0..1. It is NaN
// without rows of both labels; the interval is NaN when one label has a single row.
//
// The interval takes rows to be independent. Rows of one source resemble each other, so it is a lower bound of the
// doubt.
func (c *Curve) AUC() (auc float64, interval Interval) {
	n, m := float64(c.benign), float64(c.malicious)
	if n == 0 || m == 0 {
		return math.NaN(), Interval{Number(math.NaN()), Number(math.NaN())}
	}
	// The placements: for a malicious row, the share of benign rows below it (ties half); for a benign row, the share
	// of malicious rows above it. Their means are the AUC, and their variances give that of the AUC.
	var sum, sumMalicious, sumBenign float64
	each := func(do func(malicious, benign, placed, placedBenign float64)) {
		above, below := 0.0, n
		for _, s := range c.steps {
			p, q := float64(s.malicious), float64(s.benign)
			below -= q
			do(p, q, (below+q/2)/n, (above+p/2)/m)
			above += p
		}
	}
	each(func(p, _, placed, _ float64) { sum += p * placed })
	auc = sum / m
	each(func(p, q, placed, placedBenign float64) {
		sumMalicious += p * (placed - auc) * (placed - auc)
		sumBenign += q * (placedBenign - auc) * (placedBenign - auc)
	})
	half := z95 * math.Sqrt(sumMalicious/(m-1)/m+sumBenign/(n-1)/n)
	return auc, Interval{Number(max(0, auc-half)), Number(min(1, auc+half))}
}

// Point is one way to draw the line: everything from a threshold on is called malicious.
type Point struct {
	Threshold float64 // NaN when no threshold will do
	Recall    float64 // share of malicious rows from the threshold on
	FPR       float64 // share of benign rows from the threshold on
}

// At returns the lowest threshold that calls at most the share fpr of the benign rows malicious. Rows of one score
// stand or fall together: where a tie would go beyond fpr it is left out whole, so what is promised can be set as a
// threshold. When already the highest score goes beyond, the recall is 0. It is NaN without rows of both labels.
func (c *Curve) At(fpr float64) Point {
	if c.benign == 0 || c.malicious == 0 {
		return Point{math.NaN(), math.NaN(), math.NaN()}
	}
	p := Point{Threshold: math.NaN()}
	benign, malicious := 0, 0
	for _, s := range c.steps {
		benign += s.benign
		malicious += s.malicious
		share := float64(benign) / float64(c.benign)
		if share > fpr {
			break
		}
		p = Point{s.score, float64(malicious) / float64(c.malicious), share}
	}
	return p
}

// Points returns the whole ROC curve, from nothing called malicious to everything.
func (c *Curve) Points() []Point {
	points := []Point{{Threshold: math.Inf(1)}}
	benign, malicious := 0, 0
	for _, s := range c.steps {
		benign += s.benign
		malicious += s.malicious
		points = append(points, Point{s.score, float64(malicious) / float64(c.malicious),
			float64(benign) / float64(c.benign)})
	}
	return points
}

// replicates is how often Bootstrap draws: the usual number for percentile intervals (Efron and Tibshirani 1993,
// section 13.3).
const replicates = 1000

// Bootstrap returns the 95% percentile interval of the recall at each of the given shares of false positives: rows are
// drawn anew with replacement, malicious and benign ones apart, and the threshold is found anew, since it hangs on few
// benign rows. The seed is fixed, so the same rows give the same interval.
func (c *Curve) Bootstrap(fprs ...float64) []Interval {
	intervals := make([]Interval, len(fprs))
	if c.benign == 0 || c.malicious == 0 {
		for i := range intervals {
			intervals[i] = Interval{Number(math.NaN()), Number(math.NaN())}
		}
		return intervals
	}
	var benign, malicious []int32 // a row's step
	for i, s := range c.steps {
		benign = append(benign, slices.Repeat([]int32{int32(i)}, s.benign)...)
		malicious = append(malicious, slices.Repeat([]int32{int32(i)}, s.malicious)...)
	}
	random := rand.New(rand.NewPCG(1, 1))
	recalls := make([][]float64, len(fprs))
	drawn := &Curve{steps: slices.Clone(c.steps), benign: c.benign, malicious: c.malicious}
	for range replicates {
		for i := range drawn.steps {
			drawn.steps[i].benign, drawn.steps[i].malicious = 0, 0
		}
		for range benign {
			drawn.steps[benign[random.Uint64N(uint64(len(benign)))]].benign++
		}
		for range malicious {
			drawn.steps[malicious[random.Uint64N(uint64(len(malicious)))]].malicious++
		}
		for i, fpr := range fprs {
			recalls[i] = append(recalls[i], drawn.At(fpr).Recall)
		}
	}
	for i, r := range recalls {
		slices.Sort(r)
		intervals[i] = Interval{Number(r[replicates*25/1000]), Number(r[replicates*975/1000-1])}
	}
	return intervals
}

// Wilson is the 95% score interval of a share of k among n (Wilson, JASA 22, 1927). It is NaN when n is 0.
func Wilson(k, n int) Interval {
	if n == 0 {
		return Interval{Number(math.NaN()), Number(math.NaN())}
	}
	p, count, z2 := float64(k)/float64(n), float64(n), z95*z95
	centre := (p + z2/(2*count)) / (1 + z2/count)
	half := z95 / (1 + z2/count) * math.Sqrt(p*(1-p)/count+z2/(4*count*count))
	return Interval{Number(max(0, centre-half)), Number(min(1, centre+half))}
}
