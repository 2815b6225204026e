package rehearsal

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"assay/host/entity"
	"assay/host/sandbox"
	"assay/registry"
	"assay/registry/expect"
)

// Every variation can be sent, and all of them come, in the same order each time. The number of all is bounded.
func TestVariations(t *testing.T) {
	t.Parallel()
	cases := []registry.Case{
		{Type: "domain", Value: "login.shop-24.co.uk", Facts: map[string]string{"rdap.registrar": "An Org",
			"rdap.age_days": "3", "config.words": "a b"}},
		{Type: "email", Value: "jane+x@example.com"}, {Type: "phone", Value: "+491712345678"},
		{Type: "iban", Value: "DE89370400440532013000"}, {Type: "iban", Value: "no IBAN"},
	}
	all := Variations(cases)
	expect.NoDiff(t, "again", all, Variations(cases))
	got := map[entity.Type]map[string]Variation{}
	for _, v := range all {
		_, err := entity.Parse(v.Type, v.Value, v.Country)
		expect.That(t, err == nil, "%s: %v", v.How, err)
		if got[v.Type] == nil {
			got[v.Type] = map[string]Variation{}
		}
		got[v.Type][v.How] = v
	}
	names := []string{"its labels repeated", "other scripts", "the longest label", "the longest name",
		"the longest punycode", "the most labels"}
	for kind, want := range map[entity.Type][]string{
		entity.Domain: append([]string{"long facts", "odd facts"}, names...),
		entity.Email: {"another script", "other scripts", "quotation marks", "the longest label",
			"the longest local part", "the longest name", "the longest punycode", "the longest tag", "the most labels"},
		entity.Phone: {"a digit less", "a digit more", "the most digits"},
		entity.IBAN:  {"an unknown country", "letters for digits", "the greatest length"},
	} {
		slices.Sort(want)
		expect.NoDiff(t, string(kind), want, slices.Sorted(maps.Keys(got[kind])))
	}
	facts := got[entity.Domain]["long facts"].Facts
	expect.That(t, len(facts["rdap.registrar"]) >= 250 && facts["rdap.age_days"] == "3" &&
		facts["config.words"] == "a b", "long facts: %q", facts)
	expect.Equal(t, "bytes of the longest name", len(got[entity.Domain]["the longest name"].Value), 253)
	many := make([]registry.Case, 200)
	for i := range many {
		many[i] = registry.Case{Type: "domain", Value: "shop" + strings.Repeat("x", i%40) + ".example"}
	}
	n := len(Variations(slices.Repeat(many, 2)))
	expect.That(t, n <= maxVariations, "%d variations", n)
}

// A layer that fails for long names passes its only case and fails for variations of it, in its tests, in measurements
// and in its passport.
func TestVariationsFindFailures(t *testing.T) {
	t.Parallel()
	m := packed(t, sections("\x01\x05assay\x04fact\x00\x01", "\x01\x00", "", "\x01",
		"\x00\x41\x00\x41\x0c\x41\xe4\x00\x41\x20\x10\x00\x41\xc8\x01\x4a\x04\x40\x00\x0b\x41\x00\x0b",
		"\x01\x00\x41\x00\x0b\x0cdomain.ascii"))
	cases := []registry.Case{{Name: "short", Type: "domain", Value: "www.example.com"}}
	p := expect.Value(sandbox.New(sandbox.Config{}).Open(t.Context(), m))(t)
	defer func() { expect.NoError(t, p.Close(context.WithoutCancel(t.Context()))) }()
	r := expect.Value(Cases(t.Context(), p, cases))(t)
	failed := r.Cases[1:]
	expect.That(t, len(r.Cases[0].Differences) == 0 && r.Failed == len(failed) && r.Varied >= 6 && len(failed) >= 3 &&
		strings.HasPrefix(failed[0].Name, "the longest name: a1b") &&
		strings.Contains(failed[0].Differences[0], "the layer failed: trap"), "%+v", r)
	values := expect.Value(samples(m))(t)
	for _, v := range Variations(expect.Value(m.Cases())(t)) {
		if !slices.ContainsFunc(values, func(s sample) bool { return s.Type == v.Type && s.Value == v.Value }) {
			t.Errorf("the passport does not try %s: %s", v.How, v.Value)
		}
	}
}
