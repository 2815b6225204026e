package check_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"assay/host/check"
	"assay/registry/expect"
)

var bands = check.Bands{Review: 40, Block: 70}

// full is the range of a layer whose manifest gives none.
var full = check.Range{0, 100}

// logOdds is the inverse of the logistic function.
func logOdds(p float64) float64 { return math.Log(p / (1 - p)) }

// scored is the outcome of a layer that returned a score.
func scored(layer string, weight float64, score int) check.Outcome {
	return check.Outcome{Layer: layer, Weight: weight, Score: score, Contribution: weight * float64(score) / 100}
}

// failed is the outcome of a layer that failed.
func failed(layer string, weight float64, required bool) check.Outcome {
	return check.Outcome{Layer: layer, Weight: weight, Range: full, Required: required, Failure: check.Trap}
}

func sig(points int, code string) check.Signal {
	return check.Signal{Points: points, Code: code, Text: "x"}
}

func TestBandsBeginAtTheirScores(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		p       float64
		score   int
		verdict check.Verdict
	}{
		{"certainly good", 1e-9, 0, check.Allow}, {"rounds down to allow", .3949, 39, check.Allow},
		{"rounds up to review", .3951, 40, check.Review}, {"rounds up to block", .6951, 70, check.Block},
		{"first of block", .70, 70, check.Block}, {"certainly bad", 1 - 1e-9, 100, check.Block},
	} {
		want := check.Fused{Score: c.score, Lowest: c.score, Highest: c.score, Verdict: c.verdict,
			Signals: []check.Signal{}}
		expect.NoDiff(t, c.name+": as the bias", want, check.Fuse(logOdds(c.p), bands, nil))
		// The same log-odds from a layer instead.
		got := check.Fuse(-20, bands, []check.Outcome{scored("a", 20+logOdds(c.p), 100)})
		expect.That(t, got.Score == c.score && got.Verdict == c.verdict, "%s: as a contribution: %d %s, want %d %s",
			c.name, got.Score, got.Verdict, c.score, c.verdict)
	}
}

func TestScoreStaysWithinItsRange(t *testing.T) {
	t.Parallel()
	for _, x := range []float64{0, -0.5, 36, -37, 709, -709, 710, -710, 745, -746, math.MaxFloat64, -math.MaxFloat64,
		math.Inf(1), math.Inf(-1)} {
		got, want := check.Fuse(x, bands, nil).Score, 100
		if x == 0 {
			want = 50
		} else if x < 0 {
			want = int(math.Round(50 * (1 + math.Tanh(x/2))))
		}
		expect.Equal(t, fmt.Sprint("score of log-odds ", x), got, want)
	}
}

// TestFuseProperties has more.
func TestFailedLayer(t *testing.T) {
	t.Parallel()
	low, high := logOdds(.10), logOdds(.80) // a failed layer of weight 4 could raise the first to 86
	type outcomes = []check.Outcome
	type testCase struct {
		bias                   float64
		outcomes               outcomes
		score, lowest, highest int
		verdict                check.Verdict
		failed                 []string
	}
	expect.Each(t, map[string]testCase{
		"required, could change the verdict": {low, outcomes{failed("a", 4, true)}, 40, 10, 86, check.Review,
			[]string{"a"}},
		"required, block without it": {low, outcomes{failed("a", 4, true), scored("b", 4, 100)}, 86, 86, 100,
			check.Block, []string{"a"}},
		"required, could change the verdict together with an optional one": {low,
			outcomes{failed("a", 1, true), failed("b", 1, false)}, 40, 10, 45, check.Review, []string{"a", "b"}},
		"could have cleared a block": {high,
			outcomes{{Layer: "a", Weight: 2, Range: check.Range{-100, 0}, Failure: check.Trap}}, 69, 35, 80,
			check.Review, []string{"a"}},
		"abstaining is not failing": {low, outcomes{{Layer: "a", Weight: 4, Required: true, Abstained: true}}, 10, 10,
			10, check.Allow, nil},
	}, func(t *testing.T, c testCase) {
		want := check.Fused{Score: c.score, Lowest: c.lowest, Highest: c.highest, Verdict: c.verdict,
			Signals: []check.Signal{}}
		for _, layer := range c.failed {
			want.Signals = append(want.Signals, check.Signal{Code: "host:degraded:" + layer,
				Text: fmt.Sprintf("Assay: The %s layer failed; with it, the score would be between %d and %d",
					layer, c.lowest, c.highest)})
		}
		same(t, want, check.Fuse(c.bias, bands, c.outcomes))
	})
}

func codes(signals []check.Signal) []string {
	all := make([]string, len(signals))
	for i, s := range signals {
		all[i] = s.Code
	}
	return all
}

func TestSignalsAreOrderedByTheirWeight(t *testing.T) {
	t.Parallel()
	light, heavy := scored("light", 1, 60), scored("heavy", 3, 40)
	light.Signals = []check.Signal{sig(50, "light:a:50"), sig(0, "light:a:0"), sig(-10, "light:a:-10"),
		sig(20, "light:a:20")}
	heavy.Signals = []check.Signal{sig(10, "heavy:a:10"), sig(30, "heavy:a:30"), sig(30, "heavy:b:30"),
		sig(-30, "heavy:a:-30")}
	want := []string{
		"heavy:a:30", "heavy:b:30", "light:a:50", "heavy:a:10", "light:a:20", "light:a:-10", "heavy:a:-30",
	} // by points times weight: 90, 90 (as given), 50, 30, 20, -10, -90; the one worth no points is left out
	same(t, want, codes(check.Fuse(0, bands, []check.Outcome{light, heavy}).Signals))
}

// A customer never hears of a layer that weighs nothing, such as one on trial: neither its signals nor its failure.
func TestWeightlessLayersAreSilent(t *testing.T) {
	t.Parallel()
	trial := check.Outcome{Layer: "trial", Weight: 0, Score: 100, Threat: "phishing",
		Signals: []check.Signal{sig(100, "trial:a:100"), sig(-100, "trial:a:-100")}}
	heavy := scored("heavy", 3, 40)
	heavy.Signals = []check.Signal{sig(40, "heavy:a:40")}
	for name, bias := range map[string]float64{"allow": -10, "review": 0, "block": 10} {
		for _, weightless := range []check.Outcome{trial, failed("trial", 0, true)} {
			got := check.Fuse(bias, bands, []check.Outcome{weightless, heavy})
			expect.NoDiff(t, name+", without and with", check.Fuse(bias, bands, []check.Outcome{heavy}), got)
		}
	}
}

// A signal is left out next to one that it would contradict, unless that one clears or the entity is allowed.
func TestSignalsThatYield(t *testing.T) {
	t.Parallel()
	ordinary := sig(-20, "style:name:ordinary")
	ordinary.YieldsTo = []string{"brand:", "list:a:b"}
	type testCase struct {
		bias  float64
		other check.Signal
		told  bool
	}
	expect.Each(t, map[string]testCase{
		"a layer that it yields to":   {5, sig(20, "brand:name:typo"), false},
		"a code that it yields to":    {5, sig(20, "list:a:b"), false},
		"a longer code":               {5, sig(20, "list:a:bc"), true},
		"another layer":               {5, sig(20, "brands:name:typo"), true},
		"a signal that clears":        {5, sig(-20, "brand:name:own"), true},
		"a signal of an allowed name": {-5, sig(20, "brand:name:typo"), true},
	}, func(t *testing.T, c testCase) {
		style, other := scored("style", 2, -20), scored("other", 2, c.other.Points)
		style.Signals, other.Signals = []check.Signal{ordinary}, []check.Signal{c.other}
		got := check.Fuse(c.bias, bands, []check.Outcome{style, other})
		expect.Equal(t, "the signal is told", slices.Contains(codes(got.Signals), ordinary.Code), c.told)
	})
}

// Signals that yield to themselves or to each other are told: a block without its reasons helps nobody.
func TestSignalsThatYieldInCircles(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 3; n++ {
		var circle []check.Outcome
		for i := range n {
			s := sig(20, fmt.Sprintf("l%d:a:b", i))
			s.YieldsTo = []string{fmt.Sprintf("l%d:", (i+1)%n)}
			circle = append(circle, check.Outcome{Layer: "l", Weight: 2, Score: 20, Signals: []check.Signal{s}})
		}
		expect.Equal(t, "signals told", len(check.Fuse(5, bands, circle).Signals), n)
	}
}

// A layer may emit a signal that yields to many codes often: each code is looked up once. All comparisons would take
// longer than a test may.
func TestSignalsThatYieldToMany(t *testing.T) {
	t.Parallel()
	many := scored("many", 2, 20)
	odd := sig(20, "style:name:odd")
	odd.YieldsTo = slices.Repeat([]string{"t:"}, 100_000)
	many.Signals = slices.Repeat([]check.Signal{odd}, 64)
	expect.Equal(t, "signals", len(check.Fuse(5, bands, slices.Repeat([]check.Outcome{many}, 16)).Signals), 16*64)
}

// Light signals are left out for an allow verdict only.
func TestLightSignals(t *testing.T) {
	t.Parallel()
	a := scored("a", 5, 14)
	a.Signals = []check.Signal{sig(4, "a:x:slight"), sig(5, "a:x:enough"), sig(-4, "a:x:slightly_good"),
		sig(-5, "a:x:good")}
	clearing := scored("age", 4, -80)
	clearing.Signals = []check.Signal{sig(-30, "age:x:popular"), sig(-50, "age:x:registered")}
	type testCase struct {
		bias float64
		with []check.Outcome
		want []string
	}
	expect.Each(t, map[string]testCase{
		"allowed": {logOdds(.10), nil, []string{"a:x:enough", "a:x:good"}},
		"cleared": {logOdds(.80), []check.Outcome{clearing},
			[]string{"age:x:registered", "age:x:popular", "a:x:enough", "a:x:good"}},
		"reviewed": {logOdds(.50), nil, []string{"a:x:enough", "a:x:slight", "a:x:slightly_good", "a:x:good"}},
	}, func(t *testing.T, c testCase) {
		same(t, c.want, codes(check.Fuse(c.bias, bands, append(c.with, a)).Signals))
	})
}

func TestDominantThreat(t *testing.T) {
	t.Parallel()
	// says returns the outcome of a layer whose score is the sum of its signals' points, held to 0 to 100.
	says := func(weight float64, threat string, signals ...check.Signal) check.Outcome {
		sum := 0
		for _, s := range signals {
			sum += s.Points
		}
		o := scored("a", weight, min(max(sum, 0), 100))
		o.Threat, o.Signals = threat, signals
		return o
	}
	point := func(points int, threat string) check.Signal {
		return check.Signal{Points: points, Code: "a:b:c", Text: "x", Threat: threat}
	}
	for _, c := range []struct {
		name     string
		outcomes []check.Outcome
		want     string
	}{
		{"higher score", []check.Outcome{says(3, "spam", point(50, "")), says(3, "phishing", point(90, ""))},
			"phishing"},
		{"higher contribution", []check.Outcome{says(6, "spam", point(50, "")), says(3, "phishing", point(90, ""))},
			"spam"},
		{"first by name of equal evidence", []check.Outcome{says(3, "spam", point(80, "")),
			says(3, "phishing", point(80, ""))}, "phishing"},
		{"a signal's own category counts, not the layer's", []check.Outcome{
			says(3, "phishing", point(60, "investment_scam"), point(30, ""))}, "investment_scam"},
		{"two layers together outweigh a third", []check.Outcome{says(3, "phishing", point(90, "")),
			says(3, "", point(50, "malware")), says(3, "malware", point(50, ""))}, "malware"},
		{"the points share a score that is held", []check.Outcome{
			says(3, "", point(100, "phishing"), point(90, ""), point(90, "")), says(3, "", point(50, "spam"))}, "spam"},
		{"reassuring points take from all", []check.Outcome{says(3, "phishing", point(90, ""), point(-60, "")),
			says(3, "", point(40, "spam"))}, "spam"},
		{"a layer whose points cancel out", []check.Outcome{says(3, "phishing", point(50, ""), point(-80, "")),
			scored("b", 6, 90)}, ""},
		{"the heaviest layer names none", []check.Outcome{says(6, "", point(90, "")), says(3, "phishing",
			point(70, ""))}, "phishing"},
		{"little evidence of any category", []check.Outcome{says(6, "", point(90, "")), says(3, "phishing",
			point(10, ""))}, "scam"},
		{"none named", []check.Outcome{says(6, "", point(90, ""))}, ""},
		{"allow verdict", []check.Outcome{says(1, "spam", point(50, ""))}, ""},
		{"raised to review", []check.Outcome{says(1, "spam", point(50, "")), failed("b", 6, true)}, "spam"},
	} {
		expect.Equal(t, c.name+": threat", check.Fuse(logOdds(.20), bands, c.outcomes).Threat, c.want)
	}
}

// randomOutcomes returns outcomes, some of them weightless, abstaining, failed or required.
func randomOutcomes(r *rand.Rand) []check.Outcome {
	outcomes := make([]check.Outcome, r.IntN(9))
	for i := range outcomes {
		name, weight := fmt.Sprintf("l%d", i), r.Float64()*20*float64(r.IntN(4))/3
		switch r.IntN(5) {
		case 0:
			outcomes[i] = failed(name, weight, r.IntN(2) == 0)
			outcomes[i].Range = check.Range{-r.IntN(101), r.IntN(101)}
		case 1:
			outcomes[i] = check.Outcome{Layer: name, Weight: weight, Abstained: true, Required: r.IntN(2) == 0}
		default:
			outcomes[i] = scored(name, weight, r.IntN(201)-100)
			outcomes[i].Required = r.IntN(2) == 0
			for range r.IntN(4) {
				outcomes[i].Signals = append(outcomes[i].Signals, check.Signal{Points: r.IntN(201) - 100,
					Code: fmt.Sprint("a:b:", r.IntN(99))})
			}
			if r.IntN(2) == 0 {
				outcomes[i].Threat = "spam"
			}
		}
	}
	return outcomes
}

func TestFuseProperties(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	raised, lowered := 0, 0
	for i := range 400 {
		bias, outcomes, review := r.Float64()*40-20, randomOutcomes(r), 1+r.IntN(99)
		bands := check.Bands{Review: review, Block: review + 1 + r.IntN(100-review)}
		before := slices.Clone(outcomes)
		for i := range before {
			before[i].Signals = slices.Clone(before[i].Signals)
		}
		f := check.Fuse(bias, bands, outcomes)
		expect.NoDiff(t, fmt.Sprint("results of two calls for lineup ", i), f, check.Fuse(bias, bands, outcomes))
		expect.NoDiff(t, fmt.Sprint("the argument of Fuse for lineup ", i), before, outcomes)
		switch p := consistent(t, i, bias, bands, outcomes, f); {
		case f.Score > p:
			raised++
		case f.Score < p:
			lowered++
		}
		for layer := range outcomes {
			switch o := outcomes[layer]; {
			case o.Abstained:
			case o.Failure != "":
				bounded(t, i, bias, bands, outcomes, layer)
			default:
				monotone(t, i, bias, bands, outcomes, layer)
			}
		}
	}
	expect.That(t, raised != 0 && lowered != 0,
		"for a failed layer, %d scores of the random lineups are raised and %d lowered", raised, lowered)
}

// consistent checks the result against an independent implementation, and returns the score of the layers' sum.
func consistent(t *testing.T, i int, bias float64, bands check.Bands, outcomes []check.Outcome, f check.Fused) int {
	t.Helper()
	sum, least, most, required := bias, bias, bias, false
	for _, o := range outcomes {
		points := o.Weight * float64(o.Score) / 100
		sum, least, most = sum+points, least+points, most+points
		if o.Failure != "" {
			least += o.Weight * float64(o.Range[0]) / 100
			most += o.Weight * float64(o.Range[1]) / 100
			required = required || o.Required
		}
	}
	at := func(x float64) int { return int(math.Round(50 * (1 + math.Tanh(x/2)))) }
	low, high := at(least), at(most)
	expect.Must(t, f.Lowest == low && f.Highest == high, "lineup %d: bounds %d to %d, want %d to %d", i, f.Lowest,
		f.Highest, low, high)
	want := at(sum)
	switch {
	case want >= bands.Block && low < bands.Block:
		want = bands.Block - 1
	case required && want < bands.Review && high >= bands.Review:
		want = bands.Review
	}
	expect.Must(t, f.Score == want && f.Score >= low && f.Score <= high && f.Verdict == bands.Verdict(f.Score),
		"lineup %d: score %d is %s, want %d within %d to %d", i, f.Score, f.Verdict, want, low, high)
	return at(sum)
}

// monotone checks that nothing falls while one layer's score rises.
func monotone(t *testing.T, i int, bias float64, bands check.Bands, outcomes []check.Outcome, layer int) {
	t.Helper()
	steps := slices.Clone(outcomes)
	var last check.Fused
	for score := -100; score <= 100; score++ {
		steps[layer].Score, steps[layer].Contribution = score, steps[layer].Weight*float64(score)/100
		next := check.Fuse(bias, bands, steps)
		expect.Must(t, score <= -100 || next.Score >= last.Score && next.Lowest >= last.Lowest &&
			next.Highest >= last.Highest, "lineup %d: layer %d at %d gives %+v after %+v", i, layer, score, next, last)
		last = next
	}
}

// bounded checks that a failed layer, had it answered, would have kept the score within Lowest and Highest.
func bounded(t *testing.T, i int, bias float64, bands check.Bands, outcomes []check.Outcome, layer int) {
	t.Helper()
	without, answered := check.Fuse(bias, bands, outcomes), slices.Clone(outcomes)
	lowest, highest := outcomes[layer].Range[0], outcomes[layer].Range[1]
	for _, score := range []int{lowest, lowest / 2, 0, highest / 2, highest} {
		answered[layer] = scored(outcomes[layer].Layer, outcomes[layer].Weight, score)
		with := check.Fuse(bias, bands, answered)
		expect.Must(t, with.Lowest >= without.Lowest && with.Highest <= without.Highest,
			"lineup %d: layer %d scoring %d gives %d to %d, outside %d to %d", i, layer, score, with.Lowest,
			with.Highest, without.Lowest, without.Highest)
	}
}

func TestWeightMeans(t *testing.T) {
	t.Parallel()
	const weight = 1.3
	odds := func(score int) float64 {
		p := 1 / (1 + math.Exp(-weight*float64(score)/100))
		return p / (1 - p)
	}
	expect.Equal(t, "the example", check.WeightMeans,
		fmt.Sprintf("A weight of %v: a score of 100 adds %[1]v log-odds, odds times %.1f.", weight, odds(100)/odds(0)))
}
