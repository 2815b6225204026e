package registry_test

import (
	"slices"
	"strings"
	"testing"

	"assay/registry"
	"assay/registry/expect"
	"assay/sdk"
)

const someCases = `{"name":"a","type":"domain","value":"example.com","facts":{"dns.a":"1"},"min":0,"max":5}

{"name":"b","type":"iban","value":"DE88370400440532013000","min":-5,"max":0}
`

func TestCasesArePacked(t *testing.T) {
	t.Parallel()
	wasm := expect.Value(registry.Pack([]byte(bare), layer().encode(), []byte(someCases)))(t)
	m := expect.Value(registry.OpenModule(wasm))(t)
	cases, err := m.Cases()
	expect.That(t, err == nil && len(cases) == 2 && cases[0].Facts["dns.a"] == "1" && cases[1].Min == -5,
		"the cases are %+v, %v", cases, err)
	without, err := registry.OpenModule(packed(t))
	expect.NoError(t, err)
	cases, err = without.Cases()
	expect.That(t, err == nil && cases == nil, "without a section, the cases are %v, %v", cases, err)
}

func TestParseCasesRefuses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ text, want string }{
		"not JSON":         {someCases + "x", "line 4: "},
		"an unknown field": {`{"name":"a","minimum":1}`, `line 1: there is no field "minimum"`},
		"a score of none":  {`{"name":"a","abstains":true,"max":4}`, "line 1: a layer that abstains has no score"},
		"min above max":    {`{"name":"a","min":5,"max":4}`, "line 1: min 5 is above max 4"},
		"two in a line":    {`{"name":"a"}{"name":"b"}`, "line 1: "},
		"too long":         {strings.Repeat("\n", 256<<10+1), "exceed the limit of 262144"},
	} {
		expect.ErrorText(t, name+": parsing", expect.ErrorOf(registry.ParseCases([]byte(test.text))), test.want)
		expect.Failure(t,
			expect.ErrorOf(registry.Pack([]byte(bare), layer().encode(), []byte(test.text))), "%s: packed", name)
	}
}

func TestDifferences(t *testing.T) {
	t.Parallel()
	score := registry.Case{Min: 10, Max: 20, Codes: []string{"a:b:c"}, Threat: "spam"}
	for name, test := range map[string]struct {
		c    registry.Case
		got  registry.Answer
		want []string
	}{
		"as expected": {score, registry.Answer{Score: 10, Threat: "spam", Codes: []string{"a:b:d", "a:b:c"}}, nil},
		"too low": {score, registry.Answer{Score: 9, Threat: "spam", Codes: []string{"a:b:c"}},
			[]string{"the score is 9, outside 10 to 20"}},
		"all": {score, registry.Answer{Score: 21, Threat: "scam"}, []string{"the score is 21, outside 10 to 20",
			`the threat is "scam", not "spam"`, "the signal a:b:c is missing"}},
		"any threat": {registry.Case{}, registry.Answer{Threat: "scam"}, nil},
		"abstains":   {registry.Case{Abstains: true}, registry.Answer{Abstained: true}, nil},
		"does not": {registry.Case{Abstains: true}, registry.Answer{Score: 3},
			[]string{"the layer scores 3, and is expected to abstain"}},
		"but a score is": {registry.Case{Max: 5}, registry.Answer{Abstained: true},
			[]string{"the layer abstains, and a score of 0 to 5 is expected"}},
	} {
		got := test.c.Differences(test.got)
		expect.That(t, slices.Equal(got, test.want), "%s: %q, want %q", name, got, test.want)
	}
}

func TestSettingsOfCase(t *testing.T) {
	t.Parallel()
	facts, settings := registry.Case{Facts: sdk.Facts{"config.limit": "5", "dns.a": "1"}}.Input()
	expect.That(t, len(facts) == 1 && facts["dns.a"] == "1" && len(settings) == 1 && settings["limit"] == "5",
		"facts %q, settings %q", facts, settings)
}
