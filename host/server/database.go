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
	"assay/registry"
)

// jobInterval is how often most jobs run. longJobLimit is long enough for jobs that read whole large tables.
const (
	jobInterval    = 10 * time.Minute
	longJobLimit   = 6 * time.Hour
	queuesInterval = 15 * time.Second
	queuesTimeout  = 10 * time.Second
)

// database is the installation's database, which the host watches and tidies.
type database struct {
	*installation.Backend
	modules       []registry.Module // the built-in layers
	observeQueues func(telemetry.Queues, time.Time)
}

var (
	_ collector   = (*database)(nil)
	_ runner      = (*database)(nil)
	_ worker      = (*database)(nil)
	_ notified    = (*database)(nil)
	_ requirement = (*database)(nil)
	_ closer      = (*database)(nil)
)

// openDatabase opens the database and builds the layers concurrently. These are the two longest steps of a first start.
func openDatabase(ctx context.Context, h *host) (part, error) {
	if _, err := h.cfg.CreateInstallation(); err != nil { // which both need
		return nil, err
	}
	d := &database{}
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		d.modules, err = installation.BuiltInLayers(gctx, h.cfg, h.terminal)
		return err
	})
	g.Go(func() (err error) {
		d.Backend, err = installation.Open(gctx, h.cfg, h.terminal, h.log, store.CreateSchema)
		return err
	})
	if err := g.Wait(); err != nil {
		if d.Backend != nil {
			err = errors.Join(err, d.Close())
		}
		return nil, err
	}
	h.database, h.store = d, d.Store
	return d, nil
}

// Collect implements collector.
func (d *database) Collect(m *telemetry.Metrics) {
	m.WatchDatabase(d.Store.PoolStats)
	d.observeQueues = m.WatchQueues()
}

// Run implements runner.
func (d *database) Run(ctx context.Context) { d.Store.Watch(ctx) }

// Changed implements notified.
func (d *database) Changed(topic store.Topic) {
	if topic == store.TopicKeys {
		d.Store.ForgetCallers()
	}
}

// Obstacles implements requirement: a database that records checks, and a clock that agrees with the database's.
func (d *database) Obstacles() (all []obstacle) {
	remedies := map[string]string{
		"database": "Make sure that Postgres runs and accepts writes, and that `ASSAY_DATABASE_URL` points to it. The " +
			"host then accepts checks again.",
		"clock": "Synchronise the clocks of this machine and the database's with NTP. Times are part of the audit " +
			"log, so they cannot be corrected later.",
	}
	for _, p := range d.Store.Problems() {
		all = append(all, obstacle{admin.Problem{Part: p.Part, Reason: p.Reason, Err: p.Err}, remedies[p.Part]})
	}
	return all
}

// Jobs implements worker.
func (d *database) Jobs() jobs {
	s := d.Store
	return jobs{shortJobs: {
		{Name: "store the last uses of keys", Every: time.Minute, Run: s.SaveKeyUses, AtStop: true},
		{Name: "create partitions", Every: jobInterval, Run: s.EnsurePartitions, AtStop: true},
		{Name: "prune the limits of the public check", Every: jobInterval, Run: s.PrunePublic, AtStop: true},
		{Name: "prune the limits of requests a minute", Every: jobInterval, Run: s.PruneRates, AtStop: true},
		{Name: "prune webhook events", Every: jobInterval, Run: s.PruneWebhooks, AtStop: true},
		{Name: "prune settlements of batches", Every: jobInterval, Run: s.PruneSettlements},
		{Name: "prune kept answers", Every: jobInterval, Run: s.PruneAnswers, AtStop: true},
		{Name: "prune privacy requests", Every: jobInterval, Run: s.PruneRequests, AtStop: true},
		{Name: "forget hosts that were killed", Every: jobInterval, Run: s.PruneHosts},
		{Name: "prune overrides", Every: jobInterval, Run: s.PruneOverrides, AtStop: true},
		{Name: "prune registrations", Every: jobInterval, Run: s.PruneRegistrations, AtStop: true},
		{Name: "delete expired sessions", Every: jobInterval, Run: s.PruneSignIns, AtStop: true},
		{Name: "end subscriptions", Every: jobInterval, Run: s.EndSubscriptions, AtStop: true},
		{Name: "delete old billing data", Every: jobInterval, Run: s.PruneBilling, AtStop: true},
	}, longJobs: {
		{Name: "prune the reputation graph", Every: 24 * time.Hour, Limit: longJobLimit, Run: s.PruneSightings},
	}, queueJobs: {
		{Name: "measure queues", Every: queuesInterval, Limit: queuesTimeout, Run: func(ctx context.Context) error {
			if err := d.measureQueues(ctx); !store.IsOutage(err) {
				return err
			}
			return nil // /readyz reports outages
		}},
	}}
}

// measureQueues measures the queues in the database for the metrics.
func (d *database) measureQueues(ctx context.Context) error {
	events, err := d.Store.WebhookBacklog(ctx)
	if err != nil {
		return err
	}
	graph, err := d.Store.GraphBacklog(ctx)
	if err != nil {
		return err
	}
	d.observeQueues(telemetry.Queues{EventsDue: events.Due, OldestDue: events.Late, Graph: graph.Checks,
		OldestGraph: graph.Oldest}, time.Now())
	return nil
}
