package replay_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"assay/host/check"
	"assay/host/entity"
	"assay/host/lineup/replay"
	"assay/registry/expect"
)

var update = flag.Bool("update", false, "rewrite the golden files in testdata")

// reports returns the reports of two hosts about one candidate.
func reports() (a, b *replay.Report) {
	at := func(minute int) *time.Time { return new(start.Add(time.Duration(minute) * time.Minute)) }
	flip := replay.ReferenceFlip{Name: "a popular site", Type: entity.Domain, Value: "google.com", From: check.Allow,
		To: check.Review, Before: 3, After: 41}
	a = &replay.Report{
		Remembered: 5003, From: at(10), To: at(90), Types: []replay.TypeReport{{
			Type: entity.Domain, Checks: 5000, Flips: 64, NewBlocks: 3, LostBlocks: 1, Refused: 2, Missing: 7,
			Verdicts: map[check.Verdict]map[check.Verdict]int{
				check.Allow:  {check.Allow: 4800, check.Review: 60, check.Block: 3},
				check.Review: {check.Review: 30},
				check.Block:  {check.Block: 104, check.Allow: 1},
			}, Before: replay.Histogram{0: 4200, 1: 400, 3: 263, 8: 30, 19: 105},
			After: replay.Histogram{0: 4200, 1: 300, 3: 301, 8: 90, 19: 107},
		}, {
			Type: entity.IBAN, Checks: 3,
			Verdicts: map[check.Verdict]map[check.Verdict]int{check.Allow: {check.Allow: 3}},
			Before:   replay.Histogram{2: 3}, After: replay.Histogram{2: 3},
		}}, Signals: []replay.SignalFlips{
			{Type: entity.Domain, From: check.Allow, To: check.Review, Layer: "lexical", Code: "lexical:shape:odd",
				Flips: 60},
			{Type: entity.Domain, From: check.Allow, To: check.Block, Code: "bias", Flips: 3},
			{Type: entity.Domain, From: check.Block, To: check.Allow, Layer: "feeds", Code: "degraded", Flips: 1},
		}, Failures: []replay.LayerFailures{{Layer: "feeds", Reason: check.Exhausted, Checks: 12}},
		References:     map[entity.Type]int{entity.Domain: 14, entity.Email: 6, entity.Phone: 5, entity.IBAN: 5},
		ReferenceFlips: []replay.ReferenceFlip{flip},
	}
	b = &replay.Report{
		Remembered: 4000, From: at(5), To: at(80), Types: []replay.TypeReport{{
			Type: entity.Email, Checks: 1000, Flips: 1, Verdicts: map[check.Verdict]map[check.Verdict]int{
				check.Review: {check.Allow: 1}, check.Allow: {check.Allow: 999}},
			Before: replay.Histogram{1: 999, 8: 1}, After: replay.Histogram{1: 1000},
		}, {
			Type: entity.Domain, Checks: 1000, Flips: 2, Verdicts: map[check.Verdict]map[check.Verdict]int{
				check.Allow: {check.Allow: 998, check.Review: 2}},
			Before: replay.Histogram{0: 1000}, After: replay.Histogram{0: 998, 8: 2},
		}}, Signals: []replay.SignalFlips{
			{Type: entity.Email, From: check.Review, To: check.Allow, Code: "bands", Flips: 1},
			{Type: entity.Domain, From: check.Allow, To: check.Review, Layer: "lexical", Code: "lexical:shape:odd",
				Flips: 1},
			{Type: entity.Domain, From: check.Allow, To: check.Review, Layer: "standing", Code: "score", Flips: 1},
		}, Failures: []replay.LayerFailures{{Layer: "feeds", Reason: check.Exhausted, Checks: 3}},
		References:     map[entity.Type]int{entity.Domain: 14, entity.Email: 6, entity.Phone: 5, entity.IBAN: 5},
		ReferenceFlips: []replay.ReferenceFlip{flip},
	}
	return a, b
}

// TestReportText compares reports with golden files. To write them again: go test ./host/lineup/replay -update.
func TestReportText(t *testing.T) {
	t.Parallel()
	a, b := reports()
	expect.Each(t, map[string]*replay.Report{
		"two hosts": replay.Merge(a, nil, b), "no checks": replay.Merge(), "no flips": replay.Merge(&replay.Report{
			Remembered: 3, From: new(start), To: new(start), Types: a.Types[1:], References: a.References}),
	}, func(t *testing.T, r *replay.Report) {
		var text strings.Builder
		expect.NoError(t, r.WriteText(&text))
		file := filepath.Join("testdata", path.Base(t.Name())+".txt")
		if *update {
			expect.NoError(t, os.WriteFile(file, []byte(text.String()), 0o644))
		}
		expect.NoDiff(t, "result", string(expect.Value(os.ReadFile(file))(t)), text.String())
	})
}

// Merging is the same in any order and grouping, and after a report was stored as JSON.
func TestMerge(t *testing.T) {
	t.Parallel()
	a, b := reports()
	text := func(r *replay.Report) json.RawMessage { return expect.Value(json.Marshal(r))(t) }
	stored := expect.Value(replay.MergeStored(text(a), nil, text(b), text(a)))(t)
	expect.Failure(t, expect.ErrorOf(replay.MergeStored(json.RawMessage("{"))), "a damaged report was merged")
	want := replay.Merge(a, b, a)
	expect.That(t, want.Remembered == 14006 && want.Types[0].Checks == 11000 && want.Flips() == 64+3+64, "merged: %+v",
		want)
	for name, got := range map[string]*replay.Report{
		"another order": replay.Merge(b, a, a), "in steps": replay.Merge(replay.Merge(b, a), replay.Merge(a)),
		"stored": stored, "with silent hosts": replay.Merge(nil, a, nil, b, a),
	} {
		expect.NoDiff(t, name, want, got)
	}
	expect.That(t, a.Types[0].Checks == 5000 && a.Types[0].Verdicts[check.Allow][check.Review] == 60,
		"merging changed a report: %+v", a)
}

// Types with enough checks are judged by them, the others by the reference values.
func TestBeyond(t *testing.T) {
	t.Parallel()
	a, _ := reports() // 64 flips and 2 refusals of 5,000
	few, ofChecks, ofReferences := *a, "[{domain 66 5000 false}]", "[{domain 1 14 true}]"
	few.Types = slices.Clone(a.Types)
	few.Types[0].Checks = replay.Enough - 1
	for name, c := range map[string]struct {
		report *replay.Report
		limit  float64
		want   string
	}{
		"checks beyond the limit":           {a, 0.0131, ofChecks},
		"checks at the limit":               {a, 0.0132, "[]"},
		"no limit":                          {a, 0, ofChecks},
		"reference values beyond the limit": {&few, 0.07, ofReferences},
		"reference values at the limit":     {&few, 1. / 14, "[]"},
		"nothing":                           {replay.Merge(), 0, "[]"},
	} {
		expect.Equal(t, name, fmt.Sprint(c.report.Beyond(c.limit)), c.want)
	}
}

// The reference values are scored with the facts that they bring along.
func TestReferences(t *testing.T) {
	t.Parallel()
	listed := func(in check.Input) (check.Result, error) {
		if _, ok := in.Get("feed.listed"); ok {
			return check.Result{Score: 100}, nil
		}
		return check.Result{}, nil
	}
	base := lineup(-3, bands, member("feeds", "1", 6, layerFunc(listed)))
	report := replay.Merge()
	expect.NoError(t, report.AddReferences(t.Context(), base, base, nil))
	expect.That(t, len(report.References) == 4 && report.References[entity.Domain] >= 10 &&
		len(report.ReferenceFlips) == 0, "the same lineup: %+v", report)
	expect.NoError(t, report.AddReferences(t.Context(), base, lineup(-3, bands), nil))
	names, types := map[string]bool{}, map[entity.Type]bool{}
	for _, f := range report.ReferenceFlips {
		names[f.Name], types[f.Type] = true, true
		expect.That(t, f.From == check.Block && f.To == check.Allow && f.Before == 95 && f.After == 5, "%+v", f)
	}
	expect.That(t, len(names) == len(report.ReferenceFlips) && len(types) == 4, "flips %+v", report.ReferenceFlips)
}

// tally adds checks to a tally: after each, a shadow layer raises the score from 20 to 50 if flips is set.
func tally(t *replay.Tally, revision int64, checks int, flips bool) {
	for i := range checks {
		live := &check.Decision{Type: entity.Domain, Revision: revision, At: start.Add(time.Duration(i) * time.Minute),
			Fused:  check.Fused{Score: 20, Verdict: check.Allow},
			Layers: []check.Outcome{{Layer: "domain", Weight: 5, Score: 20, Contribution: 1}}}
		shadow, outcome := live.Fused, check.Outcome{Layer: "mailbox", Failure: check.Trap}
		if flips {
			shadow = check.Fused{Score: 50, Verdict: check.Review}
			outcome = check.Outcome{Layer: "mailbox", Weight: 4, Score: 35, Contribution: 1.4, Signals: []check.Signal{
				{Points: 5, Code: "mailbox:shape:odd"}, {Points: 15, Code: "mailbox:name:random"},
				{Points: 15, Code: "mailbox:name:random"}}}
		}
		t.ShadowRan(live, shadow, []check.Outcome{outcome})
	}
}

func TestShadowReport(t *testing.T) {
	t.Parallel()
	var a, b replay.Tally
	tally(&a, 7, 3, true)
	tally(&a, 7, 100, false)
	tally(&b, 7, 2, true)
	b.ShadowLeftOut(&check.Decision{Revision: 7})
	tally(&b, 8, 5, true) // the canary
	merged := func(revision int64) *replay.ShadowReport {
		var stored []json.RawMessage
		for _, tally := range []*replay.Tally{&a, &b} {
			stored = append(stored, expect.Value(tally.JSON())(t))
		}
		return expect.Value(replay.MergeShadows(revision, stored...))(t)
	}
	r := merged(7)
	expect.That(t, r.LeftOut == 1 && len(r.Report.Types) == 1 && r.Report.Types[0].Checks == 105 &&
		r.Report.Flips() == 5, "revision 7: %+v", r)
	want := []replay.SignalFlips{{Type: entity.Domain, From: check.Allow, To: check.Review, Layer: "mailbox",
		Code: "mailbox:name:random", Flips: 5}}
	expect.NoDiff(t, "signals", want, r.Report.Signals)
	emitted := []replay.EmittedSignals{{Layer: "mailbox", Checks: 5, // in the others, it failed
		Signals: map[string]int{"mailbox:shape:odd": 5, "mailbox:name:random": 5}}}
	expect.NoDiff(t, "emitted", emitted, r.Emitted)
	var text strings.Builder
	expect.NoError(t, r.WriteText(&text))
	file := filepath.Join("testdata", "shadow.txt")
	if *update {
		expect.NoError(t, os.WriteFile(file, []byte(text.String()), 0o644))
	}
	expect.NoDiff(t, "result", string(expect.Value(os.ReadFile(file))(t)), text.String())
	r = merged(8)
	expect.That(t, r.LeftOut == 0 && r.Report.Flips() == 5, "revision 8: %+v", r)

	// A third lineup displaces the one that was not added to for the longest time.
	tally(&b, 7, 1, true)
	tally(&b, 9, 1, true)
	got := []int{merged(7).Report.Flips(), merged(8).Report.Flips(), merged(9).Report.Flips()}
	expect.That(t, cmp.Equal(got, []int{6, 0, 1}), "flips of revisions 7 to 9: %v", got)
	expect.Failure(t, expect.ErrorOf(replay.MergeShadows(7, json.RawMessage("{"))), "a damaged report was merged")
	expect.Equal(t, "an empty tally", string(expect.Value(new(replay.Tally).JSON())(t)), "")
}

var (
	bands = check.Bands{Review: 40, Block: 70}
	start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
)

// layerFunc is a function that acts as a layer.
type layerFunc func(in check.Input) (check.Result, error)

func (f layerFunc) Score(_ context.Context, in check.Input) (check.Result, error) { return f(in) }

// pointsOf returns a layer with one signal, whose points are those of a fact times a factor.
func pointsOf(fact string, factor int) layerFunc {
	return func(in check.Input) (check.Result, error) {
		text, _ := in.Get(fact)
		points := min(len(text)*factor, 100)
		return check.Result{Score: points, Signals: []check.Signal{{Points: points, Code: "points:of:" + fact}}}, nil
	}
}

func failing(reason check.FailureReason) layerFunc {
	return func(check.Input) (check.Result, error) { return check.Result{}, &check.Failure{Reason: reason} }
}

// member returns a layer for all types.
func member(name, recipe string, weight float64, layer check.Layer, facts ...string) check.Member {
	weights := check.ByType{}
	for _, t := range entity.Types() {
		weights[t] = weight
	}
	return check.Member{Name: name, Version: "1.0.0", Weight: weights, Range: check.Range{0, 100},
		Entities: entity.Types(), Facts: facts, Layer: layer, Recipe: recipe}
}

// lineup returns a lineup with the same bias for all types.
func lineup(bias float64, bands check.Bands, members ...check.Member) *check.Lineup {
	biases := check.ByType{}
	for _, t := range entity.Types() {
		biases[t] = bias
	}
	return check.NewLineup(1, biases, bands, members)
}

// local returns a lineup of a layer, built from the recipe, whose points are the length of the value.
func local(recipe string) *check.Lineup {
	return lineup(-2, bands, member("local", recipe, 3, pointsOf("entity.value", 3)))
}

// host is a Checker whose ledger, observer and lookups are simple.
type host struct {
	check.Checker

	ring     *replay.Ring
	recorded []check.Record
}

func newHost(l *check.Lineup) *host {
	h := &host{ring: replay.NewRing(1000, 1<<20)}
	h.Checker = check.Checker{Live: &check.Live{}, Collector: h, Ledger: h, Observer: h, Memory: h.ring,
		Now: func() time.Time { return start }, Deadline: time.Minute}
	h.Live.Swap(l)
	return h
}

// Collect implements check.Collector: the only fact that is looked up is the value's last byte, many times.
func (h *host) Collect(_ context.Context, _ string, e entity.Entity, wanted []string) (entity.Facts, []string, error) {
	facts := entity.Facts{}
	if slices.Contains(wanted, "dns.status") {
		facts["dns.status"] = string(make([]byte, e.Value[len(e.Value)-1]%32))
	}
	return facts, nil, nil
}

func (h *host) Append(_ context.Context, records ...check.Record) error {
	for i := range records {
		records[i].Pseudonym = fmt.Appendf(nil, "%-32.32s", records[i].Entity.Value)
	}
	h.recorded = append(h.recorded, records...)
	return nil
}

func (h *host) LayerRan(entity.Type, check.Outcome, *check.Failure) {}
func (h *host) CheckDone(*check.Decision, time.Duration)            {}

// values are checked in every test. Their lengths differ, and with them the scores.
func values() (all []check.Field) {
	for i := range 30 {
		all = append(all, check.Field{Type: entity.Domain, Value: fmt.Sprintf("a%0*d.example.com", i+1, i)},
			check.Field{Type: entity.Email, Value: fmt.Sprintf("b%0*d@example.org", i+1, i)})
	}
	return all
}

func (h *host) check(t *testing.T, f check.Field) *check.Decision {
	t.Helper()
	pro, _ := check.PlanNamed("pro")
	return expect.Value(h.Check(t.Context(), check.Request{Caller: check.Caller{Account: "acct_1", Plan: pro},
		Fields: []check.Field{f}}))(t)
}

// checked returns a host that checked all values.
func checked(t *testing.T) *host {
	t.Helper()
	h := newHost(local("1"))
	for _, v := range values() {
		h.check(t, v)
	}
	return h
}

// collect returns a function that looks up facts for a record, which must not have been looked up for it.
func (h *host) collect(t *testing.T, r check.Record) func(context.Context, []string) (entity.Facts, error) {
	return func(ctx context.Context, wanted []string) (entity.Facts, error) {
		for _, fact := range wanted {
			_, known := r.LookedUp[fact]
			expect.That(t, !known, "%s is looked up again", fact)
		}
		facts, _, err := h.Collect(ctx, "", r.Entity, wanted)
		return facts, err
	}
}

func (h *host) lineup(t *testing.T) *check.Lineup {
	t.Helper()
	ref := h.Live.Acquire()
	ref.Release()
	return ref.Lineup
}
