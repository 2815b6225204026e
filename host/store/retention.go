package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/uptrace/bun"

	"assay/host/audit"
	"assay/host/check"
	"assay/host/customer/privacy"
)

// A record dated later than maxClockSkew after the host's time is considered to be in the future.
const maxClockSkew = 24 * time.Hour

// AuditDue returns the point at which to cut each chain that has records past their retention, beyond those that its
// newest anchor covers, and a Damaged for the chains that it leaves out. Records are in order of time only as far as
// the hosts' clocks agree: a record that is due stays as long as any record before it must stay. Chains of states are
// never cut.
func (s *Store) AuditDue(ctx context.Context) ([]audit.Anchor, error) {
	var due []audit.Anchor
	var now time.Time
	if err := s.db.NewRaw("SELECT least(?::timestamptz, now())", s.earliest()).Scan(ctx, &now); err != nil {
		return nil, fmt.Errorf("finding audit records past their retention: %w", err)
	}
	before := now.UTC().Truncate(24*time.Hour).AddDate(0, -privacy.AuditMonths, 0) // a day's records leave together
	chains, err := s.chains(ctx)
	if err != nil {
		return nil, fmt.Errorf("finding audit records past their retention: %w", err)
	}
	var damaged Damaged
	for _, chain := range chains {
		var row headRow
		err := query(s.db, "audit_due", named{"chain": chain, "before": before, "future": now.Add(maxClockSkew)}).
			Scan(ctx, &row)
		if errors.Is(err, sql.ErrNoRows) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("finding audit records past their retention: %w", err)
		}
		if len(row.Hash) != len(audit.Hash{}) {
			damaged = append(damaged, &audit.BreakError{Chain: chain, Seq: row.Seq, Reason: badLength})
			continue
		}
		due = append(due, audit.Anchor{Head: audit.Head{Chain: chain, Seq: row.Seq, Hash: audit.Hash(row.Hash)},
			Before: before})
	}
	return due, damaged.Err()
}

// KeepAnchor stores a signed anchor and appends a record of the pruning that it permits to the chain. It has no effect
// if another host has already cut the chain there or later.
func (s *Store) KeepAnchor(ctx context.Context, anchor audit.Anchor, note string) error {
	at := s.now().UTC().Truncate(time.Millisecond)
	record := audit.Record{
		Kind: audit.Pruning, At: at.Format(check.TimeFormat), Ref: "pruning_" + ulid.Make().String(),
		Revision: anchor.Seq, Digest: anchor.Hash[:],
	}
	err := s.require(ctx, fmt.Errorf("record %d does not match the anchor", anchor.Seq),
		"SELECT keep_anchor(?chain, ?seq, ?hash, ?note, ?entry)", named{"chain": anchor.Chain, "seq": anchor.Seq,
			"hash": anchor.Hash[:], "note": note, "entry": entry(record, at)})
	return wrap(err, "keeping the anchor of audit chain %d", anchor.Chain)
}

// AnchorNotes returns a chain's signed anchors, oldest first. They are not verified.
func (l AuditLog) AnchorNotes(ctx context.Context, chain int) (notes []string, err error) {
	err = l.db.NewRaw("SELECT note FROM audit_anchors WHERE chain = ? ORDER BY seq", chain).Scan(ctx, &notes)
	return notes, wrap(err, "reading audit anchors")
}

// Anchors returns a chain's anchors, oldest first. The error is an *audit.BreakError if one was not signed for
// this chain and number.
func (l AuditLog) Anchors(ctx context.Context, chain int, key audit.Public) ([]audit.Anchor, error) {
	var rows []struct {
		Chain int
		Seq   int64
		Note  string
	}
	err := l.db.NewRaw("SELECT chain, seq, note FROM audit_anchors WHERE chain = ? ORDER BY seq", chain).
		Scan(ctx, &rows)
	if err != nil {
		return nil, fmt.Errorf("reading audit anchors: %w", err)
	}
	anchors := make([]audit.Anchor, len(rows))
	for i, r := range rows {
		anchor, err := key.OpenAnchor(r.Note)
		if err != nil || anchor.Chain != r.Chain || anchor.Seq != r.Seq {
			return nil, &audit.BreakError{Chain: r.Chain, Seq: r.Seq,
				Reason: "the anchor here was not signed by this host's key"}
		}
		anchors[i] = anchor
	}
	return anchors, nil
}

// PruneAudit deletes the records up to each anchor, at most one anchor a chain. It drops whole partitions where few
// records remain in them, and deletes other rows in small batches. If a lock is not available soon, or another host
// prunes the same partition on the machines of a cluster, it leaves the rest to the next call, so that checks do not
// wait long. The anchors must be stored and their signatures verified.
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
	err := query(s.db, "partitions_before", named{"before": partition(before)}).Scan(ctx, &months)
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
	if postponed(err) {
		s.log.Info("pruning audit records was postponed", "error", err)
		return nil
	}
	return wrap(err, "pruning audit records")
}

// dropPartition drops a month's partition and moves records after their chain's cut to the default partition. If there
// are too many to move, it keeps the partition.
func (s *Store) dropPartition(ctx context.Context, month string, cut map[int]int64) error {
	cuts, err := json.Marshal(cut)
	if err != nil {
		return err
	}
	detached, err := only[bool](ctx, s.db.NewRaw("SELECT detach_partition(?, ?, ?)", month, string(cuts), pruneBatch))
	if sqlState(err) == undefinedTable { // another host dropped it meanwhile
		return nil
	}
	if err != nil || !detached {
		return err
	}
	_, err = s.db.ExecContext(ctx, "DROP TABLE IF EXISTS ?", bun.Ident(month))
	return err
}

// pruneRows deletes a chain's records, tiles, erasures, feedback and reviews up to its anchor. It keeps the complete
// list of each later erasure, even of pruned records, because the list's signature covers all of it. No check waits for
// these rows, and an erasure that has read one of them finds it gone and starts again.
func (s *Store) pruneRows(ctx context.Context, anchor audit.Anchor) error {
	for deleted := int64(pruneBatch); deleted == pruneBatch; {
		result, err := query(s.db, "prune_records", named{"chain": anchor.Chain, "seq": anchor.Seq,
			"before": anchor.Before, "limit": pruneBatch}).Exec(ctx)
		if err != nil {
			return err
		}
		if deleted, err = result.RowsAffected(); err != nil {
			return err
		}
	}
	if err := s.pruneTiles(ctx, anchor); err != nil {
		return err
	}
	_, err := query(s.db, "prune_with_records", named{"chain": anchor.Chain, "seq": anchor.Seq}).Exec(ctx)
	return err
}
