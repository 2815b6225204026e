package feedback

import (
	"context"
	"errors"
	"strings"
	"testing"

	"assay/host/check"
	"assay/host/entity"
	"assay/registry/expect"
)

const ref = "chk_01KF0HBGZ0Q8WJ3V5N7T9R2M4X"

// records is a store of one check. It logs what it keeps.
type records struct {
	kept   *Kept
	layers []Layer
}

func (r *records) Feedback(context.Context, check.Caller, string, *entity.Entity) (*Kept, error) {
	return r.kept, nil
}

func (r *records) KeepFeedback(_ context.Context, _ check.Caller, given Report, layers []Layer) (*Kept, error) {
	if layers != nil {
		r.layers = layers
	}
	r.kept = &Kept{Ref: given.Ref, Label: given.Label, Scored: r.layers != nil}
	return r.kept, nil
}

func (r *records) RevokeFeedback(context.Context, check.Caller, string) error { return nil }

// scorer counts its calls.
type scorer struct {
	calls int
	err   error
}

func (s *scorer) Rescore(context.Context, check.Caller, entity.Entity) (*check.Record, error) {
	s.calls++
	return &check.Record{Decision: &check.Decision{Layers: []check.Outcome{
		{Layer: "a", Version: "1.0.0", Score: 7, Signals: []check.Signal{{Points: 7, Code: "a:b:c"}}},
		{Layer: "b", Version: "1.0.0", Abstained: true},
		{Layer: "c", Version: "1.0.0", Failure: check.Trap},
	}}}, s.err
}

func TestValueIsScoredOnce(t *testing.T) {
	t.Parallel()
	e := expect.Value(entity.Parse(entity.Domain, "example.org", ""))(t)
	kept, layers := &records{}, &scorer{}
	desk := Desk{Store: kept, Scorer: layers}
	for i, step := range []struct {
		report Report
		calls  int
		scored bool
	}{
		{Report{Ref: ref, Label: Fraud}, 0, false},
		{Report{Ref: ref, Label: Fraud, Entity: &e}, 1, true},
		{Report{Ref: ref, Label: Legitimate, Entity: &e}, 1, true},
		{Report{Ref: ref, Label: Fraud}, 1, true},
	} {
		got, err := desk.Give(t.Context(), check.Caller{}, step.report)
		expect.That(t, err == nil && got.Label == step.report.Label && got.Scored == step.scored &&
			layers.calls == step.calls, "step %d: %+v, %v after %d calls, want scored %v after %d", i, got, err,
			layers.calls, step.scored, step.calls)
	}
	want := []Layer{{Name: "a", Version: "1.0.0", Score: 7, Signals: []string{"a:b:c"}}}
	expect.NoDiff(t, "layers", want, kept.layers)
}

func TestNothingIsKeptIfScoringFails(t *testing.T) {
	t.Parallel()
	kept, busy := &records{}, &check.UnavailableError{Part: "processor"}
	desk := Desk{Store: kept, Scorer: &scorer{err: busy}}
	_, err := desk.Give(t.Context(), check.Caller{}, Report{Ref: ref, Label: Fraud, Entity: &entity.Entity{}})
	expect.That(t, errors.Is(err, busy) && kept.kept == nil, "%v, kept %+v, want the scorer's error and nothing kept",
		err, kept.kept)
}

func TestValidate(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		report Report
		field  string
	}{
		"complete":                {Report{Ref: ref, Label: Fraud, Note: "charged back\non Monday"}, ""},
		"without a ref":           {Report{Label: Fraud}, "ref"},
		"without a label":         {Report{Ref: ref}, "label"},
		"unknown label":           {Report{Ref: ref, Label: "Fraud"}, "label"},
		"longest note":            {Report{Ref: ref, Label: Fraud, Note: strings.Repeat("x", MaxNote)}, ""},
		"note too long":           {Report{Ref: ref, Label: Fraud, Note: strings.Repeat("x", MaxNote+1)}, "note"},
		"control character":       {Report{Ref: ref, Label: Fraud, Note: "\x1b[2J"}, "note"},
		"reference of a test":     {Report{Ref: "test_01KF0HBGZ0Q8WJ3V5N7T9R2M4C", Label: Fraud}, "ref"},
		"reference in lower case": {Report{Ref: strings.ToLower(ref), Label: Fraud}, "ref"},
	} {
		err := test.report.Validate()
		var invalid *entity.InvalidError
		expect.That(t, errors.As(err, &invalid) == (test.field != "") && (test.field == "" ||
			invalid.Field == test.field), "%s: %v, want an error of field %q", name, err, test.field)
	}
}

func TestTallySignals(t *testing.T) {
	t.Parallel()
	layer := func(version string, signals ...string) []Layer {
		return []Layer{{Name: "a", Version: version, Signals: signals}}
	}
	labelled := []Labelled{
		{Label: Fraud, Layers: layer("1.0.0", "a:x:y", "a:x:z", "a:x:y")},
		{Label: Legitimate, Layers: layer("1.0.0", "a:x:y")},
		{Label: Fraud, Layers: layer("1.1.0", "a:x:y")},
		{Label: Fraud, Layers: layer("1.1.0")},
	}
	got := TallySignals(labelled)
	want := []Tally{
		{Layer: "a", Version: "1.0.0", Signal: "a:x:y", Fraud: 1, Legitimate: 1},
		{Layer: "a", Version: "1.0.0", Signal: "a:x:z", Fraud: 1},
		{Layer: "a", Version: "1.1.0", Signal: "a:x:y", Fraud: 1},
	}
	expect.NoDiff(t, "difference", want, got)
	for version, want := range map[string]int{"1.0.0": 2, "1.1.0": 2, "2.0.0": 0} {
		expect.Equal(t, "values that a@"+version+" scored", CountScored(labelled, "a", version), want)
	}
}
