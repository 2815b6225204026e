package store

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// AuditReader reads the audit log of a database, with a read-only role and without the installation's secret.
type AuditReader struct{ s *Store }

// OpenAuditReader connects to a database, which must have this version's schema. It changes nothing.
func OpenAuditReader(ctx context.Context, url string) (*AuditReader, error) {
	db, err := connect(url, 1)
	if err != nil {
		return nil, fmt.Errorf("opening database: %w", err)
	}
	s := &Store{AuditLog: AuditLog{db: db}, db: db, url: url}
	if err := whenStarted(ctx, s.requireSchema); err != nil {
		return nil, errors.Join(fmt.Errorf("opening database: %w", err), db.Close())
	}
	return &AuditReader{s}, nil
}

// Read calls fn with a snapshot of the audit log and the time of the database's clock.
func (r *AuditReader) Read(ctx context.Context, fn func(ctx context.Context, log AuditLog, now time.Time) error) error {
	return r.s.ReadAuditLog(ctx, func(ctx context.Context, log AuditLog) error {
		var now time.Time
		if err := log.db.NewRaw("SELECT now()").Scan(ctx, &now); err != nil {
			return fmt.Errorf("reading the database's clock: %w", err)
		}
		return fn(ctx, log, now)
	})
}

// Close closes the connection.
func (r *AuditReader) Close() error { return closePool(r.s.db) }
