package registry

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Constraint is a rule that a lineup must obey for one entity type, so that findings decide and style suggests. It is
// linear in the type's bias and weights: bias + sum(Coefficients[i] * weight of layer i) must be at least Bound, or
// below it.
type Constraint struct {
	Type   string
	Layer  string // of Signal, as the lineup names it
	Signal string // "" for the rule that style alone does not block, unless a layer has a proof that it may
	Band   string // that the signal warrants, or that the signal or style must not reach
	Final  bool   // clearing layers cannot take the signal below Band either
	Below  bool   // the sum must stay below Bound

	Coefficients []float64 // by index into the lineup's layers
	Bound        float64   // the log-odds at which the rounded score reaches Band
	LogOdds      float64   // of the lineup
	Least, Most  float64   // weight of Layer that obeys all constraints on its signals, in hundredths
}

// Slack returns the log-odds by which the lineup obeys the constraint. It is negative if the lineup breaks it.
func (c Constraint) Slack() float64 {
	if c.Below {
		return math.Nextafter(c.Bound, math.Inf(-1)) - c.LogOdds
	}
	return c.LogOdds - c.Bound
}

// String says what the constraint demands and what the lineup reaches.
func (c Constraint) String() string {
	reaches := fmt.Sprintf("the log-odds are %.2f (a score of %d), and %s begins at %.2f", c.LogOdds,
		scoreAt(c.LogOdds), c.Band, c.Bound)
	if c.Signal == "" {
		return fmt.Sprintf("%s: style must not block alone, but with the highest scores of all style layers %s", c.Type,
			reaches)
	}
	warrants, against, suffices := c.Band, "with the lowest scores of all style layers",
		fmt.Sprintf("the smallest weight of %s that suffices is %v", c.Layer, c.Least)
	if c.Final {
		against += " and all clearing layers"
	}
	if c.Below {
		warrants, against = WarrantsReview, "with neutral style"
		suffices = fmt.Sprintf("the largest weight of %s that keeps it below is %v", c.Layer, c.Most)
	}
	if c.Least > min(c.Most, MaxWeight) {
		suffices = fmt.Sprintf("no weight of %s suffices: it would have to be at least %v and at most %v", c.Layer,
			c.Least, min(c.Most, MaxWeight))
	}
	return fmt.Sprintf("%s: %s of %s warrants %s, but %s %s; %s", c.Type, c.Signal, c.Layer, warrants, against, reaches,
		suffices)
}

func scoreAt(logOdds float64) int { return int(math.Round(100 / (1 + math.Exp(-logOdds)))) }

// LogOddsOf returns the least log-odds whose rounded score is at least score, which is from 1 to 100.
func LogOddsOf(score int) float64 {
	p := (float64(score) - 0.5) / 100
	return math.Log(p / (1 - p))
}

// Constraints returns the constraints on the lineup, type by type. manifests has the manifest of each layer of the
// lineup. Layers that are not live or weigh nothing for a type are exempt, and so are types without a finding layer,
// because nothing decides there.
func Constraints(l LineupDocument, manifests []Manifest) []Constraint {
	var all []Constraint
	for _, t := range entityTypes {
		all = append(all, l.constraintsOf(t, manifests)...)
	}
	return all
}

func (l LineupDocument) constraintsOf(entityType string, manifests []Manifest) []Constraint {
	style, lowStyle, clearing := make([]float64, len(l.Layers)), make([]float64, len(l.Layers)),
		make([]float64, len(l.Layers))
	var findings []int
	for i, item := range l.Layers {
		if item.Runs() != ModeLive || !manifests[i].scores(entityType) || item.Weight.For(entityType) == 0 {
			continue
		}
		lowest, highest := item.Range(manifests[i])
		switch manifests[i].LayerClass() {
		case Finding:
			findings = append(findings, i)
		case Style:
			if proof := manifests[i].Blocks; proof != nil { // its scores from there on may block
				highest = min(highest, proof.From-1)
			}
			style[i], lowStyle[i] = float64(highest)/100, float64(lowest)/100
		case Clearing:
			clearing[i] = float64(lowest) / 100
		}
	}
	if len(findings) == 0 {
		return nil
	}
	all := []Constraint{{Type: entityType, Band: WarrantsBlock, Below: true, Coefficients: style}}
	for _, i := range findings {
		for _, s := range manifests[i].Signals {
			if s.Warrants == "" {
				continue
			}
			c := Constraint{Type: entityType, Layer: l.Layers[i].Layer, Signal: s.Code, Band: s.Warrants,
				Final: s.Final, Coefficients: make([]float64, len(l.Layers))}
			for j := range c.Coefficients {
				c.Coefficients[j] = lowStyle[j]
				if s.Final {
					c.Coefficients[j] += clearing[j]
				}
			}
			c.Coefficients[i] = float64(s.Points) / 100
			all = append(all, c)
			if s.Warrants == WarrantsReview {
				c.Band, c.Below, c.Coefficients = WarrantsBlock, true, make([]float64, len(l.Layers))
				c.Coefficients[i] = float64(s.Points) / 100
				all = append(all, c)
			}
		}
	}
	for i := range all {
		all[i].Bound = LogOddsOf(l.Bands.Review)
		if all[i].Band == WarrantsBlock {
			all[i].Bound = LogOddsOf(l.Bands.Block)
		}
		all[i].LogOdds = l.Bias.For(entityType)
		for j, coefficient := range all[i].Coefficients {
			all[i].LogOdds += coefficient * l.Layers[j].Weight.For(entityType)
		}
	}
	l.setWeights(all)
	return all
}

// setWeights sets the least and the greatest weight of each layer that obey all constraints on its signals.
func (l LineupDocument) setWeights(all []Constraint) {
	least, most := map[string]float64{}, map[string]float64{} // by layer
	for _, c := range all {
		i := slices.IndexFunc(l.Layers, func(item LineupLayer) bool { return item.Layer == c.Layer })
		if i < 0 {
			continue
		}
		own := c.Coefficients[i]
		others := c.LogOdds - own*l.Layers[i].Weight.For(c.Type)
		if weight := 100 * (c.Bound - others) / own; !c.Below {
			least[c.Layer] = max(least[c.Layer], math.Ceil(weight+1e-6)/100)
		} else if top, ok := most[c.Layer]; !ok || math.Floor(weight-1e-6)/100 < top {
			most[c.Layer] = math.Floor(weight-1e-6) / 100
		}
	}
	for i := range all {
		all[i].Least, all[i].Most = least[all[i].Layer], MaxWeight
		if top, ok := most[all[i].Layer]; ok {
			all[i].Most = top
		}
	}
}

// NeededWeight says what weight a layer of the lineup needs to be live, or "" if its own suffices.
func (l LineupDocument) NeededWeight(layer LineupLayer, manifests []Manifest) string {
	layer.Mode = ""
	least, most, short := ByType{}, ByType{}, false
	for _, c := range Constraints(l.With(layer), manifests) {
		if c.Layer == layer.Layer {
			if least[c.Type] = c.Least; c.Most < MaxWeight {
				most[c.Type] = c.Most
			}
			short = short || c.Slack() < 0
		}
	}
	if !short {
		return ""
	}
	needs := fmt.Sprintf("at least %v", least)
	if len(most) > 0 {
		needs += fmt.Sprintf(" and at most %v", most)
	}
	return fmt.Sprintf("%s has the weight %v; to be live, it needs %s, so that its signals reach what they warrant "+
		"and no more", layer.Layer, layer.Weight, needs)
}

// ManifestsOf returns the manifest of each layer, from manifests by name@version.
func (l LineupDocument) ManifestsOf(plugins map[string]Manifest) []Manifest {
	manifests := make([]Manifest, len(l.Layers))
	for i, item := range l.Layers {
		manifests[i] = plugins[item.Layer]
	}
	return manifests
}

// CheckConstraints returns an error with the constraints that the lineup breaks. For each type, layer, band and side of
// the band, it names only the worst one and counts the others.
func (l LineupDocument) CheckConstraints(manifests []Manifest) error {
	var kinds []string
	worst, count := map[string]Constraint{}, map[string]int{} // by kind
	for _, c := range Constraints(l, manifests) {
		if c.Slack() >= 0 {
			continue
		}
		k := fmt.Sprintf("%s %s %s %t", c.Type, c.Layer, c.Band, c.Below)
		if count[k] == 0 {
			kinds = append(kinds, k)
		}
		if count[k]++; count[k] == 1 || c.Slack() < worst[k].Slack() {
			worst[k] = c
		}
	}
	if len(kinds) == 0 {
		return nil
	}
	lines := make([]string, len(kinds))
	for i, k := range kinds {
		lines[i] = worst[k].String()
		if count[k] > 1 {
			lines[i] += fmt.Sprintf("; signals of the layer that break this rule: %d", count[k])
		}
	}
	return fmt.Errorf("checking the lineup against what its layers' signals warrant:\n%s", strings.Join(lines, "\n"))
}
