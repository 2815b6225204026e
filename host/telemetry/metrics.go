// Package telemetry provides the Prometheus metrics and the log file of a host. Package admin serves the metrics.
package telemetry

import (
	"log/slog"
	"maps"
	"math/bits"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/time/rate"

	"assay/host/check"
	"assay/host/customer/webhook"
	"assay/host/entity"
	"assay/host/lineup/canary"
)

// Metrics are the Prometheus metrics of a host.
type Metrics struct {
	registry     *prometheus.Registry
	checks       *prometheus.CounterVec
	refusals     *prometheus.CounterVec
	overridden   *prometheus.CounterVec
	checkSeconds *prometheus.HistogramVec
	layers       *prometheus.CounterVec
	layerSeconds *prometheus.HistogramVec
	layerFuel    *prometheus.HistogramVec
	batchSize    prometheus.Histogram
	batchSeconds prometheus.Histogram
	graphLag     prometheus.Histogram
	auditLag     prometheus.Histogram
	canary       *prometheus.CounterVec
	steps        *prometheus.CounterVec
	queued       prometheus.Gauge
	ofLayer      resolved[string, layerMetrics]
	ofFailure    resolved[failureLabels, failures]
	ofCheck      resolved[checkLabels, timed]
	httpRequests *prometheus.CounterVec
	httpSeconds  *prometheus.HistogramVec
	ofHTTP       resolved[httpLabels, timed]

	shadowChecks  *prometheus.CounterVec
	shadowLayers  *prometheus.CounterVec
	shadowLeftOut prometheus.Counter

	listFetches    *prometheus.CounterVec
	listEntries    *prometheus.GaugeVec
	listConfirmed  *prometheus.GaugeVec
	attempts       *prometheus.CounterVec
	attemptSeconds prometheus.Histogram
	attemptDelay   prometheus.Histogram
}

// NewMetrics returns metrics in their own registry, together with those of the Go runtime and the process.
func NewMetrics() *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry()}
	factory := promauto.With(m.registry)
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return factory.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		return factory.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
	}
	histograms := func(name, help string, buckets []float64, label string) *prometheus.HistogramVec {
		return factory.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets},
			[]string{label})
	}
	exponential := prometheus.ExponentialBuckets

	m.httpRequests = counter("assay_http_requests_total", "Responses to customers by route (an endpoint's path, "+
		"pages, test for test keys, or other) and status code.", "route", "code")
	m.httpSeconds = histograms("assay_http_seconds", "Time from a complete request to its response, without "+
		"sending it.", exponential(0.0005, 2, 14), "route")
	m.checks = counter("assay_checks_total", "Checks answered.", "type", "verdict")
	m.overridden = counter("assay_overridden_checks_total", "Recorded checks decided by an override, by verdict and "+
		"by who set it: account or operator.", "verdict", "by")
	m.refusals = counter("assay_refusals_total", "Requests refused with 503, by reason: door (too many requests in "+
		"progress), share (the account or address has used up its share), deadline (the check's turn did not come "+
		"in time), not ready, or the part that was missing, such as layer, facts, ledger or database.", "reason")
	m.checkSeconds = histograms("assay_check_seconds", "Time from the parsed request to the durable decision.",
		exponential(0.0005, 2, 12), "type")
	m.canary = counter("assay_canary_checks_total", "Checks that the canary scored, compared with the lineup of the "+
		"other accounts: same, flipped (another verdict), failed (a layer failed), again (the value was compared "+
		"before) or left_out (the host was busy).", "outcome")
	for _, o := range []canary.Outcome{canary.Same, canary.Flipped, canary.Failed, canary.Again, canary.LeftOut} {
		m.canary.WithLabelValues(string(o))
	}
	m.steps = counter("assay_lineup_steps_total", "Lineup changes that this host signed itself: "+
		"withdrawal of a canary, or demotion of a layer to shadow.", "step")
	for _, step := range []Step{Withdrawal, Demotion} {
		m.steps.WithLabelValues(string(step)) // starts at 0, so that an alert sees the first increase
	}
	m.layers = counter("assay_layer_outcomes_total",
		"Layer calls by outcome: scored, abstained, or the reason for the failure. A call without an outcome refuses "+
			"the check (assay_refusals_total).", "layer", "outcome")
	m.layerSeconds = histograms("assay_layer_seconds", "Duration of a layer call.", exponential(0.000002, 4, 10),
		"layer")
	m.layerFuel = histograms("assay_layer_fuel", "Fuel used by a layer call, about one unit per instruction. "+
		"The layer's budget_fuel is the limit.", exponential(1000, 4, 10), "layer")
	m.shadowChecks = counter("assay_shadow_checks_total", "Checks whose shadow layers ran, by the answered verdict "+
		"and the verdict if the shadow layers counted.", "type", "verdict", "shadow_verdict")
	m.shadowLayers = counter("assay_shadow_layer_outcomes_total", "Calls of layers in shadow by outcome: scored, "+
		"abstained, or the reason for the failure.", "layer", "outcome")
	m.shadowLeftOut = factory.NewCounter(prometheus.CounterOpts{Name: "assay_shadow_left_out_total",
		Help: "Checks whose shadow layers did not run, because the host was busy or facts were missing."})
	m.batchSize = histogram("assay_ledger_batch_size", "Checks recorded in one transaction.", exponential(1, 2, 9))
	m.batchSeconds = histogram("assay_ledger_batch_seconds", "Duration of a ledger transaction.",
		exponential(0.0005, 2, 12))
	m.graphLag = histogram("assay_graph_lag_seconds", "Time from recording a batch of checks to applying it to "+
		"the reputation graph on this host.", exponential(0.002, 2, 14))
	m.auditLag = histogram("assay_audit_checkpoint_lag_seconds", "Time from recording the oldest check that a "+
		"checkpoint is the first to cover to storing the checkpoint.", exponential(0.125, 2, 10))
	m.queued = factory.NewGauge(prometheus.GaugeOpts{Name: "assay_ledger_queue",
		Help: "Checks waiting for the ledger when its last transaction finished."})
	m.listFetches = counter("assay_list_fetches_total", "Fetches of subscribed lists by this host, by outcome: "+
		"updated, unchanged, held (its size is unusual) or failed.", "list", "outcome")
	m.listEntries = factory.NewGaugeVec(prometheus.GaugeOpts{Name: "assay_list_entries",
		Help: "Entries of a subscribed list."}, []string{"list"})
	m.listConfirmed = factory.NewGaugeVec(prometheus.GaugeOpts{Name: "assay_list_confirmed_timestamp_seconds",
		Help: "When any host last fetched a subscribed list or found it unchanged."}, []string{"list"})
	m.attempts = counter("assay_webhook_attempts_total", "Finished attempts to deliver an event, by outcome: "+
		"delivered, refused (an error status) or unanswered.", "outcome")
	m.attemptSeconds = histogram("assay_webhook_attempt_seconds", "Duration of an attempt to deliver an event.",
		exponential(0.001, 2, 15))
	m.attemptDelay = histogram("assay_webhook_late_seconds", "Time between an attempt's due time and its "+
		"start. The first attempt is due when the check is recorded.", exponential(0.001, 2, 15))
	m.registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Handler serves the metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

func (m *Metrics) gauge(name, help string, value func() float64) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
}

// CanaryCompared counts a check that the canary scored, by outcome.
func (m *Metrics) CanaryCompared(o canary.Outcome) { m.canary.WithLabelValues(string(o)).Inc() }

// Step is a lineup change that a host may sign itself.
type Step string

// The steps.
const (
	Withdrawal Step = "withdrawal"
	Demotion   Step = "demotion"
)

// StepTaken counts a step that this host took.
func (m *Metrics) StepTaken(s Step) { m.steps.WithLabelValues(string(s)).Inc() }

// ListFetched counts a fetch of a subscribed list.
func (m *Metrics) ListFetched(list, outcome string) {
	m.listFetches.WithLabelValues(list, outcome).Inc()
}

// ListState is the state of a subscribed list. Confirmed is zero if the list was never fetched.
type ListState struct {
	Name      string
	Entries   int
	Confirmed time.Time
}

// ListsObserved replaces the metrics of all subscribed lists.
func (m *Metrics) ListsObserved(lists []ListState) {
	m.listEntries.Reset()
	m.listConfirmed.Reset()
	for _, l := range lists {
		m.listEntries.WithLabelValues(l.Name).Set(float64(l.Entries))
		if !l.Confirmed.IsZero() {
			m.listConfirmed.WithLabelValues(l.Name).Set(float64(l.Confirmed.Unix()))
		}
	}
}

// WatchGate adds the metrics of accepted checks. It must be called at most once.
func (m *Metrics) WatchGate(inProgress func() int, wait func() time.Duration) {
	m.gauge("assay_checks_under_way", "Accepted checks that are not answered yet.",
		func() float64 { return float64(inProgress()) })
	m.gauge("assay_check_wait_seconds", "Predicted response time for an account without checks in progress. "+
		"Checks are refused if it is too long.", func() float64 { return wait().Seconds() })
}

// WatchCertificate adds the metric of the host's TLS certificate. It must be called at most once.
func (m *Metrics) WatchCertificate(expiry func() time.Time) {
	m.gauge("assay_certificate_expiry_timestamp_seconds", "When the TLS certificate in service expires. Absent "+
		"without ASSAY_TLS_CERT.", func() float64 { return float64(expiry().Unix()) })
}

// WatchOverrides adds the metrics of overrides. It must be called at most once.
func (m *Metrics) WatchOverrides(size func() int, ignored func() []string) {
	m.gauge("assay_overrides", "Overrides in memory.", func() float64 { return float64(size()) })
	m.gauge("assay_overrides_ignored", "Overrides ignored because their rows were altered. "+
		"'assay overrides list' names them.", func() float64 { return float64(len(ignored())) })
}

// CheckRefused counts a request refused with 503.
func (m *Metrics) CheckRefused(reason string) { m.refusals.WithLabelValues(reason).Inc() }

// WatchDelivery adds the metrics of webhook attempts in progress. It must be called at most once.
func (m *Metrics) WatchDelivery(inProgress func() (all, slow int)) {
	m.gauge("assay_webhook_attempts_under_way", "Attempts in progress to deliver an event.",
		func() float64 { all, _ := inProgress(); return float64(all) })
	m.gauge("assay_webhook_slow_attempts_under_way",
		"Attempts in progress to slow receivers, which recently took more than a second.",
		func() float64 { _, slow := inProgress(); return float64(slow) })
}

// BatchDone records a transaction of the ledger. queued is the number of checks that wait for the next one.
func (m *Metrics) BatchDone(size int, took time.Duration, queued int) {
	m.batchSize.Observe(float64(size))
	m.batchSeconds.Observe(took.Seconds())
	m.queued.Set(float64(queued))
}

// GraphApplied records that a batch of checks was applied to the reputation graph.
func (m *Metrics) GraphApplied(_ int, lag time.Duration) { m.graphLag.Observe(lag.Seconds()) }

// CheckpointStored records how long the oldest of the checks that a checkpoint newly covers waited for it.
func (m *Metrics) CheckpointStored(lag time.Duration) { m.auditLag.Observe(lag.Seconds()) }

// AttemptEnded records an attempt to deliver an event and how late it started.
func (m *Metrics) AttemptEnded(o webhook.Outcome, late time.Duration) {
	outcome := "unanswered"
	switch {
	case o.Delivered:
		outcome = "delivered"
	case o.Status != 0:
		outcome = "refused"
	}
	m.attempts.WithLabelValues(outcome).Inc()
	m.attemptSeconds.Observe(o.Took.Seconds())
	m.attemptDelay.Observe(late.Seconds())
}

// Observer records checks as metrics and logs failed layers.
type Observer struct {
	Metrics *Metrics
	Logger  *slog.Logger
}

var _ check.Observer = (*Observer)(nil)

// roughly returns the power of two above n. A guest chooses how much it prints, and exact numbers could encode the
// checked entity.
func roughly(n int) int { return 1 << bits.Len(uint(n)) }

// logFailuresEvery is the time between two lines about a layer that fails for the same reason. Customers can choose
// values that make a layer fail, and must not be able to fill the log.
const logFailuresEvery = time.Minute

// LayerRan implements check.Observer. It logs the first failure of a layer for each reason, then at most a line a
// minute with the number of failures since the line before. It never logs a guest's text.
func (o *Observer) LayerRan(t entity.Type, out check.Outcome, failure *check.Failure) {
	m := o.Metrics.ofLayer.get(out.Layer, o.Metrics.newLayerMetrics)
	switch {
	case failure != nil:
		f := o.Metrics.ofFailure.get(failureLabels{out.Layer, failure.Reason}, o.Metrics.newFailures)
		f.total.Inc()
		f.unlogged.Add(1)
		f.log.Do(func() {
			o.Logger.Warn("layer lost", "layer", out.Layer, "version", out.Version, "type", t,
				"reason", failure.Reason, "rule", failure.Rule, "output_level", failure.Output.Level,
				"output_lines_below", roughly(failure.Output.Lines),
				"output_bytes_below", roughly(failure.Output.Bytes), "failures", f.unlogged.Swap(0))
		})
	case out.Abstained:
		m.abstained.Inc()
	default:
		m.scored.Inc()
	}
	m.seconds.Observe(float64(out.Micros) / 1e6)
	m.fuel.Observe(float64(out.Fuel))
}

// CheckDone implements check.Observer.
func (o *Observer) CheckDone(d *check.Decision, took time.Duration) {
	o.Metrics.ofCheck.get(checkLabels{d.Type, d.Verdict}, o.Metrics.newCheckMetrics).count(took)
	if d.Override != nil {
		by := "account"
		if d.Override.Operator {
			by = "operator"
		}
		o.Metrics.overridden.WithLabelValues(string(d.Override.Verdict), by).Inc()
	}
}

// ShadowRan counts a check whose shadow layers ran (check.ShadowObserver).
func (m *Metrics) ShadowRan(live *check.Decision, shadow check.Fused, outcomes []check.Outcome) {
	m.shadowChecks.WithLabelValues(string(live.Type), string(live.Verdict), string(shadow.Verdict)).Inc()
	for _, o := range outcomes {
		outcome := "scored"
		switch {
		case o.Failure != "":
			outcome = string(o.Failure)
		case o.Abstained:
			outcome = "abstained"
		}
		m.shadowLayers.WithLabelValues(o.Layer, outcome).Inc()
	}
}

// ShadowLeftOut counts a check whose shadow layers did not run (check.ShadowObserver).
func (m *Metrics) ShadowLeftOut(*check.Decision) { m.shadowLeftOut.Inc() }

// layerMetrics are the metrics of one layer, kept because finding a metric by its labels takes longer than counting.
type layerMetrics struct {
	scored, abstained prometheus.Counter
	seconds, fuel     prometheus.Observer
}

func (m *Metrics) newLayerMetrics(layer string) *layerMetrics {
	return &layerMetrics{
		scored: m.layers.WithLabelValues(layer, "scored"), abstained: m.layers.WithLabelValues(layer, "abstained"),
		seconds: m.layerSeconds.WithLabelValues(layer), fuel: m.layerFuel.WithLabelValues(layer),
	}
}

type failureLabels struct {
	layer  string
	reason check.FailureReason
}

// failures are a layer's failures for one reason.
type failures struct {
	total    prometheus.Counter
	unlogged atomic.Int64 // since the last line about them
	log      rate.Sometimes
}

func (m *Metrics) newFailures(l failureLabels) *failures {
	return &failures{total: m.layers.WithLabelValues(l.layer, string(l.reason)),
		log: rate.Sometimes{Interval: logFailuresEvery}}
}

type checkLabels struct {
	entity  entity.Type
	verdict check.Verdict
}

// timed are the metrics of checks, or of responses, with the same labels.
type timed struct {
	total   prometheus.Counter
	seconds prometheus.Observer
}

func (m *timed) count(took time.Duration) {
	m.total.Inc()
	m.seconds.Observe(took.Seconds())
}

func (m *Metrics) newCheckMetrics(l checkLabels) *timed {
	return &timed{m.checks.WithLabelValues(string(l.entity), string(l.verdict)),
		m.checkSeconds.WithLabelValues(string(l.entity))}
}

// resolved maps labels to metrics. Readers need no lock; the few writers copy it.
type resolved[K comparable, M any] struct {
	current atomic.Pointer[map[K]*M]
}

// get returns the metrics with the given labels. It creates them when they are first used.
func (r *resolved[K, M]) get(labels K, create func(K) *M) *M {
	for {
		var known map[K]*M
		old := r.current.Load()
		if old != nil {
			known = *old
		}
		if m := known[labels]; m != nil {
			return m
		}
		next := map[K]*M{labels: create(labels)}
		maps.Copy(next, known)
		r.current.CompareAndSwap(old, &next)
	}
}
