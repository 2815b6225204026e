package server

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"time"

	"assay/host/installation"
	"assay/host/internal/maintenance"
	"assay/host/store"
	"assay/host/telemetry"
	"assay/host/web/admin"
)

const (
	adminStopTimeout = 2 * time.Second // for responses to operators when the host stops
	queuesInterval   = 15 * time.Second
	queuesTimeout    = 10 * time.Second
)

// listenAdmin opens the operators' listener, or returns nil if it is turned off. customers is the customers' address.
func listenAdmin(ctx context.Context, c *installation.Config, customers net.Addr, log *slog.Logger) (net.Listener, error) {
	_, port, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return nil, fmt.Errorf("ASSAY_LISTEN: %w", err)
	}
	l, taken, err := admin.Listen(ctx, c.AdminListen, customers, port == "" || port == "0")
	if taken != nil {
		log.Warn("the default address for operators is taken, so another port was chosen; ASSAY_ADMIN_LISTEN sets one",
			"address", l.Addr().String(), "error", taken)
	}
	return l, err
}

// readQueues returns the job that measures the queues in the database for the metrics. It does not wait for other jobs.
func readQueues(b *installation.Backend, observe func(telemetry.Queues, time.Time)) []maintenance.Job {
	run := func(ctx context.Context) error {
		events, err := b.Store.WebhookBacklog(ctx)
		if err != nil {
			return err
		}
		graph, err := b.Store.GraphBacklog(ctx)
		if err != nil {
			return err
		}
		observe(telemetry.Queues{EventsDue: events.Due, OldestDue: events.Late, Graph: graph.Checks,
			OldestGraph: graph.Oldest}, time.Now())
		return nil
	}
	return []maintenance.Job{{Name: "measure queues", Every: queuesInterval, Limit: queuesTimeout,
		Run: func(ctx context.Context) error {
			if err := run(ctx); !store.IsOutage(err) {
				return err
			}
			return nil // /readyz reports outages
		}}}
}

// serveAdmin serves operators until the returned function is called. failed receives an error if it ends earlier.
func serveAdmin(l net.Listener, cfg admin.Config, failed chan<- error) (stop func() error) {
	if l == nil {
		return func() error { return nil }
	}
	server := admin.New(cfg)
	go func() {
		if err := server.Serve(l); err != nil {
			failed <- fmt.Errorf("serving operators: %w", err)
		}
	}()
	return func() error {
		ctx, cancel := context.WithTimeout(context.Background(), adminStopTimeout)
		defer cancel()
		return server.Shutdown(ctx)
	}
}
