package registry_test

import (
	"strings"
	"testing"

	"assay/registry"
)

const someCases = `{"name":"a","type":"domain","value":"example.com","facts":{"dns.a":"1"},"min":0,"max":5}

{"name":"b","type":"iban","value":"DE88370400440532013000","min":-5,"max":0}
`

func TestCasesArePacked(t *testing.T) {
	t.Parallel()
	wasm, err := registry.Pack([]byte(bare), layer().encode(), []byte(someCases))
	if err != nil {
		t.Fatal(err)
	}
	m, err := registry.OpenModule(wasm)
	if err != nil {
		t.Fatal(err)
	}
	cases, err := m.Cases()
	if err != nil || len(cases) != 2 || cases[0].Facts["dns.a"] != "1" || cases[1].Min != -5 {
		t.Errorf("the cases are %+v, %v", cases, err)
	}
	without, err := registry.OpenModule(packed(t))
	if err != nil {
		t.Fatal(err)
	}
	if cases, err := without.Cases(); err != nil || cases != nil {
		t.Errorf("without a section, the cases are %v, %v", cases, err)
	}
}

func TestParseCasesRefuses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ text, want string }{
		"not JSON":         {someCases + "x", "line 4: "},
		"an unknown field": {`{"name":"a","minimum":1}`, `line 1: there is no field "minimum"`},
		"min above max":    {`{"name":"a","min":5,"max":4}`, "line 1: min 5 is above max 4"},
		"two in a line":    {`{"name":"a"}{"name":"b"}`, "line 1: "},
		"too long":         {strings.Repeat("\n", 256<<10+1), "exceed the limit of 262144"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cases, err := registry.ParseCases([]byte(test.text))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("parsed as %v, %v; want an error with %q", cases, err, test.want)
			}
			if _, err := registry.Pack([]byte(bare), layer().encode(), []byte(test.text)); err == nil {
				t.Error("packed")
			}
		})
	}
}
