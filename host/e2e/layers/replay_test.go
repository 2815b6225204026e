//go:build !race

// The predictions do not depend on the race detector, under which each layer runs many times slower.

package layers

import (
	"context"
	"maps"
	"slices"
	"testing"

	"assay/host/check"
	"assay/host/cli/measurement"
	"assay/host/entity"
	"assay/host/hosttest"
	"assay/host/installation"
	lineups "assay/host/lineup"
	"assay/host/lineup/replay"
	"assay/registry"
	"assay/registry/expect"
)

// caseFacts is a collector that knows the facts of one case, and a ledger.
type caseFacts struct {
	facts    entity.Facts
	recorded []check.Record
}

// Collect implements check.Collector.
func (c *caseFacts) Collect(_ context.Context, _ string, _ entity.Entity, wanted []string) (
	entity.Facts, []string, error) {
	facts := maps.Clone(c.facts)
	maps.DeleteFunc(facts, func(name, _ string) bool { return !slices.Contains(wanted, name) })
	return facts, nil, nil
}

// Append implements check.Ledger.
func (c *caseFacts) Append(_ context.Context, records ...check.Record) error {
	for i := range records {
		records[i].Pseudonym = make([]byte, 32)
	}
	c.recorded = append(c.recorded, records...)
	return nil
}

// changedLayer is a layer with other points than the one that it wraps.
type changedLayer struct{ check.Layer }

func (l changedLayer) Score(ctx context.Context, in check.Input) (check.Result, error) {
	r, err := l.Layer.Score(ctx, in)
	r.Score = r.Score * 3 / 5
	r.Signals = slices.Clone(r.Signals)
	for i := range r.Signals {
		r.Signals[i].Points = r.Signals[i].Points * 3 / 5
	}
	return r, err
}

// TestReplayOfLayers checks the layers' cases under the default lineup, predicts every verdict for other weights, a
// changed layer and a layer with less fuel, and compares it with the verdict of a check with the same facts under the
// candidate.
func TestReplayOfLayers(t *testing.T) {
	t.Parallel()
	document := expect.Value(registry.DefaultLineup())(t)
	var base []check.Member
	var lexical registry.Module
	var cases []registry.Case
	for _, m := range hosttest.BuiltLayers(t) {
		base = append(base, members(t, m.Manifest.Name)...)
		switch m.Manifest.Name {
		case "lexical":
			lexical = m
			fallthrough
		case "feeds", "graph", "similarity":
			cases = append(cases, expect.Value(m.Cases())(t)...)
		}
	}
	world, ring := &caseFacts{}, replay.NewRing(replay.DefaultChecks, replay.DefaultBytes)
	bias, bands := lineups.ByType(document.Bias), check.Bands(document.Bands)
	inForce := check.NewLineup(1, bias, bands, base)
	now := scoring(inForce, world)
	now.Ledger, now.Memory = world, ring
	plan, _ := check.PlanNamed("pro")
	for _, c := range cases {
		world.facts, _ = c.Input()
		expect.Value(now.Check(t.Context(), check.Request{Caller: check.Caller{Account: "acct_1", Plan: plan},
			Fields: []check.Field{{Type: entity.Type(c.Type), Value: c.Value}}}))(t)
	}

	i := slices.IndexFunc(base, func(m check.Member) bool { return m.Name == "lexical" })
	heavier, changed, starved := slices.Clone(base), slices.Clone(base), slices.Clone(base)
	for j := range heavier {
		heavier[j].Weight = maps.Clone(heavier[j].Weight)
		for kind, w := range heavier[j].Weight {
			heavier[j].Weight[kind] = w * (1 + 0.3*float64(j%3-1))
		}
	}
	changed[i].Layer, changed[i].Recipe = changedLayer{base[i].Layer}, "changed"
	lexical.Manifest.BudgetFuel = medianFuel(world.recorded, "lexical")
	plugin := expect.Value(sandboxOf(t, nil).Open(t.Context(), lexical))(t)
	defer plugin.Close(context.Background())
	starved[i] = lineups.NewMember(*document.Layer("lexical"), plugin)
	for name, candidate := range map[string][]check.Member{"weights": heavier, "a changed layer": changed,
		"less fuel": starved} {
		lineup, flips := check.NewLineup(2, bias, bands, candidate), 0
		for _, r := range world.recorded {
			observed := expect.Value(scoring(lineup, measurement.GivenFacts(r.LookedUp)).Explain(t.Context(),
				check.Field{Type: r.Decision.Type, Value: r.Decision.Query}, ""))(t)
			if observed.Verdict != r.Decision.Verdict {
				flips++
			}
			one := replay.NewRing(1, 1<<20)
			one.Remember([]check.Record{r})
			predicted := expect.Value(one.Replay(t.Context(), inForce, lineup, nil))(t).Types[0]
			score := replay.Histogram{}
			score[min(observed.Score/5, len(score)-1)] = 1
			expect.That(t, predicted.After == score && predicted.Verdicts[r.Decision.Verdict][observed.Verdict] == 1,
				"%s: %s: %s (%d) becomes %s (%d), predicted %+v", name, r.Decision.Query, r.Decision.Verdict,
				r.Decision.Score, observed.Verdict, observed.Score, predicted)
		}
		report := expect.Value(ring.Replay(t.Context(), inForce, lineup, nil))(t)
		expect.That(t, flips > 0 && report.Flips() == flips, "%s: of %d verdicts %d flip, predicted %d", name,
			len(world.recorded), flips, report.Flips())
	}
}

// scoring returns a checker with a lineup and the facts that a collector knows.
func scoring(l *check.Lineup, facts check.Collector) *check.Checker {
	live := &check.Live{}
	live.Swap(l)
	checker := installation.NewChecker(live, nil, measurement.SilentObserver{})
	checker.Collector, checker.Deadline = facts, measurement.MeasuredDeadline
	return checker
}

// medianFuel returns the fuel that half of the calls of a layer did not need.
func medianFuel(records []check.Record, layer string) int64 {
	var fuel []int64
	for _, r := range records {
		for _, o := range r.Decision.Layers {
			if o.Layer == layer {
				fuel = append(fuel, o.Fuel)
			}
		}
	}
	slices.Sort(fuel)
	return fuel[len(fuel)/2]
}
