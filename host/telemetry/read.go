package telemetry

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// LayerUse sums up the calls of a layer on this host since it started.
type LayerUse struct {
	Outcomes map[string]uint64 // scored, abstained, or the reason of the failure
	FuelMean float64           // of a call
	FuelP99  float64           // at least 99 of 100 calls used at most this much; +Inf: more than the largest bucket
}

// LayerUses returns the use of each layer that was called, by its name.
func (m *Metrics) LayerUses() map[string]*LayerUse {
	uses := outcomes(m.layers)
	each(m.layerFuel, func(labels map[string]string, v *dto.Metric) {
		if h := v.GetHistogram(); h.GetSampleCount() > 0 {
			u := useOf(uses, labels)
			u.FuelMean, u.FuelP99 = h.GetSampleSum()/float64(h.GetSampleCount()), bound(h, 0.99)
		}
	})
	return uses
}

// ShadowUses returns the outcomes of each layer that was called in shadow, by its name.
func (m *Metrics) ShadowUses() map[string]*LayerUse { return outcomes(m.shadowLayers) }

// outcomes reads a counter of calls by layer and outcome. It leaves out outcomes that did not occur.
func outcomes(calls prometheus.Collector) map[string]*LayerUse {
	uses := map[string]*LayerUse{}
	each(calls, func(labels map[string]string, v *dto.Metric) {
		if n := uint64(v.GetCounter().GetValue()); n > 0 {
			useOf(uses, labels).Outcomes[labels["outcome"]] = n
		}
	})
	return uses
}

func useOf(uses map[string]*LayerUse, labels map[string]string) *LayerUse {
	layer := labels["layer"]
	if uses[layer] == nil {
		uses[layer] = &LayerUse{Outcomes: map[string]uint64{}}
	}
	return uses[layer]
}

// ShadowChecks returns the number of checks whose shadow layers ran, how many of them would have had another verdict,
// and the number of those whose shadow layers did not run.
func (m *Metrics) ShadowChecks() (ran, changed, leftOut uint64) {
	each(m.shadowChecks, func(labels map[string]string, v *dto.Metric) {
		n := uint64(v.GetCounter().GetValue())
		ran += n
		if labels["verdict"] != labels["shadow_verdict"] {
			changed += n
		}
	})
	each(m.shadowLeftOut, func(_ map[string]string, v *dto.Metric) { leftOut = uint64(v.GetCounter().GetValue()) })
	return ran, changed, leftOut
}

// bound returns the upper bound of the bucket below which the given share of a histogram's samples lies.
func bound(h *dto.Histogram, share float64) float64 {
	for _, b := range h.GetBucket() {
		if float64(b.GetCumulativeCount()) >= share*float64(h.GetSampleCount()) {
			return b.GetUpperBound()
		}
	}
	return math.Inf(1)
}

// LedgerQueue returns the number of checks that waited for the ledger when its last transaction finished.
func (m *Metrics) LedgerQueue() (n int) {
	each(m.queued, func(_ map[string]string, v *dto.Metric) { n = int(v.GetGauge().GetValue()) })
	return n
}

// each calls f with the labels and the value of each metric of a collector.
func each(c prometheus.Collector, f func(labels map[string]string, v *dto.Metric)) {
	metrics := make(chan prometheus.Metric)
	go func() {
		defer close(metrics)
		c.Collect(metrics)
	}()
	for metric := range metrics {
		var v dto.Metric
		if metric.Write(&v) != nil {
			continue // cannot happen: the package's own metrics are consistent
		}
		labels := map[string]string{}
		for _, l := range v.GetLabel() {
			labels[l.GetName()] = l.GetValue()
		}
		f(labels, &v)
	}
}
