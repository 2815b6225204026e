package store

import (
	"context"
	"fmt"
	"time"
)

// EnsurePartitions creates the audit partitions of this month and the next two. A host calls it at start and every few
// minutes. If a lock is not available soon, for example during a database dump, or a cluster finds a deadlock with
// another host, it leaves the work to the next call: until then the default partition takes the records.
func (s *Store) EnsurePartitions(ctx context.Context) error {
	err := s.createPartitions(ctx, period(s.now()))
	if postponed(err) {
		s.log.Info("creating audit partitions was postponed", "error", err)
		return nil
	}
	return err
}

// postponed reports whether an error means that a change of partitions is to be tried again later.
func postponed(err error) bool {
	state := sqlState(err)
	return state == lockNotAvailable || state == deadlockDetected
}

// maxMoved is the maximum number of records that are moved to a new partition. Checks wait meanwhile. There are more
// only if creating the partition was postponed for months; then they stay in the default partition.
const maxMoved = 10_000

func (s *Store) createPartitions(ctx context.Context, first time.Time) error {
	for i := range 3 {
		from, to := first.AddDate(0, i, 0), first.AddDate(0, i+1, 0)
		_, err := s.db.NewRaw("SELECT create_partition(?, ?, ?, ?)", partition(from), from, to, maxMoved).Exec(ctx)
		if err != nil {
			return fmt.Errorf("creating audit partition %s: %w", partition(from), err)
		}
	}
	return nil
}

// partition returns the name of the audit partition of t's calendar month, UTC. Names sort chronologically.
func partition(t time.Time) string { return "audit_records_" + t.UTC().Format("2006_01") }

// period returns the first instant of t's calendar month, UTC. Quotas are counted per period (contract section 3).
func period(t time.Time) time.Time {
	t = t.UTC()
	return time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC)
}
