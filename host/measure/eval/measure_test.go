package eval_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"assay/host/check"
	"assay/host/entity"
	"assay/host/measure/eval"
	"assay/registry/expect"
)

var update = flag.Bool("update", false, "update the golden files")

// lineup has a layer for all types, one for domains and emails, and one that always abstains.
func lineup() eval.Model {
	domains := []entity.Type{entity.Domain, entity.Email}
	return eval.Model{
		Revision: 3, Bias: same(-4), Bands: check.Bands{Review: 40, Block: 70}, Layers: []eval.Layer{
			{Name: "first", Version: "1.0.0", Weight: same(8), Types: entity.Types()},
			{Name: "second", Version: "2.1.0", Weight: same(4), Types: domains},
			{Name: "silent", Version: "1.0.0", Weight: same(6), Types: domains},
		},
	}
}

// scores are the scores of the layers first and second for a value, and how first fails on it.
type scores struct {
	first, second int
	failure       check.FailureReason
}

// fakeScorer returns the given scores.
type fakeScorer struct {
	scores   map[string]scores
	mu       sync.Mutex
	attempts map[string]int
	unknown  string // the value for which a fact source does not respond
	threats  map[string]string
}

func (f *fakeScorer) Score(_ context.Context, field eval.Row) (*check.Decision, error) {
	e, err := entity.Parse(field.Type, field.Value, field.Country)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	if f.attempts == nil {
		f.attempts = map[string]int{}
	}
	f.attempts[field.Value]++
	f.mu.Unlock()
	s, ok := f.scores[field.Value]
	if !ok {
		return nil, fmt.Errorf("no scores for %s", field.Value)
	}
	l := lineup()
	var outcomes []check.Outcome
	for i, score := range []int{s.first, s.second, 0} {
		layer := l.Layers[i]
		if i > 0 && field.Type != entity.Domain && field.Type != entity.Email {
			continue
		}
		o := check.Outcome{Layer: layer.Name, Version: layer.Version, Weight: layer.Weight[field.Type], Micros: 10,
			Score: score, Range: check.Range{-100, 100}, Abstained: i == 2}
		if i == 0 && s.failure != "" {
			o.Failure, o.Score = s.failure, 0
		}
		o.Contribution, o.Threat = o.Weight*float64(o.Score)/100, f.threats[field.Value]
		if o.Score > 0 {
			o.Signals = []check.Signal{{Points: o.Score, Code: layer.Name + ":kind:detail",
				Text: "it looks <bad> & \"odd\""}}
		}
		outcomes = append(outcomes, o)
	}
	fused := check.Fuse(l.Bias[field.Type], l.Bands, outcomes)
	if field.Value == f.unknown {
		fused.Signals = append(fused.Signals, check.Signal{Code: "host:unknown:dns", Text: "nothing"})
	}
	return &check.Decision{Fused: fused, Type: e.Type, Query: field.Value, Layers: outcomes}, nil
}

// example returns ten domains and two phone numbers.
func example() (*fakeScorer, []eval.Row) {
	f := &fakeScorer{scores: map[string]scores{}}
	var rows []eval.Row
	add := func(t entity.Type, value string, malicious bool, source, category string, s scores) {
		f.scores[value] = s
		rows = append(rows, eval.Row{Type: t, Value: value, Malicious: malicious, Source: source, Category: category})
	}
	add(entity.Domain, "shop.example", false, "popular", "shops", scores{})
	add(entity.Domain, "garden.example", false, "popular", "homes", scores{})
	add(entity.Domain, "bank.example", false, "brands", "shops", scores{first: 30})
	add(entity.Domain, "login-bank.example", false, "brands", "shops", scores{first: 60, second: 20})
	add(entity.Domain, "münchen.example", false, "popular", "", scores{second: 10})
	add(entity.Domain, "bank-login.example", true, "feed", "phishing", scores{first: 90, second: 60})
	add(entity.Domain, "verify-bank.example", true, "feed", "phishing", scores{first: 60, second: 20})
	add(entity.Domain, "bonk.example", true, "list <b>\x1b[2J", "typosquat", scores{first: 50})
	add(entity.Domain, "quiet.example", true, "list <b>\x1b[2J", "scam", scores{})
	add(entity.Domain, "not a domain", true, "list <b>\x1b[2J", "scam", scores{})
	add(entity.Phone, "+33612345678", false, "plan", "mobile", scores{})
	add(entity.Phone, "+33899700000", true, "plan", "premium", scores{first: 100})
	return f, rows
}

func measure(t *testing.T, f *fakeScorer, rows []eval.Row, o eval.Options) *eval.Report {
	t.Helper()
	r := eval.Measure(lineup(), expect.Value(eval.Run(t.Context(), f, lineup(), rows, 0, nil))(t), o)
	r.Files, r.Seconds = []string{"example.jsonl"}, 1.25
	expect.NoError(t, r.Explain(t.Context(), f))
	return r
}

// TestCalibration checks a figure computed by hand, for benign scores 2, 2, 17, 83, 3 and bad ones 100, 83, 50, 2.
// At a prevalence of 10%, a malicious row weighs .1/4 and a benign one .9/5.
func TestCalibration(t *testing.T) {
	t.Parallel()
	f, rows := example()
	c := measure(t, f, rows, eval.Options{Prevalence: .1}).Types[0].Calibration
	brier := .9/5*(2*.02*.02+.03*.03+.17*.17+.83*.83) + .1/4*(.17*.17+.5*.5+.98*.98)
	expect.That(t, c.Prevalence == .1 && near(float64(c.Brier), brier), "Brier %v, want %v", c.Brier, brier)
}

// A row on which a layer fails counts with the score that the API would return, and with a warning, and is scored once.
// Rows with failed lookups are counted with a warning, too.
func TestFailures(t *testing.T) {
	t.Parallel()
	f, rows := example()
	f.scores["bonk.example"], f.unknown = scores{first: 50, failure: check.Exhausted}, "bank.example"
	r := measure(t, f, rows, eval.Options{})
	layer := r.Types[0].Layers[0]
	expect.That(t, r.Failures() == 1 && layer.Failures["fuel"] == 1 &&
		slices.Equal(layer.FailedOn, []string{"bonk.example"}) && len(r.Warnings) == 4,
		"%d failures, %v on %q, warnings %q", r.Failures(), layer.Failures, layer.FailedOn, r.Warnings)
	expect.That(t, r.Types[0].Unknown == 1 && strings.Contains(strings.Join(r.Warnings, "\n"),
		"did not respond in time: 1"), "%d unknown, warnings %q", r.Types[0].Unknown, r.Warnings)
	expect.That(t, f.attempts["bonk.example"] == 1 && f.attempts["shop.example"] == 1, "attempts %v", f.attempts)
}

// Without rows of both labels, AUC and recall are undefined, and all formats are valid.
func TestSingleLabel(t *testing.T) {
	t.Parallel()
	expect.EachNamed(t, map[string]func(eval.Row) bool{
		"benign only":    func(r eval.Row) bool { return !r.Malicious },
		"malicious only": func(r eval.Row) bool { return r.Malicious },
		"invalid only":   func(r eval.Row) bool { return r.Value == "not a domain" },
		"none":           func(eval.Row) bool { return false },
	}, func(t *testing.T, name string, keep func(eval.Row) bool) {
		f, rows := example()
		rows = slices.DeleteFunc(rows, func(r eval.Row) bool { return !keep(r) })
		r := measure(t, f, rows, eval.Options{Worst: 5})
		for _, typed := range r.Types {
			expect.That(t, !typed.AUC.Defined() && !typed.Recall1.Defined() && !typed.AUCInterval[0].Defined(),
				"AUC %v, recall %v", typed.AUC, typed.Recall1)
		}
		expect.That(t, name == "none" || len(r.Warnings) != 0, "there is no warning")
		for format, text := range written(t, r) {
			expect.That(t, !strings.Contains(text, "NaN") && !strings.Contains(text, "Inf"),
				"%s contains an undefined number:\n%s", format, text)
		}
	})
}

// report is one that can be written in each format.
type report interface {
	WriteText(w io.Writer) error
	WriteHTML(w io.Writer) error
}

// written returns a report in each format.
func written(t *testing.T, r report) map[string]string {
	t.Helper()
	var text, page bytes.Buffer
	expect.NoError(t, r.WriteText(&text))
	expect.NoError(t, r.WriteHTML(&page))
	data := expect.Value(json.MarshalIndent(r, "", " "))(t)
	return map[string]string{"txt": text.String(), "html": page.String(), "json": string(data) + "\n"}
}

// TestGolden compares all figures of the example with recorded ones.
func TestGolden(t *testing.T) {
	t.Parallel()
	f, rows := example()
	r := measure(t, f, rows, eval.Options{Worst: 2})
	r.Skipped = 1
	for format, text := range written(t, r) {
		golden(t, "report."+format, text)
	}
}

// golden compares got with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		expect.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	expect.NoDiff(t, name, string(expect.Value(os.ReadFile(file))(t)), got)
}

// The figures of a single type are at the top level.
func TestJSONOfSingleType(t *testing.T) {
	t.Parallel()
	f, rows := example()
	for n, want := range map[int][]string{10: {"auc", "bands", "layers", "recall_at_01pct_fpr", "recall_at_1pct_fpr"},
		12: {"types"}} {
		var out map[string]json.RawMessage
		expect.NoError(t, json.Unmarshal(expect.Value(json.Marshal(measure(t, f, rows[:n], eval.Options{})))(t), &out))
		var got []string
		for _, field := range []string{"auc", "bands", "layers", "recall_at_01pct_fpr", "recall_at_1pct_fpr", "types"} {
			if text := out[field]; len(text) > 0 && string(text) != "null" {
				got = append(got, field)
			}
		}
		expect.NoDiff(t, fmt.Sprint(n, " rows"), want, got)
	}
}

func TestRunStopsAtError(t *testing.T) {
	t.Parallel()
	f, rows := example()
	delete(f.scores, "bonk.example")
	expect.ErrorText(t, "error",
		expect.ErrorOf(eval.Run(t.Context(), f, lineup(), rows, 0, nil)), "scoring domain: no scores")
	f, rows = example()
	expect.Error(t, "error", expect.ErrorOf(eval.Run(expect.Ended(t), f, lineup(), rows, 0, nil)), context.Canceled)
}

func TestProgress(t *testing.T) {
	t.Parallel()
	f, rows := example()
	var many []eval.Row
	for range 50 {
		many = append(many, rows...)
	}
	last, calls := 0, 0
	expect.NoError(t, expect.ErrorOf(eval.Run(t.Context(), f, lineup(), many, 3, func(done, total int) {
		expect.That(t, done > last && total == len(many), "%d of %d after %d", done, total, last)
		last = done
		calls++
	})))
	expect.That(t, last == len(many) && calls <= 20, "%d calls, the last at %d of %d", calls, last, len(many))
}

// A held-out score replaces the layer's own in every figure, and in the explanation of errors.
func TestHeldOut(t *testing.T) {
	t.Parallel()
	f, rows := example()
	for i := range rows {
		if rows[i].Value == "bonk.example" {
			rows[i].HeldOut = map[string]int{"first": 10, "gone": 90} // instead of 50
		}
	}
	r := measure(t, f, rows, eval.Options{Worst: 2})
	d := r.Types[0]
	// bias -4 + 8*0.1 is a score of 4
	expect.That(t, d.Histogram.Malicious[50] == 0 && d.Histogram.Malicious[4] == 1 && d.HeldOut["first"] == 1,
		"histogram %v, held out %v", d.Histogram.Malicious, d.HeldOut)
	m := d.Errors.Malicious[1]
	expect.That(t, m.Value == "bonk.example" && m.Score == 4 && m.Layers[0].Score == 10 &&
		m.Layers[0].Signals[0].Points == 10, "explained as %+v", m)
	warnings := strings.Join(r.Warnings, "\n")
	for _, want := range []string{"of layer first, 1 of 9 rows", "no layer gone"} {
		expect.That(t, strings.Contains(warnings, want), "warnings lack %q:\n%s", want, warnings)
	}
}

// same is the same number for all types.
func same(number float64) check.ByType {
	b := check.ByType{}
	for _, t := range entity.Types() {
		b[t] = number
	}
	return b
}

func TestLetters(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"": "", "abc": "abc", "abcdefgh": "abcdef", "müüüüüß": "müüüüü"} {
		expect.Equal(t, "the first letters of "+name, eval.Letters(name), want)
	}
}
