package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
	"github.com/uptrace/bun/migrate"

	"assay/migrations"
)

// migrationLock is the key of the advisory lock that lets one host migrate at a time. Unlike bun's own lock, a row, it
// goes with the connection: a host that dies in the middle stops nobody.
const migrationLock = 0x617373_61790001

// migrate brings the schema up to date. Hosts that start at once wait for the first.
func (s *Store) migrate(ctx context.Context) (err error) {
	cfg, err := connConfig(s.url)
	if err != nil {
		return err
	}
	cfg.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	// One connection, without the time-outs of requests: it holds the lock, and a step may take long.
	pool := stdlib.OpenDB(*cfg)
	pool.SetMaxOpenConns(2)
	defer pool.Close()
	db := bun.NewDB(pool, pgdialect.New())

	lock, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer lock.Close()
	if _, err := lock.ExecContext(ctx, "SELECT pg_advisory_lock(?)", int64(migrationLock)); err != nil {
		return fmt.Errorf("waiting for other hosts: %w", err)
	}
	defer func() {
		_, unlockErr := lock.ExecContext(context.WithoutCancel(ctx), "SELECT pg_advisory_unlock(?)",
			int64(migrationLock))
		err = errors.Join(err, unlockErr)
	}()

	steps := migrate.NewMigrations()
	if err := steps.Discover(migrations.FS); err != nil {
		return err
	}
	// A step counts as done only once it has succeeded: one that was cut off runs again. bun marks it in a statement of
	// its own, which a host that dies in between never sends, so the step's transaction does it too.
	migrator := migrate.NewMigrator(db, steps, migrate.WithMarkAppliedOnSuccess(true), migrate.WithUpsert(true),
		migrate.WithTableName("schema_steps"), migrate.WithLocksTableName("schema_locks"),
		migrate.AfterMigration(markStep))
	if err := migrator.Init(ctx); err != nil {
		return err
	}
	if err := refuseNewer(ctx, db, steps); err != nil {
		return err
	}
	_, err = migrator.Migrate(ctx)
	return err
}

// markStep marks a step as done within its own transaction.
func markStep(ctx context.Context, db bun.IConn, step *migrate.Migration) error {
	_, err := db.ExecContext(ctx, "INSERT INTO schema_steps (name, group_id) VALUES (?, ?)", step.Name, step.GroupID)
	return err
}

// refuseNewer stops a host from working on a schema that is newer than itself.
func refuseNewer(ctx context.Context, db *bun.DB, steps *migrate.Migrations) error {
	var newest sql.NullString
	if err := db.NewRaw("SELECT max(name) FROM schema_steps").Scan(ctx, &newest); err != nil {
		return err
	}
	known := steps.Sorted()
	if newest.Valid && newest.String > known[len(known)-1].Name {
		return fmt.Errorf("the database is at step %s, newer than this host, which knows up to %s", newest.String,
			known[len(known)-1].Name)
	}
	return nil
}
