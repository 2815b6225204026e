package store

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/schema"

	"assay/host/audit"
	"assay/host/check"
	"assay/host/customer/privacy"
	"assay/host/customer/webhook"
	"assay/host/entity"
)

// exportRecordInterval is the time during which repeated exports of a subject to the same key share one audit record.
// Without it, requests in a loop would fill the audit log.
const exportRecordInterval = time.Hour

// Export returns a snapshot of the data that the caller's account holds about a subject, and records the disclosure in
// the audit log. It fails with check.ErrUnauthorized, privacy.ErrUnknownSubject or an *entity.InvalidError.
func (s *Store) Export(ctx context.Context, c check.Caller, selector privacy.Selector, page privacy.Page) (
	*privacy.Export, error) {
	var export *privacy.Export
	var p subject
	distributed, err := s.distributed(ctx, "audit_records")
	read := func() error {
		return s.inSnapshot(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
			r, err := s.findRequester(ctx, tx, c)
			if err != nil {
				return err
			}
			if p, err = s.findSubject(ctx, tx, r, selector); err != nil {
				return err
			}
			export, err = s.readPage(ctx, tx, r, p, page)
			return err
		})
	}
	switch {
	case err != nil:
	case distributed:
		err = s.undisturbed(ctx, c, selector, read)
	default:
		err = read()
	}
	if err == nil && export.Total > 0 {
		err = s.recordExport(ctx, c, p.pseudonym)
	}
	if err != nil {
		return nil, withOutage(fmt.Errorf("exporting subject: %w", err)) // no disclosure without its record
	}
	return export, nil
}

// undisturbed repeats read until no erasure or graph update happened meanwhile. On a cluster, each machine has its own
// snapshot, and a commit on several machines becomes visible on one after another.
func (s *Store) undisturbed(ctx context.Context, c check.Caller, selector privacy.Selector, read func() error) error {
	const maxAttempts = 100 // as in again
	for range maxAttempts {
		before, err := s.privacyState(ctx, c, selector)
		if err != nil {
			return err
		}
		if err := read(); err != nil {
			return err
		}
		after, err := s.privacyState(ctx, c, selector)
		if err != nil || after == before {
			return err
		}
	}
	return &check.UnavailableError{Part: "database", Err: errors.New("the subject's data changes all the time")}
}

// privacyState returns a value that changes with every erasure of a subject, and whenever something is added to the
// graph from the account's chain. It waits for such changes in progress by asking for their locks.
func (s *Store) privacyState(ctx context.Context, c check.Caller, selector privacy.Selector) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	r, err := s.findRequester(ctx, s.db, c)
	if err != nil {
		return "", err
	}
	var applied, forgets int64
	err = s.db.NewRaw("SELECT applied, forgets FROM graph_progress WHERE chain = ? FOR SHARE", r.Chain).
		Scan(ctx, &applied, &forgets)
	if err != nil {
		return "", err
	}
	p, err := s.findSubject(ctx, s.db, r, selector)
	if err != nil {
		return "", err
	}
	if p.node != nil {
		_, err = s.db.NewRaw("SELECT 1 FROM graph_sightings WHERE node = ? AND account = ? FOR SHARE", p.node,
			graphAccount(r.AccountID)).Exec(ctx)
	}
	return fmt.Sprint(applied, forgets, p.erasures), err
}

// readPage reads one page of an account's data about a subject.
func (s *Store) readPage(ctx context.Context, tx bun.Tx, r requester, p subject, page privacy.Page) (*privacy.Export,
	error) {
	export := &privacy.Export{Subject: p.reference(), Checks: []privacy.Check{}, Erasures: p.erasures,
		Overrides: []privacy.Override{}}
	if p.kind != "" {
		export.Type = &p.kind
	}
	if p.pseudonym == nil {
		return export, nil
	}
	var after int64
	if page.After != "" {
		found, err := s.findRef(ctx, tx, r, page.After)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return nil, err
		}
		if err != nil || !bytes.Equal(found.Pseudonym, p.pseudonym) {
			return nil, &entity.InvalidError{Field: "after",
				Reason: "must be the reference of one of the subject's checks"}
		}
		after = found.Seq
	}
	err := tx.NewSelect().TableExpr("? AS r", r.ofSubject(p.pseudonym)).ColumnExpr("count(*)").
		Where("account_id = ? AND kind = ?", r.AccountID, audit.Check).Scan(ctx, &export.Total)
	if err != nil {
		return nil, err
	}
	// One row beyond the page shows whether there is a next page.
	if export.Checks, err = s.readChecks(ctx, tx, r, r.ofSubject(p.pseudonym), after, page.Limit+1); err != nil {
		return nil, err
	}
	if len(export.Checks) > page.Limit {
		export.Checks = export.Checks[:page.Limit]
		export.Next = &export.Checks[page.Limit-1].Ref
	}
	if export.Graph, err = s.readSightings(ctx, tx, r, p); err != nil {
		return nil, err
	}
	if export.Overrides, err = s.exportOverrides(ctx, tx, r, p); err != nil {
		return nil, err
	}
	if export.Total == 0 && export.Graph == nil && len(export.Erasures) == 0 && len(export.Overrides) == 0 {
		return nil, privacy.ErrUnknownSubject
	}
	return export, nil
}

// readChecks reads the checks among records after a place of the chain, in its order, each with its webhook event,
// feedback and review.
func (s *Store) readChecks(ctx context.Context, tx bun.Tx, r requester, records schema.QueryWithArgs, after int64,
	limit int) ([]privacy.Check, error) {
	var rows []struct {
		Ref, Type, Verdict, KeyID     string
		RecordedAt                    time.Time
		Score                         int
		Event, State                  string
		Sequence                      int64
		Attempts                      int
		OccurredAt                    time.Time
		NextAttemptAt, SettledAt      *time.Time
		SealedPayload, SealedExchange []byte
		Number                        int // of the attempt with the exchange
		feedbackColumns
		reviewColumns
	}
	err := query(tx, "export_checks", named{"chain": r.Chain, "records": records, "account": r.AccountID,
		"kind": audit.Check, "after": after, "limit": limit}).Scan(ctx, &rows)
	if err != nil {
		return nil, err
	}
	checks := make([]privacy.Check, len(rows))
	for i, row := range rows {
		checks[i] = privacy.Check{Ref: row.Ref, Timestamp: timestamp(row.RecordedAt), Type: row.Type, Score: row.Score,
			Verdict: row.Verdict, Key: row.KeyID}
		if checks[i].Feedback, err = s.openFeedback(row.Ref, row.feedbackColumns); err != nil {
			s.log.Error("opening the note of feedback failed", "ref", row.Ref, "error", err)
		}
		if checks[i].Review, err = s.openReview(row.Ref, row.reviewColumns); err != nil {
			s.log.Error("a review cannot be opened", "ref", row.Ref, "error", err)
		}
		if row.Event == "" {
			continue
		}
		e := &privacy.Event{
			Event: row.Event, Sequence: row.Sequence, State: row.State, Attempts: row.Attempts,
			Timestamp:     privacy.Time{Time: row.OccurredAt},
			NextAttemptAt: timeOf(row.NextAttemptAt), SettledAt: timeOf(row.SettledAt),
		}
		if row.SealedPayload != nil {
			// One altered event must not prevent the rest of the export.
			if e.Body, err = s.keys.Open(row.SealedPayload, eventContext(row.Ref)); err != nil {
				s.log.Error("opening the payload of a webhook event failed", "ref", row.Ref, "error", err)
			}
		} else if row.SealedExchange != nil {
			a := webhook.Attempt{Number: row.Number}
			if err := s.openExchange(row.Ref, &a, nil, row.SealedExchange); err != nil {
				s.log.Error("opening the request of a webhook event failed", "ref", row.Ref, "error", err)
			} else if json.Valid([]byte(a.Request.Body)) {
				e.Body = json.RawMessage(a.Request.Body)
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

// recordExport records in the audit log that a subject's data was disclosed to the holder of a key. The record contains
// the subject's pseudonym and is erased with the subject's other records. A subject erased meanwhile gets no record.
// The slow read comes first, because audit_export locks the chain's head.
func (s *Store) recordExport(ctx context.Context, c check.Caller, pseudonym []byte) error {
	r, err := s.findRequester(ctx, s.db, c)
	if err != nil {
		return err
	}
	at := s.now().UTC().Truncate(time.Millisecond)
	var last struct {
		Seq        int64
		RecordedAt time.Time
		Recorded   bool // the disclosure is recorded already
	}
	err = s.db.NewSelect().TableExpr("? AS r", r.ofSubject(pseudonym)).Column("seq", "recorded_at").
		ColumnExpr("bool_or(kind = ? AND key_id = ? AND recorded_at > ?) OVER () AS recorded", audit.Export, r.KeyID,
			at.Add(-exportRecordInterval)).
		Where("account_id = ?", r.AccountID).Order("seq DESC").Limit(1).Scan(ctx, &last)
	if err != nil || last.Recorded {
		return orElse(err, nil)
	}
	record := audit.Record{
		Kind: audit.Export, At: at.Format(check.TimeFormat), Ref: "export_" + ulid.Make().String(),
		Account: r.AccountID, Key: r.KeyID, Pseudonym: pseudonym,
	}
	_, err = once[string](ctx, s, `SELECT audit_export(?chain, ?account, ?key, ?now, ?pseudonym, ?seq, ?at, ?entry)`,
		named{"chain": r.Chain, "account": r.AccountID, "key": r.KeyID, "now": s.now(), "pseudonym": pseudonym,
			"seq": last.Seq, "at": last.RecordedAt, "entry": entry(record, at)})
	return orUnauthorized(err)
}

// orUnauthorized returns check.ErrUnauthorized if a function of the database found that a key is not valid, or err.
func orUnauthorized(err error) error {
	if sqlState(err) == invalidAuthorization {
		return check.ErrUnauthorized
	}
	return err
}
