package store

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/uptrace/bun"
)

// EnsurePartitions creates the audit partitions of this month and the next two. A host calls it at start and every few
// minutes. If a lock is not available soon, for example during a database dump, it leaves the work to the next call:
// until then the default partition takes the records.
func (s *Store) EnsurePartitions(ctx context.Context) error {
	err := s.createPartitions(ctx, period(s.now()))
	if sqlState(err) == lockNotAvailable {
		s.log.Info("creating audit partitions was postponed", "error", err)
		return nil
	}
	return err
}

//go:embed sql/move_to_partition.sql
var moveToPartition string

func (s *Store) createPartitions(ctx context.Context, first time.Time) error {
	return s.inTx(ctx, func(ctx context.Context, tx bun.Tx) error {
		// Without this lock, two hosts that start at the same time could both create a partition.
		if _, err := tx.ExecContext(ctx, "SELECT pg_advisory_xact_lock(?)", int64(migrationLock)); err != nil {
			return fmt.Errorf("creating audit partitions: %w", err)
		}
		for i := range 3 {
			from, to := first.AddDate(0, i, 0), first.AddDate(0, i+1, 0)
			name := partition(from)
			var exists bool
			if err := tx.NewRaw("SELECT to_regclass(?) IS NOT NULL", name).Scan(ctx, &exists); err != nil {
				return fmt.Errorf("creating audit partition %s: %w", name, err)
			}
			if exists {
				continue
			}
			// Holding the head locks rules out concurrent writers and readers of records: an uncommitted row would
			// block attaching the partition, and a transaction that started earlier would miss the moved rows.
			if _, err := lockHeads(ctx, tx, nil); err != nil {
				return err
			}
			// Checks wait for the head locks, so don't hold them for long.
			if _, err := tx.ExecContext(ctx, "SET LOCAL lock_timeout = ?", milliseconds(headLockTimeout)); err != nil {
				return err
			}
			if err := createPartition(ctx, tx, name, from, to); err != nil {
				return fmt.Errorf("creating audit partition %s: %w", name, err)
			}
		}
		return nil
	})
}

// createPartition creates the partition for records with from <= recorded_at < to.
func createPartition(ctx context.Context, tx bun.Tx, name string, from, to time.Time) error {
	table := bun.Ident(name)
	_, err := tx.ExecContext(ctx, "CREATE TABLE ? (LIKE audit_records INCLUDING DEFAULTS)", table)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, moveToPartition, named{"partition": table, "from": from, "to": to})
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "ALTER TABLE audit_records ATTACH PARTITION ? FOR VALUES FROM (?) TO (?)", table, from,
		to)
	return err
}

// partition returns the name of the audit partition of t's calendar month, UTC. Names sort chronologically.
func partition(t time.Time) string { return "audit_records_" + t.UTC().Format("2006_01") }

// period returns the first instant of t's calendar month, UTC. Quotas are counted per period (contract section 3).
func period(t time.Time) time.Time {
	t = t.UTC()
	return time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC)
}
