package store

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/uptrace/bun"

	"assay/host/audit"
	"assay/host/check"
	"assay/host/entity"
	"assay/host/privacy"
)

// eraseBatch is the maximum number of audit records that one transaction erases, because the chain is locked meanwhile.
// Larger erasures take several transactions, each with its own record in the chain.
const eraseBatch = 5_000

// erasedRow is a row of erased_records: one record and the erasure that erased it.
type erasedRow struct {
	bun.BaseModel `bun:"table:erased_records"`

	Chain   int
	Seq     int64
	Leaf    []byte
	Erasure int64  // the number of the erasure's record
	Ref     []byte // a tombstone
}

// erasureRow is a row of erasures.
type erasureRow struct {
	bun.BaseModel `bun:"table:erasures"`

	Chain   int
	Seq     int64
	Subject []byte // a tombstone
	Checks  int
}

// Erase erases an account's data about a subject: the content of its audit records, its webhook events and feedback,
// and its sightings and links in the reputation graph. Each transaction holds the lock under which checks of the
// account are recorded, so a concurrent check is either erased completely or recorded completely. Erasing a subject
// again has no further effect and returns the earlier erasures. It fails with check.ErrUnauthorized, with an
// *entity.InvalidError, or with privacy.ErrUnknownSubject if the request names a reference instead of an entity.
func (s *Store) Erase(ctx context.Context, c check.Caller, selector privacy.Selector) (*privacy.ErasureResult, error) {
	if err := s.CatchUp(ctx); err != nil { // only for the counts: what is not applied is forgotten too
		s.log.Warn("erasing a subject before the reputation graph is complete", "error", err)
	}
	total := &privacy.ErasureResult{}
	var node []byte
	for more := true; more; {
		var batch erasureBatch
		err := s.inTx(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
			batch, err = s.erase(ctx, tx, c, selector, node)
			return err
		})
		if err != nil {
			return nil, withOutage(fmt.Errorf("erasing subject: %w", err))
		}
		total.Subject, total.Erasures = batch.Subject, batch.Erasures
		total.Checks += batch.Checks
		total.Events += batch.Events
		total.Sightings += batch.Sightings
		total.Links += batch.Links
		more, node = batch.more, batch.node
		if more && selector.Entity == nil {
			selector = privacy.Selector{Subject: *batch.Subject} // the check that named it may be erased by now
		}
	}
	return total, nil
}

// erasureBatch is the result of one transaction of an erasure.
type erasureBatch struct {
	privacy.ErasureResult
	node []byte // of the subject; nil: unknown
	more bool   // further records may remain
}

// erase erases up to eraseBatch records of a subject. node is the subject's node if an earlier batch found it.
func (s *Store) erase(ctx context.Context, tx bun.Tx, c check.Caller, selector privacy.Selector,
	node []byte) (batch erasureBatch, err error) {
	head, r, err := s.lockChainOf(ctx, tx, c)
	if err != nil {
		return batch, err
	}
	p, err := s.findSubject(ctx, tx, r, selector)
	if err != nil {
		return batch, err
	}
	if p.node == nil {
		p.node = node
	}
	batch.Subject, batch.Erasures, batch.node = p.reference(), p.erasures, p.node
	if p.pseudonym == nil {
		return batch, nil
	}
	var rows []auditRow
	err = tx.NewSelect().Model(&rows).Column("seq", "kind", "ref", "leaf").
		Where("pseudonym = ? AND account_id = ? AND chain = ?", p.pseudonym, r.AccountID, r.Chain).
		Order("seq").Limit(eraseBatch).Scan(ctx)
	if err != nil {
		return batch, err
	}
	if len(rows) > 0 && p.node == nil {
		return batch, errNodeUnknown
	}
	if p.node != nil {
		if batch.Sightings, batch.Links, err = forgetNode(ctx, tx, r.AccountID, p.node); err != nil {
			return batch, err
		}
	}
	switch {
	case len(rows) > 0:
		if batch.Events, err = eraseRows(ctx, tx, r, p, rows); err != nil {
			return batch, err
		}
	case batch.Sightings+batch.Links == 0 && len(p.erasures) == 0 && selector.Entity == nil:
		return batch, privacy.ErrUnknownSubject
	case batch.Sightings+batch.Links == 0:
		return batch, nil
	}
	done, err := s.recordErasure(ctx, tx, head, r, p, rows)
	batch.Checks, batch.Erasures, batch.more = done.Checks, append(batch.Erasures, done), len(rows) == eraseBatch
	return batch, err
}

// errNodeUnknown prevents a partial erasure. Checks from before migration 0006 do not lead to their node in the
// reputation graph.
var errNodeUnknown = &entity.InvalidError{Field: "subject",
	Reason: "was only checked by an older version, which stored no link to the reputation graph; " +
		"send the value as domain, email, phone or iban instead"}

//go:embed sql/erase_records.sql
var eraseRecords string

// eraseRows erases the content of a subject's rows, up to the last of rows, and deletes their webhook events and
// feedback. A delivery in progress finds its event deleted when it ends, and stores nothing.
func eraseRows(ctx context.Context, tx bun.Tx, r requester, p subject, rows []auditRow) (events int, err error) {
	refs := make([]string, len(rows))
	for i, row := range rows {
		refs[i] = row.Ref
	}
	result, err := tx.NewRaw("DELETE FROM webhook_events WHERE account_id = ? AND ref IN (?)", r.AccountID,
		bun.List(refs)).Exec(ctx)
	if err != nil {
		return 0, err
	}
	deleted, err := result.RowsAffected()
	if err != nil {
		return 0, err
	}
	result, err = tx.NewRaw(eraseRecords, named{"kind": erasedKind, "pseudonym": p.pseudonym, "account": r.AccountID,
		"chain": r.Chain, "last": rows[len(rows)-1].Seq}).Exec(ctx)
	if err != nil {
		return 0, err
	}
	if n, err := result.RowsAffected(); err != nil || int(n) != len(rows) {
		return 0, errors.Join(fmt.Errorf("%d audit records were erased, not %d", n, len(rows)), err)
	}
	// After the records: feedback is given under a lock on its record (withCheck).
	_, err = tx.NewRaw("DELETE FROM feedback WHERE account_id = ? AND pseudonym = ? AND chain = ? AND seq <= ?",
		r.AccountID, p.pseudonym, r.Chain, rows[len(rows)-1].Seq).Exec(ctx)
	return int(deleted), err
}

// recordErasure appends a record of the erasure to the chain, and stores which rows it erased.
func (s *Store) recordErasure(ctx context.Context, tx bun.Tx, head *audit.Head, r requester, p subject,
	rows []auditRow) (privacy.Erasure, error) {
	at := s.now().UTC().Truncate(time.Millisecond)
	done := privacy.Erasure{Ref: "erasure_" + ulid.Make().String(), Timestamp: at.Format(check.TimeFormat)}
	seq := head.Seq + 1
	list, signed := make([]erasedRow, len(rows)), make([]audit.Erased, len(rows))
	for i, row := range rows {
		if len(row.Leaf) != len(audit.Hash{}) {
			return done, &audit.BreakError{Chain: r.Chain, Seq: row.Seq, Reason: "its leaf is not 32 bytes long"}
		}
		list[i] = erasedRow{Chain: r.Chain, Seq: row.Seq, Leaf: row.Leaf, Erasure: seq,
			Ref: s.tombstone(r, "ref", row.Ref)}
		signed[i] = audit.Erased{Seq: row.Seq, Leaf: audit.Hash(row.Leaf)}
		if row.Kind == string(audit.Check) {
			done.Checks++
		}
	}
	if len(list) > 0 {
		if _, err := tx.NewInsert().Model(&list).Exec(ctx); err != nil {
			return done, err
		}
	}
	erasure := &erasureRow{Chain: r.Chain, Seq: seq, Subject: s.tombstone(r, "subject", string(p.pseudonym)),
		Checks: done.Checks}
	if _, err := tx.NewInsert().Model(erasure).Exec(ctx); err != nil {
		return done, err
	}
	return done, appendRecord(ctx, tx, head, audit.Record{
		Kind: audit.Erasure, At: done.Timestamp, Ref: done.Ref, Account: r.AccountID, Key: r.KeyID,
		Digest: audit.SignErasure(s.keys.SignSeed, r.Chain, signed),
	}, at)
}
