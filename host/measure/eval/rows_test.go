package eval_test

import (
	"bytes"
	"compress/gzip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/host/entity"
	"assay/host/measure/eval"
	"assay/registry/expect"
)

func TestReadRow(t *testing.T) {
	t.Parallel()
	good := eval.Row{Type: entity.Domain, Value: "a.example", Malicious: true}
	type testCase struct {
		line   string
		want   eval.Row
		reason string // part of the error; "" if the row is valid
	}
	expect.Each(t, map[string]testCase{
		"required fields only": {`{"type":"domain","value":"a.example","label":1}`, good, ""},
		"label false": {`{"type":"domain","value":"a.example","label":false}`,
			eval.Row{Type: entity.Domain, Value: "a.example"}, ""},
		"unknown fields": {`{"type":"domain","value":"a.example","label":1,"hosted":{"x":[1]}}`, good, ""},
		"rank": {`{"type":"domain","value":"a.example","label":0,"rank":7}`,
			eval.Row{Type: entity.Domain, Value: "a.example", Rank: 7}, ""},

		"facts": {`{"type":"domain","value":"a","label":0,"facts":{"rdap.age_days":12,"rdap.found":"y","net.org":""}}`,
			eval.Row{Type: entity.Domain, Value: "a", Facts: entity.Facts{"rdap.age_days": "12", "rdap.found": "y"}},
			""},
		"held-out scores": {`{"type":"domain","value":"a","label":0,"held_out":{"lexical":-23}}`,
			eval.Row{Type: entity.Domain, Value: "a", HeldOut: map[string]int{"lexical": -23}}, ""},
		"all fields": {`{"type":"phone","value":"030 1","label":0,"source":"s","category":"c","country":"DE"}`,
			eval.Row{Type: entity.Phone, Value: "030 1", Source: "s", Category: "c", Country: "DE"}, ""},
		"region as a string": {`{"type":"phone","value":"1","label":0,"region":"MV"}`,
			eval.Row{Type: entity.Phone, Value: "1", Country: "MV"}, ""},
		"region as an object": {`{"type":"phone","value":"1","label":0,"region":{"country":"MV"}}`,
			eval.Row{Type: entity.Phone, Value: "1", Country: "MV"}, ""},

		"not JSON":          {`{"type":"domain"`, eval.Row{}, "it is not JSON"},
		"array":             {`["domain"]`, eval.Row{}, "it is not a JSON object"},
		"duplicate field":   {`{"type":"domain","type":"domain","value":"a","label":1}`, eval.Row{}, "duplicate"},
		"not UTF-8":         {"{\"type\":\"domain\",\"value\":\"\xff\",\"label\":1}", eval.Row{}, "it is not JSON"},
		"no type":           {`{"value":"a","label":1}`, eval.Row{}, "type is missing"},
		"unknown type":      {`{"type":"url","value":"a","label":1}`, eval.Row{}, `type is "url"`},
		"no value":          {`{"type":"domain","label":1}`, eval.Row{}, "value is missing"},
		"number as value":   {`{"type":"phone","value":49301,"label":1}`, eval.Row{}, "value is a JSON number"},
		"no label":          {`{"type":"domain","value":"a"}`, eval.Row{}, "label is missing"},
		"label 2":           {`{"type":"domain","value":"a","label":2}`, eval.Row{}, "label is 2"},
		"label as a string": {`{"type":"domain","value":"a","label":"bad"}`, eval.Row{}, `label is "bad"`},
		"unknown country": {`{"type":"phone","value":"1","label":1,"country":"Atlantis"}`, eval.Row{},
			"region.country"},
		"fact that is a list": {`{"type":"phone","value":"1","label":1,"facts":{"dns.a":["::1"]}}`, eval.Row{},
			`fact dns.a is ["::1"]`},
		"facts of another type": {`{"type":"phone","value":"1","label":1,"facts":3}`, eval.Row{}, "want an object"},
		"impossible held-out score": {`{"type":"phone","value":"1","label":1,"held_out":{"phone":101}}`, eval.Row{},
			"is 101, outside -100 to 100"},
		"region as an array": {`{"type":"phone","value":"1","label":1,"region":[1]}`, eval.Row{}, "region is [1]"},
	}, func(t *testing.T, c testCase) {
		rows, bad, err := eval.Read(strings.NewReader("\n"+c.line+"\n"), "")
		expect.NoError(t, err)
		if c.reason != "" {
			if len(rows) != 0 || len(bad) != 1 || bad[0].Line != 2 || !strings.Contains(bad[0].Reason, c.reason) {
				t.Errorf("rows %v, invalid lines %v; want one for line 2 that contains %q", rows, bad, c.reason)
			}
			return
		}
		diff := cmp.Diff([]eval.Row{c.want}, rows)
		expect.That(t, diff == "" && bad == nil, "invalid lines %v (-want +got):\n%s", bad, diff)
	})
}

func TestReadForms(t *testing.T) {
	t.Parallel()
	lines := "{\"type\":\"domain\",\"value\":\"a\",\"label\":1}\r\n\n{\"type\":\"iban\",\"value\":\"b\",\"label\":0}"
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	expect.Value(w.Write([]byte(lines)))(t)
	expect.NoError(t, w.Close())
	want := []eval.Row{{Type: entity.Domain, Value: "a", Malicious: true}, {Type: entity.IBAN, Value: "b"}}
	for _, c := range []struct {
		name, input string
		want        []eval.Row
		wantErr     string
	}{
		{"plain", lines, want, ""},
		{"with a byte order mark", "\ufeff" + lines, want, ""},
		{"compressed", zipped.String(), want, ""},
		{"empty", "", nil, ""},
		{"truncated", zipped.String()[:zipped.Len()-9], nil, "reading rows after line"},
		{"gzip header only", "\x1f\x8b", nil, "unpacking rows"},
		{"line too long", strings.Repeat("x", 2<<20), nil, "line 1 is longer"},
	} {
		rows, bad, err := eval.Read(strings.NewReader(c.input), "")
		if c.wantErr != "" {
			expect.ErrorText(t, c.name+": error", err, c.wantErr)
			continue
		}
		if diff := cmp.Diff(c.want, rows); diff != "" || err != nil || bad != nil {
			t.Errorf("%s: error %v, invalid lines %v (-want +got):\n%s", c.name, err, bad, diff)
		}
	}
}

// FuzzRead checks that every line is a valid row, an invalid line, or blank.
func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"type":"phone","value":"1","label":0,"region":{"country":"MV"}}` + "\n{\"type\":1}\n\n"))
	f.Add([]byte("\ufeff{}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		rows, bad, err := eval.Read(bytes.NewReader(data), "")
		if err != nil {
			return
		}
		if lines := bytes.Count(data, []byte("\n")) + 1; len(rows)+len(bad) > lines {
			t.Errorf("%d rows and %d invalid lines from %d lines", len(rows), len(bad), lines)
		}
		for _, r := range rows {
			_, err := entity.Country(r.Country)
			expect.That(t, err == nil, "a row with country %q is accepted", r.Country)
		}
	})
}

func TestReadDefaultType(t *testing.T) {
	t.Parallel()
	rows, bad, err := eval.Read(strings.NewReader(`{"value":"a","label":1}`+"\n"+
		`{"type":"iban","value":"b","label":0}`), entity.Domain)
	if diff := cmp.Diff([]eval.Row{{Type: entity.Domain, Value: "a", Malicious: true}, {Type: entity.IBAN, Value: "b"}},
		rows); diff != "" || err != nil || bad != nil {
		t.Errorf("error %v, invalid lines %v (-want +got):\n%s", err, bad, diff)
	}
}
