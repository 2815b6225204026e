package server

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"assay/host/installation"
	"assay/host/store"
	"assay/host/telemetry"
	"assay/host/web/admin"
)

// jobInterval is how often most jobs run. longJobLimit is long enough for jobs that read whole large tables.
const (
	jobInterval    = 10 * time.Minute
	longJobLimit   = 6 * time.Hour
	queuesInterval = 15 * time.Second
	queuesTimeout  = 10 * time.Second
)

// openDatabase opens the database and builds the layers concurrently. These are the two longest steps of a first start.
func openDatabase(ctx context.Context, h *host) (part, error) {
	if _, err := h.cfg.CreateInstallation(); err != nil { // which both need
		return part{}, err
	}
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		h.modules, err = installation.BuiltInLayers(gctx, h.cfg, h.terminal)
		return err
	})
	g.Go(func() (err error) {
		h.backend, err = installation.Open(gctx, h.cfg, h.terminal, h.log, store.CreateSchema)
		return err
	})
	if err := g.Wait(); err != nil {
		if h.backend != nil {
			err = errors.Join(err, h.backend.Close())
		}
		return part{}, err
	}
	s := h.backend.Store
	h.store = s
	return part{
		Collect:   func(m *telemetry.Metrics) { m.WatchDatabase(s.PoolStats) },
		Run:       []func(context.Context){s.Watch},
		Jobs:      databaseJobs(s, h.metrics.WatchQueues()),
		Changed:   map[store.Topic]func(){store.TopicKeys: s.ForgetCallers},
		Obstacles: func() []obstacle { return databaseObstacles(s) },
		Problems: []problems{{h.backend.Cluster.Problems, "The host keeps trying. Postgres's own log is in " +
			"`postgres/log` of the data directory."}},
		Close: h.backend.Close,
	}, nil
}

// databaseObstacles reports a database that cannot record checks, and a clock that differs from the database's.
func databaseObstacles(s *store.Store) (all []obstacle) {
	remedies := map[string]string{
		"database": "Make sure that Postgres runs and accepts writes, and that `ASSAY_DATABASE_URL` points to it. " +
			"The host then accepts checks again.",
		"clock": "Synchronise the clocks of this machine and the database's with NTP. Times are part of the audit " +
			"log, so they cannot be corrected later.",
	}
	for _, p := range s.Problems() {
		all = append(all, obstacle{admin.Problem{Part: p.Part, Reason: p.Reason, Err: p.Err}, remedies[p.Part]})
	}
	return all
}

func databaseJobs(s *store.Store, observeQueues func(telemetry.Queues, time.Time)) jobs {
	return jobs{shortJobs: {
		{Name: "store the last uses of keys", Every: time.Minute, Run: s.SaveKeyUses, AtStop: true},
		{Name: "create partitions", Every: jobInterval, Run: s.EnsurePartitions, Shared: true},
		{Name: "prune", Every: jobInterval, Run: s.Prune, Shared: true},
	}, longJobs: {
		{Name: "prune the reputation graph", Every: 24 * time.Hour, Limit: longJobLimit, Run: s.PruneSightings,
			Shared: true},
	}, queueJobs: {
		{Name: "measure queues", Every: queuesInterval, Limit: queuesTimeout, Run: func(ctx context.Context) error {
			if err := measureQueues(ctx, s, observeQueues); !store.IsOutage(err) {
				return err
			}
			return nil // /readyz reports outages
		}},
	}}
}

// measureQueues measures the queues in the database for the metrics.
func measureQueues(ctx context.Context, s *store.Store, observe func(telemetry.Queues, time.Time)) error {
	events, err := s.WebhookBacklog(ctx)
	if err != nil {
		return err
	}
	graph, err := s.GraphBacklog(ctx)
	if err != nil {
		return err
	}
	observe(telemetry.Queues{EventsDue: events.Due, OldestDue: events.Late, Failing: events.Failing,
		Graph: graph.Checks, OldestGraph: graph.Oldest}, time.Now())
	return nil
}
