package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"gopkg.in/natefinch/lumberjack.v2"

	"assay/host/check"
	"assay/host/entity"
	"assay/host/lineup"
	"assay/host/store"
)

// Logs are kept for 30 days (spec section 8). A file goes by the age of its last line, once a later one is begun: its
// first line is older by a day, and it may go a day late.
const (
	logDays = 30 - 3
	logMB   = 100
)

// rotateLog begins a new file when the first line of the last is a day old. By size alone, a quiet host would keep
// lines for longer than logs are kept; by a timer alone, one that restarts often would.
func rotateLog(file *lumberjack.Logger, now time.Time) error {
	f, err := os.Open(file.Filename)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("rotating log: %w", err)
	}
	defer f.Close()
	var first struct{ Time time.Time }
	err = json.NewDecoder(f).Decode(&first)
	age := now.Sub(first.Time)
	if errors.Is(err, io.EOF) || err == nil && age >= 0 && age < rotateLogsEvery {
		return nil
	}
	// also what begins with no line of this log, or one from the future: its age cannot be told
	if err := file.Rotate(); err != nil {
		return fmt.Errorf("rotating log: %w", err)
	}
	return nil
}

// openLog returns the host's log: JSON lines in a rotated file, and warnings on the terminal too.
func openLog(cfg *Config, t *terminal) (*slog.Logger, *lumberjack.Logger, error) {
	if err := cfg.makeDataDir(); err != nil {
		return nil, nil, err
	}
	if err := os.MkdirAll(cfg.path("logs"), 0o700); err != nil {
		return nil, nil, fmt.Errorf("opening log: %w", err)
	}
	file := &lumberjack.Logger{Filename: cfg.path("logs", "assay.log"), MaxSize: logMB, MaxAge: logDays}
	return slog.New(slog.NewMultiHandler(
		slog.NewJSONHandler(file, &slog.HandlerOptions{Level: slog.LevelInfo}),
		slog.NewTextHandler(t.err, &slog.HandlerOptions{Level: slog.LevelWarn}),
	)), file, nil
}

// metrics are the host's figures for Prometheus.
type metrics struct {
	registry     *prometheus.Registry
	checks       *prometheus.CounterVec
	checkSeconds *prometheus.HistogramVec
	layers       *prometheus.CounterVec
	layerSeconds *prometheus.HistogramVec
	layerFuel    *prometheus.HistogramVec
	batchSize    prometheus.Histogram
	batchSeconds prometheus.Histogram
	queued       prometheus.Gauge
	attempts     *prometheus.CounterVec
	attemptTook  prometheus.Histogram
	attemptLate  prometheus.Histogram
}

func newMetrics() *metrics {
	m := &metrics{registry: prometheus.NewRegistry()}
	made := promauto.With(m.registry)
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return made.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		return made.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
	}
	histograms := func(name, help string, buckets []float64, label string) *prometheus.HistogramVec {
		return made.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, []string{label})
	}
	exponential := prometheus.ExponentialBuckets

	m.checks = counter("assay_checks_total", "Checks answered.", "type", "verdict")
	m.checkSeconds = histograms("assay_check_seconds",
		"From the parsed request to the durable decision.", exponential(0.0005, 2, 12), "type")
	m.layers = counter("assay_layer_outcomes_total",
		"What became of each call of a layer: scored, abstained, or why it was lost.", "layer", "outcome")
	m.layerSeconds = histograms("assay_layer_seconds", "One call of a layer.", exponential(0.000002, 4, 10), "layer")
	m.layerFuel = histograms("assay_layer_fuel",
		"Fuel that one call of a layer burned, about one unit an instruction.", exponential(1000, 4, 10), "layer")
	m.batchSize = histogram("assay_ledger_batch_size", "Checks recorded in one transaction.", exponential(1, 2, 9))
	m.batchSeconds = histogram("assay_ledger_batch_seconds", "One transaction of the ledger.",
		exponential(0.0005, 2, 12))
	m.queued = made.NewGauge(prometheus.GaugeOpts{
		Name: "assay_ledger_queue", Help: "Checks that waited for the ledger after its last transaction."})
	m.attempts = counter("assay_webhook_attempts_total",
		"Attempts to deliver an event that ended: delivered, refused with another status, or without an answer.",
		"outcome")
	m.attemptTook = histogram("assay_webhook_attempt_seconds", "One attempt to deliver an event.",
		exponential(0.001, 2, 15))
	m.attemptLate = histogram("assay_webhook_late_seconds",
		"From when an attempt was due, the first from its check, to when it was claimed.", exponential(0.001, 2, 15))
	m.registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// gauge adds a figure that is asked for when it is read.
func (m *metrics) gauge(name, help string, value func() float64) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
}

// handler serves the figures, and how far this host follows the lineup.
func (m *metrics) handler(f *lineup.Follower) http.Handler {
	m.gauge("assay_lineup_revision", "The lineup revision in force on this host.",
		func() float64 { return float64(f.State().Revision) })
	m.gauge("assay_lineup_refused_revision", "The active revision when this host could not load it, else 0.",
		func() float64 { return float64(f.State().Refused) })
	m.gauge("assay_degraded", "What /readyz lists as degraded: layers that rest, a lineup that was refused.",
		func() float64 { return float64(len(f.Degraded())) })
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

func (m *metrics) batchDone(size int, took time.Duration, queued int) {
	m.batchSize.Observe(float64(size))
	m.batchSeconds.Observe(took.Seconds())
	m.queued.Set(float64(queued))
}

// attemptEnded counts an attempt to deliver an event.
func (m *metrics) attemptEnded(a store.Ended, late time.Duration) {
	outcome := "unanswered"
	switch {
	case a.Delivered:
		outcome = "delivered"
	case a.Status != 0:
		outcome = "refused"
	}
	m.attempts.WithLabelValues(outcome).Inc()
	m.attemptTook.Observe(a.Took.Seconds())
	m.attemptLate.Observe(late.Seconds())
}

// watchDelivery shows how many attempts are under way.
func (m *metrics) watchDelivery(underWay func() (all, slow int)) {
	m.gauge("assay_webhook_attempts_under_way", "Attempts to deliver an event that are being made.",
		func() float64 { all, _ := underWay(); return float64(all) })
	m.gauge("assay_webhook_slow_attempts_under_way",
		"Of these, those that have taken more than a second or are made to a receiver that does.",
		func() float64 { _, slow := underWay(); return float64(slow) })
}

// observer turns what the core reports into figures and log lines.
type observer struct {
	metrics *metrics
	log     *slog.Logger
}

var _ check.Observer = (*observer)(nil)

// LayerRan implements check.Observer.
func (o *observer) LayerRan(t entity.Type, out check.Outcome, lost *check.Failure) {
	outcome := "scored"
	switch {
	case lost != nil:
		outcome = string(lost.Reason)
		o.log.Warn("layer lost", "layer", out.Layer, "version", out.Version, "type", t,
			"reason", lost.Reason, "error", lost.Err, "output", lost.Output)
	case out.Abstained:
		outcome = "abstained"
	}
	o.metrics.layers.WithLabelValues(out.Layer, outcome).Inc()
	o.metrics.layerSeconds.WithLabelValues(out.Layer).Observe(float64(out.Micros) / 1e6)
	o.metrics.layerFuel.WithLabelValues(out.Layer).Observe(float64(out.Fuel))
}

// CheckDone implements check.Observer.
func (o *observer) CheckDone(d *check.Decision, took time.Duration) {
	o.metrics.checks.WithLabelValues(string(d.Type), string(d.Verdict)).Inc()
	o.metrics.checkSeconds.WithLabelValues(string(d.Type)).Observe(took.Seconds())
}
