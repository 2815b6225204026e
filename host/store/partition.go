package store

import (
	"context"
	"fmt"
	"time"

	"github.com/uptrace/bun"
)

// EnsurePartitions makes the audit partitions of this month and the next two. A host calls it at its start and every
// few minutes: what cannot be had soon, as while the database is being dumped, is left for the next call.
func (s *Store) EnsurePartitions(ctx context.Context) error {
	err := s.makePartitions(ctx, period(s.now()))
	if sqlState(err) == lockNotAvailable {
		s.log.Info("audit partitions are made later", "error", err)
		return nil
	}
	return err
}

func (s *Store) makePartitions(ctx context.Context, first time.Time) error {
	return s.inTx(ctx, func(ctx context.Context, tx bun.Tx) error {
		// Two hosts that start at once must not both find that a partition is missing.
		if _, err := tx.ExecContext(ctx, "SELECT pg_advisory_xact_lock(?)", int64(migrationLock)); err != nil {
			return fmt.Errorf("making audit partitions: %w", err)
		}
		for i := range 3 {
			from, to := first.AddDate(0, i, 0), first.AddDate(0, i+1, 0)
			name := partition(from)
			var exists bool
			if err := tx.NewRaw("SELECT to_regclass(?) IS NOT NULL", name).Scan(ctx, &exists); err != nil {
				return fmt.Errorf("making audit partition %s: %w", name, err)
			}
			if exists {
				continue
			}
			// Behind the heads' lock nobody is writing records or looking for one: a row still uncommitted would bar
			// the partition, and whoever had begun without the partition would miss the rows that move.
			if _, err := lockHeads(ctx, tx, nil); err != nil {
				return err
			}
			// checks wait meanwhile
			if _, err := tx.ExecContext(ctx, "SET LOCAL lock_timeout = ?", milliseconds(headLockTimeout)); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, `
				CREATE TABLE ?0 (LIKE audit_records INCLUDING DEFAULTS);
				WITH moved AS (DELETE FROM audit_records_other WHERE recorded_at >= ?1 AND recorded_at < ?2 RETURNING *)
					INSERT INTO ?0 SELECT * FROM moved;
				ALTER TABLE audit_records ATTACH PARTITION ?0 FOR VALUES FROM (?1) TO (?2)`, bun.Ident(name), from, to)
			if err != nil {
				return fmt.Errorf("making audit partition %s: %w", name, err)
			}
		}
		return nil
	})
}

// partition is the name of the partition of t's calendar month, UTC. Names sort as the months do.
func partition(t time.Time) string { return "audit_records_" + t.UTC().Format("2006_01") }

// period is the first instant of t's calendar month, UTC: what a quota counts in (spec section 3).
func period(t time.Time) time.Time {
	t = t.UTC()
	return time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC)
}
