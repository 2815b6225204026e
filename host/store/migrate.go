package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
	"github.com/uptrace/bun/migrate"

	"assay/host/internal/maintenance"
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
	cfg.ConnectTimeout = startTimeout // no caller waits for an answer, and a busy server may take long
	pool := stdlib.OpenDB(*cfg)
	pool.SetMaxOpenConns(2)
	defer pool.Close()
	db := bun.NewDB(pool, pgdialect.New())

	if err := checkSettings(ctx, db); err != nil {
		return err
	}
	steps := migrate.NewMigrations()
	if err := steps.Discover(files); err != nil {
		return err
	}
	known := steps.Sorted()
	s.schema = known[len(known)-1].Name
	// Usually there is nothing to do, and the host need not wait for others.
	if pending, err := isPending(ctx, db, known, files); err != nil || !pending {
		return err
	}
	lock, err := s.lockMigrations(ctx, db, lockPing)
	if err != nil {
		return err
	}
	defer lock.end()
	ctx = lock.ctx
	// A migration counts as applied only after it has succeeded. bun records that in a separate statement, which a
	// crash could prevent, so markApplied records it within the migration's own transaction.
	migrator := migrate.NewMigrator(db, steps, migrate.WithMarkAppliedOnSuccess(true), migrate.WithUpsert(true),
		migrate.WithTableName("schema_steps"), migrate.WithLocksTableName("schema_locks"),
		migrate.BeforeMigration(boundLocks), migrate.AfterMigration(markApplied))
	if err := migrator.Init(ctx); err != nil {
		return err
	}
	for pause := firstMigrationPause; ; pause = min(2*pause, maxMigrationPause) {
		// Another host may have migrated, to a newer version even.
		pending, err := isPending(ctx, db, known, files)
		if err != nil || !pending {
			return err
		}
		_, err = migrator.Migrate(ctx)
		if err == nil {
			err = s.applyFunctions(ctx, db, files)
		}
		if state := sqlState(err); state != lockNotAvailable && state != deadlockDetected {
			if err == nil {
				s.log.Info("migrated the database", "to", s.schema)
			}
			return err
		}
		s.log.Info("a migration waits for other transactions", "pause", pause, "error", err)
		if !maintenance.Pause(ctx, pause) {
			return errors.Join(ctx.Err(), err)
		}
	}
}

// A host keeps the migration lock as long as it sends a statement every lockPing. If it is stopped or cut off, the
// database gives the lock to another host after lockSilence.
const (
	lockPing    = 5 * time.Second
	lockSilence = time.Minute
	lockPause   = 100 * time.Millisecond // between two attempts to get it
)

// migrationsLock is the lock that lets only one host migrate at a time. Its context ends when the lock is lost.
type migrationsLock struct {
	ctx context.Context
	tx  bun.Tx
	end func()
}

// lockMigrations waits until no other host migrates. It polls, each time in a transaction of its own: a statement that
// waits has a snapshot, and so may a transaction, and a concurrent index build would wait for them in turn.
func (s *Store) lockMigrations(ctx context.Context, db *bun.DB, ping time.Duration) (*migrationsLock, error) {
	tx, err := tryMigrationsLock(ctx, db)
	if errors.Is(err, errMigrating) {
		s.log.Info("waiting for another host that migrates the database")
	}
	for errors.Is(err, errMigrating) {
		maintenance.Pause(ctx, lockPause)
		tx, err = tryMigrationsLock(ctx, db)
	}
	if err != nil {
		return nil, fmt.Errorf("waiting for other hosts: %w", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var pinging sync.WaitGroup
	pinging.Go(func() {
		for maintenance.Pause(ctx, ping) {
			if _, err := tx.ExecContext(ctx, "-- ping"); err != nil {
				cancel(fmt.Errorf("losing the lock of migrations: %w", err))
			}
		}
	})
	return &migrationsLock{ctx, tx, func() {
		cancel(nil)
		pinging.Wait()
		_ = tx.Rollback()
	}}, nil
}

var errMigrating = errors.New("another host migrates the database")

// tryMigrationsLock returns the transaction that holds the lock, or errMigrating.
func tryMigrationsLock(ctx context.Context, db *bun.DB) (bun.Tx, error) {
	// A session lock would stay with a pooler's connection if the URL is a pooler's after all.
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return tx, err
	}
	_, err = tx.ExecContext(ctx, "SET LOCAL idle_in_transaction_session_timeout = "+milliseconds(lockSilence))
	locked := false
	if err == nil {
		err = tx.NewRaw("SELECT pg_try_advisory_xact_lock(?)", int64(migrationLock)).Scan(ctx, &locked)
	}
	if err == nil && !locked {
		err = errMigrating
	}
	if err != nil {
		_ = tx.Rollback()
	}
	return tx, err
}

// boundLocks bounds how long a migration waits for each lock, and how long it keeps locks if this host is stopped.
func boundLocks(ctx context.Context, db bun.IConn, _ *migrate.Migration) error {
	_, err := db.ExecContext(ctx, "SET LOCAL lock_timeout = "+milliseconds(migrationLockTimeout)+
		"; SET LOCAL idle_in_transaction_session_timeout = "+milliseconds(idleTimeout))
	return err
}

// markApplied records a migration as applied, within its own transaction.
func markApplied(ctx context.Context, db bun.IConn, m *migrate.Migration) error {
	_, err := db.ExecContext(ctx, "INSERT INTO schema_steps (name, group_id) VALUES (?, ?)", m.Name, m.GroupID)
	return err
}

// isPending reports whether one of the known migrations is not applied, or the functions of files are not in force. It
// returns an error if the schema is newer than this host.
func isPending(ctx context.Context, db *bun.DB, known migrate.MigrationSlice, files fs.FS) (bool, error) {
	var applied []string
	err := db.NewRaw("SELECT name FROM schema_steps ORDER BY name").Scan(ctx, &applied)
	if sqlState(err) == undefinedTable {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	last := known[len(known)-1].Name
	if n := len(applied); n > 0 && applied[n-1] > last {
		return false, fmt.Errorf("the database schema (migration %s) is newer than this host (migration %s)",
			applied[n-1], last)
	}
	if slices.ContainsFunc(known, func(m migrate.Migration) bool { return !slices.Contains(applied, m.Name) }) {
		return true, nil
	}
	functions, err := compareFunctions(ctx, db, files)
	if err == nil && functions == functionsNewer {
		err = errNewerFunctions
	}
	return functions == functionsOlder, err
}
