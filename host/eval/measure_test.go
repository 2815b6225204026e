package eval_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"assay/host/check"
	"assay/host/entity"
	"assay/host/eval"
)

var update = flag.Bool("update", false, "write the golden files anew")

// lineup has a layer for every type, one for domains and emails, and one that never says anything.
func lineup() eval.Model {
	domains := []entity.Type{entity.Domain, entity.Email}
	return eval.Model{
		Revision: 3, Bias: -4, Bands: check.Bands{Review: 40, Block: 70},
		Layers: []eval.Layer{
			{Name: "first", Version: "1.0.0", Weight: 8, Types: entity.Types(), Budget: time.Millisecond},
			{Name: "second", Version: "2.1.0", Weight: 4, Types: domains, Budget: time.Millisecond},
			{Name: "silent", Version: "1.0.0", Weight: 6, Types: domains, Budget: time.Millisecond},
		},
	}
}

// said is what the layers first and second say of a value.
type said struct {
	first, second int
	lost          check.FailureReason // of first
	slow          bool                // first
}

// fake is a scorer that says what it is told to. It is as slow, and loses its layer as often, as troubles says: for
// ever when that is negative.
type fake struct {
	says     map[string]said
	mu       sync.Mutex
	troubles int
	asked    map[string]int
	silent   string // the value for which a source of facts does not answer
}

func (f *fake) Explain(_ context.Context, field check.Field, country string) (*check.Decision, error) {
	e, err := entity.Parse(field.Type, field.Value, country)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	if f.asked == nil {
		f.asked = map[string]int{}
	}
	f.asked[field.Value]++
	troubled := f.troubles < 0 || f.asked[field.Value] <= f.troubles
	f.mu.Unlock()
	s, ok := f.says[field.Value]
	if !ok {
		return nil, fmt.Errorf("nothing to say of %s", field.Value)
	}
	l := lineup()
	var outcomes []check.Outcome
	for i, score := range []int{s.first, s.second, 0} {
		layer := l.Layers[i]
		if i > 0 && field.Type != entity.Domain && field.Type != entity.Email {
			continue
		}
		o := check.Outcome{Layer: layer.Name, Version: layer.Version, Weight: layer.Weight, Micros: 10, Score: score,
			Abstained: i == 2}
		if i == 0 && s.lost != "" && troubled {
			o.Failure, o.Score = s.lost, 0
		}
		if i == 0 && s.slow && troubled {
			o.Micros = 5000
		}
		o.Contribution = layer.Weight * float64(o.Score) / 100
		if o.Score > 0 {
			o.Signals = []check.Signal{{Points: o.Score, Code: layer.Name + ":kind:detail",
				Text: "it looks <bad> & \"odd\""}}
		}
		outcomes = append(outcomes, o)
	}
	fused := check.Fuse(l.Bias, l.Bands, outcomes)
	if field.Value == f.silent {
		fused.Signals = append(fused.Signals, check.Signal{Code: "host:unknown:dns", Text: "nothing"})
	}
	return &check.Decision{Fused: fused, Type: e.Type, Query: field.Value, Layers: outcomes}, nil
}

// example is ten domains and two phone numbers.
func example() (*fake, []eval.Row) {
	f := &fake{says: map[string]said{}}
	var rows []eval.Row
	add := func(t entity.Type, value string, malicious bool, source, category string, s said) {
		f.says[value] = s
		rows = append(rows, eval.Row{Type: t, Value: value, Malicious: malicious, Source: source, Category: category})
	}
	add(entity.Domain, "shop.example", false, "popular", "shops", said{})
	add(entity.Domain, "garden.example", false, "popular", "homes", said{})
	add(entity.Domain, "bank.example", false, "brands", "shops", said{first: 30})
	add(entity.Domain, "login-bank.example", false, "brands", "shops", said{first: 60, second: 20})
	add(entity.Domain, "münchen.example", false, "popular", "", said{second: 10})
	add(entity.Domain, "bank-login.example", true, "feed", "phishing", said{first: 90, second: 60})
	add(entity.Domain, "verify-bank.example", true, "feed", "phishing", said{first: 60, second: 20})
	add(entity.Domain, "bonk.example", true, "list <b>\x1b[2J", "typosquat", said{first: 50})
	add(entity.Domain, "quiet.example", true, "list <b>\x1b[2J", "scam", said{})
	add(entity.Domain, "not a domain", true, "list <b>\x1b[2J", "scam", said{})
	add(entity.Phone, "+33612345678", false, "plan", "mobile", said{})
	add(entity.Phone, "+33899700000", true, "plan", "premium", said{first: 100})
	return f, rows
}

func measure(t *testing.T, f *fake, rows []eval.Row, o eval.Options) *eval.Report {
	t.Helper()
	scored, err := eval.Run(t.Context(), f, lineup(), rows, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := eval.Measure(lineup(), scored, o)
	r.Files, r.Seconds = []string{"example.jsonl"}, 1.25
	if err := r.Explain(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestMeasure holds a report to figures reckoned by hand. Of the domains, the fused scores are 2, 2, 17, 83 (log-odds
// 1.6), 3 for benign ones, and 100 (5.6), 83, 50, 2 for malicious ones.
func TestMeasure(t *testing.T) {
	t.Parallel()
	f, rows := example()
	r := measure(t, f, rows, eval.Options{Worst: 2})
	if len(r.Types) != 2 || r.Types[0].Type != entity.Domain || r.Types[1].Type != entity.Phone {
		t.Fatalf("types %v", r.Types)
	}
	d := r.Types[0]
	if d.N != 9 || d.Positives != 4 || d.Refused.Malicious != 1 || d.Refused.Benign != 0 {
		t.Errorf("%d rows, %d positives, refused %+v", d.N, d.Positives, d.Refused)
	}
	// Pairs of 20 in order: 100 beats 5; 83 beats 4 and ties 1; 50 beats 4; 2 ties 2.
	if want := (5 + 4.5 + 4 + 1) / 20.0; !near(float64(d.AUC), want) {
		t.Errorf("AUC %v, want %v", d.AUC, want)
	}
	if d.Recall1 != .25 || d.Threshold1 != 100 || d.FPR1 != 0 || d.Recall01 != .25 {
		t.Errorf("recall %v from %v at %v; %v", d.Recall1, d.Threshold1, d.FPR1, d.Recall01)
	}
	bands := map[string][2]int{"allow": {d.Bands.Allow.Benign, d.Bands.Allow.Malicious},
		"review": {d.Bands.Review.Benign, d.Bands.Review.Malicious},
		"block":  {d.Bands.Block.Benign, d.Bands.Block.Malicious}}
	if diff := cmp.Diff(map[string][2]int{"allow": {4, 1}, "review": {0, 1}, "block": {1, 2}}, bands); diff != "" {
		t.Errorf("bands (-want +got):\n%s", diff)
	}
	if b := d.Bands.Review; b.TruePositives != 3 || b.FalsePositives != 1 || b.FalseNegatives != 1 ||
		b.TrueNegatives != 4 || b.Recall != .75 || b.FPR != .2 {
		t.Errorf("from review on: %+v", b)
	}
	if d.Histogram.Benign[2] != 2 || d.Histogram.Benign[83] != 1 || d.Histogram.Malicious[100] != 1 ||
		d.Histogram.Malicious[2] != 1 {
		t.Errorf("histogram %+v", d.Histogram)
	}

	first, second, silent := d.Layers[0], d.Layers[1], d.Layers[2]
	// Alone: 0, 0, 30, 60, 0 against 90, 60, 50, 0.
	if want := (5 + 4.5 + 4 + 1.5) / 20; !near(float64(first.AUC), want) || first.Recall1 != .25 || first.Spoke != 5 {
		t.Errorf("first alone: %+v", first)
	}
	// Without first: 2, 2, 2, 4, 3 against 17, 4, 2, 2.
	if want := (5 + 4.5 + 1.5 + 1.5) / 20; !near(float64(first.LeftOut.AUC), want) || first.LeftOut.Recall1 != .25 {
		t.Errorf("without first: %+v", first.LeftOut)
	}
	// Without second: 2, 2, 17, 69, 2 against 96, 69, 50, 2.
	if second.Spoke != 4 || second.LeftOut.Bands.Block.FalsePositives != 0 ||
		second.LeftOut.Bands.Block.TruePositives != 1 || second.LeftOut.AUC != .75 {
		t.Errorf("second: %+v", second)
	}
	if silent.AUC != .5 || silent.Abstained != 9 || silent.LeftOut.AUC != d.AUC {
		t.Errorf("silent: %+v", silent)
	}
	if len(r.Types[1].Layers) != 1 {
		t.Errorf("phone numbers have %d layers", len(r.Types[1].Layers))
	}

	type group struct {
		name  string
		n     int
		at    eval.Number
		block eval.Number
	}
	var sources []group
	for _, g := range d.Sources {
		sources = append(sources, group{g.Name, g.N, g.AtOnePct, g.Block})
	}
	if diff := cmp.Diff([]group{{"list <b>\x1b[2J", 2, 0, 0}, {"feed", 2, .5, 1}, {"brands", 2, 0, .5},
		{"popular", 3, 0, 0}}, sources, cmp.AllowUnexported(group{})); diff != "" {
		t.Errorf("sources (-want +got):\n%s", diff)
	}
	if b := d.Errors.Benign; len(b) != 2 || b[0].Value != "login-bank.example" || b[1].Value != "bank.example" ||
		b[0].Verdict != check.Block || len(b[0].Layers[0].Signals) != 1 {
		t.Errorf("benign errors %+v", b)
	}
	if m := d.Errors.Malicious; len(m) != 2 || m[0].Value != "quiet.example" || m[1].Value != "bonk.example" {
		t.Errorf("malicious errors %+v", m)
	}
}

// TestErrors: what is right already is no error, however many are asked for.
func TestErrors(t *testing.T) {
	t.Parallel()
	f, rows := example()
	e := measure(t, f, rows, eval.Options{Worst: 100}).Types[0].Errors
	values := func(list []eval.Mistake) (all []string) {
		for _, m := range list {
			all = append(all, m.Value)
		}
		return all
	}
	if diff := cmp.Diff([]string{"login-bank.example", "bank.example", "münchen.example"},
		values(e.Benign)); diff != "" {
		t.Errorf("benign rows with nothing against them are listed (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"quiet.example", "bonk.example"}, values(e.Malicious)); diff != "" {
		t.Errorf("malicious rows that are blocked are listed (-want +got):\n%s", diff)
	}
}

// TestCalibration is reckoned by hand: benign 2, 2, 17, 83, 3, malicious 100, 83, 50, 2.
func TestCalibration(t *testing.T) {
	t.Parallel()
	f, rows := example()
	c := measure(t, f, rows, eval.Options{}).Types[0].Calibration
	brier := (3*.02*.02 - .02*.02 + .03*.03 + .17*.17 + .83*.83 + 0 + .17*.17 + .5*.5 + .98*.98) / 9
	// Bins: 0-9 holds 2, 2, 3 and a malicious 2; 10-19 a 17; 50-59 a malicious 50; 80-89 an 83 of each; 90-100 a
	// malicious 100.
	ece := ((1 - .09) + .17 + .5 + (1.66 - 1) + 0) / 9
	if !near(float64(c.Prevalence), 4.0/9) || !near(float64(c.Brier), brier) || !near(float64(c.ECE), ece) {
		t.Errorf("%v: Brier %v and ECE %v, want %v and %v", c.Prevalence, c.Brier, c.ECE, brier, ece)
	}
	if b := c.Bins[0]; b.N != 4 || !near(float64(b.Predicted), .0225) || b.Observed != .25 ||
		c.Bins[9].To != 100 || c.Bins[9].N != 1 || c.Bins[2].Predicted.Defined() {
		t.Errorf("bins %+v", c.Bins)
	}
	// At a prevalence of 10% a malicious row counts .1/4 and a benign one .9/5.
	c = measure(t, f, rows, eval.Options{Prevalence: .1}).Types[0].Calibration
	brier = .9/5*(2*.02*.02+.03*.03+.17*.17+.83*.83) + .1/4*(.17*.17+.5*.5+.98*.98)
	if c.Prevalence != .1 || !near(float64(c.Brier), brier) {
		t.Errorf("at 10%%: Brier %v, want %v", c.Brier, brier)
	}
}

// TestTrouble: a row that a layer was lost on, or too slow for, is asked for once more; what stays so is counted and
// said.
func TestTrouble(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		troubles int
		lost     int
		over     int
		warnings int
	}{{"none", 0, 0, 0, 1}, {"once", 1, 0, 0, 1}, {"for ever", -1, 1, 1, 4}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f, rows := example()
			f.troubles = c.troubles
			f.says["bonk.example"] = said{first: 50, lost: check.Timeout}
			f.says["quiet.example"] = said{slow: true}
			r := measure(t, f, rows, eval.Options{})
			layer := r.Types[0].Layers[0]
			if r.Lost() != c.lost || layer.Lost["timeout"] != c.lost || layer.OverBudget != c.over ||
				len(r.Warnings) != c.warnings {
				t.Errorf("lost %d, over budget %d, warnings %q", r.Lost(), layer.OverBudget, r.Warnings)
			}
			if c.lost > 0 && !slices.Equal(layer.LostValues, []string{"bonk.example"}) {
				t.Errorf("lost on %q", layer.LostValues)
			}
			if want := map[bool]int{true: 2, false: 1}[c.troubles != 0]; f.asked["bonk.example"] != want ||
				f.asked["shop.example"] != 1 {
				t.Errorf("asked %v", f.asked)
			}
		})
	}
}

// TestOneLabel: nothing is made up where there is nothing to tell apart, and every form can be written.
func TestOneLabel(t *testing.T) {
	t.Parallel()
	for name, keep := range map[string]func(eval.Row) bool{
		"benign only":    func(r eval.Row) bool { return !r.Malicious },
		"malicious only": func(r eval.Row) bool { return r.Malicious },
		"refused only":   func(r eval.Row) bool { return r.Value == "not a domain" },
		"none":           func(eval.Row) bool { return false },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, all := example()
			var rows []eval.Row
			for _, r := range all {
				if keep(r) {
					rows = append(rows, r)
				}
			}
			r := measure(t, f, rows, eval.Options{Worst: 5})
			for _, typed := range r.Types {
				if typed.AUC.Defined() || typed.Recall1.Defined() || typed.AUCInterval[0].Defined() {
					t.Errorf("AUC %v, recall %v", typed.AUC, typed.Recall1)
				}
			}
			if name != "none" && len(r.Warnings) == 0 {
				t.Error("nothing is said of it")
			}
			for form, write := range forms(r) {
				if text := write(t); strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
					t.Errorf("%s holds what is no number:\n%s", form, text)
				}
			}
		})
	}
}

// forms are the ways to write a report.
func forms(r *eval.Report) map[string]func(*testing.T) string {
	written := func(t *testing.T, b *bytes.Buffer, err error) string {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
		return b.String()
	}
	return map[string]func(*testing.T) string{
		"report.txt":  func(t *testing.T) string { var b bytes.Buffer; return written(t, &b, r.WriteText(&b)) },
		"report.html": func(t *testing.T) string { var b bytes.Buffer; return written(t, &b, r.WriteHTML(&b)) },
		"report.json": func(t *testing.T) string {
			data, err := json.MarshalIndent(r, "", " ")
			return written(t, bytes.NewBuffer(append(data, '\n')), err)
		},
	}
}

func TestGolden(t *testing.T) {
	t.Parallel()
	f, rows := example()
	r := measure(t, f, rows, eval.Options{Worst: 2})
	r.Skipped = 1
	for name, write := range forms(r) {
		golden(t, name, write(t))
	}
}

// golden compares with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; go test -update writes it anew):\n%s", name, diff)
	}
}

// TestJSONOfOneType: the figures of a single type stand at the top.
func TestJSONOfOneType(t *testing.T) {
	t.Parallel()
	f, rows := example()
	for n, want := range map[int]string{10: "at the top", 12: "in types"} {
		var out struct {
			AUC      *float64        `json:"auc"`
			Recall1  *float64        `json:"recall_at_1pct_fpr"`
			Recall01 *float64        `json:"recall_at_01pct_fpr"`
			Bands    json.RawMessage `json:"bands"`
			Layers   []struct {
				AUC *float64 `json:"auc"`
			} `json:"layers"`
			Types []struct {
				AUC *float64 `json:"auc"`
			} `json:"types"`
			Rows int `json:"rows"`
		}
		data, err := json.Marshal(measure(t, f, rows[:n], eval.Options{}))
		if err == nil {
			err = json.Unmarshal(data, &out)
		}
		if err != nil {
			t.Fatal(err)
		}
		top := out.AUC != nil && out.Recall1 != nil && out.Recall01 != nil && out.Bands != nil &&
			len(out.Layers) == 3 && out.Layers[0].AUC != nil && out.Types == nil
		below := out.AUC == nil && len(out.Types) == 2 && out.Types[0].AUC != nil
		if out.Rows != n || !(want == "at the top" && top || want == "in types" && below) {
			t.Errorf("%d rows: want the figures %s:\n%s", n, want, data)
		}
	}
}

func TestRunStopsAtAnError(t *testing.T) {
	t.Parallel()
	f, rows := example()
	delete(f.says, "bonk.example")
	if _, err := eval.Run(t.Context(), f, lineup(), rows, 0, nil); err == nil ||
		!strings.Contains(err.Error(), "scoring domain: nothing to say") {
		t.Errorf("ran with %v", err)
	}
	f, rows = example()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := eval.Run(ctx, f, lineup(), rows, 0, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("ran cancelled, with %v", err)
	}
}

func TestProgress(t *testing.T) {
	t.Parallel()
	f, rows := example()
	var many []eval.Row
	for range 50 {
		many = append(many, rows...)
	}
	last, calls := 0, 0
	if _, err := eval.Run(t.Context(), f, lineup(), many, 3, func(done, total int) {
		if done <= last || total != len(many) {
			t.Errorf("%d of %d after %d", done, total, last)
		}
		last = done
		calls++
	}); err != nil {
		t.Fatal(err)
	}
	if last != len(many) || calls > 20 {
		t.Errorf("%d calls, the last at %d of %d", calls, last, len(many))
	}
}

// TestUnknown: rows that lookups failed for are counted and said.
func TestUnknown(t *testing.T) {
	t.Parallel()
	f, rows := example()
	f.silent = "bank.example"
	r := measure(t, f, rows, eval.Options{})
	if r.Types[0].Unknown != 1 || !strings.Contains(strings.Join(r.Warnings, "\n"), "did not answer in time: 1") {
		t.Errorf("%d unknown, warnings %q", r.Types[0].Unknown, r.Warnings)
	}
}

// resting is a scorer whose layer cannot score one value, and then rests: it is lost for the next few rows too.
type resting struct {
	fake
	tired int
}

func (f *resting) Explain(ctx context.Context, field check.Field, country string) (*check.Decision, error) {
	d, err := f.fake.Explain(ctx, field, country)
	if err != nil || field.Type != entity.Domain {
		return d, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if d.Layers[0].Failure != "" {
		f.tired = 3
	} else if f.tired > 0 {
		f.tired--
		d.Layers[0].Failure = check.Unavailable
	}
	return d, nil
}

// TestRest: rows that a layer was lost on only as it rested are not lost.
func TestRest(t *testing.T) {
	t.Parallel()
	inner, rows := example()
	f := &resting{fake: fake{says: inner.says, troubles: -1}}
	f.says["garden.example"] = said{lost: check.Trap}
	f.says["bank.example"] = said{lost: check.Trap}
	scored, err := eval.Run(t.Context(), f, lineup(), rows, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := eval.Measure(lineup(), scored, eval.Options{})
	if lost := r.Types[0].Layers[0].Lost; lost["trap"] != 2 || lost["unavailable"] != 0 {
		t.Errorf("lost %v", lost)
	}
}
