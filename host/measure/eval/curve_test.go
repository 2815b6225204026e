package eval_test

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"assay/host/entity"
	"assay/host/measure/eval"
	"assay/registry/expect"
)

// curveOf returns the curve of the scores of benign and malicious rows.
func curveOf(benign, malicious []float64) *eval.Curve {
	scores := append(append([]float64{}, benign...), malicious...)
	labels := make([]bool, len(scores))
	for i := range malicious {
		labels[len(benign)+i] = true
	}
	return eval.NewCurve(scores, labels)
}

func near(got, want float64) bool {
	return got == want || math.Abs(got-want) < 1e-9 || (math.IsNaN(got) && math.IsNaN(want))
}

var undefined = math.NaN()

func TestAUC(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name              string
		benign, malicious []float64
		auc, low, high    float64
	}{
		{"fully separated", []float64{1, 2}, []float64{3, 4}, 1, 1, 1},
		{"one of each", []float64{1}, []float64{2}, 1, undefined, undefined},
		{"no malicious rows", []float64{1, 2}, nil, undefined, undefined, undefined},
		{"no benign rows", nil, []float64{1, 2}, undefined, undefined, undefined},
		{"no rows", nil, nil, undefined, undefined, undefined},
	} {
		auc, interval := curveOf(c.benign, c.malicious).AUC()
		expect.That(t, near(auc, c.auc) && near(float64(interval[0]), c.low) && near(float64(interval[1]), c.high),
			"%s: AUC %v within %v, want %v within %v to %v", c.name, auc, interval, c.auc, c.low, c.high)
	}
}

// TestAUCByDefinition compares the area and its variance with their definitions over all pairs.
func TestAUCByDefinition(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(7, 7))
	for range 20 {
		benign, malicious := make([]float64, 40+random.IntN(40)), make([]float64, 30+random.IntN(40))
		for i := range benign {
			benign[i] = float64(random.IntN(20)) // many ties
		}
		for i := range malicious {
			malicious[i] = float64(random.IntN(20)) + 4
		}
		psi := func(m, b float64) float64 { return float64(1+cmp.Compare(m, b)) / 2 } // 0, .5 or 1
		ofMalicious, ofBenign := make([]float64, len(malicious)), make([]float64, len(benign))
		for i, m := range malicious {
			for j, b := range benign {
				ofMalicious[i] += psi(m, b) / float64(len(benign))
				ofBenign[j] += psi(m, b) / float64(len(malicious))
			}
		}
		mean, variance := moments(ofMalicious)
		_, other := moments(ofBenign)
		half := 1.959963984540054 * math.Sqrt(variance/float64(len(malicious))+other/float64(len(benign)))
		auc, interval := curveOf(benign, malicious).AUC()
		expect.Must(t, near(auc, mean) && near(float64(interval[0]), max(0, mean-half)) && near(float64(interval[1]),
			min(1, mean+half)), "AUC %v within %v, by definition %v ± %v", auc, interval, mean, half)
	}
}

func moments(of []float64) (mean, variance float64) {
	for _, v := range of {
		mean += v / float64(len(of))
	}
	for _, v := range of {
		variance += (v - mean) * (v - mean) / float64(len(of)-1)
	}
	return mean, variance
}

func TestRecallAtFalsePositives(t *testing.T) {
	t.Parallel()
	hundred := make([]float64, 100) // benign scores 0 to 99
	for i := range hundred {
		hundred[i] = float64(i)
	}
	for _, c := range []struct {
		name                   string
		benign, malicious      []float64
		fpr                    float64
		recall, threshold, got float64 // got: the false positive rate at the threshold
	}{
		{"one benign row allowed", hundred, []float64{98, 98.5, 99, 100}, .01, .75, 98.5, .01},
		{"a threshold between benign rows", hundred, []float64{98.5, 97}, .01, .5, 98.5, .01},
		{"no benign row allowed", hundred, []float64{99, 99.5}, .001, .5, 99.5, 0},
		{"tied rows exceed the limit", []float64{1, 1, 5, 5}, []float64{5, 5, 9}, .25, 1.0 / 3, 9, 0},
		{"tied rows within the limit", []float64{1, 1, 5, 5}, []float64{5, 5, 9}, .5, 1, 5, .5},
		{"the highest score exceeds the limit", []float64{9, 9}, []float64{9, 9}, .01, 0, undefined, 0},
		{"all rows allowed", []float64{1, 2}, []float64{0}, 1, 1, 0, 1},
		{"no malicious rows", []float64{1}, nil, .01, undefined, undefined, undefined},
		{"no benign rows", nil, []float64{1}, .01, undefined, undefined, undefined},
	} {
		p := curveOf(c.benign, c.malicious).At(c.fpr)
		expect.That(t, near(p.Recall, c.recall) && near(p.Threshold, c.threshold) && near(p.FPR, c.got),
			"%s: %+v, want recall %v from %v at %v", c.name, p, c.recall, c.threshold, c.got)
	}
}

// If the threshold is the same in all samples, recall is a binomial proportion with a known interval.
func TestBootstrap(t *testing.T) {
	t.Parallel()
	benign, malicious := make([]float64, 500), make([]float64, 400)
	for i := range malicious[:100] {
		malicious[i] = 1
	}
	c := curveOf(benign, malicious)
	first, again := c.Bootstrap(.01, .001), c.Bootstrap(.01, .001)
	for i := range first {
		expect.Equal(t, "two calls returned", first[i], again[i])
	}
	half := 1.96 * math.Sqrt(.25*.75/400)
	low, high := float64(first[0][0]), float64(first[0][1])
	expect.That(t, math.Abs(low-(.25-half)) <= .008 && math.Abs(high-(.25+half)) <= .008,
		"%v to %v, want about %v to %v", low, high, .25-half, .25+half)
	expect.That(t, !curveOf(benign, nil).Bootstrap(.01)[0][0].Defined(), "there is an interval for benign rows only")
}

// The values are from Newcombe, Statistics in Medicine 17 (1998), table I.
func TestWilson(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		k, n      int
		low, high float64
	}{
		{81, 263, .2553, .3662}, {15, 148, .0624, .1605}, {0, 20, 0, .1611}, {1, 29, .0061, .1718},
	} {
		i := eval.Wilson(c.k, c.n)
		expect.That(t, math.Abs(float64(i[0])-c.low) <= 5e-5 && math.Abs(float64(i[1])-c.high) <= 5e-5,
			"%d of %d: %v, want %v to %v", c.k, c.n, i, c.low, c.high)
	}
	i := eval.Wilson(0, 0)
	expect.That(t, !i[0].Defined() && !i[1].Defined(), "interval %v for no rows", i)
}

// Benign rows are counted by suffix, if there are 50, and those of popular sites apart.
func TestFalsePositives(t *testing.T) {
	t.Parallel()
	f := &fakeScorer{scores: map[string]scores{}}
	var rows []eval.Row
	add := func(value string, n, review, block int) {
		for i := range n {
			row, score := eval.Row{Type: entity.Domain, Value: fmt.Sprintf("n%d%s", i, value), Rank: i}, 0
			switch {
			case i < block:
				score = 80
			case i < review:
				score = 50
			}
			f.scores[row.Value] = scores{first: score}
			rows = append(rows, row)
		}
	}
	add(".com", 1200, 6, 2)
	add(".co.uk", 50, 5, 1)
	add(".info", 49, 49, 49)
	d := measure(t, f, rows, eval.Options{}).Types[0]
	var got []string
	for _, g := range append(d.Suffixes, d.TopSites...) {
		got = append(got, fmt.Sprintf("%s: of %d, %d and %d", g.Group, g.Review.N, g.Review.Count, g.Block.Count))
	}
	want := []string{".co.uk: of 50, 5 and 1", ".com: of 1200, 6 and 2",
		fmt.Sprintf("rank 1 to 1,000: of %d, 57 and 49", 1000+49+48)}
	expect.NoDiff(t, "groups with their rows that are reviewed and blocked", want, got)
}

// Categories weigh the same in the recall of threats. Allowed rows have no threat, so they do not count.
func TestThreats(t *testing.T) {
	t.Parallel()
	f := &fakeScorer{scores: map[string]scores{}, threats: map[string]string{}}
	var rows []eval.Row
	add := func(category, threat string, n, first int) {
		for range n {
			row := eval.Row{Type: entity.Domain, Value: fmt.Sprintf("n%d.example", len(rows)), Malicious: true,
				Category: category}
			f.scores[row.Value], f.threats[row.Value] = scores{first: first}, threat
			rows = append(rows, row)
		}
	}
	add("phishing", "phishing", 9, 90)
	add("phishing", "spam", 1, 90)
	add("phishing", "phishing", 7, 0) // allowed
	add("crypto", "investment_scam", 1, 90)
	add("crypto", "scam", 3, 60)
	add("suspect_registration", "phishing", 5, 90) // does not name a crime
	d := measure(t, f, rows, eval.Options{}).Types[0].Threats
	expect.Must(t, d != nil && len(d.Categories) == 2 && near(float64(d.MacroRecall), (.9+.25)/2), "%+v", d)
	c, p := d.Categories[0], d.Categories[1]
	expect.That(t, c.Right.Count == 1 && c.Right.N == 4 && c.Scam == 3 && c.Wrong == 0 && p.Right.Count == 9 &&
		p.Right.N == 10 && p.Wrong == 1, "%+v", d)
}
