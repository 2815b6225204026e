package eval

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// Curve is the ROC curve of a score. It contains the number of malicious and benign rows with each score.
type Curve struct {
	steps             []step // highest score first
	benign, malicious int
}

type step struct {
	score             float64
	benign, malicious int
}

// NewCurve returns the curve of scores and their rows' labels. Higher scores are more suspicious.
func NewCurve(scores []float64, malicious []bool) *Curve {
	order := make([]int, len(scores))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	c := &Curve{}
	for _, i := range order {
		if last := len(c.steps) - 1; last < 0 || c.steps[last].score != scores[i] {
			c.steps = append(c.steps, step{score: scores[i]})
		}
		c.count(&c.steps[len(c.steps)-1], malicious[i])
	}
	return c
}

// count counts a row at its step.
func (c *Curve) count(s *step, malicious bool) {
	if malicious {
		s.malicious++
		c.malicious++
	} else {
		s.benign++
		c.benign++
	}
}

// z95 is the normal distribution's 97.5% point, for two-sided intervals of 95%.
const z95 = 1.959963984540054

// AUC returns the area under the ROC curve: the probability that a malicious row scores higher than a benign one, with
// ties counted as half. The 95% interval is by DeLong, DeLong and Clarke-Pearson (Biometrics 44, 1988), clamped to
// 0..1. The area is NaN without rows of both labels, and the interval is NaN if a label has a single row.
//
// The interval assumes independent rows. Rows of one source resemble each other, so the true interval is wider.
func (c *Curve) AUC() (auc float64, interval Interval) {
	n, m := float64(c.benign), float64(c.malicious)
	if n == 0 || m == 0 {
		return math.NaN(), undefined
	}
	// The placement of a malicious row is the share of benign rows below it, that of a benign row the share of
	// malicious rows above it, with ties counted as half. The mean of either is the AUC, and their variances give its
	// variance.
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

// Point is a point of the ROC curve: the outcome if all rows with scores at or above a threshold are flagged.
type Point struct {
	Threshold float64 // NaN if no threshold meets the limit
	Recall    float64 // share of malicious rows flagged
	FPR       float64 // share of benign rows flagged
}

// At returns the point with the lowest threshold that flags at most the share fpr of the benign rows. Rows with equal
// scores are flagged together. If even the highest score flags too many, the threshold is NaN and the recall is 0. All
// fields are NaN without rows of both labels.
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

// Points returns the points of the ROC curve, from the one that flags no row to the one that flags all.
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

// replicates is the number of samples that Bootstrap draws, as is common for percentile intervals (Efron and
// Tibshirani, An Introduction to the Bootstrap, 1993, section 13.3).
const replicates = 1000

// Bootstrap returns the 95% percentile interval of the recall at each of the given false positive rates. Each sample
// draws malicious and benign rows separately, with replacement, and determines its own threshold, because the threshold
// depends on few benign rows. The seed is fixed, so the same rows give the same intervals.
func (c *Curve) Bootstrap(fprs ...float64) []Interval {
	intervals := slices.Repeat([]Interval{undefined}, len(fprs))
	if c.benign == 0 || c.malicious == 0 {
		return intervals
	}
	var benign, malicious []int32 // the index of each row's step
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
		intervals[i] = percentiles(r)
	}
	return intervals
}

// percentiles returns the interval that leaves out 2.5% of the samples at each end. It sorts them.
func percentiles(samples []float64) Interval {
	slices.Sort(samples)
	n := len(samples)
	return Interval{Number(samples[n*25/1000]), Number(samples[n*975/1000-1])}
}

// Wilson returns the 95% score interval of the proportion k/n (Wilson, JASA 22, 1927). It is NaN if n is 0.
func Wilson(k, n int) Interval {
	if n == 0 {
		return undefined
	}
	p, count, z2 := float64(k)/float64(n), float64(n), z95*z95
	centre := (p + z2/(2*count)) / (1 + z2/count)
	half := z95 / (1 + z2/count) * math.Sqrt(p*(1-p)/count+z2/(4*count*count))
	return Interval{Number(max(0, centre-half)), Number(min(1, centre+half))}
}

// emptyCurve returns a curve of scores from 0 to 100 without rows.
func emptyCurve() *Curve {
	c := &Curve{steps: make([]step, 101)}
	for i := range c.steps {
		c.steps[i].score = float64(100 - i)
	}
	return c
}

// add adds a row to a curve of emptyCurve.
func (c *Curve) add(score float64, malicious bool) { c.count(&c.steps[100-int(score)], malicious) }
