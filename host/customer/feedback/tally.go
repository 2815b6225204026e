package feedback

import (
	"cmp"
	"slices"
)

// Tally counts the labels of the checks for which a layer raised a signal.
type Tally struct {
	Layer      string `json:"layer"`
	Version    string `json:"version"`
	Signal     string `json:"signal"` // its code
	Fraud      int    `json:"fraud"`
	Legitimate int    `json:"legitimate"`
}

// TallySignals counts the labels of each signal of each version of a layer, sorted by layer, version and signal.
func TallySignals(labelled []Labelled) []Tally {
	type key struct{ layer, version, signal string }
	tallies := map[key]*Tally{}
	for _, l := range labelled {
		for _, layer := range l.Layers {
			for _, signal := range slices.Compact(slices.Sorted(slices.Values(layer.Signals))) {
				k := key{layer.Name, layer.Version, signal}
				if tallies[k] == nil {
					tallies[k] = &Tally{Layer: k.layer, Version: k.version, Signal: k.signal}
				}
				if l.Label == Fraud {
					tallies[k].Fraud++
				} else {
					tallies[k].Legitimate++
				}
			}
		}
	}
	list := make([]Tally, 0, len(tallies))
	for _, t := range tallies {
		list = append(list, *t)
	}
	slices.SortFunc(list, func(a, b Tally) int {
		return cmp.Or(cmp.Compare(a.Layer, b.Layer), cmp.Compare(a.Version, b.Version), cmp.Compare(a.Signal, b.Signal))
	})
	return list
}

// CountScored returns the number of labels of values that a version of a layer scored.
func CountScored(labelled []Labelled, layer, version string) (n int) {
	for _, l := range labelled {
		if slices.ContainsFunc(l.Layers, func(l Layer) bool { return l.Name == layer && l.Version == version }) {
			n++
		}
	}
	return n
}
