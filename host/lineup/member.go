package lineup

import (
	"cmp"
	"encoding/json"

	"assay/host/check"
	"assay/host/entity"
	"assay/host/sandbox"
	"assay/registry"
)

// NewMember returns a layer of a lineup with its open plugin. A layer that is off, which only measurements open, is
// treated like one in shadow.
func NewMember(layer registry.LineupLayer, p *sandbox.Plugin) check.Member {
	m := p.Manifest()
	_, version, _ := layer.Ref()
	lowest, highest := layer.Range(m)
	types := make([]entity.Type, len(m.Entities))
	for i, e := range m.Entities {
		types[i] = entity.Type(e)
	}
	return check.Member{
		Name: m.Name, Version: version, Weight: ByType(layer.Weight), Range: check.Range{lowest, highest},
		Required: layer.Required, Shadow: layer.Runs() != registry.ModeLive, Entities: types, Facts: m.Facts,
		Config: layer.Config, Layer: p, Recipe: recipe(layer, p.Digest(), m),
	}
}

// recipe returns the [check.Member.Recipe] of a layer with manifest m.
func recipe(layer registry.LineupLayer, digest registry.Digest, m registry.Manifest) string {
	lowest, highest := layer.Range(m)
	text, err := json.Marshal([]any{digest.String(), cmp.Or(layer.Fuel, m.BudgetFuel), lowest, highest, layer.Shares(),
		layer.Config})
	if err != nil {
		panic(err) // numbers and strings can be encoded
	}
	return string(text)
}

// ByType returns a lineup's numbers in the form that package check uses.
func ByType(numbers registry.ByType) check.ByType {
	b := check.ByType{}
	for _, t := range entity.Types() {
		b[t] = numbers.For(string(t))
	}
	return b
}
