package registry_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/registry"
	"assay/registry/expect"
	"assay/sdk"
)

func TestDiffManifests(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		edit func(m *registry.Manifest)
		want []registry.ManifestChange
		back bool // whether the change in the other direction grants more
	}{
		{"nothing", func(*registry.Manifest) {}, nil, false},
		{"the class", func(m *registry.Manifest) { m.Class = registry.Finding },
			[]registry.ManifestChange{{"class", "style", "finding", true}}, true},
		{"a lower score", func(m *registry.Manifest) { m.ScoreRange = &[2]int{-20, 100} },
			[]registry.ManifestChange{{"lowest score", "0", "-20", true}}, false},
		{"a lower highest score", func(m *registry.Manifest) { m.ScoreRange = &[2]int{0, 50} },
			[]registry.ManifestChange{{"highest score", "100", "50", false}}, true},
		{"fuel", func(m *registry.Manifest) { m.BudgetFuel = 2000 },
			[]registry.ManifestChange{{"budget of fuel", "1000", "2000", true}}, false},
		{"memory", func(m *registry.Manifest) { m.MemoryMB = 4 },
			[]registry.ManifestChange{{"memory in MiB", "2", "4", true}}, false},
		{"a weight", func(m *registry.Manifest) { m.DefaultWeight = 1.5 },
			[]registry.ManifestChange{{"suggested weight", "1", "1.5", false}}, false},
		{"facts", func(m *registry.Manifest) { m.Facts = []string{"domain.tld", "domain.name"} },
			[]registry.ManifestChange{{"fact", "", "domain.name", true}}, false},
		{"an entity type", func(m *registry.Manifest) { m.Entities = []string{"domain", "email"} },
			[]registry.ManifestChange{{"entity type", "", "email", true}}, false},
		{"a threat", func(m *registry.Manifest) { m.Threats = []sdk.Threat{sdk.Scam} },
			[]registry.ManifestChange{{"threat", "", "scam", true}}, false},
		{"a signal", func(m *registry.Manifest) {
			m.Signals = append(m.Signals, registry.SignalText{Code: "a:b:d", Text: "D"})
		}, []registry.ManifestChange{{"signal", "", "a:b:d", true}}, false},
		{"a text", func(m *registry.Manifest) { m.Signals = []registry.SignalText{{Code: "a:b:c", Text: "New"}} },
			[]registry.ManifestChange{{"text of a:b:c", "C", "New", false}}, false},
		{"a promise", func(m *registry.Manifest) {
			m.Signals = []registry.SignalText{{Code: "a:b:c", Text: "C", Points: 60, Warrants: "block", Final: true,
				Threat: sdk.Spam}}
		}, []registry.ManifestChange{{"promise of a:b:c", "", "60 points, warrants block, final, spam", true}}, false},
		{"points without a band", func(m *registry.Manifest) {
			m.Signals = []registry.SignalText{{Code: "a:b:c", Text: "C", Points: 60}}
		}, []registry.ManifestChange{{"promise of a:b:c", "", "60 points", false}}, false},
	} {
		from := registry.Manifest{Name: "some", Version: "1.0.0", Summary: "S", Entities: []string{"domain"},
			Facts: []string{"domain.tld"}, Signals: []registry.SignalText{{Code: "a:b:c", Text: "C"}},
			BudgetFuel: 1000, MemoryMB: 2, DefaultWeight: 1}
		to := from
		c.edit(&to)
		got := registry.DiffManifests(from, to)
		expect.NoDiff(t, c.name+": changes", append([]registry.ManifestChange{}, c.want...), got)
		back := false
		for i, change := range registry.DiffManifests(to, from) {
			back = back || change.Grants
			expect.That(t, change.From == got[i].To && change.To == got[i].From, "%s: the other direction is %+v",
				c.name, change)
		}
		expect.Equal(t, c.name+": the other direction grants more", back, c.back)
	}
}

func TestSections(t *testing.T) {
	t.Parallel()
	wasm := []byte(header + "\x01\x02aa\x0a\x01c\x00\x06\x03abcde\x0d\x00")
	got, err := registry.Sections(wasm)
	want := []registry.Section{{"type", 4}, {"code", 3}, {`"abc"`, 8}, {"section 13", 2}}
	diff := cmp.Diff(want, got)
	expect.That(t, err == nil && diff == "", "%v (-want +got):\n%s", err, diff)
	for name, text := range map[string]string{
		"not a module":             "abc",
		"a section beyond the end": header + "\x01\x05a",
		"a name beyond the end":    header + "\x00\x01\x05",
	} {
		got, err := registry.Sections([]byte(text))
		expect.That(t, err != nil, "%s: %v", name, got)
	}
}
