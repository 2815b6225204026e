package registry_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"assay/registry"
	"assay/registry/expect"
)

func TestLogOddsOf(t *testing.T) {
	t.Parallel()
	score := func(x float64) int { return int(math.Round(100 / (1 + math.Exp(-x)))) }
	for b := 1; b <= 100; b++ {
		x := registry.LogOddsOf(b)
		expect.That(t, score(x+1e-9) == b && score(x-1e-9) == b-1, "a score of %d begins at %v, where it is %d", b, x,
			score(x))
	}
}

// constrained returns a lineup of a finding, a style and a clearing layer for domains and emails, which obeys its
// constraints, with the manifests. Review begins at log-odds of -0.43 and block at 0.82.
func constrained() (registry.LineupDocument, []registry.Manifest) {
	both := []string{"domain", "email"}
	manifests := []registry.Manifest{
		{Name: "lists", Class: registry.Finding, Entities: both, Signals: []registry.SignalText{
			{Code: "lists:seen:near", Text: "Near", Points: 5},
			{Code: "lists:seen:old", Text: "Old", Points: 53, Warrants: "review"},
			{Code: "lists:seen:parent", Text: "Parent", Points: 75, Warrants: "block"},
			{Code: "lists:seen:exact", Text: "Exact", Points: 100, Warrants: "block", Final: true},
		}},
		{Name: "spelling", Entities: both, ScoreRange: &[2]int{-20, 80}},
		{Name: "age", Class: registry.Clearing, Entities: both, ScoreRange: &[2]int{-100, 0}},
	}
	lineup := registry.LineupDocument{
		Bias: registry.ForAll(-4), Bands: registry.Bands{Review: 40, Block: 70}, Layers: []registry.LineupLayer{
			{Layer: "lists@1.0.0", Weight: registry.ForAll(9)},
			{Layer: "spelling@1.0.0", Weight: registry.ForAll(5)},
			{Layer: "age@1.0.0", Weight: registry.ForAll(3)},
		},
	}
	return lineup, manifests
}

func TestConstraints(t *testing.T) {
	t.Parallel()
	floor := -10
	type testCase struct {
		edit   func(l *registry.LineupDocument, m []registry.Manifest)
		broken []string // the beginning of each broken constraint
	}
	expect.Each(t, map[string]testCase{
		"none broken": {func(*registry.LineupDocument, []registry.Manifest) {}, nil},
		"style alone blocks": {func(l *registry.LineupDocument, _ []registry.Manifest) {
			l.Layers[1].Weight = registry.ForAll(6.2) // -4 + 6.2*0.8 = 0.96
			l.Layers[0].Weight = registry.ForAll(9.09)
		}, []string{
			"domain: style must not block alone, but with the highest scores of all style layers the log-odds are " +
				"0.96 (a score of 72), and block begins at 0.82", "email: style must not block alone"}},
		"style that has proved itself": {func(l *registry.LineupDocument, m []registry.Manifest) {
			l.Layers[1].Weight, m[1].Blocks = registry.ForAll(6.2), &registry.Proof{From: 75}
			l.Layers[0].Weight = registry.ForAll(9.09)
		}, nil},
		"a review that blocks": {func(l *registry.LineupDocument, _ []registry.Manifest) {
			l.Layers[0].Weight = registry.ForAll(9.2) // -4 + 9.2*0.53 = 0.88
		}, []string{"domain: lists:seen:old of lists@1.0.0 warrants review, but with neutral style the log-odds are " +
			"0.88 (a score of 71), and block begins at 0.82; the largest weight of lists@1.0.0 that keeps it below " +
			"is 9.1", "email: lists:seen:old"}},
		"style blocks one type": {func(l *registry.LineupDocument, _ []registry.Manifest) {
			l.Layers[1].Weight = registry.ByType{"domain": 5, "email": 6.2}
			l.Layers[0].Weight = registry.ForAll(9.09)
		}, []string{"email: style must not block alone"}},
		"a bias by type": {func(l *registry.LineupDocument, _ []registry.Manifest) {
			l.Bias = registry.ByType{"domain": -4, "email": -5.3, "phone": -4, "iban": -4}
		}, []string{"email: lists:seen:old of lists@1.0.0 warrants review", "email: lists:seen:parent",
			"email: lists:seen:exact"}},
		"a finding that does not reach its band": {func(_ *registry.LineupDocument, m []registry.Manifest) {
			m[0].Signals[1].Points = 50 // -4 + 4.5 - 1 = -0.5
		}, []string{"domain: lists:seen:old of lists@1.0.0 warrants review, but with the lowest scores of all style " +
			"layers the log-odds are -0.50 (a score of 38), and review begins at -0.43", "email: lists:seen:old"}},
		"style that does not lower": {func(_ *registry.LineupDocument, m []registry.Manifest) {
			m[0].Signals[1].Points, m[1].ScoreRange = 50, nil // -4 + 4.5 = 0.5, and 100 points of style make 1
		}, []string{"domain: style must not", "email: style must not"}},
		"clearing outweighs a final finding": {func(l *registry.LineupDocument, _ []registry.Manifest) {
			l.Layers[2].Weight = registry.ForAll(3.2) // -4 + 9 - 1 - 3.2 = 0.8
		}, []string{"domain: lists:seen:exact of lists@1.0.0 warrants block, but with the lowest scores of all style " +
			"layers and all clearing layers the log-odds are 0.80", "email: lists:seen:exact"}},
		"a floor on clearing": {func(l *registry.LineupDocument, _ []registry.Manifest) {
			l.Layers[2].Weight, l.Layers[2].Floor = registry.ForAll(20), &floor
		}, nil},
		"layers of weight 0": {func(l *registry.LineupDocument, m []registry.Manifest) {
			l.Layers[0].Weight, m[0].Signals[3].Points = registry.ForAll(0), 1
			l.Layers[1].Weight = registry.ForAll(20)
		}, nil},
		"no findings": {func(_ *registry.LineupDocument, m []registry.Manifest) {
			m[0].Class, m[0].Signals = registry.Style, nil
		}, nil},
		"findings for one type": {func(l *registry.LineupDocument, m []registry.Manifest) {
			l.Layers[1].Weight = registry.ForAll(6.2)
			l.Layers[0].Weight = registry.ForAll(9.09)
			m[0].Entities = []string{"email"}
		}, []string{"email: style must not block alone"}},
		"layers that do not count": {func(l *registry.LineupDocument, m []registry.Manifest) {
			l.Layers[1].Weight, l.Layers[1].Mode = registry.ForAll(20), registry.ModeShadow
			l.Layers[2].Weight, l.Layers[2].Mode = registry.ForAll(20), registry.ModeOff
		}, nil},
	}, func(t *testing.T, c testCase) {
		l, m := constrained()
		c.edit(&l, m)
		var broken []string
		for _, constraint := range registry.Constraints(l, m) {
			sum := l.Bias.For(constraint.Type)
			for i, coefficient := range constraint.Coefficients {
				sum += coefficient * l.Layers[i].Weight.For(constraint.Type)
			}
			expect.That(t, math.Abs(sum-constraint.LogOdds) <= 1e-9, "the coefficients of %s amount to %v",
				constraint, sum)
			if constraint.Slack() < 0 {
				broken = append(broken, constraint.String())
				leastSuffices(t, l, m, constraint)
			}
		}
		expect.That(t, slices.EqualFunc(broken, c.broken, strings.HasPrefix), "broken:\n%s\nwant:\n%s",
			strings.Join(broken, "\n"), strings.Join(c.broken, "\n"))
		err := l.CheckConstraints(m)
		expect.That(t, (err != nil) == (len(c.broken) > 0), "checked with %v", err)
	})
}

// leastSuffices checks that the weight which a broken constraint names suffices, and that the next one does not.
func leastSuffices(t *testing.T, l registry.LineupDocument, m []registry.Manifest, c registry.Constraint) {
	t.Helper()
	if c.Signal == "" {
		return
	}
	named, next := c.Least, c.Least-0.01
	if c.Below {
		named, next = c.Most, c.Most+0.01
	}
	for weight, suffices := range map[float64]bool{named: true, next: false} {
		changed := *l.Layer("lists")
		changed.Weight = registry.ForAll(weight)
		short := slices.ContainsFunc(registry.Constraints(l.With(changed), m), func(other registry.Constraint) bool {
			return other.Type == c.Type && other.Layer == c.Layer && other.Slack() < 0
		})
		expect.Equal(t, fmt.Sprint(c, ": whether ", weight, " suffices"), !short, suffices)
	}
}

// A layer that could not be live with its weight says so while it is in shadow.
func TestNeededWeight(t *testing.T) {
	t.Parallel()
	l, manifests := constrained()
	l.Layers[0].Mode = registry.ModeShadow
	expect.Equal(t, "heavy enough", l.NeededWeight(l.Layers[0], manifests), "")
	l.Layers[0].Weight = registry.ForAll(2)
	expect.Equal(t, "too light", l.NeededWeight(l.Layers[0], manifests), "lists@1.0.0 has the weight 2; to be "+
		"live, it needs at least domain 8.83, email 8.83 and at most domain 9.1, email 9.1, so that its signals reach "+
		"what they warrant and no more")
	expect.Equal(t, "another layer", l.NeededWeight(l.Layers[1], manifests), "")
}

// The error is short although many signals of a layer may fall short at once.
func TestCheckConstraints(t *testing.T) {
	t.Parallel()
	l, manifests := constrained()
	l.Bands = registry.Bands{Review: 62, Block: 90}
	manifests[0].Signals = append(manifests[0].Signals, registry.SignalText{Code: "lists:seen:often", Text: "Often",
		Points: 70, Warrants: "block"})
	l.Bias = registry.ByType{"domain": -4, "email": 0, "phone": -4, "iban": -4}
	err := l.CheckConstraints(manifests)
	want := "checking the lineup against what its layers' signals warrant:\n" +
		"domain: lists:seen:old of lists@1.0.0 warrants review, but with the lowest scores of all style layers the " +
		"log-odds are -0.23 (a score of 44), and review begins at 0.47; the smallest weight of lists@1.0.0 that " +
		"suffices is 10.32\n" +
		"domain: lists:seen:exact of lists@1.0.0 warrants block, but with the lowest scores of all style layers and " +
		"all clearing layers the log-odds are 1.00 (a score of 73), and block begins at 2.14; the smallest weight of " +
		"lists@1.0.0 that suffices is 10.32; signals of the layer that break this rule: 3\n" +
		"email: style must not block alone, but with the highest scores of all style layers the log-odds are 4.00 (a " +
		"score of 98), and block begins at 2.14\n" +
		"email: lists:seen:old of lists@1.0.0 warrants review, but with neutral style the log-odds are 4.77 (a score " +
		"of 99), and block begins at 2.14; no weight of lists@1.0.0 suffices: it would have to be at least 6.15 and " +
		"at most 4.04"
	expect.That(t, err != nil && err.Error() == want, "got %v\nwant %s", err, want)

	l.Bias, manifests[0].Signals[4].Points = registry.ForAll(-2.5), 60 // old is too strong, and often too weak
	err = l.CheckConstraints(manifests)
	expect.That(t, err != nil && strings.Count(err.Error(), "\n") == 4 && !strings.Contains(err.Error(), "break this"),
		"too strong and too weak together: %v", err)
}

// fit returns a lineup that may be put in force, of a required layer and one with a setting, and its manifests.
func fit() (registry.LineupDocument, []registry.Manifest) {
	l := registry.LineupDocument{
		Bias: registry.ForAll(-3), Bands: registry.Bands{Review: 40, Block: 70}, Layers: []registry.LineupLayer{
			{Layer: "lists@1.0.0", Weight: registry.ForAll(5), Required: true},
			{Layer: "hours@1.0.0", Weight: registry.ForAll(1), Config: map[string]string{"zone": "UTC"}},
		},
	}
	types := []string{"domain", "email", "phone", "iban"}
	return l, []registry.Manifest{
		{Name: "lists", Version: "1.0.0", Entities: types, BudgetFuel: 5000},
		{Name: "hours", Version: "1.0.0", Entities: types, BudgetFuel: 5000, Facts: []string{"config.zone"}},
	}
}

func TestFitness(t *testing.T) {
	t.Parallel()
	type testCase struct {
		edit func(l *registry.LineupDocument, m []registry.Manifest)
		want []string // nil: fit
	}
	expect.Each(t, map[string]testCase{
		"fit": {func(*registry.LineupDocument, []registry.Manifest) {}, nil},
		"one layer of weight 0": {func(l *registry.LineupDocument, _ []registry.Manifest) {
			l.Layers = l.Layers[:1]
			l.Layers[0].Weight = registry.ForAll(0)
		}, []string{"domain: no required layer alone can reach review, which begins at a score of 40",
			"iban: the highest score is 5, so nothing reaches block, which begins at 70"}},
		"nothing is required": {func(l *registry.LineupDocument, _ []registry.Manifest) {
			l.Layers[0].Required = false
		}, []string{"domain: no required", "email: no required", "phone: no required", "iban: no required"}},
		"nothing is required for a type": {func(_ *registry.LineupDocument, m []registry.Manifest) {
			m[0].Entities = []string{"domain", "phone", "iban"}
		}, []string{"email: no required", "email: the highest score is 12"}},
		"only together": {func(l *registry.LineupDocument, _ []registry.Manifest) {
			l.Layers[0].Weight, l.Layers[1].Weight = registry.ForAll(2), registry.ForAll(3)
		}, []string{"domain: no required", "email: no required", "phone: no required", "iban: no required"}},
		"a shadow layer does not reach": {func(l *registry.LineupDocument, m []registry.Manifest) {
			l.Layers[1].Weight, l.Layers[1].Mode = registry.ForAll(20), registry.ModeShadow
			l.Layers[0].Weight = registry.ForAll(3.5)
		}, []string{"domain: the highest score is 62", "email: the highest", "phone: the highest", "iban: "}},
		"a range that ends early": {func(_ *registry.LineupDocument, m []registry.Manifest) {
			m[0].ScoreRange = &[2]int{-20, 40}
		}, []string{"domain: no required", "domain: the highest score is 50", "email: ", "email: ",
			"phone: ", "phone: ", "iban: ", "iban: "}},
		"a setting that no layer reads": {func(l *registry.LineupDocument, _ []registry.Manifest) {
			l.Layers[1].Config = map[string]string{"zone": "UTC", "Zone": "UTC"}
			l.Layers[0].Config = map[string]string{"strict": "yes"}
		}, []string{`config of lists@1.0.0 sets "strict", which the layer does not read; it reads none`,
			`config of hours@1.0.0 sets "Zone", which the layer does not read; it reads zone`}},
		"more fuel than the manifest's": {func(l *registry.LineupDocument, _ []registry.Manifest) {
			l.Layers[0].Fuel, l.Layers[1].Fuel = 5001, 5000
		}, []string{"fuel of lists@1.0.0 is 5001, outside 1000 to 5000, its manifest's budget"}},
		"too little fuel": {func(l *registry.LineupDocument, _ []registry.Manifest) { l.Layers[1].Fuel = 999 },
			[]string{"fuel of hours@1.0.0 is 999"}},
		"style that blocks": {func(_ *registry.LineupDocument, m []registry.Manifest) {
			m[1].Class, m[1].Signals = registry.Finding, nil
			m[0].Entities = m[0].Entities[:1]
		}, []string{"style must not block alone", "email: no required", "email: the highest"}},
	}, func(t *testing.T, c testCase) {
		l, m := fit()
		c.edit(&l, m)
		err := l.CheckFitness(m)
		expect.Must(t, (err != nil) == (c.want != nil), "checked with %v, want %q", err, c.want)
		for _, want := range c.want {
			expect.That(t, strings.Contains(err.Error(), want), "%v\nlacks %q", err, want)
		}
	})
}
