package registry_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"assay/registry"
	"assay/registry/expect"
)

// document is a JSON object that tests change field by field.
type document map[string]any

// with returns the document as JSON with one field changed, or removed by a nil value.
func (d document) with(field string, value any) []byte {
	changed := maps.Clone(d)
	changed[field] = value
	if value == nil {
		delete(changed, field)
	}
	data, err := json.Marshal(changed)
	if err != nil {
		panic(err)
	}
	return data
}

func (d document) encode() []byte { return d.with("", nil) }

func signal(code, text string) map[string]string {
	return map[string]string{"code": code, "text": text}
}

// layer is a valid manifest.
func layer() document {
	return document{
		"name": "my-layer2", "version": "1.2.3", "summary": "Scores nothing, for tests",
		"entities": []string{"domain", "iban"},
		"facts":    []string{"domain.ascii", "config.floor"}, "signals": []any{signal("a:b:c", "One"),
			signal("a:b:d", "Two")},
		"threats": []string{"spam"}, "budget_fuel": 5000, "memory_mb": 8, "default_weight": 2.5,
	}
}

// TestManifestClasses checks fields whose rules depend on each other.
func TestManifestClasses(t *testing.T) {
	t.Parallel()
	warranting := func(points int, warrants string, final bool) []any {
		return []any{document{"code": "a:b:c", "text": "One", "points": points, "warrants": warrants, "final": final}}
	}
	plain := []any{signal("a:b:c", "One")}
	for _, c := range []struct {
		name, class string
		bounds      []int
		signals     []any
		refused     string
	}{
		{"finding", "finding", []int{0, 90}, plain, ""},
		{"finding that clears", "finding", []int{-1, 90}, plain, "a finding layer does not clear"},
		{"clearing", "clearing", []int{-60, 0}, plain, ""},
		{"clearing that accuses", "clearing", []int{-60, 1}, plain, "a clearing layer does not accuse"},
		{"style on both sides", "style", []int{-60, 60}, plain, ""},
		{"warrants review", "finding", []int{0, 90}, warranting(50, "review", false), ""},
		{"warrants block", "finding", []int{0, 90}, warranting(90, "block", false), ""},
		{"final", "finding", []int{0, 90}, warranting(90, "block", true), ""},
		{"final review", "finding", []int{0, 90}, warranting(90, "review", true), "final needs warrants block"},
		{"warrants allow", "finding", []int{0, 90}, warranting(50, "allow", false), `warrants is "allow"`},
		{"warrants without points", "finding", []int{0, 90}, warranting(0, "review", false),
			"needs points from 1 to 90"},
		{"warrants above the range", "finding", []int{0, 90}, warranting(91, "block", false),
			"needs points from 1 to 90"},
		{"clearing that warrants", "clearing", []int{-60, 0}, warranting(50, "review", false),
			"only the signals of a finding layer"},
	} {
		d := layer()
		d["class"], d["score_range"], d["signals"] = c.class, c.bounds, c.signals
		m, err := registry.ParseManifest(d.encode())
		expect.Outcome(t, c.name+": parsing", err, c.refused)
		if lowest, highest := m.Range(); err == nil && (lowest != c.bounds[0] || highest != c.bounds[1]) {
			t.Errorf("%s: the range is %d to %d, want %v", c.name, lowest, highest, c.bounds)
		}
	}
	lowest, highest := (registry.Manifest{}).Range()
	expect.That(t, lowest == 0 && highest == 100 && (registry.Manifest{}).LayerClass() == registry.Style,
		"without a class and a range, a layer is %s and scores %d to %d", registry.Manifest{}.LayerClass(), lowest,
		highest)
}

// proof is a manifest's proof that style may block from a score on: of 4,000 banks and 6,000 shops, so many reach it.
func proof(from, banks, shops int) document {
	return document{"from": from, "honest": []any{document{"kind": "banks", "names": 4000, "reached": banks},
		document{"kind": "shops", "names": 6000, "reached": shops}}}
}

func TestManifestFields(t *testing.T) {
	t.Parallel()
	with := func(field string, value any) []any {
		return []any{document{"code": "a:b:c", "text": "One", field: value}}
	}
	for _, c := range []struct {
		name, field string
		value       any
		refused     string // substring of the error, which must name the field; "" if valid
	}{
		{"shortest name", "name", "ab", ""},
		{"longest name", "name", "a" + strings.Repeat("-", 39), ""},
		{"name too short", "name", "a", "name"},
		{"name too long", "name", strings.Repeat("a", 41), "name"},
		{"name with a line end", "name", "layer\n", "name"},

		{"version of a build", "version", "1.2.3-rc.1+build.7", ""},
		{"version with v", "version", "v1.2.3", "version"},

		{"longest summary", "summary", strings.Repeat("x", 200), ""},
		{"summary too long", "summary", strings.Repeat("x", 201), "summary"},
		{"summary empty", "summary", "", "summary"},
		{"summary with a terminal escape", "summary", "\x1b[2Jgone", "summary"},

		{"all entities", "entities", []string{"domain", "email", "phone", "iban"}, ""},
		{"no entities", "entities", []string{}, "entities"},
		// A layer that is listed twice would score twice.
		{"an entity twice", "entities", []string{"domain", "iban", "domain"}, `entities contains "domain" twice`},

		{"longest fact", "facts", []string{"a." + strings.Repeat("x", 62)}, ""},
		{"a fact too long", "facts", []string{"a." + strings.Repeat("x", 63)}, "facts"},
		{"a fact without a dot", "facts", []string{"domain"}, `facts contains "domain"`},
		{"a threat twice", "threats", []string{"scam", "scam"}, `threats contains "scam" twice`},
		{"a fact twice", "facts", []string{"a.b", "a.c", "a.b"}, `facts contains "a.b" twice`},

		{"a bad code", "signals", []any{signal("a:b", "One")}, "signals"},
		{"a code of the host", "signals", []any{signal("host:degraded:graph", "One")}, "the host's own"},
		{"a code twice", "signals", []any{signal("a:b:c", "One"), signal("a:b:c", "Two")},
			`signals contains "a:b:c" twice`},
		{"a signal without a text", "signals", []any{signal("a:b:c", "")}, "signals: a:b:c"},
		{"a signal with weight", "signals", with("weight", 5), "weight"},

		{"class clearing without a range", "class", "clearing", "score_range ends at 100, but a clearing layer"},
		{"an unknown class", "class", "doom", `class is "doom"`},
		{"widest range", "score_range", []int{-100, 100}, ""},
		{"a range of 0 alone", "score_range", []int{0, 0}, ""},
		{"range too low", "score_range", []int{-101, 100}, "score_range is -101 to 100"},
		{"range too high", "score_range", []int{0, 101}, "score_range is 0 to 101"},
		{"range above 0", "score_range", []int{1, 100}, "score_range is 1 to 100"},
		{"range of one number", "score_range", []int{0}, "score_range"},

		{"style that may block", "blocks", proof(80, 1, 1), ""},
		{"a kind that often blocks", "blocks", proof(80, 9, 0), `9 of 4000 of "banks" reach 80, more than 1 in 500`},
		{"honest values that often block", "blocks", proof(80, 4, 2), "6 of 10000 honest values reach 80, more than 1"},
		{"a kind that blocks too often to count", "blocks", proof(80, 36893488147419103, 0), "of 4000 of"},
		{"a kind of few names", "blocks", document{"from": 80, "honest": []any{document{"kind": "banks",
			"names": 1499}}}, `"banks" has 1499 names: name each kind`},
		{"no proof", "blocks", document{"from": 80}, "0 of 0 honest values"},
		{"a proof above the range", "blocks", proof(101, 0, 0), "from is 101, outside 1 to 100"},

		{"a clearing signal's points", "signals", with("points", -5), ""},
		{"points too many", "signals", with("points", 101), "signals: a:b:c: points is 101"},
		{"a signal's threat", "signals", with("threat", "phishing"), ""},
		{"a signal's threat unknown", "signals", with("threat", "doom"), `threat "doom"`},
		{"a remedy", "signals", with("remedy", "Ask the list."), ""},
		{"signals that it yields to", "signals", with("yields_to", []string{"d:", "d:e:", "d:e:f"}), ""},
		{"32 signals that it yields to", "signals", with("yields_to", slices.Repeat([]string{"d:"}, 32)), ""},
		{"33 signals that it yields to", "signals", with("yields_to", slices.Repeat([]string{"d:"}, 33)),
			"signals: a:b:c: yields_to has 33 entries, more than 32"},
		{"a layer that it yields to", "signals", with("yields_to", []string{"d"}),
			`signals: a:b:c: yields_to contains "d"`},
		{"a remedy too long", "signals", with("remedy", strings.Repeat("x", 241)), "signals: a:b:c: remedy"},

		{"smallest budget", "budget_fuel", 1_000, ""},
		{"largest budget", "budget_fuel", 50_000_000, ""},
		{"budget too small", "budget_fuel", 999, "budget_fuel is 999, outside 1000 to 50000000"},
		{"budget too large", "budget_fuel", 50_000_001, "budget_fuel"},
		{"budget of a fraction", "budget_fuel", 5000.5, `field "budget_fuel" cannot be 5000.5`},
		{"budget of time", "budget_ms", 20, `there is no field "budget_ms": set budget_fuel`},

		{"smallest memory", "memory_mb", 1, ""},
		{"largest memory", "memory_mb", 64, ""},
		{"no memory", "memory_mb", 0, "memory_mb"},
		{"memory too large", "memory_mb", 65, "memory_mb"},

		{"no weight", "default_weight", 0, ""},
		{"largest weight", "default_weight", 20, ""},
		{"weight too large", "default_weight", 20.01, "default_weight"},
		{"weight beyond numbers", "default_weight", json.RawMessage("1e999"), "default_weight"},
	} {
		_, err := registry.ParseManifest(layer().with(c.field, c.value))
		expect.Outcome(t, c.name+": parsing", err, c.refused)
		expect.That(t, err == nil || strings.HasPrefix(err.Error(), "reading manifest: "), "%s: the error is %v",
			c.name, err)
	}
}

func TestManifestReportsAllErrors(t *testing.T) {
	t.Parallel()
	_, err := registry.ParseManifest([]byte(
		`{"facts":["x"],"signals":[{"code":"","text":""}],"threats":["doom"],"default_weight":-1}`))
	expect.Must(t, err != nil, "an empty manifest was accepted")
	for _, field := range []string{"name", "version", "summary", "entities", "facts", "signals", "threats",
		"budget_fuel", "memory_mb", "default_weight"} {
		expect.That(t, strings.Contains(err.Error(), field), "the error does not name %s:\n%v", field, err)
	}
}

// TestManifestErrorsHelp checks that an author finds the line, and the word that was meant.
func TestManifestErrorsHelp(t *testing.T) {
	t.Parallel()
	const text = "{\n\"name\": \"my-layer\",\n\"version\": \"1.0.0\",\n\"summary\": \"Scores\",\n" +
		"\"entities\": [\"domain\"],\n\"facts\": [\"rdap.age_days\"],\n" +
		"\"signals\": [{\"code\": \"my-layer:a:b\",\n\"text\": \"x\"}],\n\"threats\": [\"scam\"],\n" +
		"\"budget_fuel\": 1000,\n\"memory_mb\": 1,\n\"default_weight\": 1\n}\n"
	for old, c := range map[string]struct{ with, want string }{
		"budget_fuel\": 1000": {"budget_feul\": 1000", `line 10: there is no field "budget_feul": is it budget_fuel?`},
		"\"text\":":           {"\"txt\":", `line 8: there is no field "signals.0.txt": is it text?`},
		"[\"domain\"]":        {"[\"domian\"]", `line 5: entities contains "domian"`},
		"[\"scam\"]":          {"[\"phising\"]", `category: is it phishing?`},
		"memory_mb\": 1":      {"memory_mb\": \"1\"", `line 11: field "memory_mb" has a value of the wrong kind`},
		"default_weight\": 1": {"default_weight\": -1", "line 12: default_weight"},
		"a:b\",":              {"a:b\"", "line 8: "},
	} {
		_, err := registry.ParseManifest([]byte(strings.Replace(text, old, c.with, 1)))
		expect.That(t, err != nil && strings.Contains(err.Error(), c.want), "%s: %v, want %q", c.with, err, c.want)
	}
	expect.NoError(t, expect.ErrorOf(registry.ParseManifest([]byte(text))))
}

// badDocuments returns variants of a valid JSON document that must be refused.
func badDocuments(good []byte) map[string]string {
	text := string(good)
	first := text[1:strings.Index(text, ":")] // a name, in quotes
	return map[string]string{
		"nothing":                "",
		"white space":            " \n",
		"null":                   "null",
		"a list":                 "[" + text + "]",
		"a string":               `"text"`,
		"cut":                    text[:len(text)-1],
		"something behind":       text + "x",
		"a document behind":      text + text,
		"a comment":              "/* */" + text,
		"a comma before the end": text[:len(text)-1] + ",}",
		"an unknown field":       strings.Replace(text, "{", `{"unknown_field":1,`, 1),
		"a name in another case": strings.Replace(text, first, strings.ToUpper(first), 1),
		"a name twice":           text[:len(text)-1] + text[strings.LastIndex(text, `,"`):],
		"in another encoding":    "\xff\xfe" + text,
		"not UTF-8 inside":       strings.NewReplacer(`"why"`, "\"why\xff\"", `"One"`, "\"One\xff\"").Replace(text),
		"larger than the limit":  text + strings.Repeat(" ", 300<<10),
	}
}

func TestBadDocuments(t *testing.T) {
	t.Parallel()
	for kind, c := range map[string]struct {
		good  []byte
		parse func([]byte) error
	}{
		"manifest": {layer().encode(), func(data []byte) error { _, err := registry.ParseManifest(data); return err }},
		"lineup":   {lineup().encode(), func(data []byte) error { _, err := registry.ParseLineup(data); return err }},
	} {
		expect.Error(t, kind+": surrounding white space is refused",
			c.parse(append([]byte(" \n"), append(c.good, " \r\n\t"...)...)), nil)
		for name, text := range badDocuments(c.good) {
			expect.Failure(t, c.parse([]byte(text)), "%s: %s was accepted", kind, name)
		}
		for i := range c.good {
			expect.Failure(t, c.parse(c.good[:i]), "%s: accepted when cut at byte %d", kind, i)
		}
	}
}

func FuzzParseManifest(f *testing.F) {
	f.Add(layer().encode())
	for _, text := range badDocuments(layer().encode()) {
		f.Add([]byte(text[:min(len(text), 2000)]))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := registry.ParseManifest(data)
		if err != nil {
			return
		}
		expect.That(t, m.Name != "" && len(m.Entities) != 0 && len(m.Entities) <= 4 &&
			m.BudgetFuel >= registry.MinBudget && m.MemoryMB >= 1 && m.DefaultWeight >= 0, "%s was accepted as %+v",
			data, m)
		back, err := registry.ParseManifest(expect.Value(json.Marshal(m))(t))
		expect.That(t, err == nil && fmt.Sprint(back) == fmt.Sprint(m), "%+v decoded again is %+v, %v", m, back, err)
	})
}
