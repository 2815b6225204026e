package store

import (
	"context"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/uptrace/bun"

	"assay/host/audit"
	"assay/host/check"
	"assay/host/entity"
	"assay/host/privacy"
)

// exportRecordInterval is how long an export of a subject by one key stands for those after it: each is recorded in the audit
// trail, but asking in a loop must not fill it.
const exportRecordInterval = time.Hour

// Export returns what a caller's account holds of a subject, as of one moment, and records in the audit trail that it
// was handed out. Errors: check.ErrUnauthorized, privacy.ErrUnknown, *entity.InvalidError.
func (s *Store) Export(ctx context.Context, c check.Caller, whose privacy.Selector, page privacy.Page) (*privacy.Export,
	error) {
	var held *privacy.Export
	var p subject
	err := s.inSnapshot(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
		a, err := s.findRequester(ctx, tx, c)
		if err != nil {
			return err
		}
		if p, err = s.findSubject(ctx, tx, a, whose); err != nil {
			return err
		}
		held, err = s.readPage(ctx, tx, a, p, page)
		return err
	})
	if err == nil && held.Total > 0 {
		err = s.recordExport(ctx, c, p.pseudonym)
	}
	if err != nil {
		return nil, fmt.Errorf("exporting subject: %w", err)
	}
	return held, nil
}

// readPage reads a page of what an account holds of a subject.
func (s *Store) readPage(ctx context.Context, tx bun.Tx, a requester, p subject, page privacy.Page) (*privacy.Export, error) {
	held := &privacy.Export{Subject: p.reference(), Checks: []privacy.Check{}, Erasures: p.erasures}
	if p.kind != "" {
		held.Type = &p.kind
	}
	if p.pseudonym == nil {
		return held, nil
	}
	var after int64
	if page.After != "" {
		var found []int64
		err := tx.NewRaw("SELECT seq FROM audit_records WHERE ref = ? AND pseudonym = ? AND account_id = ?", page.After,
			p.pseudonym, a.AccountID).
			Scan(ctx, &found)
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, &entity.InvalidError{Field: "after",
				Reason: "must be the reference of one of the subject's checks"}
		}
		after = found[0]
	}
	err := tx.NewRaw("SELECT count(*) FROM audit_records WHERE pseudonym = ? AND account_id = ? AND kind = ?",
		p.pseudonym, a.AccountID, audit.Check).
		Scan(ctx, &held.Total)
	if err != nil {
		return nil, err
	}
	if held.Checks, err = s.readChecks(ctx, tx, a, p, after, page.Limit+1); err != nil {
		return nil, err
	}
	if len(held.Checks) > page.Limit {
		held.Checks = held.Checks[:page.Limit]
		held.Next = &held.Checks[page.Limit-1].Ref
	}
	if held.Graph, err = readSightings(ctx, tx, a, p); err != nil {
		return nil, err
	}
	if held.Total == 0 && held.Graph == nil && len(held.Erasures) == 0 {
		return nil, privacy.ErrUnknownSubject
	}
	return held, nil
}

// readChecks reads checks in the order of the chain, each with its webhook event.
func (s *Store) readChecks(ctx context.Context, tx bun.Tx, a requester, p subject, after int64, limit int) ([]privacy.Check,
	error) {
	var rows []struct {
		Ref, At, Type, Verdict, KeyID string
		Score                         int
		Event, State                  string
		Sequence                      int64
		Attempts                      int
		OccurredAt                    time.Time
		NextAttemptAt, SettledAt      *time.Time
		SealedPayload                 []byte
	}
	err := tx.NewRaw(`
		SELECT r.ref, r.at, r.type, r.score, r.verdict, r.key_id, e.event, e.state, e.sequence, e.attempts, e.occurred_at, e.next_attempt_at,
			e.settled_at, e.sealed_payload
		FROM audit_records AS r LEFT JOIN webhook_events AS e ON e.ref = r.ref AND e.account_id = r.account_id
		WHERE r.pseudonym = ? AND r.account_id = ? AND r.kind = ? AND r.seq > ? ORDER BY r.seq LIMIT ?`,
		p.pseudonym, a.AccountID, audit.Check, after, limit).Scan(ctx, &rows)
	if err != nil {
		return nil, err
	}
	checks := make([]privacy.Check, len(rows))
	for i, r := range rows {
		checks[i] = privacy.Check{Ref: r.Ref, Timestamp: r.At, Type: r.Type, Score: r.Score, Verdict: r.Verdict,
			Key: r.KeyID}
		if r.Event == "" {
			continue
		}
		e := &privacy.Event{
			Event: r.Event, Sequence: r.Sequence, State: r.State, Attempts: r.Attempts,
			Timestamp:     privacy.Time{Time: r.OccurredAt},
			NextAttemptAt: timeOf(r.NextAttemptAt), SettledAt: timeOf(r.SettledAt),
		}
		if r.SealedPayload != nil {
			// One that was altered in the database must not keep the rest from its owner.
			if e.Body, err = s.keys.Open(r.SealedPayload, eventContext(r.Ref)); err != nil {
				s.log.Error("webhook event cannot be opened", "ref", r.Ref, "error", err)
			}
		}
		checks[i].Webhook = e
	}
	return checks, nil
}

func timeOf(t *time.Time) *privacy.Time {
	if t == nil {
		return nil
	}
	return &privacy.Time{Time: *t}
}

// readSightings reads the account's own part in the reputation graph.
func readSightings(ctx context.Context, tx bun.Tx, a requester, p subject) (*privacy.Sightings, error) {
	if p.node == nil {
		return nil, nil
	}
	var rows []struct {
		Checks, Blocked, Reviewed, Links int
		FirstSeen, LastSeen              time.Time
	}
	err := tx.NewRaw(`SELECT checks, blocked, reviewed, first_seen, last_seen,
			(SELECT count(*) FROM graph_links AS l WHERE (l.low = ?0 OR l.high = ?0) AND l.account_id = ?1) AS links
		FROM graph_sightings WHERE node = ?0 AND account_id = ?1`, p.node, a.AccountID).Scan(ctx, &rows)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	r := rows[0]
	return &privacy.Sightings{Checks: r.Checks, Blocked: r.Blocked, Reviewed: r.Reviewed, Links: r.Links,
		FirstSeen: privacy.Time{Time: r.FirstSeen}, LastSeen: privacy.Time{Time: r.LastSeen}}, nil
}

// recordExport puts it into the audit trail that a subject's data were handed to the holder of a key. The record bears
// the subject's pseudonym, and is erased with the rest.
func (s *Store) recordExport(ctx context.Context, c check.Caller, pseudonym []byte) error {
	return s.inTx(ctx, func(ctx context.Context, tx bun.Tx) error {
		head, a, err := s.lockChainOf(ctx, tx, c)
		if err != nil {
			return err
		}
		at := s.now().UTC().Truncate(time.Millisecond)
		var done, gone bool
		err = tx.NewRaw(`SELECT EXISTS (SELECT FROM audit_records WHERE pseudonym = ?0 AND account_id = ?1 AND kind = ?2 AND key_id = ?3 AND recorded_at > ?4),
			NOT EXISTS (SELECT FROM audit_records WHERE pseudonym = ?0 AND account_id = ?1)`,
			pseudonym, a.AccountID, audit.Export, a.KeyID, at.Add(-exportRecordInterval)).Scan(ctx, &done, &gone)
		if err != nil || done || gone { // erased meanwhile: its pseudonym must not come back
			return err
		}
		return appendRecord(ctx, tx, head, audit.Record{
			Kind: audit.Export, At: at.Format(check.TimeFormat), Ref: "export_" + ulid.Make().String(),
			Account: a.AccountID, Key: a.KeyID, Pseudonym: pseudonym,
		}, at)
	})
}

// lockChainOf locks the head of the chain that a caller's account is recorded in, and then reads who asks: from here on
// nothing is recorded for this account.
func (s *Store) lockChainOf(ctx context.Context, tx bun.Tx, c check.Caller) (*audit.Head, requester, error) {
	heads, err := lockHeads(ctx, tx, tx.NewSelect().Table("accounts").Column("chain").Where("id = ?", c.Account))
	if err != nil {
		return nil, requester{}, err
	}
	a, err := s.findRequester(ctx, tx, c)
	if err != nil {
		return nil, a, err
	}
	head, ok := heads[a.Chain]
	if !ok {
		return nil, a, fmt.Errorf("audit chain %d has no head", a.Chain)
	}
	return head, a, nil
}
