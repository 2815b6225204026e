package server

import (
	"assay/host/access/admission"
	"assay/host/check"
	"assay/host/lineup/replay"
	"assay/host/telemetry"
)

// newShadow returns the runner of a host's shadow layers, which uses idle processors.
func newShadow(
	collector check.Collector, gate *admission.Gate, metrics *telemetry.Metrics, tally *replay.Tally,
) *check.Shadow {
	return &check.Shadow{Collector: collector, Spare: gate.Spare, Idle: gate.Idle,
		Observer: shadowObservers{metrics, tally}}
}

// shadowObservers observe one after another.
type shadowObservers []check.ShadowObserver

// ShadowRan implements check.ShadowObserver.
func (all shadowObservers) ShadowRan(live *check.Decision, shadow check.Fused, outcomes []check.Outcome) {
	for _, o := range all {
		o.ShadowRan(live, shadow, outcomes)
	}
}

// ShadowLeftOut implements check.ShadowObserver.
func (all shadowObservers) ShadowLeftOut(live *check.Decision) {
	for _, o := range all {
		o.ShadowLeftOut(live)
	}
}
