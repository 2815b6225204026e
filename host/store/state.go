package store

import (
	"context"
	"fmt"
	"time"
)

// countedEvents and countedBatches limit counting, so that a long queue stays cheap to count.
const (
	countedEvents  = 10_000
	countedBatches = 10_000
)

// WebhookBacklog is the queue of webhook events of all accounts.
type WebhookBacklog struct {
	Pending  int           // not delivered yet, counted up to countedEvents
	Due      int           // of those, how many wait to be claimed
	Retried  int           // of those pending, how many had an attempt that failed
	Late     time.Duration // how long the oldest one that is due has waited
	Failing  int           // endpoints whose last attempt failed
	Disabled int           // endpoints that were disabled because they kept failing
	Clipped  bool          // there are more events than were counted
}

// WebhookBacklog measures the queue of webhook events.
func (s *Store) WebhookBacklog(ctx context.Context) (b WebhookBacklog, err error) {
	err = query(s.db, "webhook_backlog", named{"most": countedEvents}).Scan(ctx, &b)
	if err == nil {
		err = query(s.db, "failing_endpoints").Scan(ctx, &b.Failing, &b.Disabled)
	}
	return b, wrap(err, "measuring the queue of webhook events")
}

// GraphBacklog counts recorded checks that are not in the reputation graph yet.
type GraphBacklog struct {
	Checks  int           // counted up to countedBatches batches of the ledger
	Oldest  time.Duration // how long the oldest one has waited
	Clipped bool          // there are more than were counted
}

// GraphBacklog measures how far the reputation graph is behind the ledger.
func (s *Store) GraphBacklog(ctx context.Context) (b GraphBacklog, err error) {
	err = query(s.db, "graph_backlog", named{"most": countedBatches}).Scan(ctx, &b)
	return b, wrap(err, "measuring the backlog of the reputation graph")
}

// ChainState is the end of an audit chain as the database has it.
type ChainState struct {
	Chain   int
	Records int64     // ever appended, including pruned ones
	At      time.Time // of the last record; zero if there is none
	Damage  string    // a problem with the end of the chain, or ""
}

// ChainStates returns the end of each audit chain. It verifies nothing before the last record.
func (s *Store) ChainStates(ctx context.Context) ([]ChainState, error) {
	var rows []struct {
		headRow
		RecordedAt *time.Time
		Same       *bool
	}
	err := query(s.db, "chain_states").Scan(ctx, &rows)
	if err != nil {
		return nil, fmt.Errorf("reading the ends of the audit chains: %w", err)
	}
	states := make([]ChainState, 0, len(rows))
	for _, r := range rows {
		c := ChainState{Chain: r.Chain, Records: r.Seq}
		if r.RecordedAt != nil {
			c.At = *r.RecordedAt
		}
		_, broken := r.head()
		switch n := len(states); {
		case n > 0 && states[n-1].Chain == r.Chain:
			c.Damage = "it has more than one head"
			states = states[:n-1]
		case broken != nil:
			c.Damage = "its head's hash is not 32 bytes long"
		case r.Seq > 0 && r.Same == nil:
			c.Damage = "its last record is missing"
		case r.Seq > 0 && !*r.Same:
			c.Damage = "its head differs from its last record"
		}
		states = append(states, c)
	}
	return states, nil
}
