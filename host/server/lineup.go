package server

import (
	"context"
	"errors"
	"time"

	"assay/host/audit"
	"assay/host/check"
	"assay/host/lineup"
	"assay/host/lineup/fleet"
	"assay/host/store"
	"assay/host/telemetry"
)

// openLineup publishes the built-in layers, and opens the lineup in force, which the host follows.
func openLineup(ctx context.Context, h *host) (part, error) {
	memory, err := lineup.OpenMemory(h.cfg.MemoryPath())
	if err != nil {
		return part{}, err
	}
	if h.trusted, err = h.backend.OpenAuthority(ctx, h.cfg, memory, true); err != nil {
		return part{}, err
	}
	if err := h.store.Signer().Ready(audit.Checkpoints | audit.Records); err != nil {
		return part{}, err
	}
	// An altered database must not keep this host from continuing with the activation that it ran last.
	installed := h.backend.Install(ctx, h.trusted, h.modules, h.log)
	h.live = &check.Live{}
	f := lineup.NewFollower(&h.trusted.Verifier, h.store, h.backend.OpenSandbox(h.cfg, h.log), h.live, h.log)
	if err := errors.Join(installed, f.Follow(ctx)); err != nil {
		if f.State().Revision == 0 {
			return part{}, err
		}
		h.log.Error("the last activation was refused; continuing with the one that this host ran", "error", err)
	}
	h.follower = f
	return part{
		Collect: func(m *telemetry.Metrics) { m.WatchLineup(f) },
		Run:     []func(context.Context){f.Run},
		Jobs:    jobs{localJobs: {{Name: "return unused memory", Every: 2 * time.Minute, Run: f.Trim}}},
		Changed: map[store.Topic]func(){
			store.TopicLineup: f.LineupChanged, store.TopicPlugins: f.PluginsPublished,
		},
		Obstacles: func() []obstacle {
			var err error
			if f.State().Revision == 0 {
				err = check.ErrNoLineup
			}
			return unless("lineup", err,
				"The host's log says why none could be loaded. `assay lineup hosts` shows what the other hosts run.")
		},
		Problems: []problems{{f.Degraded, "See `assay lineup show` and `assay lineup hosts`. `assay lineup set` or " +
			"`assay lineup rollback` puts another lineup in force on all hosts."}},
		Close: func() error { f.Close(); return nil },
	}, nil
}

// openPreparation opens the preparation of lineups that may come into force next.
func openPreparation(_ context.Context, h *host) (part, error) {
	p := &lineup.Preparer{Candidates: h.store, Follower: h.follower, Host: h.id, Log: h.log,
		Measure: func(ctx context.Context, candidate *check.Lineup) (any, error) {
			return h.scoring.recent.Report(ctx, h.live, candidate, h.scoring.gate.Spare)
		}}
	return part{
		Run:     []func(context.Context){p.Run},
		Changed: map[store.Topic]func(){store.TopicCandidates: p.CandidatesChanged},
	}, nil
}

// openPulse opens the part that reports this host, its lineup and its canary's outcome to the other hosts.
func openPulse(_ context.Context, h *host) (part, error) {
	f := h.follower
	p := &fleet.Pulse{Roster: h.store, ID: h.id, Name: h.name, Log: h.log, Changed: f.StateChanged(),
		Shadow: h.scoring.tally.JSON,
		State: func() fleet.State {
			s := f.State()
			return fleet.State{Activation: s.Activation, Revision: s.Revision, Refused: s.RefusedActivation,
				Problem: s.Reason, Canary: h.scoring.trial.Summary()}
		}}
	return part{
		Collect: func(m *telemetry.Metrics) { m.WatchFleet(f, p.Alive) },
		Run:     []func(context.Context){p.Run},
	}, nil
}
