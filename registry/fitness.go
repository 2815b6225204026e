package registry

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// CheckFitness returns an error that lists all reasons not to put the lineup in force, although its layers can be
// loaded. manifests has the manifest of each layer of the lineup.
func (l LineupDocument) CheckFitness(manifests []Manifest) error {
	return errors.Join(l.checkLayers(manifests), l.checkReach(manifests), l.CheckConstraints(manifests))
}

// checkLayers checks each layer against its manifest. A setting that the layer does not read must be misspelt.
func (l LineupDocument) checkLayers(manifests []Manifest) error {
	var errs []error
	for i, item := range l.Layers {
		var known []string
		for _, fact := range manifests[i].Facts {
			if name, ok := strings.CutPrefix(fact, "config."); ok {
				known = append(known, name)
			}
		}
		for _, name := range sortedKeys(item.Config) {
			if !slices.Contains(known, name) {
				errs = append(errs, fmt.Errorf("config of %s sets %q, which the layer does not read; it reads %s",
					item.Layer, name, cmp.Or(strings.Join(known, ", "), "none")))
			}
		}
		if budget := manifests[i].BudgetFuel; item.Fuel != 0 && (item.Fuel < MinBudget || item.Fuel > budget) {
			errs = append(errs, fmt.Errorf("fuel of %s is %d, outside %d to %d, its manifest's budget", item.Layer,
				item.Fuel, MinBudget, budget))
		}
	}
	return errors.Join(errs...)
}

// checkReach checks that the lineup can tell fraud from honest values of each type: a required layer alone can reach
// review, so that no failure of others hides all evidence, and all layers together can reach block.
func (l LineupDocument) checkReach(manifests []Manifest) error {
	review, block := LogOddsOf(l.Bands.Review), LogOddsOf(l.Bands.Block)
	var errs []error
	for _, t := range entityTypes {
		all, alone := l.Bias.For(t), false
		for i, item := range l.Layers {
			if item.Runs() != ModeLive || !manifests[i].scores(t) {
				continue
			}
			_, highest := item.Range(manifests[i])
			most := item.Weight.For(t) * float64(highest) / 100
			all += most
			alone = alone || item.Required && l.Bias.For(t)+most >= review
		}
		if !alone {
			errs = append(errs, fmt.Errorf("%s: no required layer alone can reach review, which begins at a score of "+
				"%d", t, l.Bands.Review))
		}
		if all < block {
			errs = append(errs, fmt.Errorf("%s: the highest score is %d, so nothing reaches block, which begins at %d",
				t, scoreAt(all), l.Bands.Block))
		}
	}
	return errors.Join(errs...)
}

// Proof shows how rarely a style layer gives honest values of any kind a score that blocks. The layer's signature
// covers the proof.
type Proof struct {
	From   int      `json:"from"`   // the lowest score that may block
	Honest []Proven `json:"honest"` // values that neither trained the layer nor chose From
}

// Proven is one kind of honest values of a [Proof].
type Proven struct {
	Kind    string `json:"kind"`
	Names   int    `json:"names"`
	Reached int    `json:"reached"` // how many have the score From or more
}

// Limits of a [Proof]. Smaller kinds are pooled: fewer names cannot show a rate of one in mostOfKind.
const (
	LeastNames = 1_500 // of each kind
	mostOfKind = 500   // at most one in this many of each kind reaches From
	mostOfAll  = 2_000 // and one in this many of all
)

// Validate returns an error unless the proof suffices for a layer that may block by style.
func (p *Proof) Validate(m Manifest) error {
	_, highest := m.Range()
	switch {
	case m.LayerClass() != Style:
		return errors.New("blocks is for style layers: findings block by what their signals warrant")
	case p.From < 1 || p.From > highest:
		return fmt.Errorf("blocks: from is %d, outside 1 to %d, the highest score", p.From, highest)
	}
	names, reached := 0, 0
	for _, kind := range p.Honest {
		switch {
		case kind.Kind == "" || kind.Names < LeastNames || kind.Reached < 0:
			return fmt.Errorf("blocks: %q has %d names: name each kind of honest values, and pool those of fewer "+
				"than %d names", kind.Kind, kind.Names, LeastNames)
		case kind.Reached > kind.Names/mostOfKind:
			return fmt.Errorf("blocks: %d of %d of %q reach %d, more than 1 in %d", kind.Reached, kind.Names, kind.Kind,
				p.From, mostOfKind)
		}
		names, reached = names+kind.Names, reached+kind.Reached
	}
	if names == 0 || reached > names/mostOfAll {
		return fmt.Errorf("blocks: %d of %d honest values reach %d, more than 1 in %d", reached, names, p.From,
			mostOfAll)
	}
	return nil
}
