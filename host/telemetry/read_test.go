package telemetry

import (
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"assay/host/check"
	"assay/host/entity"
)

func TestLayerUses(t *testing.T) {
	t.Parallel()
	m := NewMetrics()
	if uses := m.LayerUses(); len(uses) != 0 {
		t.Errorf("before the first call, the uses are %v", uses)
	}
	o := Observer{Metrics: m, Logger: slog.New(slog.DiscardHandler)}
	for i := range 100 {
		out := check.Outcome{Layer: "names", Fuel: 2000}
		if i == 0 {
			out.Fuel = 200_000 // the one call in a hundred that the 99th percentile leaves out
		}
		o.LayerRan(entity.Domain, out, nil)
	}
	o.LayerRan(entity.Domain, check.Outcome{Layer: "age", Fuel: 900, Abstained: true}, nil)
	o.LayerRan(entity.Domain, check.Outcome{Layer: "age", Fuel: 1100}, &check.Failure{Reason: check.Trap})
	want := map[string]*LayerUse{
		"names": {Outcomes: map[string]uint64{"scored": 100}, FuelMean: 3980, FuelP99: 4000},
		"age": {Outcomes: map[string]uint64{"abstained": 1, string(check.Trap): 1}, FuelMean: 1000,
			FuelP99: 4000},
	}
	if diff := cmp.Diff(want, m.LayerUses()); diff != "" {
		t.Errorf("uses (-want +got):\n%s", diff)
	}
}

func TestLedgerQueue(t *testing.T) {
	t.Parallel()
	m := NewMetrics()
	m.BatchDone(1, time.Millisecond, 7)
	if n := m.LedgerQueue(); n != 7 {
		t.Errorf("the queue has %d checks, want 7", n)
	}
}

func TestShadowUses(t *testing.T) {
	t.Parallel()
	m := NewMetrics()
	live := &check.Decision{Type: entity.Domain, Fused: check.Fused{Verdict: check.Allow}}
	for _, verdict := range []check.Verdict{check.Allow, check.Review} {
		m.ShadowRan(live, check.Fused{Verdict: verdict}, []check.Outcome{{Layer: "new"}})
	}
	m.ShadowRan(live, check.Fused{Verdict: check.Allow}, []check.Outcome{{Layer: "new", Failure: check.Trap}})
	m.ShadowLeftOut(live)
	want := map[string]*LayerUse{"new": {Outcomes: map[string]uint64{"scored": 2, string(check.Trap): 1}}}
	if diff := cmp.Diff(want, m.ShadowUses()); diff != "" {
		t.Errorf("uses (-want +got):\n%s", diff)
	}
	if ran, changed, leftOut := m.ShadowChecks(); ran != 3 || changed != 1 || leftOut != 1 {
		t.Errorf("%d checks, %d changed, %d left out, want 3, 1 and 1", ran, changed, leftOut)
	}
}
