package layers

import (
	"assay/registry/expect"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"assay/host/check"
	"assay/host/cli/measurement"
	"assay/host/entity"
	"assay/host/hosttest"
	"assay/host/installation"
	lineups "assay/host/lineup"
	"assay/host/lineup/replay"
	"assay/host/measure/eval"
	"assay/host/sandbox"
	"assay/registry"
)

// changingFacts is a collector whose answers change with each call, as the world does, and a ledger.
type changingFacts struct {
	mu       sync.Mutex
	calls    uint32
	recorded []check.Record
}

// Collect implements check.Collector.
func (c *changingFacts) Collect(_ context.Context, _ string, e entity.Entity, wanted []string) (
	entity.Facts, []string, error) {
	c.mu.Lock()
	c.calls++
	n := c.calls
	c.mu.Unlock()
	h := fnv.New32a()
	fmt.Fprint(h, e.Value, n)
	n = h.Sum32()
	all := entity.Facts{}
	if n%3 == 0 {
		maps.Copy(all, entity.Facts{"rdap.age_days": fmt.Sprint(n % 9000), "rdap.created": "2001-01-01",
			"rdap.found": "yes"})
	}
	if n%7 == 0 {
		maps.Copy(all, entity.Facts{"feed.listed": "URLhaus", "feed.lists": "1", "feed.match": "exact",
			"feed.category": "malware", "feed.days": fmt.Sprint(n % 90), "feed.fresh": []string{"yes", "no"}[n/7%2]})
	}
	if n%5 == 0 {
		maps.Copy(all, entity.Facts{"graph.customers": fmt.Sprint(n % 90), "graph.seen": "99",
			"graph.blocked_share": fmt.Sprint(n / 5 % 101), "graph.first_seen_days": "20"})
	}
	maps.DeleteFunc(all, func(name, _ string) bool { return !slices.Contains(wanted, name) })
	return all, nil, nil
}

// Append implements check.Ledger.
func (c *changingFacts) Append(_ context.Context, records ...check.Record) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range records {
		h := fnv.New128a()
		h.Write([]byte(records[i].Entity.Value))
		records[i].Pseudonym = append(h.Sum(nil), h.Sum(nil)...)
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

// labelledInputs returns the given number of labelled values of each type, or as many as there are.
func labelledInputs(t *testing.T, folder string, numbers map[entity.Type]int) (inputs []check.Field) {
	t.Helper()
	for _, kind := range entity.Types() {
		text := hosttest.ReadText(t, filepath.Join(folder, "train_"+string(kind)+"s.jsonl"))
		left := numbers[kind]
		for line := range strings.Lines(text) {
			var row eval.Row
			expect.NoError(t, json.Unmarshal([]byte(line), &row))
			if left == 0 {
				break
			}
			inputs, left = append(inputs, check.Field{Type: kind, Value: row.Value}), left-1
		}
	}
	return inputs
}

// TestLabelledFlips records checks of 15,000 labelled values under the default lineup, predicts every verdict for other
// weights, a changed layer and a layer with less fuel, and compares it with the verdict of a check with the same facts
// under the candidate.
func TestLabelledFlips(t *testing.T) {
	t.Parallel()
	folder := os.Getenv("ASSAY_DATA")
	if folder == "" {
		t.Skip("ASSAY_DATA names no folder of labelled values")
	}
	document := expect.Value(registry.DefaultLineup())(t)
	modules, box := layersOfSource(t)
	base := make([]check.Member, len(document.Layers))
	for j, l := range document.Layers {
		base[j] = openLayer(t, box, modules[l.Layer], l)
	}
	i := slices.IndexFunc(base, func(m check.Member) bool { return m.Name == "lexical" })

	world := &changingFacts{}
	ring := replay.NewRing(replay.DefaultChecks, replay.DefaultBytes)
	bias, bands := lineups.ByType(document.Bias), check.Bands(document.Bands)
	scoring := func(l *check.Lineup) *check.Checker {
		live := &check.Live{}
		live.Swap(l)
		checker := installation.NewChecker(live, world, measurement.SilentObserver{})
		checker.Collector, checker.Deadline = world, measurement.MeasuredDeadline
		return checker
	}
	inForce := check.NewLineup(1, bias, bands, slices.Clone(base))
	now := scoring(inForce)
	now.Memory = ring
	plan, _ := check.PlanNamed("pro")
	inputs := labelledInputs(t, folder,
		map[entity.Type]int{entity.Domain: 9500, entity.Email: 3500, entity.Phone: 1400, entity.IBAN: 1400})
	for _, in := range inputs {
		// A value that cannot be parsed is no input.
		_, _ = now.Check(t.Context(), check.Request{Caller: check.Caller{Account: "acct_1", Plan: plan},
			Fields: []check.Field{in}})
	}
	expect.Must(t, len(world.recorded) >= 15_000, "%d checks were recorded", len(world.recorded))
	checks, bytes := ring.Size()
	t.Logf("%d checks take %d bytes in the ring", checks, bytes)

	heavier := slices.Clone(base)
	for j := range heavier {
		heavier[j].Weight = maps.Clone(heavier[j].Weight)
		for kind, w := range heavier[j].Weight {
			heavier[j].Weight[kind] = w * (1 + 0.3*float64(j%3-1))
		}
	}
	changed := slices.Clone(base)
	changed[i].Layer, changed[i].Recipe = changedLayer{base[i].Layer}, "changed"
	starved, hungry := slices.Clone(base), modules["lexical"]
	hungry.Manifest.BudgetFuel = mostFuel(world.recorded, "lexical")
	starved[i] = openLayer(t, box, hungry, document.Layers[i])
	for name, candidate := range map[string][]check.Member{"weights": heavier, "a changed layer": changed,
		"less fuel": starved} {
		lineup := check.NewLineup(2, bias, bands, candidate)
		t.Run(name, func(t *testing.T) {
			observed := observe(t, lineup, world.recorded)
			began := time.Now()
			report := expect.Value(ring.Replay(t.Context(), inForce, lineup, nil))(t)
			t.Logf("replayed in %v: %d flips", time.Since(began), report.Flips())
			wrong := 0
			flips := 0
			for j, r := range world.recorded {
				one := replay.NewRing(1, 1<<20)
				one.Remember([]check.Record{r})
				predicted := expect.Value(one.Replay(t.Context(), inForce, lineup, nil))(t)
				if observed[j].Verdict != r.Decision.Verdict {
					flips++
				}
				score := replay.Histogram{}
				score[min(observed[j].Score/5, len(score)-1)] = 1
				if typed := predicted.Types[0]; typed.After != score ||
					typed.Verdicts[r.Decision.Verdict][observed[j].Verdict] != 1 {
					wrong++
					t.Logf("%s: %s (%d) becomes %s (%d), predicted %+v", r.Decision.Query, r.Decision.Verdict,
						r.Decision.Score, observed[j].Verdict, observed[j].Score, typed)
				}
			}
			if wrong > 0 || flips == 0 || report.Flips() != flips {
				t.Errorf("of %d verdicts %d flip, predicted %d; %d predictions are wrong", len(observed), flips,
					report.Flips(), wrong)
			}
		})
	}
}

// observe scores recorded checks for real, with the facts that were recorded.
func observe(t *testing.T, l *check.Lineup, records []check.Record) []*check.Decision {
	t.Helper()
	live := &check.Live{}
	live.Swap(l)
	decisions := make([]*check.Decision, len(records))
	for i, r := range records {
		checker := installation.NewChecker(live, nil, measurement.SilentObserver{})
		checker.Deadline, checker.Collector = measurement.MeasuredDeadline, measurement.GivenFacts(r.LookedUp)
		d, err := checker.Explain(t.Context(), check.Field{Type: r.Decision.Type, Value: r.Decision.Query}, "")
		expect.NoError(t, err)
		decisions[i] = d
	}
	return decisions
}

// mostFuel returns the fuel that 95% of the calls of a layer did not need: a new instance after each other call takes
// most of the test's time.
func mostFuel(records []check.Record, layer string) int64 {
	var fuel []int64
	for _, r := range records {
		for _, o := range r.Decision.Layers {
			if o.Layer == layer {
				fuel = append(fuel, o.Fuel)
			}
		}
	}
	slices.Sort(fuel)
	return fuel[len(fuel)*95/100]
}

// layersOfSource builds the layers of this checkout, by name. The sandbox suspends no layer: the verdicts must depend
// on the facts alone.
func layersOfSource(t *testing.T) (map[string]registry.Module, *sandbox.Sandbox) {
	t.Helper()
	modules := map[string]registry.Module{}
	for _, m := range hosttest.BuiltLayers(t) {
		modules[m.Manifest.Name] = m
	}
	return modules, hosttest.LayerSandbox(t)
}

// openLayer opens a layer whose instance is restored after each call, as on a host: the fuel that a call burns would
// otherwise depend on the calls before.
func openLayer(t *testing.T, box *sandbox.Sandbox, m registry.Module, l registry.LineupLayer) check.Member {
	t.Helper()
	plugin := expect.Value(box.Open(t.Context(), m))(t)
	t.Cleanup(func() { _ = plugin.Close(context.Background()) })
	return lineups.NewMember(l, plugin)
}
