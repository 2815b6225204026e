package server

import (
	"context"
	"errors"
	"time"

	"assay/host/audit"
	"assay/host/check"
	"assay/host/installation"
	"assay/host/lineup"
	"assay/host/lineup/fleet"
	"assay/host/store"
	"assay/host/telemetry"
	"assay/host/web/admin"
)

// currentLineup is the lineup in force, which the host follows.
type currentLineup struct {
	*lineup.Follower
	live    *check.Live
	trusted *installation.Authority
}

var (
	_ collector   = (*currentLineup)(nil)
	_ runner      = (*currentLineup)(nil)
	_ worker      = (*currentLineup)(nil)
	_ notified    = (*currentLineup)(nil)
	_ requirement = (*currentLineup)(nil)
	_ fallible    = (*currentLineup)(nil)
	_ closer      = (*currentLineup)(nil)
)

// openLineup publishes the built-in layers, and opens the lineup in force.
func openLineup(ctx context.Context, h *host) (part, error) {
	memory, err := lineup.OpenMemory(h.cfg.MemoryPath())
	if err != nil {
		return nil, err
	}
	l := &currentLineup{live: &check.Live{}}
	if l.trusted, err = h.database.OpenAuthority(ctx, h.cfg, memory, true); err != nil {
		return nil, err
	}
	if err := h.store.Signer().Ready(audit.Checkpoints | audit.Records); err != nil {
		return nil, err
	}
	// An altered database must not keep this host from continuing with the activation that it ran last.
	installed := h.database.Install(ctx, l.trusted, h.database.modules, h.log)
	l.Follower = lineup.NewFollower(&l.trusted.Verifier, h.store, h.database.OpenSandbox(h.cfg, h.log), l.live, h.log)
	if err := errors.Join(installed, l.Follow(ctx)); err != nil {
		if l.State().Revision == 0 {
			return nil, err
		}
		h.log.Error("the last activation was refused; continuing with the one that this host ran", "error", err)
	}
	h.lineup = l
	return l, nil
}

// Collect implements collector.
func (l *currentLineup) Collect(m *telemetry.Metrics) { m.WatchLineup(l.Follower) }

// Jobs implements worker.
func (l *currentLineup) Jobs() jobs {
	return jobs{localJobs: {{Name: "return unused memory", Every: 2 * time.Minute, Run: l.Trim}}}
}

// Changed implements notified.
func (l *currentLineup) Changed(topic store.Topic) {
	switch topic {
	case store.TopicLineup:
		l.LineupChanged()
	case store.TopicPlugins:
		l.PluginsPublished()
	}
}

// Obstacles implements requirement.
func (l *currentLineup) Obstacles() []obstacle {
	if l.State().Revision != 0 {
		return nil
	}
	return []obstacle{{admin.Problem{Part: "lineup", Err: check.ErrNoLineup},
		"The host's log says why none could be loaded. `assay lineup hosts` shows what the other hosts run."}}
}

// Problems implements fallible.
func (l *currentLineup) Problems() []problem {
	return problemsOf(l.Degraded(), "See `assay lineup show` and `assay lineup hosts`. `assay lineup set` or `assay "+
		"lineup rollback` puts another lineup in force on all hosts. The host retries a suspended layer.")
}

// Close implements closer.
func (l *currentLineup) Close() error {
	l.Follower.Close()
	return nil
}

// preparation opens the lineups that may come into force next.
type preparation struct{ *lineup.Preparer }

var (
	_ runner   = preparation{}
	_ notified = preparation{}
)

func openPreparation(_ context.Context, h *host) (part, error) {
	s := h.scoring
	return preparation{&lineup.Preparer{Candidates: h.store, Follower: h.lineup.Follower, Host: h.id, Log: h.log,
		Measure: func(ctx context.Context, candidate *check.Lineup) (any, error) {
			return s.recent.Report(ctx, h.lineup.live, candidate, s.gate.Spare)
		}}}, nil
}

// Changed implements notified.
func (p preparation) Changed(topic store.Topic) {
	if topic == store.TopicCandidates {
		p.CandidatesChanged()
	}
}

// pulse reports this host, its lineup and its canary's outcome to the other hosts.
type pulse struct {
	*fleet.Pulse
	follower *lineup.Follower
}

var (
	_ collector = pulse{}
	_ runner    = pulse{}
)

func openPulse(_ context.Context, h *host) (part, error) {
	f, trial := h.lineup.Follower, h.scoring.trial
	return pulse{&fleet.Pulse{Roster: h.store, ID: h.id, Name: h.name, Log: h.log, Changed: f.StateChanged(),
		Shadow: h.scoring.tally.JSON,
		State: func() fleet.State {
			s := f.State()
			return fleet.State{Activation: s.Activation, Revision: s.Revision, Refused: s.RefusedActivation,
				Problem: s.Reason, Canary: trial.Summary()}
		}}, f}, nil
}

// Collect implements collector.
func (p pulse) Collect(m *telemetry.Metrics) { m.WatchFleet(p.follower, p.Alive) }
