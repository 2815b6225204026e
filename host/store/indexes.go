package store

import (
	"context"
	_ "embed"
	"errors"
	"fmt"

	"github.com/uptrace/bun"
)

// partitionIndex is an index of a partition that is to be attached to one of the partitioned table.
type partitionIndex struct {
	Index      string // of the partitioned table
	Partition  string
	Name       string // of the partition's index
	Definition string // from USING on
	Built      bool
}

//go:embed sql/incomplete_indexes.sql
var incompleteIndexesQuery string

func incompleteIndexes(ctx context.Context, db bun.IDB) (missing []partitionIndex, err error) {
	if err = db.NewRaw(incompleteIndexesQuery).Scan(ctx, &missing); err != nil {
		return nil, fmt.Errorf("looking for incomplete indexes: %w", err)
	}
	return missing, nil
}

// replacedIndexes names the index that each index of a partitioned table replaces.
var replacedIndexes = map[string]string{"audit_records_by_subject": "audit_records_by_pseudonym"}

// completeIndexes completes the indexes that migrations have created only on partitioned tables, and drops those that
// they replace. It builds the partitions' indexes while hosts write: Postgres cannot do that for all partitions at
// once. The caller holds the lock of migrations. If it is interrupted, the next host continues.
func (s *Store) completeIndexes(ctx context.Context, db *bun.DB) error {
	missing, err := incompleteIndexes(ctx, db)
	if err != nil || len(missing) == 0 {
		return err
	}
	for i, m := range missing {
		if m.Built {
			continue
		}
		s.log.Info("building an index", "index", m.Index, "partition", m.Partition, "number", i+1, "of",
			len(missing))
		if err := buildIndex(ctx, db, m); err != nil {
			return fmt.Errorf("building index %s: %w", m.Name, err)
		}
	}
	err = db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		if err := boundLocks(ctx, tx, nil); err != nil {
			return err
		}
		for _, m := range missing {
			statement := "ALTER INDEX " + m.Index + " ATTACH PARTITION " + m.Name
			if replaced := replacedIndexes[m.Index]; replaced != "" {
				statement = "DROP INDEX IF EXISTS " + replaced + "; " + statement
			}
			if _, err := tx.ExecContext(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	})
	return wrap(err, "attaching indexes")
}

func buildIndex(ctx context.Context, db *bun.DB, m partitionIndex) (err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	for _, statement := range []string{
		"SET lock_timeout = " + milliseconds(migrationLockTimeout),
		"DROP INDEX IF EXISTS " + m.Name, // of an interrupted attempt
		// Building an index waits for earlier transactions, and blocks none.
		"SET lock_timeout = 0",
		"CREATE INDEX CONCURRENTLY " + m.Name + " ON " + m.Partition + m.Definition,
	} {
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}
