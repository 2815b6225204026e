package store

import (
	"context"
	"database/sql"
	_ "embed"
	"fmt"
	"time"

	"github.com/uptrace/bun"
)

// Queues is what waits in the database for any of the hosts.
type Queues struct {
	EventsDue int           // webhook events whose attempt is due, at most maxCounted of each account
	OldestDue time.Duration // since when the first of them is
	Graph     int           // records whose contributions to the reputation graph are not applied
}

const (
	maxCounted    = 10_000
	queuesTimeout = 5 * time.Second
)

//go:embed sql/webhook_queue.sql
var webhookQueue string

// Queues reads what waits. Counting has a limit, so that a long queue does not make it slow.
func (s *Store) Queues(ctx context.Context) (q Queues, err error) {
	ctx, cancel := context.WithTimeout(ctx, queuesTimeout)
	defer cancel()
	waiting, err := s.waitingContributions(ctx)
	if err != nil {
		return q, fmt.Errorf("reading the queue of the reputation graph: %w", err)
	}
	for _, p := range waiting {
		q.Graph += int(p.Last - p.Applied)
	}
	var chains []int
	all := named{"restricted": false, "only": bun.List([]string(nil))}
	if err := s.db.NewRaw(endpointChains, all).Scan(ctx, &chains); err != nil {
		return q, fmt.Errorf("reading the queue of webhook events: %w", err)
	}
	for _, chain := range chains {
		var of struct {
			Due    int
			Oldest float64
		}
		err := s.db.NewRaw(webhookQueue, named{"chain": chain, "max_events": maxCounted, "test_prefix": testPrefix}).
			Scan(ctx, &of)
		if err != nil {
			return q, fmt.Errorf("reading the queue of webhook events: %w", err)
		}
		q.EventsDue += of.Due
		q.OldestDue = max(q.OldestDue, time.Duration(of.Oldest*float64(time.Second)))
	}
	return q, nil
}

// PoolStats describes the pool of connections that requests and jobs share.
func (s *Store) PoolStats() sql.DBStats { return s.db.Stats() }
