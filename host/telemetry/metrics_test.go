package telemetry

import (
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"assay/host/check"
	"assay/host/entity"
)

// TestObserver checks that checks and layers are counted under their labels, whoever counts first.
func TestObserver(t *testing.T) {
	t.Parallel()
	o := &Observer{Metrics: NewMetrics(), Logger: slog.New(slog.DiscardHandler)}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for _, layer := range []string{"lexical", "graph"} {
				o.LayerRan(entity.Domain, check.Outcome{Layer: layer, Micros: 3, Fuel: 5}, nil)
				o.LayerRan(entity.Domain, check.Outcome{Layer: layer, Abstained: true}, nil)
				o.LayerRan(entity.Domain, check.Outcome{Layer: layer}, &check.Failure{Reason: check.Trap})
			}
			o.CheckDone(&check.Decision{Type: entity.Email, Fused: check.Fused{Verdict: check.Block}}, time.Second)
			o.CheckDone(&check.Decision{Type: entity.Email, Fused: check.Fused{Verdict: check.Allow}}, time.Second)
		})
	}
	all.Wait()
	w := httptest.NewRecorder()
	o.Metrics.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for _, line := range []string{
		`assay_layer_outcomes_total{layer="lexical",outcome="scored"} 8`,
		`assay_layer_outcomes_total{layer="graph",outcome="abstained"} 8`,
		`assay_layer_outcomes_total{layer="graph",outcome="trap"} 8`,
		`assay_layer_fuel_count{layer="lexical"} 24`,
		`assay_layer_fuel_sum{layer="lexical"} 40`,
		`assay_layer_seconds_count{layer="graph"} 24`,
		`assay_checks_total{type="email",verdict="block"} 8`,
		`assay_check_seconds_count{type="email"} 16`,
	} {
		if !strings.Contains(w.Body.String(), line+"\n") {
			t.Errorf("the metrics lack %s", line)
		}
	}
}
