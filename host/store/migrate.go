package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
	"github.com/uptrace/bun/migrate"
)

// migrationLock is the key of the advisory lock that lets only one host migrate at a time. bun's own lock is a row,
// which a crashed host would leave locked. An advisory lock ends with its transaction.
const migrationLock = 0x617373_61790001

// A migration waits for other transactions only briefly, because the statements of running hosts queue behind it. The
// timeout is below Postgres's deadlock_timeout of 1 s, so the migration gives way. Then it pauses and begins again.
const (
	migrationLockTimeout = 500 * time.Millisecond
	firstMigrationPause  = 250 * time.Millisecond
	maxMigrationPause    = 8 * time.Second
)

// migrate applies pending migrations of files. Hosts that start at the same time wait for each other.
func (s *Store) migrate(ctx context.Context, files fs.FS) error {
	cfg, err := connConfig(s.direct)
	if err != nil {
		return err
	}
	cfg.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	cfg.ConnectTimeout = startTimeout // nobody waits for an answer, and a busy server may take long
	pool := stdlib.OpenDB(*cfg)
	pool.SetMaxOpenConns(2)
	defer pool.Close()
	db := bun.NewDB(pool, pgdialect.New())

	if err := checkSettings(ctx, db); err != nil {
		return err
	}
	// A session's lock would stay with a pooler's connection if the URL is a pooler's after all.
	lock, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer lock.Rollback()
	_, err = lock.ExecContext(ctx, "SET LOCAL idle_in_transaction_session_timeout = 0; SELECT pg_advisory_xact_lock(?)",
		int64(migrationLock))
	if err != nil {
		return fmt.Errorf("waiting for other hosts: %w", err)
	}

	steps := migrate.NewMigrations()
	if err := steps.Discover(files); err != nil {
		return err
	}
	// A migration counts as applied only after it has succeeded. bun records that in a separate statement, which a
	// crash could prevent, so markApplied records it within the migration's own transaction.
	migrator := migrate.NewMigrator(db, steps, migrate.WithMarkAppliedOnSuccess(true), migrate.WithUpsert(true),
		migrate.WithTableName("schema_steps"), migrate.WithLocksTableName("schema_locks"),
		migrate.BeforeMigration(boundLocks), migrate.AfterMigration(markApplied))
	if err := migrator.Init(ctx); err != nil {
		return err
	}
	s.schema = steps.Sorted()[len(steps.Sorted())-1].Name
	if err := refuseNewer(ctx, db, steps); err != nil {
		return err
	}
	for pause := firstMigrationPause; ; pause = min(2*pause, maxMigrationPause) {
		done, err := migrator.Migrate(ctx)
		if state := sqlState(err); state != lockNotAvailable && state != deadlockDetected {
			if err == nil && len(done.Migrations) > 0 {
				s.log.Info("migrated the database", "to", s.schema)
			}
			if err == nil {
				err = s.restoreFunctions(ctx, db, files)
			}
			return err
		}
		s.log.Info("a migration waits for other transactions", "pause", pause, "error", err)
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(pause):
		}
	}
}

// boundLocks bounds how long a migration waits for each lock.
func boundLocks(ctx context.Context, db bun.IConn, _ *migrate.Migration) error {
	_, err := db.ExecContext(ctx, "SET LOCAL lock_timeout = ?", milliseconds(migrationLockTimeout))
	return err
}

// markApplied records a migration as applied, within its own transaction.
func markApplied(ctx context.Context, db bun.IConn, m *migrate.Migration) error {
	_, err := db.ExecContext(ctx, "INSERT INTO schema_steps (name, group_id) VALUES (?, ?)", m.Name, m.GroupID)
	return err
}

// refuseNewer returns an error if the schema is newer than this host.
func refuseNewer(ctx context.Context, db *bun.DB, steps *migrate.Migrations) error {
	var newest sql.NullString
	if err := db.NewRaw("SELECT max(name) FROM schema_steps").Scan(ctx, &newest); err != nil {
		return err
	}
	known := steps.Sorted()
	if last := known[len(known)-1].Name; newest.Valid && newest.String > last {
		return fmt.Errorf("the database schema (migration %s) is newer than this host (migration %s)", newest.String,
			last)
	}
	return nil
}
