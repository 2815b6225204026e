package server

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"assay/host/access/admission"
	"assay/host/check"
	"assay/host/installation"
	"assay/host/lineup"
	"assay/host/lineup/canary"
	"assay/host/lineup/demotion"
	"assay/host/telemetry"
)

// newSteps returns the steps that a host may take itself. name is its name in the fleet.
func newSteps(b *installation.Backend, a *installation.Authority, name string) *lineup.Steps {
	return &lineup.Steps{Verifier: &a.Verifier, Catalog: b.Store, Key: b.HostKey, Author: installation.Printable("host " + name),
		Now: time.Now}
}

// stepTimeout is the limit for a step: an activation waits a few seconds for the heads of all chains.
const stepTimeout = 15 * time.Second

// newWatch returns the watch that withdraws a canary that changes or fails too many checks.
func newWatch(
	live *check.Live, collector check.Collector, gate *admission.Gate, steps *lineup.Steps, metrics *telemetry.Metrics,
	log *slog.Logger,
) *canary.Watch {
	return &canary.Watch{Live: live, Collector: collector, Turn: gate.Spare, Log: log,
		Observe: func(o canary.Outcome) { metrics.CanaryCompared(string(o)) },
		Withdraw: func(ctx context.Context, revision int64, reason string) error {
			ctx, cancel := context.WithTimeout(ctx, stepTimeout)
			defer cancel()
			signed, err := steps.WithdrawCanary(ctx, revision, reason)
			if err == nil && signed.Number != 0 {
				metrics.StepTaken(telemetry.Withdrawal)
			}
			return err
		}}
}

// demote moves layers that exceed their limits to shadow until ctx ends. A layer whose step fails is reported again.
func demote(
	ctx context.Context, found <-chan demotion.Finding, steps *lineup.Steps, metrics *telemetry.Metrics,
	log *slog.Logger,
) {
	for {
		select {
		case <-ctx.Done():
			return
		case f := <-found:
			bounded, cancel := context.WithTimeout(ctx, stepTimeout)
			signed, err := steps.DemoteLayer(bounded, f.Revision, f.Layer,
				fmt.Sprintf("Layer %s exceeded its limits: %s", f.Layer, f.Reason))
			cancel()
			switch {
			case err != nil && ctx.Err() == nil:
				log.Error("a layer has exceeded its limits, and moving it to shadow failed", "layer", f.Layer,
					"reason", f.Reason, "error", err)
			case signed.Number != 0:
				metrics.StepTaken(telemetry.Demotion)
				log.Error("a layer has exceeded its limits and was moved to shadow", "layer", f.Layer, "reason",
					f.Reason, "activation", signed.Number, "revision", signed.Lineup.Revision)
			}
		}
	}
}

// memories remember checks one after another.
type memories []check.Memory

// Remember implements check.Memory.
func (all memories) Remember(records []check.Record) {
	for _, m := range all {
		m.Remember(records)
	}
}
