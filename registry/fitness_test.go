package registry_test

import (
	"strings"
	"testing"

	"assay/registry"
	"assay/registry/expect"
)

// fit returns a lineup that may be put in force, and its manifests: a required layer that scores all types, and one
// with a setting.
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
