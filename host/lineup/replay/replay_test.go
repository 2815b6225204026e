package replay_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"assay/host/check"
	"assay/host/entity"
	"assay/host/lineup/replay"
	"assay/registry/expect"
)

// TestPredictedVerdictsAreTheObservedOnes replays checks with a candidate, then checks the same values with it.
func TestPredictedVerdictsAreTheObservedOnes(t *testing.T) {
	t.Parallel()
	local, status := pointsOf("entity.value", 3), pointsOf("dns.status", 3)
	base := func() []check.Member {
		return []check.Member{member("local", "local 1", 3, local, "entity.value"),
			member("status", "status 1", 4, status, "dns.status"),
			member("lame", "lame 1", 2, failing(check.Exhausted))}
	}
	replaced := func(i int, m check.Member) []check.Member {
		members := base()
		members[i] = m
		return members
	}
	floored := member("local", "local 1, floor", 3, local, "entity.value")
	floored.Range = check.Range{80, 100}
	required := member("lame", "lame 1", 5, failing(check.Exhausted))
	required.Required = true
	configured := member("local", "local 1, configured", 3, layerFunc(func(in check.Input) (check.Result, error) {
		result, err := local(in)
		if in.Config["half"] == "yes" {
			result.Score /= 2
		}
		return result, err
	}), "entity.value")
	configured.Config = map[string]string{"half": "yes"}
	doubled := member("local", "local 2", 3, pointsOf("entity.value", 6))
	added := member("new", "new 1", 3, pointsOf("domain.name", 4), "domain.name")
	only := member("new", "new 1", 9, pointsOf("entity.value", 5))
	domains := member("local", "local 2", 3, local, "entity.value")
	domains.Entities = []entity.Type{entity.Domain}

	mended := member("lame", "lame 2", 2, pointsOf("entity.type", 10))
	renamed := member("global", "local 1", 3, local, "entity.value")
	type testCase struct {
		bias    float64
		bands   check.Bands
		members []check.Member
		flips   bool
	}
	expect.Each(t, map[string]testCase{
		"the same lineup":           {-4, bands, base(), false},
		"another bias":              {-3, bands, base(), true},
		"other bands":               {-4, check.Bands{Review: 30, Block: 80}, base(), true},
		"another weight":            {-4, bands, replaced(0, member("local", "local 1", 6, local)), true},
		"a changed layer":           {-4, bands, replaced(0, doubled), true},
		"a layer that fails":        {-4, bands, replaced(0, member("local", "local 2", 3, failing(check.Trap))), true},
		"a layer that abstains":     {-4, bands, replaced(0, member("local", "local 2", 3, layerFunc(abstain))), true},
		"a layer that is mended":    {-4, bands, replaced(2, mended), true},
		"a layer that is required":  {-4, bands, replaced(2, required), true},
		"a layer with a floor":      {-4, bands, replaced(0, floored), true},
		"a layer with settings":     {-4, bands, replaced(0, configured), true},
		"a layer for fewer types":   {-4, bands, replaced(0, domains), true},
		"a new layer":               {-4, bands, append(base(), added), true},
		"a removed layer":           {-4, bands, base()[1:], true},
		"layers in another order":   {-4, bands, []check.Member{base()[2], base()[1], base()[0]}, false},
		"a layer without a recipe":  {-4, bands, replaced(1, member("status", "", 5, status, "dns.status")), true},
		"no layer that was there":   {-4, bands, []check.Member{only}, true},
		"a renamed layer":           {-4, bands, replaced(0, renamed), false},
		"everything but the facts":  {1, check.Bands{Review: 20, Block: 50}, []check.Member{required, floored}, true},
		"every score is the lowest": {-20, bands, base(), true},
	}, func(t *testing.T, c testCase) {
		now := newHost(lineup(-4, bands, base()...))
		next := newHost(lineup(c.bias, c.bands, c.members...))
		want, flips := map[string]int{}, 0
		for _, v := range values() {
			before, after := now.check(t, v), next.check(t, v)
			want[fmt.Sprint(v.Type, " ", before.Verdict, " to ", after.Verdict)]++
			if before.Verdict != after.Verdict {
				flips++
			}
			one := newHost(now.lineup(t)) // which remembers one check only
			one.check(t, v)
			predicted := expect.Value(one.ring.Replay(t.Context(), now.lineup(t), next.lineup(t), nil))(t)
			got := predicted.Types[0].Verdicts[before.Verdict][after.Verdict]
			expect.That(t, got == 1, "%s: %s becomes %s, predicted %v", v.Value, before.Verdict, after.Verdict,
				predicted.Types[0].Verdicts)
			after5 := replay.Histogram{}
			after5[min(after.Score/5, 19)] = 1
			expect.Equal(t, v.Value, predicted.Types[0].After, after5)
		}
		for i, r := range now.recorded {
			fused, layers, err := replay.Rescore(t.Context(), next.lineup(t), &r, nil, next.collect(t, r))
			expect.NoError(t, err)
			d := next.recorded[i].Decision
			expect.That(t, fused.Score == d.Score && fused.Verdict == d.Verdict && len(layers) == len(d.Layers),
				"%s: rescored %d, observed %d", d.Query, fused.Score, d.Score)
		}
		report := expect.Value(now.ring.Replay(t.Context(), now.lineup(t), next.lineup(t), nil))(t)
		got := map[string]int{}
		for _, typed := range report.Types {
			for from, verdicts := range typed.Verdicts {
				for to, n := range verdicts {
					got[fmt.Sprint(typed.Type, " ", from, " to ", to)] += n
				}
			}
		}
		expect.NoDiff(t, "observed and predicted", want, got)
		expect.That(t, report.Flips() == flips && (flips > 0) == c.flips, "%d flips, predicted %d; want any: %v", flips,
			report.Flips(), c.flips)
		causes := 0
		for _, s := range report.Signals {
			causes += s.Flips
		}
		expect.Equal(t, "flips with a cause", causes, flips)
	})
}

func abstain(check.Input) (check.Result, error) { return check.Result{Abstained: true}, nil }

var errBusy = errors.New("too much processor time")

// A check that the candidate cannot answer is counted as refused, and the others are replayed.
func TestRefusedChecksAreCounted(t *testing.T) {
	t.Parallel()
	now := checked(t)
	next := lineup(-2, bands, member("local", "2", 3, layerFunc(func(in check.Input) (check.Result, error) {
		if in.Entity["entity.type"] == "email" {
			return check.Result{}, errBusy
		}
		return pointsOf("entity.value", 3)(in)
	})))
	report := expect.Value(now.ring.Replay(t.Context(), now.lineup(t), next, nil))(t)
	expect.That(t, len(report.Types) == 2 && report.Types[0].Refused == 0 && report.Types[1].Refused == 30 &&
		report.Types[1].Checks == 30, "%+v", report.Types)
	again := expect.Value(now.ring.Replay(t.Context(), next, next, nil))(t)
	expect.That(t, len(again.Types) == 1 && again.Types[0].Checks == 30 && again.Flips() == 0,
		"refused by the lineup in force too: %+v", again.Types)
}

// A call that the host could not complete is repeated.
func TestUnfinishedCallsAreRepeated(t *testing.T) {
	t.Parallel()
	now := newHost(local("1"))
	now.check(t, values()[0])
	calls := 0
	report, err := now.ring.Replay(t.Context(), now.lineup(t), lineup(-2, bands, member("local", "2", 3,
		layerFunc(func(in check.Input) (check.Result, error) {
			if calls++; calls < 3 {
				return check.Result{}, errBusy
			}
			return pointsOf("entity.value", 3)(in)
		}))), nil)
	expect.That(t, err == nil && calls == 3 && report.Types[0].Refused == 0 &&
		report.Types[0].Verdicts[check.Allow][check.Allow] == 1, "after %d calls: %+v, %v", calls, report, err)
}

// What the lineup in force already changed since the checks is not the candidate's doing.
func TestReplayComparesWithTheLineupInForce(t *testing.T) {
	t.Parallel()
	local, status := member("local", "1", 3, pointsOf("entity.value", 3)),
		member("status", "1", 4, pointsOf("dns.status", 3), "dns.status")
	now := newHost(lineup(-2, bands, local, status))
	for _, v := range values() {
		now.check(t, v)
	}
	forced := lineup(3, bands, member("local", "2", 3, pointsOf("entity.value", 9)))
	shadow := member("other", "1", 9, pointsOf("entity.value", 9))
	shadow.Shadow = true
	for name, c := range map[string]struct {
		next  *check.Lineup
		flips bool
	}{
		"the same":                      {forced, false},
		"a layer in shadow":             {lineup(3, bands, member("local", "2", 3, nil), shadow), false},
		"what was in force before that": {lineup(-2, bands, local, status), true},
	} {
		report := expect.Value(now.ring.Replay(t.Context(), forced, c.next, nil))(t)
		expect.That(t, (report.Flips() > 0) == c.flips && report.Types[0].Checks == 30, "%s: %+v", name, report.Types)
	}
}

func TestReport(t *testing.T) {
	t.Parallel()
	now := newHost(local("1"))
	now.check(t, values()[0])
	candidate := lineup(2, bands, member("local", "2", 3, pointsOf("entity.value", 3)))
	report, err := now.ring.Report(t.Context(), now.Live, candidate, nil)
	expect.That(t, err == nil && report.Flips() == 1 && len(report.ReferenceFlips) != 0, "%+v, %v", report, err)
	report, err = now.ring.Report(t.Context(), &check.Live{}, candidate, nil)
	expect.That(t, err == nil && report.Flips() == 0 && len(report.Types)+len(report.References) == 0,
		"without a lineup in force: %+v, %v", report, err)
}

// Facts that nobody looked up when a check was answered are missing for a new layer, which the report says.
func TestMissingFactsAreCounted(t *testing.T) {
	t.Parallel()
	old := member("local", "1", 3, pointsOf("entity.value", 3), "entity.value")
	now := newHost(lineup(-2, bands, old))
	now.check(t, values()[0])
	for name, c := range map[string]struct {
		facts   []string
		missing int
	}{
		"facts of parsing":        {[]string{"entity.value", "config.x"}, 0},
		"a fact of nobody so far": {[]string{"entity.value", "dns.status"}, 1},
	} {
		report, err := now.ring.Replay(t.Context(), now.lineup(t),
			lineup(-2, bands, old, member("new", "1", 1, pointsOf("dns.status", 1), c.facts...)), nil)
		expect.That(t, err == nil && report.Types[0].Missing == c.missing, "%s: %v, %+v", name, err, report)
	}
}

// Unlike a replay, scoring a recorded check again looks up what is missing, and fails if that fails.
func TestRescoreLooksUpMissingFacts(t *testing.T) {
	t.Parallel()
	old, status := member("local", "1", 3, pointsOf("entity.value", 3), "entity.value"),
		member("status", "1", 4, pointsOf("dns.status", 3), "dns.status")
	now, next := newHost(lineup(-2, bands, old)), newHost(lineup(-2, bands, old, status))
	for i, v := range values() {
		now.check(t, v)
		want, r := next.check(t, v), now.recorded[i]
		fused, _, err := replay.Rescore(t.Context(), next.lineup(t), &r, nil, next.collect(t, r))
		expect.That(t, err == nil && fused.Score == want.Score, "%s: rescored %d, %v, observed %d", v.Value,
			fused.Score, err, want.Score)
		expect.Equal(t, "the record was changed", len(r.LookedUp), 0)
		_, _, err = replay.Rescore(t.Context(), next.lineup(t), &r, nil,
			func(context.Context, []string) (entity.Facts, error) { return nil, errBusy })
		expect.Error(t, "without the facts", err, errBusy)
	}
}

// A layer that fails for values that a customer can choose is not at fault unless it fails for the reference values.
func TestFailsReferences(t *testing.T) {
	t.Parallel()
	onlyFor := func(value string) layerFunc {
		return func(in check.Input) (check.Result, error) {
			if text, _ := in.Get("entity.value"); text != value {
				return check.Result{}, nil
			}
			return check.Result{}, &check.Failure{Reason: check.Trap}
		}
	}
	unscored := member("layer", "1", 1, failing(check.Trap))
	unscored.Entities = nil
	for name, c := range map[string]struct {
		layer check.Member
		want  bool
	}{
		"it always fails":          {member("layer", "1", 1, failing(check.Trap)), true},
		"it fails for one value":   {member("layer", "1", 1, onlyFor("google.com")), false},
		"it never fails":           {member("layer", "1", 1, pointsOf("entity.value", 1)), false},
		"another layer fails":      {member("other", "1", 1, failing(check.Trap)), false},
		"it scores no such values": {unscored, false},
	} {
		got := expect.Value(replay.FailsReferences(t.Context(), lineup(-2, bands, c.layer), "layer",
			func(_ context.Context, f func()) error { f(); return nil }))(t)
		expect.Equal(t, name, got, c.want)
	}
}

// Layers are called in turns. At the deadline the report has the newest checks; a cancelled replay has none.
func TestReplayTakesTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		now, next := checked(t), local("2")
		for name, cancelled := range map[string]bool{"deadline": false, "cancel": true} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			turns := 0
			report, err := now.ring.Replay(ctx, now.lineup(t), next, func(ctx context.Context, f func()) error {
				if turns == 10 {
					if cancelled {
						cancel()
					}
					<-ctx.Done()
					return ctx.Err()
				}
				turns++
				f()
				return nil
			})
			switch {
			case cancelled:
				expect.That(t, errors.Is(err, context.Canceled) && report == nil, "cancelled: %v, %+v", err, report)
			case err != nil || report.Remembered != 60 || report.Types[0].Checks+report.Types[1].Checks != 10:
				t.Errorf("at the %s: %v, %+v", name, err, report)
			}
			cancel()
		}
	})
}

// TestReplayRests: three quarters of a replay's time are for checks in progress.
func TestReplayRests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		now := checked(t)
		const each = 2 * time.Millisecond
		var worked time.Duration
		began := time.Now()
		_, err := now.ring.Replay(t.Context(), now.lineup(t), local("2"), func(_ context.Context, f func()) error {
			<-time.After(each)
			worked += each
			f()
			return nil
		})
		if took := time.Since(began); err != nil || worked != 60*each || took != 4*worked {
			t.Errorf("work of %v took %v, want four times as long (%v)", worked, took, err)
		}
	})
}
