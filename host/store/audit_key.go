package store

import (
	"context"
	"fmt"

	"assay/host/audit"
)

// Signer returns the signer of the audit log, with the keys of the host's secret.
func (s *Store) Signer() *audit.Signer { return s.signer }

// LearnKeys gives the signer the statements that introduce keys, see audit.Statement.
func (s *Store) LearnKeys(ctx context.Context) error {
	notes, err := s.KeyStatements(ctx)
	if err == nil {
		err = s.signer.Learn(notes)
	}
	return wrap(err, "following the keys of the audit log")
}

// holdsKeys reports whether this host has the current encryption keys. Without them it must leave work that begins with
// reading encrypted data to other hosts: it would take the work from them, or destroy it.
func (s *Store) holdsKeys() bool { return s.signer.Ready(audit.Records) == nil }

// lacksKeys returns an error if a value cannot be opened because another host encrypted it under a generation of the
// secret that this host does not have. The generation may be minutes old, or not in use yet by this host's clock.
func (s *Store) lacksKeys(ctx context.Context) error {
	err := s.LearnKeys(ctx)
	if err == nil {
		err = s.signer.HoldsNewest(audit.Records)
	}
	return err
}

// KeyStatements returns the stored statements that introduce keys, oldest first. They are not verified.
func (l AuditLog) KeyStatements(ctx context.Context) (notes []string, err error) {
	var rows []struct {
		Number int
		Note   string
	}
	if err := l.db.NewRaw("SELECT number, note FROM audit_keys ORDER BY number").Scan(ctx, &rows); err != nil {
		return nil, fmt.Errorf("reading the keys of the audit log: %w", err)
	}
	for i, r := range rows {
		if r.Number != i+2 {
			return nil, fmt.Errorf("reading the keys of the audit log: the statement about key %d is missing", i+2)
		}
		notes = append(notes, r.Note)
	}
	return notes, nil
}

// KeepKeyStatement stores the statement about the key with a number. It fails if there is one already.
func (s *Store) KeepKeyStatement(ctx context.Context, number int, note string) error {
	_, err := s.db.NewRaw("INSERT INTO audit_keys (number, note) VALUES (?, ?)", number, note).Exec(ctx)
	return wrap(err, "storing the statement about key %d", number)
}
