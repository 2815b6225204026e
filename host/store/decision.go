package store

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/uptrace/bun"

	"assay/host/audit"
	"assay/host/check"
	"assay/host/customer/decision"
	"assay/host/customer/feedback"
	"assay/host/customer/privacy"
	"assay/host/entity"
)

// SearchChecks lists an account's checks. It fails with check.ErrUnauthorized.
func (s *Store) SearchChecks(ctx context.Context, c check.Caller, q decision.Query) (*decision.Page, error) {
	page, err := s.searchChecks(ctx, c, q, decision.MaxSearched)
	return page, withOutage(wrap(err, "searching checks"))
}

func (s *Store) searchChecks(ctx context.Context, c check.Caller, q decision.Query, reads int) (*decision.Page, error) {
	r, err := s.findHolder(ctx, s.db, c)
	if err != nil {
		return nil, err
	}
	latest := time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
	args := named{"chain": r.Chain, "account": r.AccountID, "verdict": q.Verdict, "type": q.Type, "key": q.Key,
		"from": q.From, "until": latest, "before": latest, "ref": "", "reads": reads, "limit": q.Limit + 1,
		"records": bun.Ident("audit_records")}
	if !q.Until.IsZero() {
		args["until"] = q.Until
	}
	if q.After != (decision.Cursor{}) {
		args["before"], args["ref"] = q.After.At, q.After.Ref
	}
	if q.Entity != nil {
		args["records"] = r.ofSubject(s.pseudonym(r, *q.Entity))
	}
	var rows []struct {
		checkRow
		Matches bool
		Number  int
	}
	if err := query(s.db, "search_checks", args).Scan(ctx, &rows); err != nil {
		return nil, err
	}
	page := &decision.Page{Checks: []decision.Check{}}
	for i, row := range rows {
		if row.Matches {
			page.Checks = append(page.Checks, row.check())
		}
		// The page is full and there are, or may be, more.
		if len(page.Checks) == q.Limit && i+1 < len(rows) || row.Number == reads {
			page.Next = new(decision.Cursor{At: row.RecordedAt, Ref: row.Ref}.String())
			break
		}
	}
	return page, nil
}

// checkRow is the part of a record that an account sees of its check.
type checkRow struct {
	Ref        string
	RecordedAt time.Time
	Type       string
	Score      int
	Verdict    string
	KeyID      string
	Revision   int64
	Overridden bool
}

func (r checkRow) check() decision.Check {
	return decision.Check{Ref: r.Ref, Timestamp: timestamp(r.RecordedAt), Type: r.Type, Score: r.Score,
		Verdict: r.Verdict, Key: r.KeyID, Revision: r.Revision, Overridden: r.Overridden}
}

// findHolder is findRequester for callers that may have signed in without a key.
func (s *Store) findHolder(ctx context.Context, db bun.IDB, c check.Caller) (requester, error) {
	if c.Key != "" {
		return s.findRequester(ctx, db, c)
	}
	var r requester
	err := db.NewRaw("SELECT id AS account_id, salt, chain FROM accounts WHERE id = ?", c.Account).Scan(ctx, &r)
	return r, orElse(err, check.ErrUnauthorized)
}

// recordedRow is a recorded check with its event, feedback, review and checkpoint.
type recordedRow struct {
	auditRow
	reviewColumns
	feedbackColumns
	Event, State string
	Attempts     int
	First        int64 // the number of the record that is leaf 0 of the chain's tree; 0: the tree has not begun
	checkpointColumns
}

// readCheck reads one of the account's checks by its reference. If e is not nil, the check must be of that value. It
// fails with check.ErrUnauthorized, feedback.ErrUnknownCheck or an *entity.InvalidError.
func (s *Store) readCheck(ctx context.Context, c check.Caller, ref string, e *entity.Entity) (row recordedRow,
	err error) {
	r, err := s.findHolder(ctx, s.db, c)
	if err != nil {
		return row, err
	}
	args := named{"chain": r.Chain, "ref": ref, "account": r.AccountID}
	for _, span := range recordedWithin(ref) {
		args["from"], args["until"] = span[0], span[1]
		if err = query(s.db, "recorded_check", args).Scan(ctx, &row); !errors.Is(err, sql.ErrNoRows) {
			break
		}
	}
	err = orElse(err, feedback.ErrUnknownCheck)
	if err == nil && e != nil && !bytes.Equal(row.Pseudonym, s.pseudonym(r, *e)) {
		err = &entity.InvalidError{Field: string(e.Type), Reason: "is not the value of this check"}
	}
	return row, err
}

// recordedWithin returns the spans of time in which a check with a reference can have been recorded: at about the time
// that the reference names, and then at any time, because references need not name one.
func recordedWithin(ref string) (spans [][2]time.Time) {
	id, err := ulid.ParseStrict(strings.TrimPrefix(ref, "chk_"))
	if at := id.Timestamp(); err == nil {
		spans = append(spans, [2]time.Time{at.Add(-time.Minute), at.Add(time.Minute)})
	}
	return append(spans, [2]time.Time{{}, time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)})
}

// RecordedCheck implements [decision.Records].
func (s *Store) RecordedCheck(ctx context.Context, c check.Caller, ref string, e *entity.Entity) (
	details *decision.Details, err error) {
	defer concluding("reading a check", &err)
	row, err := s.readCheck(ctx, c, ref, e)
	if err != nil {
		return nil, err
	}
	leaf := audit.Leaf(row.Nonce, row.row().Record)
	details = &decision.Details{
		Check: checkRow{Ref: row.Ref, RecordedAt: row.RecordedAt, Type: row.Type, Score: row.Score,
			Verdict: row.Verdict, KeyID: row.KeyID, Revision: row.Revision, Overridden: row.Digest != nil}.check(),
		Record: decision.Record{Chain: row.Chain, Number: row.Seq,
			Intact:     row.corruption() == "" && bytes.Equal(leaf[:], row.Leaf),
			Checkpoint: s.openCheckpoint(row.Chain, row.checkpointColumns)},
	}
	if row.Event != "" {
		details.Webhook = &decision.Delivery{Event: row.Event, State: row.State, Attempts: row.Attempts}
	}
	if details.Feedback, err = s.openFeedback(ref, row.feedbackColumns); err != nil {
		return nil, err
	}
	details.Review, err = s.openReview(ref, row.reviewColumns)
	return details, err
}

// CheckRecord is the record of a check in the audit log.
type CheckRecord struct {
	audit.Row
	Chain      int
	First      int64  // the number of the record that is leaf 0 of the chain's tree; 0: the tree has not begun
	Activation []byte // the hash of the activation that put the check's lineup in force; nil: it was not signed
}

// CheckRecord returns the record of a check of the caller's account. It fails with feedback.ErrUnknownCheck, also if
// the record was erased, and check.ErrUnauthorized.
func (s *Store) CheckRecord(ctx context.Context, c check.Caller, ref string) (found CheckRecord, err error) {
	row, err := s.readCheck(ctx, c, ref, nil)
	if reason := row.corruption(); err == nil && reason != "" {
		err = &audit.BreakError{Chain: row.Chain, Seq: row.Seq, Reason: reason}
	}
	if err == nil {
		found = CheckRecord{Row: row.row(), Chain: row.Chain, First: row.First}
		err = s.db.NewRaw(`SELECT hash FROM lineup_activations WHERE ?0 IN (revision, canary_revision)
			ORDER BY activated_at <= ?1 DESC, id DESC LIMIT 1`, row.Revision, row.RecordedAt).
			Scan(ctx, &found.Activation)
		err = orElse(err, nil) // the lineup was not signed
	}
	return found, withOutage(wrap(err, "reading the record of a check"))
}

// checkpointColumns are a stored checkpoint, in a row of a check.
type checkpointColumns struct {
	Size       int64
	Covered    int64  // number of the last record
	Checkpoint string // the signed note; "": none
	SignedAt   time.Time
}

// openCheckpoint returns a chain's checkpoint, or nil if there is none with this installation's signature: a row of the
// database alone proves nothing.
func (s *Store) openCheckpoint(chain int, c checkpointColumns) *decision.Checkpoint {
	head, err := s.signer.OpenTree(c.Checkpoint)
	if err != nil || head.Chain != chain || head.Size != c.Size {
		return nil
	}
	return &decision.Checkpoint{Number: c.Covered, SignedAt: privacy.Time{Time: c.SignedAt}}
}
