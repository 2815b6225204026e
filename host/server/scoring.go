package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"assay/host/access/admission"
	"assay/host/check"
	"assay/host/installation"
	"assay/host/lineup"
	"assay/host/lineup/canary"
	"assay/host/lineup/demotion"
	"assay/host/lineup/replay"
	"assay/host/telemetry"
)

// scoring runs checks, and watches the results of the lineup's layers.
type scoring struct {
	gate    *admission.Gate
	checker *check.Checker
	recent  *replay.Ring  // the last checks
	tally   *replay.Tally // of shadow layers
	trial   *canary.Watch // withdraws a canary that changes or fails too many checks
	layers  *demotion.Watch
	steps   *lineup.Steps // steps that the host takes itself
	metrics *telemetry.Metrics
	log     *slog.Logger

	mu       sync.Mutex
	failing  demotion.Finding // the last layer that was found to fail
	failedAt time.Time
}

func openScoring(_ context.Context, h *host) (part, error) {
	s := &scoring{recent: replay.NewRing(replay.DefaultChecks, replay.DefaultBytes), tally: &replay.Tally{},
		layers: demotion.NewWatch(), metrics: h.metrics, log: h.log}
	s.gate = admission.NewGate(admission.Config{Processors: runtime.GOMAXPROCS(0), Target: installation.CheckTarget,
		BatchTarget: installation.BatchTarget, Recording: h.ledger.Pace})
	shadow := &check.Shadow{Collector: h.lookups, Spare: s.gate.Spare, Idle: s.gate.Idle,
		Observer: shadowObservers{h.metrics, s.tally}}
	s.steps = &lineup.Steps{Verifier: &h.trusted.Verifier, Catalog: h.store, Key: h.backend.HostKey,
		Author: installation.Printable("host " + h.name), Now: time.Now}
	s.trial = &canary.Watch{Live: h.live, Collector: h.lookups, Turn: s.gate.Spare, Log: h.log,
		Observe:  h.metrics.CanaryCompared,
		Withdraw: s.withdraw}
	s.checker = installation.NewChecker(h.live, h.ledger, &telemetry.Observer{Metrics: h.metrics, Logger: h.log})
	s.checker.Collector, s.checker.Gate, s.checker.BatchDeadline = h.lookups, s.gate, installation.BatchTimeout
	s.checker.Memory, s.checker.Shadow, s.checker.Trial = memories{s.recent, s.layers}, shadow, s.trial
	s.checker.Overrides = h.overrides
	h.scoring = s
	return part{
		Collect: func(m *telemetry.Metrics) { m.WatchGate(s.gate.InProgress, s.gate.Wait) },
		Run:     []func(context.Context){shadow.Run, s.trial.Run, s.judge},
		Problems: []problems{{s.problems, "It fails whatever it is asked, so its module or its settings are at " +
			"fault: `assay lineup rollback` puts another lineup in force on all hosts."}},
		Jobs:   jobs{localJobs: {{Name: "forget old checks", Every: time.Minute, Run: s.recent.Trim}}},
		Erased: s.recent.Erase,
	}, nil
}

// stepTimeout is the limit for a step: an activation waits a few seconds for the heads of all chains.
const stepTimeout = 15 * time.Second

// withdraw ends a canary.
func (s *scoring) withdraw(ctx context.Context, revision int64, reason string) error {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	signed, err := s.steps.WithdrawCanary(ctx, revision, reason)
	if err == nil && signed.Number != 0 {
		s.metrics.StepTaken(telemetry.Withdrawal)
	}
	return err
}

// judge acts on faulty layers until ctx ends: it logs each as an error, and moves a layer to shadow if enough accounts
// agree. If that step fails, the layer is reported again.
func (s *scoring) judge(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case f := <-s.layers.Found():
			bounded, cancel := context.WithTimeout(ctx, stepTimeout)
			s.judgeLayer(bounded, f)
			cancel()
		}
	}
}

func (s *scoring) judgeLayer(ctx context.Context, f demotion.Finding) {
	if f.Fails {
		s.mu.Lock()
		s.failing, s.failedAt = f, time.Now()
		s.mu.Unlock()
	}
	if grave, err := s.confirm(ctx, f); err != nil || !grave {
		s.log.Error("a layer is at fault", "layer", f.Layer, "reason", f.Reason, "error", err)
		return
	}
	signed, err := s.steps.DemoteLayer(ctx, f.Revision, f.Layer,
		fmt.Sprintf("Layer %s exceeded its limits: %s", f.Layer, f.Reason))
	switch {
	case err != nil && !errors.Is(ctx.Err(), context.Canceled):
		s.log.Error("a layer has exceeded its limits, and moving it to shadow failed", "layer", f.Layer,
			"reason", f.Reason, "error", err)
	case signed.Number != 0:
		s.metrics.StepTaken(telemetry.Demotion)
		s.log.Error("a layer has exceeded its limits and was moved to shadow", "layer", f.Layer, "reason",
			f.Reason, "activation", signed.Number, "revision", signed.Lineup.Revision)
	}
}

// confirm reports whether a layer that is said to fail also fails for the built-in reference values, which no customer
// chooses.
func (s *scoring) confirm(ctx context.Context, f demotion.Finding) (bool, error) {
	if !f.Grave || !f.Fails {
		return f.Grave, nil
	}
	ref := s.checker.Live.Acquire()
	if ref == nil {
		return false, nil
	}
	defer ref.Release()
	return replay.FailsReferences(ctx, ref.Lineup, f.Layer, s.gate.Spare)
}

// faultShown is how long a failing layer is shown as a problem after it was last found.
const faultShown = time.Minute

// problems describes a layer that fails for nearly everybody.
func (s *scoring) problems() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.failedAt) > faultShown {
		return nil
	}
	return []string{fmt.Sprintf("layer %s fails: %s", s.failing.Layer, s.failing.Reason)}
}

// memories remember checks one after another.
type memories []check.Memory

// Remember implements check.Memory.
func (all memories) Remember(records []check.Record) {
	for _, m := range all {
		m.Remember(records)
	}
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
