package registry_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/registry"
	"assay/registry/expect"
)

// lineup is a valid lineup.
func lineup() document {
	return document{
		"note": "why", "bias": -4.5, "bands": document{"review": 40, "block": 70}, "layers": []any{
			document{"layer": "domain@1.0.0", "weight": 6, "required": true},
			document{"layer": "email@2.0.0-rc.1+b2", "weight": 0.5, "config": document{"floor": "7"}},
		},
	}
}

func TestSizeOfALineup(t *testing.T) {
	t.Parallel()
	for size, want := range map[int]string{256 << 10: "", 256<<10 + 1: "exceed the limit"} {
		document := lineup().encode()
		_, err := registry.ParseLineup(append(document, bytes.Repeat([]byte(" "), size-len(document))...))
		expect.Outcome(t, "parsing", err, want)
	}
}

func item(layer string, weight any) document { return document{"layer": layer, "weight": weight} }

func TestLineupFields(t *testing.T) {
	t.Parallel()
	layers := func(items ...document) []document { return items }
	for _, c := range []struct {
		name, field string
		value       any
		refused     string // substring of the error; "" if valid
	}{
		{"no note", "note", nil, ""},
		{"no bias", "bias", nil, "bias is missing"},
		{"largest bias", "bias", 20, ""},
		{"bias too large", "bias", 20.5, "bias"},
		{"bias beyond numbers", "bias", json.RawMessage("1e999"), "bias"},

		{"bias by type", "bias", document{"domain": -4.2, "email": -4, "phone": -20, "iban": 0}, ""},
		{"bias without a type", "bias", document{"domain": -4.2, "email": -4, "phone": -3},
			"bias lacks a number for iban"},
		{"bias for an unknown type", "bias", document{"domain": -4, "email": -4, "phone": -3, "iban": 0, "url": 1},
			`bias names "url"`},
		{"bias too small for a type", "bias", document{"domain": -4, "email": -20.1, "phone": -3, "iban": 0},
			"bias for email -20.1"},
		{"bias for no type", "bias", document{}, `field "bias" has a value of the wrong kind`},
		{"null for a type", "bias", document{"domain": nil, "email": -4, "phone": -3, "iban": 0},
			`field "bias" has a value of the wrong kind`},

		{"lowest bands", "bands", document{"review": 1, "block": 2}, ""},
		{"highest bands", "bands", document{"review": 99, "block": 100}, ""},
		{"no bands", "bands", nil, "bands"},
		{"review at zero", "bands", document{"review": 0, "block": 70}, "bands"},
		{"block beyond 100", "bands", document{"review": 40, "block": 101}, "bands"},
		{"bands equal", "bands", document{"review": 40, "block": 40}, "bands"},
		{"another band", "bands", document{"review": 40, "block": 70, "allow": 0}, `there is no field "bands.allow"`},

		{"heaviest layer", "layers", layers(item("domain@1.0.0", 20)), ""},
		{"no layers", "layers", layers(), "layers"},
		{"no weight", "layers", layers(document{"layer": "domain@1.0.0"}), `weight of layer "domain@1.0.0" is missing`},
		{"null as weight", "layers", layers(document{"layer": "domain@1.0.0", "weight": nil}),
			`weight of layer "domain@1.0.0" is missing`},
		{"weight below zero", "layers", layers(item("domain@1.0.0", -1)), "weight of domain@1.0.0"},
		{"weight too large", "layers", layers(item("domain@1.0.0", 21)), "weight of domain@1.0.0"},
		{"weights by type", "layers", layers(item("domain@1.0.0", document{"domain": 7, "email": 5.5})), ""},
		{"weight below zero for a type", "layers", layers(item("domain@1.0.0", document{"domain": 7, "email": -1})),
			"weight of domain@1.0.0: for email -1"},
		{"weight for an unknown type", "layers", layers(item("domain@1.0.0", document{"url": 7})), `names "url"`},
		{"lowest floor", "layers", layers(document{"layer": "domain@1.0.0", "weight": 1, "floor": -100}), ""},
		{"floor at 0", "layers", layers(document{"layer": "domain@1.0.0", "weight": 1, "floor": 0}), ""},
		{"floor too low", "layers", layers(document{"layer": "domain@1.0.0", "weight": 1, "floor": -101}),
			"floor of domain@1.0.0 is -101"},
		{"floor above 0", "layers", layers(document{"layer": "domain@1.0.0", "weight": 1, "floor": 1}),
			"floor of domain@1.0.0 is 1"},
		{"no version", "layers", layers(item("domain", 1)), `layer "domain"`},
		{"name with a path", "layers", layers(item("../domain@1.0.0", 1)), `layer "../domain@1.0.0"`},
		{"a layer twice", "layers", layers(item("domain@1.0.0", 1), item("domain@1.0.0", 1)),
			`layers contains "domain" twice`},
		{"config of another kind", "layers",
			layers(document{"layer": "domain@1.0.0", "weight": 1, "config": document{"floor": 7}}),
			`field "domain@1.0.0: config.floor" has a value of the wrong kind`},
		{"a weight of another kind", "layers", layers(item("domain@1.0.0", 1), item("age@1.0.0", true)),
			`field "age@1.0.0: weight" has a value of the wrong kind`},
		{"a misspelt field", "layers", layers(document{"layer": "domain@1.0.0", "wieght": 1}),
			`there is no field "domain@1.0.0: wieght"`},
	} {
		_, err := registry.ParseLineup(lineup().with(c.field, c.value))
		expect.Outcome(t, c.name+": parsing", err, c.refused)
		expect.That(t, err == nil || strings.HasPrefix(err.Error(), "reading lineup: "), "%s: the error is %v", c.name,
			err)
	}
}

func TestEncodeIsTheSameEveryTime(t *testing.T) {
	t.Parallel()
	l := expect.Value(registry.ParseLineup(lineup().encode()))(t)
	l.Layers[1].Config = map[string]string{"z": "1", "a": "<2>", "m": "3"}
	want := `{"note":"why","bias":-4.5,"bands":{"review":40,"block":70},` +
		`"layers":[{"layer":"domain@1.0.0","weight":6,"required":true},` +
		`{"layer":"email@2.0.0-rc.1+b2","weight":0.5,"config":{"a":"\u003c2\u003e","m":"3","z":"1"}}]}`
	for range 20 {
		data, err := l.Encode()
		expect.Must(t, err == nil && string(data) == want, "encoded as %s, %v\nwant %s", data, err, want)
	}
	expect.NoDiff(t, "the lineup", l, expect.Value(registry.ParseLineup([]byte(want)))(t))
}

// A lineup from before there were numbers by type reads and encodes as it did, so that its digest is the same.
func TestByType(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		weight       registry.ByType
		email, phone float64
		shown        string
	}{
		`6`:                        {registry.ForAll(6), 6, 6, "6"},
		`0`:                        {registry.ForAll(0), 0, 0, "0"},
		`{"email":5.5,"phone":7}`:  {registry.ByType{"email": 5.5, "phone": 7}, 5.5, 7, "email 5.5, phone 7"},
		`{"domain":1,"email":2.5}`: {registry.ByType{"domain": 1, "email": 2.5}, 2.5, 0, "domain 1, email 2.5"},
	} {
		document := `{"bias":-4,"bands":{"review":40,"block":70},"layers":[{"layer":"layer@1.0.0","weight":` + text +
			`}]}`
		l := expect.Value(registry.ParseLineup([]byte(document)))(t)
		got := l.Layers[0].Weight
		expect.NoDiff(t, text, want.weight, got)
		expect.That(t, got.For("email") == want.email && got.For("phone") == want.phone && got.String() == want.shown,
			"%s reads as %s", text, got)
		encoded, err := l.Encode()
		expect.That(t, err == nil && string(encoded) == document, "encoded as %s, %v\nwant %s", encoded, err, document)
	}
}

// A weight by type names every type that the layer scores, because an omission must not mean that it does not count.
func TestSuits(t *testing.T) {
	t.Parallel()
	m := registry.Manifest{Entities: []string{"email", "phone"}}
	for name, c := range map[string]struct {
		weight registry.ByType
		suits  bool
	}{
		"one number":  {registry.ForAll(3), true},
		"all types":   {registry.ByType{"email": 3, "phone": 0}, true},
		"more types":  {registry.ByType{"email": 3, "phone": 0, "iban": 2}, true},
		"a type less": {registry.ByType{"email": 3}, false},
	} {
		expect.Equal(t, name, (registry.LineupLayer{Layer: "a@1.0.0", Weight: c.weight}).Suits(m) == nil, c.suits)
	}
	floor := -40
	for name, c := range map[string]struct {
		declared [2]int
		floor    *int
		lowest   int
	}{
		"no floor":        {[2]int{-60, 0}, nil, -60},
		"a floor":         {[2]int{-60, 0}, &floor, -40},
		"a higher lowest": {[2]int{-30, 0}, &floor, -30},
		"no clearing":     {[2]int{0, 100}, &floor, 0},
	} {
		lowest, highest := registry.LineupLayer{Floor: c.floor}.Range(registry.Manifest{ScoreRange: &c.declared})
		expect.That(t, lowest == c.lowest && highest == c.declared[1], "%s: %d to %d", name, lowest, highest)
	}
}

// TestDefaultLineup compares the default lineup with its layers' manifests and what their signals warrant.
func TestDefaultLineup(t *testing.T) {
	t.Parallel()
	l := expect.Value(registry.DefaultLineup())(t)
	var manifests []registry.Manifest
	for i, item := range l.Layers { // without a version, which the host adds
		text := expect.Value(os.ReadFile(filepath.Join("..", "plugins", item.Layer, "manifest.json")))(t)
		m := expect.Value(registry.ParseManifest(text))(t)
		manifests = append(manifests, m)
		expect.NoError(t, item.Suits(m))
		// The default lineup may have weights by type, the manifest has one.
		if weight, forAll := item.Weight[""]; forAll {
			expect.Equal(t, "weight of "+item.Layer, weight, m.DefaultWeight)
		}
		l.Layers[i].Layer += "@" + m.Version
	}
	expect.NoError(t, l.CheckFitness(manifests))
	expect.Error(t, "error", l.Validate(), nil)
	// Contract section 6.
	expect.That(t, l.Bands == (registry.Bands{Review: 40, Block: 70}), "the bands are %+v", l.Bands)
}

func TestDiff(t *testing.T) {
	t.Parallel()
	at := func(bias float64, review, block int, items ...registry.LineupLayer) registry.LineupDocument {
		return registry.LineupDocument{Bias: registry.ForAll(bias),
			Bands: registry.Bands{Review: review, Block: block}, Layers: items}
	}
	a := registry.LineupLayer{Layer: "a@1.0.0", Weight: registry.ForAll(2)}
	b := registry.LineupLayer{
		Layer: "b@1.0.0", Weight: registry.ForAll(3), Required: true, Config: map[string]string{"y": "2", "x": "1"},
	}
	edit := func(item registry.LineupLayer, do func(*registry.LineupLayer)) registry.LineupLayer {
		do(&item)
		return item
	}
	floor := -40
	plugins := map[string]registry.Manifest{"b@2.0.0": {Class: registry.Clearing, ScoreRange: &[2]int{-60, 0}}}
	clearing := edit(b, func(i *registry.LineupLayer) { i.Layer = "b@2.0.0" })
	for _, c := range []struct {
		name     string
		from, to registry.LineupDocument
		want     []registry.Change
	}{
		{"the order of layers does not count", at(-4, 40, 70, a, b), at(-4, 40, 70, b, a), []registry.Change{}},
		{"bias and bands", at(-4, 40, 70, a), at(-4.25, 41, 71, a), []registry.Change{
			{What: "bias", From: "-4", To: "-4.25"}, {What: "review from", From: "40", To: "41"},
			{What: "block from", From: "70", To: "71"},
		}},
		{"a layer added", at(0, 40, 70, a), at(0, 40, 70, b, a),
			[]registry.Change{{What: "b: layer", From: "none", To: "b@1.0.0"}}},
		{"everything of a layer, sorted by name", at(0, 40, 70, b, a),
			at(0, 40, 70, edit(b, func(i *registry.LineupLayer) {
				i.Layer, i.Weight, i.Required, i.Config = "b@1.1.0", registry.ForAll(3.5), false, nil
			}), edit(a, func(i *registry.LineupLayer) { i.Weight = registry.ForAll(0) })), []registry.Change{
				{What: "a: weight", From: "2", To: "0"},
				{What: "b: layer", From: "b@1.0.0", To: "b@1.1.0"}, {What: "b: weight", From: "3", To: "3.5"},
				{What: "b: required", From: "true", To: "false"}, {What: "b: config", From: "x=1 y=2", To: ""},
			}},
		{"a number by type", at(-4, 40, 70, a), registry.LineupDocument{
			Bias:  registry.ByType{"domain": -4.2, "email": -4, "phone": -4, "iban": -3},
			Bands: registry.Bands{Review: 40, Block: 70},
			Layers: []registry.LineupLayer{edit(a, func(i *registry.LineupLayer) {
				i.Weight = registry.ByType{"phone": 3, "domain": 2}
			})},
		}, []registry.Change{
			{What: "bias", From: "-4", To: "domain -4.2, email -4, phone -4, iban -3"},
			{What: "a: weight", From: "2", To: "domain 2, phone 3"},
		}},
		{"a layer that may clear, added", at(0, 40, 70, a), at(0, 40, 70, a, clearing), []registry.Change{
			{What: "b: layer", From: "none", To: "b@2.0.0"}, {What: "b: lowest score", From: "0", To: "-60"},
		}},
		{"a layer that may clear, instead of one that may not", at(0, 40, 70, b), at(0, 40, 70, clearing),
			[]registry.Change{
				{What: "b: layer", From: "b@1.0.0", To: "b@2.0.0"}, {What: "b: lowest score", From: "0", To: "-60"},
				{What: "b: class", From: "style", To: "clearing"},
			}},
		{"a floor", at(0, 40, 70, clearing),
			at(0, 40, 70, edit(clearing, func(i *registry.LineupLayer) { i.Floor = &floor })), []registry.Change{
				{What: "b: lowest score", From: "-60", To: "-40"}, {What: "b: floor", From: "none", To: "-40"},
			}},
		{"settings that look alike when joined",
			at(0, 40, 70, edit(b, func(i *registry.LineupLayer) { i.Config = map[string]string{"x": "1 y=2"} })),
			at(0, 40, 70, b), []registry.Change{{What: "b: config", From: `x="1 y=2"`, To: "x=1 y=2"}}},
		{"a setting that could not be printed",
			at(0, 40, 70, edit(b, func(i *registry.LineupLayer) { i.Config = map[string]string{"\x1b[2J": "a\nb"} })),
			at(0, 40, 70, b), []registry.Change{{What: "b: config", From: `"\x1b[2J"="a\nb"`, To: "x=1 y=2"}}},
	} {
		expect.NoDiff(t, c.name+": changes", c.want, registry.Diff(c.from, c.to, plugins))
	}
}

func FuzzParseLineup(f *testing.F) {
	f.Add(lineup().encode())
	for _, text := range badDocuments(lineup().encode()) {
		f.Add([]byte(text[:min(len(text), 2000)]))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		l, err := registry.ParseLineup(data)
		if err != nil {
			return
		}
		back, err := registry.ParseLineup(expect.Value(l.Encode())(t))
		expect.Must(t, err == nil, "%s is accepted, but not its encoding: %v", data, err)
		expect.Equal(t, "changes when encoded", len(registry.Diff(l, back, nil)), 0)
		for _, item := range l.Layers {
			for _, weight := range item.Weight {
				expect.That(t, weight >= 0 && weight <= registry.MaxWeight, "a layer with weight %v was accepted",
					item.Weight)
			}
		}
	})
}

// A lineup's identity is its canonical text, whatever a database or an editor made of it.
func TestOpenLineup(t *testing.T) {
	t.Parallel()
	l := registry.LineupDocument{
		Base: "sha256:00", Note: "why", Bias: registry.ForAll(-4), Bands: registry.Bands{Review: 40, Block: 70},
		Layers: []registry.LineupLayer{{Layer: "probe@1.0.0", Digest: registry.Digest{1}.String(),
			Weight: registry.ForAll(1e-7), Config: map[string]string{"b": "<\u2028", "a": "é"}}},
	}
	text, err := l.Canonical()
	expect.Must(t, err == nil && !strings.Contains(string(text), "why") && !strings.Contains(string(text), "base"),
		"canonical text %s, %v", text, err)
	opened := expect.Value(registry.OpenLineup(text, registry.LineupHash(text)))(t)
	again, err := opened.Canonical()
	expect.That(t, err == nil && string(again) == string(text), "read and written: %s, %v, want %s", again, err, text)
	digest, ok := opened.Layers[0].ModuleDigest()
	expect.That(t, ok && digest == (registry.Digest{1}), "digest %v, %v", digest, ok)
	reweighed := bytes.Replace(text, []byte("1e-7"), []byte("1e-8"), 1)
	unpinned := bytes.Replace(text, []byte(`"digest":"`+registry.Digest{1}.String()+`",`), nil, 1)
	for name, test := range map[string]struct {
		text   []byte
		hash   registry.Digest
		reason string
	}{
		"another weight":   {reweighed, registry.LineupHash(text), "was altered"},
		"a space":          {append([]byte(" "), text...), registry.LineupHash(text), "was altered"},
		"another hash":     {text, registry.Digest{}, "was altered"},
		"no digest":        {unpinned, registry.LineupHash(unpinned), "layer probe@1.0.0 has no digest"},
		"not a lineup":     {[]byte("{}"), registry.LineupHash([]byte("{}")), "bias is missing"},
		"not even a value": {nil, registry.LineupHash(nil), "reading lineup"},
	} {
		expect.ErrorText(t, name+": error", expect.ErrorOf(registry.OpenLineup(test.text, test.hash)), test.reason)
	}
}
