package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"assay/host/audit"
	"assay/host/check"
	"assay/host/customer/feedback"
)

// CheckRecord is the record of a check in the audit log.
type CheckRecord struct {
	audit.Row
	Chain      int
	First      int64  // the number of the record that is leaf 0 of the chain's tree; 0: the tree has not begun
	Activation []byte // the hash of the activation that put the check's lineup in force; nil: it was not signed
}

// CheckRecord returns the record of a check of the caller's account. It fails with feedback.ErrUnknownCheck, also if
// the record was erased, and check.ErrUnauthorized.
func (s *Store) CheckRecord(ctx context.Context, c check.Caller, ref string) (CheckRecord, error) {
	found, err := s.checkRecord(ctx, c, ref)
	return found, withOutage(wrap(err, "reading the record of a check"))
}

func (s *Store) checkRecord(ctx context.Context, c check.Caller, ref string) (found CheckRecord, err error) {
	r, err := s.findHolder(ctx, s.db, c)
	if err != nil {
		return found, err
	}
	var row struct {
		auditRow
		First int64
	}
	err = query(s.db, "check_record", named{"chain": r.Chain, "ref": ref, "account": r.AccountID}).Scan(ctx, &row)
	err = orElse(err, feedback.ErrUnknownCheck)
	if err != nil {
		return found, err
	}
	if reason := row.corruption(); reason != "" {
		return found, &audit.BreakError{Chain: row.Chain, Seq: row.Seq, Reason: reason}
	}
	found = CheckRecord{Row: row.row(), Chain: row.Chain, First: row.First}
	found.Activation, err = s.activationOf(ctx, row.Revision, row.RecordedAt)
	return found, err
}

// activationOf returns the hash of the activation by which a revision was in force at a time.
func (s *Store) activationOf(ctx context.Context, revision int64, at time.Time) (hash []byte, err error) {
	err = s.db.NewRaw(`SELECT hash FROM lineup_activations
		WHERE signed IS NOT NULL AND (revision = ?0 OR canary_revision = ?0)
		ORDER BY activated_at <= ?1 DESC, id DESC LIMIT 1`, revision, at).Scan(ctx, &hash)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return hash, err
}
