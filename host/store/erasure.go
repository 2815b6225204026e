package store

import (
	"context"
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

// eraseBatch is how many audit records one transaction erases: as long as it lasts, the chain records nothing else. A
// subject with more is erased in several, each with its own record in the chain.
const eraseBatch = 5_000

// erasedRow says which record of the chain erased which other.
type erasedRow struct {
	bun.BaseModel `bun:"table:erased_records"`

	Chain   int
	Seq     int64
	Leaf    []byte
	Erasure int64
	Ref     []byte
}

type erasureRow struct {
	bun.BaseModel `bun:"table:erasures"`

	Chain   int
	Seq     int64
	Subject []byte
	Checks  int
}

// Erase erases what a caller's account holds of a subject: the content of its audit records, its webhook events, its
// sightings and links in the reputation graph. All of it goes in one transaction, behind the lock that every check of
// the account is recorded under: a check is erased whole, or recorded behind the erasure whole. Erasing again takes
// nothing more. Errors: check.ErrUnauthorized; privacy.ErrUnknown, of a reference only; *entity.InvalidError.
func (s *Store) Erase(ctx context.Context, c check.Caller, whose privacy.Selector) (*privacy.ErasureResult, error) {
	total := &privacy.ErasureResult{}
	var node []byte
	for more := true; more; {
		var part erasedPart
		err := s.inTx(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
			part, err = s.erase(ctx, tx, c, whose, node)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("erasing subject: %w", err)
		}
		total.Subject, total.Erasures = part.Subject, part.Erasures
		total.Checks += part.Checks
		total.Events += part.Events
		total.Sightings += part.Sightings
		total.Links += part.Links
		more, node = part.more, part.node
		if more && whose.Entity == nil {
			whose = privacy.Selector{Subject: *part.Subject} // the check that it was named by may be gone
		}
	}
	return total, nil
}

// erasedPart is what one transaction of an erasure took.
type erasedPart struct {
	privacy.ErasureResult
	node []byte // of the subject; nil: unknown
	more bool   // there may be more to erase
}

// erase erases up to eraseAtOnce records of a subject. node is the subject's, when a part before found it.
func (s *Store) erase(ctx context.Context, tx bun.Tx, c check.Caller, whose privacy.Selector,
	node []byte) (part erasedPart, err error) {
	head, a, err := s.lockChainOf(ctx, tx, c)
	if err != nil {
		return part, err
	}
	p, err := s.findSubject(ctx, tx, a, whose)
	if err != nil {
		return part, err
	}
	if p.node == nil {
		p.node = node
	}
	part = erasedPart{ErasureResult: privacy.ErasureResult{Subject: p.reference(), Erasures: p.erasures}, node: p.node}
	if p.pseudonym == nil {
		return part, nil
	}
	var rows []auditRow
	err = tx.NewSelect().Model(&rows).Column("seq", "kind", "ref", "leaf").
		Where("pseudonym = ? AND account_id = ? AND chain = ?", p.pseudonym, a.AccountID,
			a.Chain).Order("seq").Limit(eraseBatch).Scan(ctx)
	if err != nil {
		return part, err
	}
	if len(rows) > 0 && p.node == nil {
		return part, errNodeUnknown
	}
	if p.node != nil {
		if part.Sightings, part.Links, err = forgetNode(ctx, tx, a.AccountID, p.node); err != nil {
			return part, err
		}
	}
	switch {
	case len(rows) > 0:
		if part.Events, err = eraseRows(ctx, tx, a, p, rows); err != nil {
			return part, err
		}
	case part.Sightings+part.Links == 0 && len(p.erasures) == 0 && whose.Entity == nil:
		return part, privacy.ErrUnknownSubject
	case part.Sightings+part.Links == 0:
		return part, nil
	}
	done, err := s.recordErasure(ctx, tx, head, a, p, rows)
	part.Checks, part.Erasures, part.more = done.Checks, append(part.Erasures, done), len(rows) == eraseBatch
	return part, err
}

// errNodeUnknown keeps an erasure from being half of one: from checks of before migration 0006 no way leads to the
// graph.
var errNodeUnknown = &entity.InvalidError{Field: "subject",
	Reason: "was checked before references led to the reputation graph; " +
		"send the value itself, as domain, email, phone or iban"}

// eraseRows takes the content of a subject's rows, up to the last of them, and their webhook events. A delivery that is
// under way finds its event gone when it ends, and leaves nothing behind.
func eraseRows(ctx context.Context, tx bun.Tx, a requester, p subject, rows []auditRow) (events int, err error) {
	refs := make([]string, len(rows))
	for i, r := range rows {
		refs[i] = r.Ref
	}
	result, err := tx.NewRaw("DELETE FROM webhook_events WHERE account_id = ? AND ref IN (?)", a.AccountID,
		bun.List(refs)).Exec(ctx)
	if err != nil {
		return 0, err
	}
	gone, err := result.RowsAffected()
	if err != nil {
		return 0, err
	}
	result, err = tx.NewRaw(`UPDATE audit_records SET kind = ?, at = NULL, ref = NULL, account_id = '', key_id = '', type = '', pseudonym = NULL, nonce = NULL,
			score = 0, verdict = '', revision = 0, digest = NULL, sealed_node = NULL
		WHERE pseudonym = ? AND account_id = ? AND chain = ? AND seq <= ?`,
		erasedKind, p.pseudonym, a.AccountID, a.Chain, rows[len(rows)-1].Seq).Exec(ctx)
	if err != nil {
		return 0, err
	}
	if n, err := result.RowsAffected(); err != nil || int(n) != len(rows) {
		return 0, errors.Join(fmt.Errorf("%d audit records were erased, not %d", n, len(rows)), err)
	}
	return int(gone), nil
}

// recordErasure puts the erasure of rows into the chain, and what it erased beside it.
func (s *Store) recordErasure(ctx context.Context, tx bun.Tx, head *audit.Head, a requester, p subject,
	rows []auditRow) (privacy.Erasure, error) {
	at := s.now().UTC().Truncate(time.Millisecond)
	done := privacy.Erasure{Ref: "erasure_" + ulid.Make().String(), Timestamp: at.Format(check.TimeFormat)}
	seq := head.Seq + 1
	list, signed := make([]erasedRow, len(rows)), make([]audit.Erased, len(rows))
	for i, r := range rows {
		if len(r.Leaf) != len(audit.Hash{}) {
			return done, &audit.BreakError{Chain: a.Chain, Seq: r.Seq, Reason: "its leaf is not 32 bytes long"}
		}
		list[i] = erasedRow{Chain: a.Chain, Seq: r.Seq, Leaf: r.Leaf, Erasure: seq, Ref: s.tombstone(a, "ref", r.Ref)}
		signed[i] = audit.Erased{Seq: r.Seq, Leaf: audit.Hash(r.Leaf)}
		if r.Kind == string(audit.Check) {
			done.Checks++
		}
	}
	if len(list) > 0 {
		if _, err := tx.NewInsert().Model(&list).Exec(ctx); err != nil {
			return done, err
		}
	}
	mark := &erasureRow{Chain: a.Chain, Seq: seq, Subject: s.tombstone(a, "subject", string(p.pseudonym)),
		Checks: done.Checks}
	if _, err := tx.NewInsert().Model(mark).Exec(ctx); err != nil {
		return done, err
	}
	return done, appendRecord(ctx, tx, head, audit.Record{
		Kind: audit.Erasure, At: done.Timestamp, Ref: done.Ref, Account: a.AccountID, Key: a.KeyID,
		Digest: audit.SignErasure(s.keys.SignSeed, a.Chain, signed),
	}, at)
}
