package eval_test

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/host/check"
	"assay/host/entity"
	"assay/host/measure/eval"
	"assay/registry/expect"
)

// table is a scorer with the scores of each layer for each value.
type table struct {
	layers []eval.Layer
	scores map[string][]int
}

func (f table) Score(_ context.Context, field eval.Row) (*check.Decision, error) {
	d := &check.Decision{Type: field.Type}
	for i, l := range f.layers {
		if slices.Contains(l.Types, field.Type) {
			d.Layers = append(d.Layers, check.Outcome{Layer: l.Name, Score: f.scores[field.Value][i]})
		}
	}
	return d, nil
}

// sampleBuilder builds rows and their scores.
type sampleBuilder struct {
	lineup eval.Model
	scores map[string][]int
	rows   []eval.Row
	first  int // number of the first value
}

// newSample returns a builder for a lineup with layers a, b and idle, all for domains and emails.
func newSample() *sampleBuilder {
	layer := func(name string, types ...entity.Type) eval.Layer {
		return eval.Layer{Name: name, Version: "1.0.0", Weight: same(5), Types: types, Style: true}
	}
	both := []entity.Type{entity.Domain, entity.Email}
	return &sampleBuilder{
		lineup: eval.Model{Bias: same(-4), Bands: check.Bands{Review: 40, Block: 70},
			Layers: []eval.Layer{layer("a", both...), layer("b", both...), layer("idle", both...)}},
		scores: map[string][]int{},
	}
}

func (s *sampleBuilder) add(t entity.Type, malicious bool, source string, scores ...int) {
	value := fmt.Sprintf("n%05d.example", s.first+len(s.rows)) // each with letters of its own
	if t == entity.Email {
		value = "a@" + value
	}
	s.scores[value] = append(scores, 0, 0, 0)
	s.rows = append(s.rows, eval.Row{Type: t, Value: value, Malicious: malicious, Source: source})
}

// draw adds n rows whose labels are drawn with log-odds bias + a*scoreA/100 + b*scoreB/100.
func (s *sampleBuilder) draw(random *rand.Rand, t entity.Type, n int, bias, a, b float64) {
	for range n {
		x, y := random.IntN(101), random.IntN(101)
		odds := math.Exp(bias + a*float64(x)/100 + b*float64(y)/100)
		s.add(t, random.Float64() < odds/(1+odds), fmt.Sprint("source", random.IntN(8)), x, y)
	}
}

func (s *sampleBuilder) scored(t *testing.T) []eval.Scored {
	t.Helper()
	return expect.Value(eval.Run(t.Context(), table{s.lineup.Layers, s.scores}, s.lineup, s.rows, 0, nil))(t)
}

func (s *sampleBuilder) fit(t *testing.T, o eval.FitOptions) *eval.Fit {
	t.Helper()
	return expect.Value(eval.FitLineup(s.lineup, s.scored(t), o))(t)
}

// unlimited returns options without limits on false positives.
func unlimited(prevalence float64) eval.FitOptions {
	return eval.FitOptions{L2: 1e-9, Prevalence: prevalence, ReviewFPR: 1, BlockFPR: 1, SuffixFPR: 1}
}

func logit(p float64) float64 { return math.Log(p / (1 - p)) }

// TestFitRecovers checks that the fit recovers the weights of the labels. Only the bias depends on the prevalence.
func TestFitRecovers(t *testing.T) {
	t.Parallel()
	s := newSample()
	s.draw(rand.New(rand.NewPCG(1, 2)), entity.Domain, 3000, -3, 4, 2)
	s.draw(rand.New(rand.NewPCG(3, 4)), entity.Email, 3000, -1, 1, 3)
	for _, prevalence := range []float64{.3, .03} {
		f := s.fit(t, unlimited(prevalence))
		for i, drawn := range []struct{ bias, a, b float64 }{{-3, 4, 2}, {-1, 1, 3}} {
			typed := f.Types[i]
			bias := drawn.bias + logit(prevalence) - logit(float64(typed.Positives)/float64(typed.N))
			expect.That(t, math.Abs(typed.Bias-bias) <= .5 && math.Abs(typed.Weights[0]-drawn.a) <= .5 &&
				math.Abs(typed.Weights[1]-drawn.b) <= .5, "%s at %.2f: bias %v and weights %v, want %.2f, %v and %v",
				typed.Type, prevalence, typed.Bias, typed.Weights, bias, drawn.a, drawn.b)
			expect.That(t, typed.Weights[2] == 5 && slices.Equal(typed.Kept, []string{"idle"}),
				"a layer without scores goes from weight 5 to %v; kept are %v", typed.Weights[2], typed.Kept)
			// The eight sources are alike, so held-out rows are scored as well as those fitted to.
			out, in := float64(typed.OutOfFold.AUC), float64(typed.Fitted.AUC)
			expect.That(t, math.Abs(out-in) <= .01 && in >= .6, "%s: AUC %v, out of fold %v", typed.Type, in, out)
			expect.That(t, typed.Folds == 8 && f.Dropped == 0, "%d folds, %d dropped", typed.Folds, f.Dropped)
		}
	}
}

// A layer with higher scores for benign rows gets weight 0. If its scores clear, it gets the weight of the labels.
func TestFitOfClearing(t *testing.T) {
	t.Parallel()
	s := newSample()
	s.draw(rand.New(rand.NewPCG(11, 12)), entity.Domain, 3000, -1, 4, -3)
	accusing := s.fit(t, unlimited(.4)).Types[0].Weights
	expect.That(t, accusing[1] == 0 && accusing[0] >= 2.5 && accusing[0] <= 5, "weights %v", accusing)
	for _, scores := range s.scores {
		scores[1] = -scores[1]
	}
	w := s.fit(t, unlimited(.4)).Types[0].Weights
	expect.That(t, math.Abs(w[0]-4) <= .5 && math.Abs(w[1]-3) <= .5, "weights %v, want 4 and 3", w)
}

// For fully separated rows the best weights are infinite. The fit stays within the bounds.
func TestFitSeparable(t *testing.T) {
	t.Parallel()
	for _, l2 := range []float64{0, 1e-5} {
		s := newSample()
		for i := range 200 {
			s.add(entity.Domain, i%2 == 0, "", 100*(1-i%2))
		}
		o := unlimited(.03)
		o.L2 = l2
		f := s.fit(t, o).Types[0]
		expect.That(t, f.Weights[0] > 5 && f.Weights[0] <= eval.MaxWeight && f.Bias >= -eval.MaxWeight && f.Bias < -3,
			"l2 %v: bias %v, weights %v", l2, f.Bias, f.Weights)
		expect.That(t, f.Fitted.AUC == 1 && f.OutOfFold.AUC == 1, "AUC %v, out of fold %v", f.Fitted.AUC,
			f.OutOfFold.AUC)
	}
}

// The limits on false positives lower the prevalence of the type with the weaker layer, and not that of the other.
func TestFitMeetsLimits(t *testing.T) {
	t.Parallel()
	s := newSample()
	s.lineup.Layers[0].Types, s.lineup.Layers[1].Types = []entity.Type{entity.Domain}, []entity.Type{entity.Email}
	fullScore := map[bool]int{true: 100}
	for i := range 1000 {
		// detects four of five malicious rows, and flags every tenth benign one
		s.add(entity.Domain, true, "", fullScore[i%5 > 0])
		s.add(entity.Domain, false, "", fullScore[i%10 == 0])
		s.add(entity.Email, true, "", 0, fullScore[i%5 > 0]) // detects as many, and flags no benign row
		s.add(entity.Email, false, "", 0, 0)
	}
	unbounded := s.fit(t, unlimited(.5))
	expect.Must(t, unbounded.Types[0].Fitted.Bands.Review.FPR > .02, "the example is too easy: %+v",
		unbounded.Types[0].Fitted.Bands)
	limited := s.fit(t, eval.FitOptions{L2: 1e-9, Prevalence: .5, ReviewFPR: .02, BlockFPR: .003, SuffixFPR: 1})
	for _, typed := range limited.Types {
		if b := typed.Fitted.Bands; !typed.TargetsMet || b.Review.FPR > .02 || b.Block.FPR > .003 {
			t.Errorf("%s: targets met %t, bands %+v", typed.Type, typed.TargetsMet, b)
		}
	}
	d, e := limited.Types[0], limited.Types[1]
	expect.That(t, d.Prevalence < .5 && e.Prevalence == .5 && e.Fitted.Bands.Block.Recall >= .75,
		"domains at %v, emails at %v with %v blocked", d.Prevalence, e.Prevalence, e.Fitted.Bands.Block.Recall)
}

// A suffix with 50 benign rows may not be flagged more often than allowed, however few rows it is of all.
func TestFitMeetsSuffixLimit(t *testing.T) {
	t.Parallel()
	for n, lower := range map[int]bool{49: false, 60: true} {
		s := newSample()
		for i := range 5000 {
			s.add(entity.Domain, i%2 == 0, "", 100*(1-i%2))
		}
		for i := range n {
			s.add(entity.Domain, false, "", 60*(i%5/4)) // every fifth
			last := &s.rows[len(s.rows)-1]
			s.scores[last.Value+".info"] = s.scores[last.Value]
			last.Value += ".info"
		}
		f := s.fit(t, eval.FitOptions{L2: 1e-9, Prevalence: .99, ReviewFPR: .02, BlockFPR: 1, SuffixFPR: .05}).Types[0]
		review := f.Fitted.Bands.Review
		expect.That(t, f.TargetsMet && (f.Prevalence < .99) == lower && (review.FalsePositives == 0) == lower,
			"%d rows: prevalence %v, bands %+v", n, f.Prevalence, review)
	}
}

// The lineup's limits move weights, those of layers without scores too, and the fit says what that costs.
func TestFitWithinLineupLimits(t *testing.T) {
	t.Parallel()
	s := newSample()
	s.draw(rand.New(rand.NewPCG(1, 2)), entity.Domain, 1000, -3, 4, 2)
	s.lineup.Limits = map[entity.Type][]eval.Limit{entity.Domain: {
		{Name: "a reaches review", Bias: 1, Weights: []float64{.8, 0, 0}, AtLeast: -.4},
		{Name: "b never blocks", Bias: -1, Weights: []float64{0, -1, 0}, AtLeast: -.8},
		{Name: "idle blocks", Bias: 1, Weights: []float64{0, 0, .7}, AtLeast: .8},
	}}
	f := s.fit(t, unlimited(.03)).Types[0]
	w := f.Weights
	expect.That(t, f.Bias+.8*w[0] >= -.4 && f.Bias+w[1] <= .8 && f.Bias+.7*w[2] >= .8,
		"bias %v and weights %v break a limit", f.Bias, w)
	diff := cmp.Diff([]string{"a reaches review", "idle blocks"}, f.Binding)
	expect.That(t, diff == "" && len(f.Broken) == 0 && f.Free.AUC > f.Fitted.AUC,
		"AUC %v, without the limits %v, broken %q (-want +got binding):\n%s", f.Fitted.AUC, f.Free.AUC, f.Broken, diff)
	s.lineup.Limits[entity.Domain][1].AtLeast = 30
	f = s.fit(t, unlimited(.03)).Types[0]
	expect.That(t, slices.Contains(f.Broken, "b never blocks"), "broken %q", f.Broken)
}

// Labels with nothing but scores are fitted to like rows with values.
func TestFitOfLabels(t *testing.T) {
	t.Parallel()
	s := newSample()
	s.draw(rand.New(rand.NewPCG(1, 2)), entity.Domain, 500, -1, 4, 2)
	var labels []eval.Labelled
	for _, r := range s.rows {
		scores := s.scores[r.Value]
		labels = append(labels, eval.Labelled{Type: r.Type, Malicious: r.Malicious, Source: r.Source,
			Scores: map[string]int{"a": scores[0], "b": scores[1]}})
	}
	want := s.fit(t, unlimited(.5))
	got := expect.Value(eval.FitLineup(s.lineup, s.lineup.Scored(labels), unlimited(.5)))(t)
	expect.NoDiff(t, "weights (-values +labels)", want.Types[0].Weights, got.Types[0].Weights)
}

// Fitting some layers keeps the bias and all other weights.
func TestFitOnly(t *testing.T) {
	t.Parallel()
	s := newSample()
	s.draw(rand.New(rand.NewPCG(1, 2)), entity.Domain, 3000, -1, 4, 2)
	o := unlimited(.5)
	o.Only = []string{"b"}
	if f := s.fit(t, o).Types[0]; f.Bias != -4 || f.Weights[0] != 5 || f.Weights[1] == 5 || f.Weights[2] != 5 {
		t.Errorf("bias %v, weights %v", f.Bias, f.Weights)
	}
}

// Cross-validation by source reveals a layer that detects a single source. A dominant source is divided by letters.
func TestFolds(t *testing.T) {
	t.Parallel()
	s := newSample()
	for i := range 400 {
		s.add(entity.Domain, true, "feed", 100)
		s.add(entity.Domain, true, "list", 0, 50*(i%2))
		s.add(entity.Domain, false, "popular", 0, 50*(i%20/19)) // one of twenty
	}
	d := s.fit(t, unlimited(.5)).Types[0]
	expect.That(t, slices.Equal(d.ByLetters, []string{"popular"}) && d.Folds == 2+5, "by letters %v, %d folds",
		d.ByLetters, d.Folds)
	// Without feed, layer a scores no row, and is kept at 5: it is not known to be good.
	expect.That(t, d.Fitted.Recall1 >= .5, "recall %v, out of fold %v", d.Fitted.Recall1, d.OutOfFold.Recall1)
}

// A source that alone has a category is divided by letters: without it, nothing would be known of the category.
func TestFoldsKeepCategories(t *testing.T) {
	t.Parallel()
	s := newSample()
	add := func(malicious bool, source, category string, scores ...int) {
		s.add(entity.Domain, malicious, source, scores...)
		s.rows[len(s.rows)-1].Category = category
	}
	for i := range 300 {
		add(true, "feed", "phishing", 100)
		add(true, "list", "phishing", 100)
		add(true, "disposables", "disposable", 0, 100)
		add(false, fmt.Sprint("popular", i%4), "", 0, 0)
	}
	d := s.fit(t, unlimited(.5)).Types[0]
	expect.That(t, slices.Equal(d.ByLetters, []string{"disposables"}) && d.OutOfFold.Recall1 >= .99,
		"by letters %v, recall out of fold %v", d.ByLetters, d.OutOfFold.Recall1)
}

// Rows of other sources that share six letters with held-out rows do not train their fold.
func TestFoldsDropSisters(t *testing.T) {
	t.Parallel()
	s := newSample()
	for i := range 400 {
		// Layer a reports the names of one campaign, which two lists have. Layer b reports one in ten of them.
		for _, source := range []string{"feed", "list"} {
			s.add(entity.Domain, true, source, 100, 50*(i%10/9))
			last := &s.rows[len(s.rows)-1]
			s.scores["sister"+last.Value], last.Value = s.scores[last.Value], "sister"+last.Value
		}
		s.add(entity.Domain, true, "third", 0, 50)
		s.add(entity.Domain, false, fmt.Sprint("popular", i%4), 20*(i%2), 0)
	}
	s.lineup.Layers[0].Weight = same(0)
	d := s.fit(t, unlimited(.5)).Types[0]
	expect.That(t, d.Fitted.Recall1 > .99 && d.OutOfFold.Recall1 <= .5,
		"recall %v, out of fold %v: the sister names trained the fold", d.Fitted.Recall1, d.OutOfFold.Recall1)
}

func TestFitRejects(t *testing.T) {
	t.Parallel()
	type testCase struct {
		labels []bool
		text   string
	}
	expect.Each(t, map[string]testCase{
		"no rows":   {nil, "no row was scored"},
		"one label": {[]bool{true, true}, "the same label"},
	}, func(t *testing.T, c testCase) {
		s := newSample()
		for _, malicious := range c.labels {
			s.add(entity.Domain, malicious, "", 50)
		}
		expect.ErrorText(t, "error", expect.ErrorOf(eval.FitLineup(s.lineup, s.scored(t), unlimited(.1))), c.text)
	})
}

// Two rows are enough for a fit, even if they are in the same fold.
func TestFitOfTwoRows(t *testing.T) {
	t.Parallel()
	for first := range 30 { // the value determines the fold
		s := newSample()
		s.first = first
		s.add(entity.Domain, true, "", 100)
		s.add(entity.Domain, false, "", 0)
		f := s.fit(t, unlimited(.1)).Types[0]
		expect.That(t, !math.IsNaN(f.Bias) && !slices.ContainsFunc(f.Weights, math.IsNaN) && f.OutOfFold.AUC.Defined(),
			"bias %v, weights %v", f.Bias, f.Weights)
	}
}

// Rows without scores have the same log-odds in all folds.
func TestFoldsShareTheBias(t *testing.T) {
	t.Parallel()
	s := newSample()
	s.lineup.Layers[0].Weight = same(0)
	for i := range 200 {
		s.add(entity.Domain, true, "feed", 100)
		for range 3 {
			s.add(entity.Domain, true, "list", 0)
		}
		s.add(entity.Domain, false, fmt.Sprint("popular", i%4), 0)
	}
	// Without feed, the layer scores no row. Without list, it scores all malicious rows. If each fold fitted its own
	// bias, the malicious rows of list would score lower than benign rows.
	d := s.fit(t, unlimited(.5)).Types[0]
	expect.Equal(t, "AUC", d.Fitted.AUC, .625)
	expect.Equal(t, "AUC out of fold", d.OutOfFold.AUC, .5)
}

func TestFitGolden(t *testing.T) {
	t.Parallel()
	s := newSample()
	for i := range 300 {
		s.add(entity.Domain, true, []string{"feed", "list"}[i%2], 25*(i%5), 20*(i%4))
		s.add(entity.Domain, false, []string{"popular", "plain"}[i%2], 50*(i%20/19), 20*(i%7/5))
	}
	s.lineup.Limits = map[entity.Type][]eval.Limit{entity.Domain: {
		{Name: "a:kind:detail reaches review", Bias: 1, Weights: []float64{.4, 0, 0}, AtLeast: -.4}}}
	f := s.fit(t, eval.FitOptions{L2: 1e-5, Prevalence: .03, ReviewFPR: .02, BlockFPR: .003, SuffixFPR: 1})
	f.Dropped = 1
	var b bytes.Buffer
	expect.NoError(t, f.WriteText(&b))
	golden(t, "fit.txt", b.String())
}
