package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/uptrace/bun"

	"assay/host/audit"
	"assay/host/check"
)

// Audit records are kept for 12 months (spec section 8), and go by whole calendar months, UTC: the last of them is 13
// months old.
const (
	auditRetentionMonths = 12

	// maxClockSkew is how far ahead of the host's clock a record's time must be for the record not to count as young.
	maxClockSkew = 24 * time.Hour

	pruneBatch      = 1_000                  // rows, so that checks wait for no more than these
	headLockTimeout = 250 * time.Millisecond // for a lock that checks queue up behind; another round comes
)

// AuditDue returns where each chain is to be cut, if there is more to prune than its newest anchor says. A chain is
// only ever cut from its beginning, and its records are in order of time no better than the hosts' clocks: what stands
// before the first record that is to stay goes, up to the last that is due; what is due behind it stays until that one
// goes.
func (s *Store) AuditDue(ctx context.Context) ([]audit.Anchor, error) {
	var due []audit.Anchor
	// Of two clocks the one behind counts: one that runs ahead must not end what is not due.
	var now time.Time
	if err := s.db.NewRaw("SELECT least(?::timestamptz, now())", s.now()).Scan(ctx, &now); err != nil {
		return nil, fmt.Errorf("finding audit records past their retention: %w", err)
	}
	before := period(now).AddDate(0, -auditRetentionMonths, 0)
	for chain := range chains {
		// A record from the future holds nothing back, or it would until its time comes. Unless the chain ends with
		// one: then it is this host's clock that may be behind.
		var row headRow
		err := s.db.NewRaw(`
			SELECT r.chain, r.seq, r.hash FROM audit_records AS r
			WHERE r.chain = ?0 AND r.recorded_at < ?1 AND r.seq > (SELECT coalesce(max(seq), 0) FROM audit_anchors WHERE chain = ?0)
				AND r.seq < (SELECT coalesce(min(seq), 9223372036854775807) FROM audit_records WHERE chain = ?0 AND recorded_at >= ?1 AND recorded_at < ?2)
				AND EXISTS (SELECT FROM audit_heads AS h JOIN audit_records AS l ON l.chain = h.chain AND l.seq = h.seq WHERE h.chain = ?0 AND l.recorded_at < ?2)
			ORDER BY r.seq DESC LIMIT 1`, chain, before, now.Add(maxClockSkew)).Scan(ctx, &row)
		if errors.Is(err, sql.ErrNoRows) {
			continue
		}
		var head audit.Head
		if err == nil {
			head, err = row.head()
		}
		if err != nil {
			return nil, fmt.Errorf("finding audit records past their retention: %w", err)
		}
		due = append(due, audit.Anchor{Head: head, Before: before})
	}
	return due, nil
}

// anchorRow is a row of audit_anchors.
type anchorRow struct {
	bun.BaseModel `bun:"table:audit_anchors"`

	Chain int
	Seq   int64
	Note  string
}

// KeepAnchor keeps a signed anchor, and puts the pruning that it allows into the chain. When another host has cut there
// already, it does nothing.
func (s *Store) KeepAnchor(ctx context.Context, anchor audit.Anchor, note string) error {
	err := s.inTx(ctx, func(ctx context.Context, tx bun.Tx) error {
		heads, err := lockHeads(ctx, tx, bun.List([]int{anchor.Chain}))
		if err != nil {
			return err
		}
		var done, stands bool
		err = tx.NewRaw(`SELECT EXISTS (SELECT FROM audit_anchors WHERE chain = ?0 AND seq >= ?1),
			EXISTS (SELECT FROM audit_records WHERE chain = ?0 AND seq = ?1 AND hash = ?2)`, anchor.Chain, anchor.Seq, anchor.Hash[:]).Scan(ctx, &done, &stands)
		if err != nil || done {
			return err
		}
		head, ok := heads[anchor.Chain]
		if !ok || !stands {
			return fmt.Errorf("record %d of audit chain %d is not what the anchor says", anchor.Seq, anchor.Chain)
		}
		if _, err := tx.NewInsert().Model(&anchorRow{Chain: anchor.Chain, Seq: anchor.Seq,
			Note: note}).Exec(ctx); err != nil {
			return err
		}
		at := s.now().UTC().Truncate(time.Millisecond)
		return appendRecord(ctx, tx, head, audit.Record{
			Kind: audit.Pruning, At: at.Format(check.TimeFormat), Ref: "pruning_" + ulid.Make().String(),
			Revision: anchor.Seq, Digest: anchor.Hash[:],
		}, at)
	})
	if err != nil {
		return fmt.Errorf("keeping the anchor of audit chain %d: %w", anchor.Chain, err)
	}
	return nil
}

// Anchors returns a chain's anchors as they were signed, oldest first. The error is a *audit.BreakError when the table
// holds what was not signed with the verifier's key for that place.
func (l AuditLog) Anchors(ctx context.Context, chain int, verifierKey string) ([]audit.Anchor, error) {
	var rows []anchorRow
	if err := l.db.NewSelect().Model(&rows).Where("chain = ?", chain).Order("seq").Scan(ctx); err != nil {
		return nil, fmt.Errorf("reading audit anchors: %w", err)
	}
	anchors := make([]audit.Anchor, len(rows))
	for i, r := range rows {
		anchor, err := audit.OpenAnchor(r.Note, verifierKey)
		if err != nil || anchor.Chain != r.Chain || anchor.Seq != r.Seq {
			return nil, &audit.BreakError{Chain: r.Chain, Seq: r.Seq,
				Reason: "the anchor that stands here was not signed by this host's key"}
		}
		anchors[i] = anchor
	}
	return anchors, nil
}

// PruneAudit deletes what stands at or before anchors, one for each chain that has any: months as whole partitions, if
// few records in them stay, and other rows a few at a time. Whatever cannot be had soon is left for the next call, so
// that checks never wait long. The anchors must have been kept, and their signatures verified.
func (s *Store) PruneAudit(ctx context.Context, anchors []audit.Anchor) error {
	cut := make(map[int]int64, len(anchors))
	var before time.Time
	for _, a := range anchors {
		cut[a.Chain] = a.Seq
		if a.Before.After(before) {
			before = a.Before
		}
	}
	var months []string
	err := s.db.NewRaw(`SELECT c.relname FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
		WHERE i.inhparent = 'audit_records'::regclass AND c.relname < ? ORDER BY c.relname`, partition(before)).Scan(ctx, &months)
	for _, month := range months {
		if err == nil {
			err = s.dropPartition(ctx, month, cut)
		}
	}
	for _, a := range anchors {
		if err == nil {
			err = s.pruneRows(ctx, a)
		}
	}
	if sqlState(err) == lockNotAvailable {
		s.log.Info("pruning of audit records goes on later", "error", err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("pruning audit records: %w", err)
	}
	return nil
}

// dropPartition drops a month's partition. What stands behind its chain's cut moves to where rows without a partition are;
// when that is more than can be moved at once, the partition stays.
func (s *Store) dropPartition(ctx context.Context, month string, cut map[int]int64) error {
	return s.inTx(ctx, func(ctx context.Context, tx bun.Tx) error {
		heads, err := lockHeadsBriefly(ctx, tx)
		if err != nil {
			return err
		}
		var attached bool
		err = tx.NewRaw("SELECT EXISTS (SELECT FROM pg_inherits WHERE inhrelid = to_regclass(?) AND inhparent = 'audit_records'::regclass)", month).
			Scan(ctx, &attached)
		if err != nil || !attached { // another host was here
			return err
		}
		left := 0
		for chain := range heads {
			var n int
			err := tx.NewRaw("SELECT count(*) FROM (SELECT FROM ? WHERE chain = ? AND seq > ? LIMIT ?) AS r",
				bun.Ident(month), chain, cut[chain], pruneBatch+1).Scan(ctx, &n)
			if err != nil {
				return err
			}
			left += n
		}
		if left > pruneBatch {
			return nil
		}
		if _, err := tx.ExecContext(ctx, "ALTER TABLE audit_records DETACH PARTITION ?", bun.Ident(month)); err != nil {
			return err
		}
		for chain := range heads {
			_, err := tx.ExecContext(ctx, "INSERT INTO audit_records SELECT * FROM ? WHERE chain = ? AND seq > ?",
				bun.Ident(month), chain, cut[chain])
			if err != nil {
				return err
			}
		}
		_, err = tx.ExecContext(ctx, "DROP TABLE ?", bun.Ident(month))
		return err
	})
}

// pruneRows deletes a chain's rows up to its anchor, and what is kept beside them. Lists of erasures behind the anchor
// stay whole, because they are signed whole.
func (s *Store) pruneRows(ctx context.Context, anchor audit.Anchor) error {
	for {
		var upTo sql.NullInt64
		err := s.db.NewRaw("SELECT max(seq) FROM (SELECT seq FROM audit_records WHERE chain = ? AND seq <= ? ORDER BY seq LIMIT ?) AS r",
			anchor.Chain, anchor.Seq, pruneBatch).Scan(ctx, &upTo)
		if err != nil {
			return err
		}
		if !upTo.Valid {
			break
		}
		err = s.inTx(ctx, func(ctx context.Context, tx bun.Tx) error {
			// Behind the lock, no erasure counts on rows that go.
			if _, err := lockHeadsBriefly(ctx, tx); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, "DELETE FROM audit_records WHERE chain = ? AND seq <= ?", anchor.Chain,
				upTo.Int64)
			return err
		})
		if err != nil {
			return err
		}
	}
	_, err := s.db.ExecContext(ctx, "DELETE FROM erased_records WHERE chain = ?0 AND erasure <= ?1; DELETE FROM erasures WHERE chain = ?0 AND seq <= ?1",
		anchor.Chain, anchor.Seq)
	return err
}

// lockHeadsBriefly locks all chains' heads, so that no check is being recorded and no other host cuts, or gives up soon.
func lockHeadsBriefly(ctx context.Context, tx bun.Tx) (map[int]*audit.Head, error) {
	if _, err := tx.ExecContext(ctx, "SET LOCAL lock_timeout = ?", milliseconds(headLockTimeout)); err != nil {
		return nil, err
	}
	return lockHeads(ctx, tx, nil)
}
