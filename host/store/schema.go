package store

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/uptrace/bun/migrate"

	"assay/migrations"
)

// Schema tells Open how to treat the database's schema.
type Schema int

// A host that starts creates and migrates the schema. Commands require it: an operator decides on an upgrade by
// starting a host of the new version, because hosts of the old one cannot start afterwards.
const (
	CreateSchema  Schema = iota // create the schema, or migrate it to this version
	MigrateSchema               // migrate it to this version; fail with ErrNoSchema if no host has created it
	RequireSchema               // fail unless it has this version
)

// ErrNoSchema means that no host has been started on the database.
var ErrNoSchema = errors.New("no host has been started on this database (ASSAY_DATABASE_URL): run `assay serve` on " +
	"it first, or name another one")

// prepareSchema compares secrets first, so that a host with another secret changes nothing.
func (s *Store) prepareSchema(ctx context.Context, wanted Schema) error {
	exists := false
	err := whenStarted(ctx, func(ctx context.Context) (err error) {
		exists, err = s.compareSecret(ctx)
		return err
	})
	if err == nil && !exists && wanted != CreateSchema {
		err = ErrNoSchema
	}
	if err == nil && wanted == RequireSchema {
		err = whenStarted(ctx, s.requireSchema)
	}
	if err != nil {
		return fmt.Errorf("opening database: %w", err)
	}
	if wanted == RequireSchema {
		return nil
	}
	return wrap(s.migrate(ctx, migrations.FS), "migrating database")
}

// compareSecret fails with ErrOtherSecret if the database was created with another secret. It reports whether the
// database was created at all.
func (s *Store) compareSecret(ctx context.Context) (exists bool, err error) {
	var fingerprint []byte
	err = s.db.NewRaw("SELECT secret_fingerprint FROM installation").Scan(ctx, &fingerprint)
	switch {
	case errors.Is(err, sql.ErrNoRows) || sqlState(err) == undefinedTable:
		return false, nil
	case err != nil:
		return false, fmt.Errorf("comparing secrets: %w", err)
	case !bytes.Equal(fingerprint, s.keys.Fingerprint):
		return true, ErrOtherSecret
	}
	return true, nil
}

// requireSchema fails unless the schema is the one of this version.
func (s *Store) requireSchema(ctx context.Context) error {
	steps := migrate.NewMigrations()
	if err := steps.Discover(migrations.FS); err != nil {
		return err
	}
	known := steps.Sorted()
	s.schema = known[len(known)-1].Name
	pending, err := isPending(ctx, s.db, known, migrations.FS)
	if err == nil && pending {
		err = fmt.Errorf("the database schema is older than this program's (migration %s and its functions): start a "+
			"host of this version first, which migrates it", s.schema)
	}
	return err
}
