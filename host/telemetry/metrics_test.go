package telemetry

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"assay/host/check"
	"assay/host/entity"
	"assay/registry/expect"
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
	has(t, o.Metrics,
		`assay_layer_outcomes_total{layer="lexical",outcome="scored"} 8`,
		`assay_layer_outcomes_total{layer="graph",outcome="abstained"} 8`,
		`assay_layer_outcomes_total{layer="graph",outcome="trap"} 8`,
		`assay_layer_fuel_count{layer="lexical"} 24`,
		`assay_layer_fuel_sum{layer="lexical"} 40`,
		`assay_layer_seconds_count{layer="graph"} 24`,
		`assay_checks_total{type="email",verdict="block"} 8`,
		`assay_check_seconds_count{type="email"} 16`)
}

// has checks that metrics contain lines, and returns all of them.
func has(t *testing.T, m *Metrics, lines ...string) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	for _, line := range lines {
		expect.That(t, strings.Contains(w.Body.String(), "\n"+line+"\n"), "the metrics lack %s", line)
	}
	return w.Body.String()
}

// Shadow layers are counted apart from those that count.
func TestShadowMetrics(t *testing.T) {
	t.Parallel()
	m := NewMetrics()
	live := &check.Decision{Type: entity.Email, Fused: check.Fused{Verdict: check.Allow}}
	m.ShadowRan(live, check.Fused{Verdict: check.Block}, []check.Outcome{{Layer: "mailbox"},
		{Layer: "graph", Failure: check.Trap}, {Layer: "feeds", Abstained: true}})
	m.ShadowLeftOut(live)
	all := has(t, m,
		`assay_shadow_checks_total{shadow_verdict="block",type="email",verdict="allow"} 1`,
		`assay_shadow_layer_outcomes_total{layer="mailbox",outcome="scored"} 1`,
		`assay_shadow_layer_outcomes_total{layer="graph",outcome="trap"} 1`,
		`assay_shadow_layer_outcomes_total{layer="feeds",outcome="abstained"} 1`,
		`assay_shadow_left_out_total 1`)
	expect.Equal(t, "calls in shadow count as calls of live layers",
		strings.Contains(all, "assay_layer_outcomes_total{"), false)
}

// A layer can spell the checked entity with dots between the letters, so the log holds nothing that it wrote.
func TestLogHoldsNoTextOfGuests(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	o := &Observer{Metrics: NewMetrics(), Logger: slog.New(slog.NewTextHandler(&log, nil))}
	o.LayerRan(entity.Email, check.Outcome{Layer: "spy", Version: "1.2.3"}, &check.Failure{
		Reason: check.Refused, Rule: "the manifest does not declare the signal",
		Err:    errors.New(`the manifest declares no signal code "j.a.n.e"`),
		Output: check.Output{Text: "j.a.n.e\n@\n", Lines: 1234, Bytes: 3210, Level: 8},
	})
	_, got, _ := strings.Cut(strings.TrimSpace(log.String()), "level=WARN ")
	const want = `msg="layer lost" layer=spy version=1.2.3 type=email reason=refused ` +
		`rule="the manifest does not declare the signal" output_level=8 output_lines_below=2048 output_bytes_below=4096`
	expect.Equal(t, "logged", got, want)
}
