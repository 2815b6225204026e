package check_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"assay/host/check"
	"assay/host/entity"
	"assay/registry/expect"
)

// fixedOverrides finds the same override for each check, and remembers the accounts.
type fixedOverrides struct {
	found    *check.Override
	err      error
	accounts []string
}

func (o *fixedOverrides) Find(account string, _ entity.Entity) (*check.Override, error) {
	o.accounts = append(o.accounts, account)
	return o.found, o.err
}

func TestOverrideHoldsTheScoreToTheBand(t *testing.T) {
	t.Parallel()
	type testCase struct {
		layer    int // what the layer scores, with a weight of 10
		override check.Override
		score    int
		verdict  check.Verdict
		threat   string
		signals  []string
		event    string
	}
	expect.Each(t, map[string]testCase{
		"a block of what is allowed": {0, check.Override{ID: "ovr_1", Verdict: check.Block}, 70, check.Block, "",
			[]string{"Assay: Blocked by your override ovr_1; the layers' score is 1"}, "check.blocked"},
		"a block of what is reviewed": {50, check.Override{ID: "ovr_1", Verdict: check.Block}, 70, check.Block,
			"phishing",
			[]string{"Assay: Blocked by your override ovr_1; the layers' score is 50", "accuses"}, "check.blocked"},
		"a block of what is blocked": {90, check.Override{ID: "ovr_1", Verdict: check.Block, Operator: true}, 98,
			check.Block, "phishing", []string{
				"Assay: Blocked by the operator's override ovr_1; the layers' score is 98", "accuses"},
			"check.blocked"},
		"an allow of what is blocked": {90, check.Override{ID: "ovr_1", Verdict: check.Allow}, 39, check.Allow, "",
			[]string{"Assay: Allowed by your override ovr_1; the layers' score is 98", "accuses"}, ""},
		"an allow of what is allowed": {0, check.Override{ID: "ovr_1", Verdict: check.Allow}, 1, check.Allow, "",
			[]string{"Assay: Allowed by your override ovr_1; the layers' score is 1"}, ""},
	}, func(t *testing.T, test testCase) {
		f := newFixture(t)
		member := f.memberFunc("a", func(context.Context, check.Input) (check.Result, error) {
			if test.layer == 0 {
				return check.Result{}, nil
			}
			return check.Result{Score: test.layer, Threat: "phishing",
				Signals: []check.Signal{{Points: test.layer, Code: "a:b:c", Text: "accuses"}}}, nil
		})
		member.Weight = eachType(10)
		f.Live.Swap(check.NewLineup(1, eachType(-5), bands, []check.Member{member}))
		overrides := &fixedOverrides{found: &test.override}
		f.Overrides = overrides
		d := f.mustCheck(t, aDomain)
		var texts []string
		for _, s := range d.Signals {
			texts = append(texts, s.Text)
		}
		same(t, test.signals, texts)
		same(t, []string{"host:override:" + string(test.verdict)}, []string{d.Signals[0].Code})
		event, _, err := d.Event()
		expect.That(t, err == nil && event == test.event, "event %q, %v; want %q", event, err, test.event)
		expect.That(t, d.Score == test.score && d.Verdict == test.verdict && d.Threat == test.threat,
			"%d %s %q, want %d %s %q", d.Score, d.Verdict, d.Threat, test.score, test.verdict, test.threat)
		expect.That(t, d.Layers[0].Score == test.layer && d.Override.ID == "ovr_1" && test.override.Found == "",
			"layers %+v, override %+v, shared %+v", d.Layers, d.Override, test.override)
		recorded := f.records[0].Decision
		expect.That(t, recorded.Score == test.score &&
			recorded.Override.Found == bands.Verdict(recorded.Override.Score), "recorded %+v", recorded)
		same(t, []string{"acct_1"}, overrides.accounts)
	})
}

func TestWhoUsesOverrides(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Live.Swap(check.NewLineup(1, eachType(0), bands, []check.Member{f.member("a")}))
	overrides := &fixedOverrides{found: &check.Override{ID: "ovr_1", Verdict: check.Block}}
	f.Overrides = overrides
	e := expect.Value(entity.Parse(entity.Domain, "example.com", ""))(t)
	d, err := f.Rescore(t.Context(), "acct_1", e)
	expect.That(t, err == nil && d.Override == nil && d.Verdict == check.Review && len(overrides.accounts) == 0,
		"scored for feedback as %+v, %v", d, err)
	if d, err = f.Explain(t.Context(), aDomain, ""); err != nil || d.Verdict != check.Block {
		t.Errorf("explained as %+v, %v", d, err)
	}
	answers, err := f.CheckBatch(t.Context(), f.caller, append(batchOf(2), check.Item{}), nil)
	expect.That(t, err == nil && answers[0].Decision.Verdict == check.Block && answers[1].Decision.Override != nil,
		"batch answered %+v, %v", answers, err)
	same(t, []string{"", "acct_1", "acct_1"}, overrides.accounts)
}

// A host that does not know the overrides for a check refuses it before anything is scored.
func TestUnknownOverridesRefuseTheCheck(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Live.Swap(check.NewLineup(1, eachType(0), bands, []check.Member{f.member("a")}))
	f.Overrides = &fixedOverrides{err: &check.UnavailableError{Part: "overrides", Err: errors.New("too old")}}
	_, single := f.check(aDomain)
	_, batch := f.CheckBatch(t.Context(), f.caller, batchOf(1), nil)
	for what, err := range map[string]error{"check": single, "batch": batch} {
		var unavailable *check.UnavailableError
		expect.That(t, errors.As(err, &unavailable) && strings.HasPrefix(unavailable.Error(), "overrides unavailable"),
			"%s: %v", what, err)
	}
	expect.That(t, len(f.ran) == 0 && len(f.records) == 0, "ran %v, recorded %v", f.ran, f.records)
}
