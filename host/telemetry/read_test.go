package telemetry

import (
	"log/slog"
	"testing"
	"time"

	"assay/host/check"
	"assay/host/entity"
	"assay/registry/expect"
)

func TestLayerUses(t *testing.T) {
	t.Parallel()
	m := NewMetrics()
	expect.Equal(t, "before the first call, the uses", len(m.LayerUses()), 0)
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
		"age":   {Outcomes: map[string]uint64{"abstained": 1, string(check.Trap): 1}, FuelMean: 1000, FuelP99: 4000},
	}
	expect.NoDiff(t, "uses", want, m.LayerUses())
}

func TestLedgerQueue(t *testing.T) {
	t.Parallel()
	m := NewMetrics()
	m.BatchDone(1, time.Millisecond, 7)
	expect.Equal(t, "the queue", m.LedgerQueue(), 7)
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
	expect.NoDiff(t, "uses", want, m.ShadowUses())
	if ran, changed, leftOut := m.ShadowChecks(); ran != 3 || changed != 1 || leftOut != 1 {
		t.Errorf("%d checks, %d changed, %d left out, want 3, 1 and 1", ran, changed, leftOut)
	}
}
