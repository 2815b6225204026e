package eval_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"assay/host/check"
	"assay/host/entity"
	"assay/host/measure/eval"
	"assay/registry/expect"
)

// pluginSample has domains that layer a finds in part. The layer to measure is the last.
func pluginSample(score func(random *rand.Rand, malicious bool, a int) int) *sampleBuilder {
	s, random := newSample(), rand.New(rand.NewPCG(3, 4))
	for i := range 1200 {
		malicious, a := i%2 == 0, random.IntN(30)
		if malicious && random.IntN(3) > 0 {
			a = 20 + random.IntN(60)
		}
		source := fmt.Sprint([]string{"benign ", "fraud "}[(i+1)%2], i%5)
		s.add(entity.Domain, malicious, source, a, 0, score(random, malicious, a))
	}
	return s
}

func (s *sampleBuilder) plugin(t *testing.T) *eval.PluginReport {
	t.Helper()
	s.lineup.Traced = "idle"
	fits := []string{}
	r := expect.Value(eval.MeasurePlugin(s.lineup, s.lineup.Limits, s.scored(t), unlimited(.3), 2,
		func(done, total int, what string) { fits = append(fits, fmt.Sprintf("%d/%d %s", done, total, what)) }))(t)
	expect.That(t, len(fits) == 2 && strings.HasSuffix(fits[1], " domain with the layer"), "progress %q", fits)
	return r
}

// TestMeasurePlugin measures layers that know something new, nothing, and what another layer knows.
func TestMeasurePlugin(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		score     func(random *rand.Rand, malicious bool, a int) int
		noise     bool
		low, high float64 // of the correlation with layer a
	}{
		"new": {func(random *rand.Rand, malicious bool, _ int) int {
			if malicious && random.IntN(2) == 0 {
				return 50
			}
			return 0
		}, false, .2, .6},
		"nothing": {func(random *rand.Rand, _ bool, _ int) int { return random.IntN(2) * 40 }, true, -.1, .1},
		"a copy":  {func(_ *rand.Rand, _ bool, a int) int { return a }, true, 1, 1},
	} {
		d := pluginSample(test.score).plugin(t).Types[0]
		expect.That(t, d.AUCGain.Noise == test.noise && d.Recall1.Noise == test.noise && (test.noise ||
			d.AUCGain.Value >= .05 && d.Recall1.Value >= .2), "%s: AUC %+v, recall %+v", name, d.AUCGain, d.Recall1)
		expect.That(t, d.AUCGain.Interval[0] <= d.AUCGain.Value && d.AUCGain.Interval[1] >= d.AUCGain.Value,
			"%s: %v is outside its interval %v", name, d.AUCGain.Value, d.AUCGain.Interval)
		i := slices.IndexFunc(d.Repeats, func(o eval.Overlap) bool { return o.Layer == "a@1.0.0" })
		a := d.Repeats[i]
		expect.That(t, float64(a.Correlation) >= test.low-1e-9 && float64(a.Correlation) <= test.high+1e-9,
			"%s: the correlation is %v, want %v to %v", name, a.Correlation, test.low, test.high)
		if i != 0 || d.Repeats[1].Correlation.Defined() { // layer b never scores
			t.Errorf("%s: %+v", name, d.Repeats)
		}
		expect.That(t, name != "new" || a.SameLabel <= .1 && d.Benign.Count == 0 && d.Weight > 0 &&
			len(d.Errors.Benign) == 0, "%s: %+v", name, d)
	}
}

// TestPluginWithoutItself checks that the figures without the plugin are those of a lineup that never had it.
func TestPluginWithoutItself(t *testing.T) {
	t.Parallel()
	s := pluginSample(func(random *rand.Rand, _ bool, _ int) int { return random.IntN(90) })
	without := s.plugin(t).Types[0].Without
	for value := range s.scores {
		s.scores[value][2] = 0
	}
	want := s.fit(t, unlimited(.3)).Types[0].OutOfFold
	expect.That(t, without.AUC == want.AUC && without.Recall1 == want.Recall1 && *without.Bands == *want.Bands,
		"%+v, want %+v", without, want)
}

// TestPluginSistersCountOnce checks that a find in many names of one campaign is less certain than in as many names.
func TestPluginSistersCountOnce(t *testing.T) {
	t.Parallel()
	width := func(sisters bool) float64 {
		s := newSample()
		for i := range 400 {
			malicious := i%4 == 0
			hit, value := malicious && i%8 == 0, fmt.Sprintf("n%05d.example", i)
			if hit && sisters {
				value = fmt.Sprintf("%s%d.example", []string{"campa", "other"}[i/200], 1000+i)
			}
			score := 0
			if hit {
				score = 60
			}
			s.scores[value] = []int{i * 7 % 50, 0, score}
			s.rows = append(s.rows, eval.Row{Type: entity.Domain, Value: value, Malicious: malicious})
		}
		interval := s.plugin(t).Types[0].AUCGain.Interval
		return float64(interval[1] - interval[0])
	}
	apart, together := width(false), width(true)
	expect.That(t, together >= 1.5*apart, "the interval is %v wide for sisters, and %v for others", together, apart)
}

// TestPluginRows checks which rows count, and what the report says of the others.
func TestPluginRows(t *testing.T) {
	t.Parallel()
	s := pluginSample(func(_ *rand.Rand, malicious bool, a int) int {
		if malicious {
			return a / 2
		}
		return a
	})
	s.add(entity.Email, true, "feed", 1)
	s.add(entity.Email, true, "feed", 1)
	r := s.plugin(t)
	expect.That(t, len(r.Types) == 1 && r.Types[0].N == 1200 && slices.ContainsFunc(r.Warnings,
		func(w string) bool { return strings.HasPrefix(w, "email: nothing can be measured") }), "%d types, warnings %q",
		len(r.Types), r.Warnings)
	errors := r.Types[0].Errors
	expect.That(t, len(errors.Benign) == 2 && errors.Benign[0].Score >= errors.Benign[1].Score &&
		errors.Benign[0].Score >= 20 && len(errors.Malicious) == 2 && errors.Malicious[0].Score == 0, "%+v", errors)
	expect.ErrorText(t, "without rows", expect.ErrorOf(eval.MeasurePlugin(s.lineup, nil, nil, unlimited(.3), 2, nil)),
		"no rows of both labels")
}

// TestPluginPromises measures a layer that finds nothing, and whose signals warrant a review: its weight costs AUC.
func TestPluginPromises(t *testing.T) {
	t.Parallel()
	s := pluginSample(func(random *rand.Rand, _ bool, _ int) int { return random.IntN(2) * 40 })
	s.lineup.Traced = "idle"
	scored := s.scored(t)
	s.lineup.Limits = map[entity.Type][]eval.Limit{entity.Domain: {
		{Name: "idle:kind:detail reaches review", Bias: 1, Weights: []float64{0, 0, .4}, AtLeast: -.4}}}
	r := expect.Value(eval.MeasurePlugin(s.lineup, nil, scored, unlimited(.1), 2, nil))(t)
	if d := r.Types[0]; s.lineup.Bias[entity.Domain]+.4*d.Weight < -.4 || d.AUCGain.Value >= 0 || d.AUCGain.Noise ||
		!strings.Contains(strings.Join(r.Warnings, "\n"), "what its signals warrant: idle:kind:detail reaches review") {
		t.Errorf("weight %v, gain %+v, warnings %q", d.Weight, d.AUCGain, r.Warnings)
	}
}

// signalling adds a signal of the layer idle to decisions of a table.
type signalling struct{ table }

func (f signalling) Score(ctx context.Context, r eval.Row) (*check.Decision, error) {
	d, err := f.table.Score(ctx, r)
	if o := &d.Layers[2]; o.Score != 0 {
		o.Signals = []check.Signal{{Points: o.Score, Code: "idle:kind:detail", Text: "A reason"}}
	}
	return d, err
}

// TestPluginGolden writes a report in each format.
func TestPluginGolden(t *testing.T) {
	t.Parallel()
	s := pluginSample(func(random *rand.Rand, malicious bool, _ int) int {
		if random.IntN(100) < map[bool]int{true: 40, false: 1}[malicious] {
			return 50
		}
		return 0
	})
	s.lineup.Traced = "idle"
	scorer := signalling{table{s.lineup.Layers, s.scores}}
	scored := expect.Value(eval.Run(t.Context(), scorer, s.lineup, s.rows, 0, nil))(t)
	r := expect.Value(eval.MeasurePlugin(s.lineup, nil, scored, unlimited(.3), 2, nil))(t)
	r.Files, r.Skipped, r.Others, r.Replaced, r.Seconds = []string{"rows.jsonl"}, 1, 2, "idle@0.9.0", 1.5
	expect.NoError(t, r.Explain(t.Context(), func(_ context.Context, row eval.Row) (eval.Called, error) {
		return eval.Called{Signals: []check.Signal{}, Facts: map[string]string{"domain.name": row.Value},
			Absent: []string{"dns.a"}, Log: []string{"a line\nand another"}}, nil
	}))
	for format, text := range written(t, r) {
		golden(t, "plugin."+format, text)
	}
}

func TestReadRow(t *testing.T) {
	t.Parallel()
	domain, phone := eval.Row{Type: entity.Domain, Value: "a"}, eval.Row{Type: entity.Phone, Value: "1", Country: "MV"}
	domain.Line, phone.Line = 2, 2
	bad, ranked, measured, scored := domain, domain, domain, domain
	bad.Malicious, ranked.Rank, scored.HeldOut = true, 7, map[string]int{"lexical": -23}
	measured.Facts = entity.Facts{"rdap.age_days": "12", "rdap.found": "y"}
	for line, want := range map[string]eval.Row{ // unknown fields, such as hosted, do not count
		`{"type":"domain","value":"a","label":1}`:                                                            bad,
		`{"type":"domain","value":"a","label":false}`:                                                        domain,
		`{"type":"domain","value":"a","label":1,"hosted":{"x":[1]}}`:                                         bad,
		`{"type":"domain","value":"a","label":0,"rank":7}`:                                                   ranked,
		`{"type":"domain","value":"a","label":0,"held_out":{"lexical":-23}}`:                                 scored,
		`{"type":"domain","value":"a","label":0,"facts":{"rdap.age_days":12,"rdap.found":"y","net.org":""}}`: measured,
		`{"type":"phone","value":"030 1","label":0,"source":"s","category":"c","country":"DE"}`: {
			Type: entity.Phone, Value: "030 1", Source: "s", Category: "c", Country: "DE", Line: 2},
		`{"type":"phone","value":"1","label":0,"region":"MV"}`:             phone,
		`{"type":"phone","value":"1","label":0,"region":{"country":"MV"}}`: phone,
	} {
		rows, invalid, err := eval.Read(strings.NewReader("\n"+line+"\n"), "")
		expect.NoDiff(t, line, []eval.Row{want}, rows)
		expect.That(t, err == nil && invalid == nil, "%s: error %v, invalid lines %v", line, err, invalid)
	}
	for line, reason := range map[string]string{
		`{"type":"domain"`: "it is not JSON",
		`["domain"]`:       "it is not a JSON object",
		`{"type":"domain","type":"domain","value":"a","label":1}`:         "duplicate",
		"{\"type\":\"domain\",\"value\":\"\xff\",\"label\":1}":            "it is not JSON",
		`{"value":"a","label":1}`:                                         "type is missing",
		`{"type":"url","value":"a","label":1}`:                            `type is "url"`,
		`{"type":"domain","label":1}`:                                     "value is missing",
		`{"type":"phone","value":49301,"label":1}`:                        "value is a JSON number",
		`{"type":"domain","value":"a"}`:                                   "label is missing",
		`{"type":"domain","value":"a","label":2}`:                         "label is 2",
		`{"type":"domain","value":"a","label":"bad"}`:                     `label is "bad"`,
		`{"type":"phone","value":"1","label":1,"country":"Atlantis"}`:     "region.country",
		`{"type":"phone","value":"1","label":1,"facts":{"dns.a":["x"]}}`:  `fact dns.a is ["x"]`,
		`{"type":"phone","value":"1","label":1,"facts":3}`:                "want an object",
		`{"type":"phone","value":"1","label":1,"held_out":{"phone":101}}`: "is 101, outside -100 to 100",
		`{"type":"phone","value":"1","label":1,"region":[1]}`:             "region is [1]",
	} {
		rows, invalid, err := eval.Read(strings.NewReader("\n"+line+"\n"), "")
		expect.That(t, err == nil && len(rows) == 0 && len(invalid) == 1 && invalid[0].Line == 2 &&
			strings.Contains(invalid[0].Reason, reason), "%s: rows %v, invalid lines %v, error %v; want %q", line, rows,
			invalid, err, reason)
	}
}

func TestReadForms(t *testing.T) {
	t.Parallel()
	lines := "{\"value\":\"a\",\"label\":1}\r\n\n{\"type\":\"iban\",\"value\":\"b\",\"label\":0}"
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	expect.Value(w.Write([]byte(lines)))(t)
	expect.NoError(t, w.Close())
	want := []eval.Row{{Type: entity.Domain, Value: "a", Malicious: true, Line: 1},
		{Type: entity.IBAN, Value: "b", Line: 3}}
	for _, c := range []struct {
		name, input string
		want        []eval.Row
		wantErr     string
	}{
		{"plain", lines, want, ""},
		{"with a byte order mark", "\ufeff" + lines, want, ""},
		{"compressed", zipped.String(), want, ""},
		{"empty", "", nil, ""},
		{"truncated", zipped.String()[:zipped.Len()-9], want, "reading rows after line"},
		{"gzip header only", "\x1f\x8b", nil, "unpacking rows"},
		{"line too long", strings.Repeat("x", 2<<20), nil, "line 1 is longer"},
	} {
		rows, bad, err := eval.Read(strings.NewReader(c.input), entity.Domain) // of rows without a type
		expect.Outcome(t, c.name, err, c.wantErr)
		expect.NoDiff(t, c.name, c.want, rows)
		expect.That(t, bad == nil, "%s: invalid lines %v", c.name, bad)
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
			expect.Error(t, "a row with country "+r.Country, expect.ErrorOf(entity.Country(r.Country)), nil)
		}
	})
}
