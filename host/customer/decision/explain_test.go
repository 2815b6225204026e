package decision_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"assay/host/check"
	"assay/host/customer/decision"
	"assay/host/customer/feedback"
	"assay/host/entity"
	"assay/registry/expect"
)

var (
	bands = check.Bands{Review: 40, Block: 70}
	noon  = time.Date(2026, 1, 15, 12, 0, 0, 0, time.UTC)
)

// layer is a layer with fixed signals; it abstains without any.
type layer []check.Signal

func (l layer) Score(context.Context, check.Input) (check.Result, error) {
	r := check.Result{Signals: l, Abstained: l == nil}
	for _, s := range l {
		r.Score += s.Points
	}
	r.Score = min(r.Score, 100)
	return r, nil
}

func signal(points int, text string) check.Signal {
	return check.Signal{Points: points, Code: "test:of:" + strings.ReplaceAll(text, " ", "_"), Text: text}
}

// nodes is a layer that reads a looked-up fact.
type nodes struct{}

func (nodes) Score(ctx context.Context, in check.Input) (check.Result, error) {
	status, _ := in.Get("dns.status")
	return layer{signal(len(status), "DNS status "+status)}.Score(ctx, in)
}

func member(name string, weight float64, l check.Layer, facts ...string) check.Member {
	return check.Member{Name: name, Version: "1.0.0", Weight: check.ByType{entity.Email: weight},
		Range: check.Range{-100, 100}, Entities: []entity.Type{entity.Email}, Facts: facts, Layer: l,
		Recipe: name + " at 1.0.0"}
}

func lineup(revision int64, bias float64, members ...check.Member) *check.Lineup {
	return check.NewLineup(revision, check.ByType{entity.Email: bias}, bands, members)
}

// bench is a host with one recorded check of jane@example.net by an account, and counts what it does.
type bench struct {
	check.Checker
	t        *testing.T
	recorded decision.Check
	past     *check.Lineup // nil: it cannot be loaded
	opened   int
	lookups  []string
	missing  []string // sources that do not respond
	log      bytes.Buffer
}

func newBench(t *testing.T, recorded int64, inForce, past *check.Lineup) *bench {
	b := &bench{t: t, past: past, recorded: decision.Check{Ref: "chk_01KF0HBGZ0Q8WJ3V5N7T9R2M4C",
		Timestamp: "2026-01-15T10:30:00.123Z", Type: "email", Score: 93, Verdict: "block", Key: "key_1",
		Revision: recorded}}
	b.Checker = check.Checker{Live: &check.Live{}, Collector: b, Ledger: b, Observer: b, Deadline: time.Minute,
		Now: func() time.Time { return noon }}
	b.Live.Swap(inForce)
	return b
}

func (b *bench) explain(value string) (*decision.Explanation, error) {
	x := &decision.Explainer{Records: b, Scorer: &b.Checker, Collector: b, Past: b,
		Logger: slog.New(slog.NewTextHandler(&b.log, nil))}
	e := expect.Value(entity.Parse(entity.Email, value, ""))(b.t)
	return x.Explain(b.t.Context(), check.Caller{Account: "acct_1"}, b.recorded.Ref, e)
}

func (b *bench) RecordedCheck(_ context.Context, c check.Caller, ref string, e *entity.Entity) (*decision.Details,
	error) {
	switch {
	case c.Account != "acct_1" || ref != b.recorded.Ref:
		return nil, feedback.ErrUnknownCheck
	case e.Value != "jane@example.net":
		return nil, &entity.InvalidError{Field: "email", Reason: "is not the value of this check"}
	}
	return &decision.Details{Check: b.recorded}, nil
}

func (b *bench) With(_ context.Context, account string, revision int64, f func(*check.Lineup) error) error {
	expect.Equal(b.t, "whose turn it is", account, "acct_1")
	if b.past == nil || revision != b.past.Revision {
		return errors.New("its module is gone")
	}
	b.opened++
	return f(b.past)
}

func (b *bench) Collect(_ context.Context, account string, _ entity.Entity, wanted []string) (entity.Facts, []string,
	error) {
	expect.Equal(b.t, "whose facts are looked up", account, "acct_1")
	b.lookups = append(b.lookups, wanted...)
	return entity.Facts{"dns.status": "ok"}, b.missing, nil
}

func (b *bench) Append(context.Context, ...check.Record) error {
	b.t.Error("an explanation was recorded")
	return nil
}
func (b *bench) LayerRan(entity.Type, check.Outcome, *check.Failure) {}
func (b *bench) CheckDone(*check.Decision, time.Duration)            { b.t.Error("an explanation was counted") }

// twice is the log-odds that double the odds, which are 10 points.
const twice = math.Ln2

func TestExplanation(t *testing.T) {
	t.Parallel()
	mail := layer{signal(60, "Disposable mail domain"), signal(-20, "Registered since 2009")}
	then := lineup(12, -3*twice, member("mail", 10*twice, mail), member("quiet", 1, layer(nil), "rdap.status"))
	now := lineup(13, -4*twice, member("mail", 5*twice, mail), member("nodes", 100*twice, nodes{}, "dns.status"))
	b := newBench(t, 12, now, then)
	b.missing = []string{"dns", check.UntrustedSource + "net"}
	got := expect.Value(b.explain("Jane@example.net"))(t)
	reason := func(text string, points float64, layer string, today bool) decision.Reason {
		return decision.Reason{Text: text, Code: signal(0, text).Code, Layer: layer, Points: points, Today: today}
	}
	const late, untrue = "Scored without DNS: no answer in time",
		"Scored without network data: the DNS server gives false answers"
	want := &decision.Explanation{Check: b.recorded, FactsOfToday: []string{"DNS", "the domain's registration"},
		DecidedBy: &decision.Scoring{Revision: 12, Score: 67, Verdict: "review", Start: -30, Total: 10,
			Reasons: []decision.Reason{reason("Disposable mail domain", 60, "mail", false),
				reason("Registered since 2009", -20, "mail", false)},
			Unknown: []string{late, untrue, "The quiet layer knew too little to judge"}},
		Today: &decision.Scoring{Revision: 13, Score: 50, Verdict: "review", Start: -40, Total: 0,
			Reasons: []decision.Reason{reason("Disposable mail domain", 30, "mail", false),
				reason("DNS status ok", 20, "nodes", true), reason("Registered since 2009", -10, "mail", false)},
			Unknown: []string{late, untrue}},
		Text: []string{
			"On 15 January 2026, 10:30 UTC, this email was scored 93 of 100 and blocked, by revision 12 of the " +
				"lineup, which is the set of layers and their weights.",
			"Scored again, the lineup that decided gives 67 of 100 (held for review). Main reasons: Disposable " +
				"mail domain. In its favour: Registered since 2009.",
			"Today's lineup, revision 13, gives 50 of 100 (held for review). Main reasons: Disposable mail domain; " +
				"DNS status ok. In its favour: Registered since 2009.",
			"Facts that come from the value itself are the same as at the check. These were looked up again and may " +
				"have changed since: DNS, the domain's registration.",
		}}
	expect.NoDiff(t, "difference", want, got)
	expect.Equal(t, "times that the earlier lineup was opened", b.opened, 1)
	expect.Equal(t, "logged", b.log.String(), "")
}

// The points of all reasons and the start add up to the total, also if a layer's score is limited to its range.
func TestPointsAddUp(t *testing.T) {
	t.Parallel()
	limited := layer{signal(90, "first"), signal(60, "second")}
	b := newBench(t, 12, lineup(12, -2, member("limited", 3.7, limited), member("mail", 2.1,
		layer{signal(33, "third"), signal(-71, "fourth"), signal(0, "fifth")})), nil)
	got := expect.Value(b.explain("jane@example.net"))(t)
	sum := got.Today.Start
	for _, r := range got.Today.Reasons {
		sum += r.Points
	}
	expect.That(t, math.Abs(sum-got.Today.Total) <= 0.05*float64(2+len(got.Today.Reasons)) &&
		len(got.Today.Reasons) == 4, "%v add up to %.2f, not %.2f", got.Today.Reasons, sum, got.Today.Total)
	score := 100 / (1 + math.Pow(2, -got.Today.Total/10))
	expect.Equal(t, "the score of the total", got.Today.Score, int(math.Round(score)))
	expect.Equal(t, "the lineup in force was scored twice", got.DecidedBy != got.Today || b.opened != 0, false)
	expect.That(t, strings.Contains(got.Text[len(got.Text)-1], "All facts come from the value itself"), "%s", got.Text)
}

func TestExplanationWithoutTheLineup(t *testing.T) {
	t.Parallel()
	b := newBench(t, 11, lineup(13, -twice, member("mail", twice, layer{signal(50, "Disposable mail domain")})), nil)
	b.recorded.Overridden = true
	got := expect.Value(b.explain("jane@example.net"))(t)
	text := strings.Join(got.Text, "\n")
	for _, want := range []string{"An override that was set in advance decided the verdict",
		"Revision 11 can no longer be loaded. Today's lineup, revision 13, gives 41 of 100"} {
		expect.That(t, strings.Contains(text, want), "%q is missing from\n%s", want, text)
	}
	expect.That(t, got.DecidedBy == nil && got.Today != nil && !strings.Contains(text, "its module is gone"),
		"explained %+v", got)
	log := b.log.String()
	expect.That(t, strings.Contains(log, "its module is gone") && !strings.Contains(log, "jane"), "logged %s", log)
}

func TestExplanationIsRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t, 12, lineup(12, 0), nil)
	_, err := b.explain("john@example.net")
	expect.That(t, errors.As(err, new(*entity.InvalidError)) && !strings.Contains(err.Error(), "jane"),
		"another value: %v", err)
	expect.That(t, b.lookups == nil, "looked up %v", b.lookups)
	b.recorded.Ref = "chk_01KF0HBGZ0Q8WJ3V5N7T9R2M4X"
	expect.NoError(t, expect.ErrorOf(b.explain("jane@example.net"))) // no layer scores emails
	b.Live.Swap(nil)
	expect.Error(t, "without a lineup", expect.ErrorOf(b.explain("jane@example.net")), check.ErrNoLineup)
}
