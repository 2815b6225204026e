package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/uptrace/bun"

	"assay/host/audit"
	"assay/host/check"
	"assay/host/customer/privacy"
)

// requestRow is a row of subject_requests.
type requestRow struct {
	bun.BaseModel `bun:"table:subject_requests,alias:q"`

	Chain      int
	ID         string
	AccountID  string
	KeyID      string
	Kind       privacy.Kind
	State      privacy.State
	Subject    []byte // a tombstone
	Sealed     []byte
	Total      int
	Done       int
	Since      int64
	AtSeq      int64
	LeaseUntil time.Time
	CreatedAt  time.Time
	SettledAt  *time.Time
}

// requestSubject is the content of requestRow.Sealed.
type requestSubject struct{ Pseudonym, Node []byte }

func requestContext(id string) string { return "subject request " + id }

// Begin makes a request that hosts work on in the background, and records in the audit log that data is disclosed. A
// request of the same kind for the same subject that is still running is returned instead. An erasure erases the
// account's overrides of the value at once. Errors are those of Export.
func (s *Store) Begin(ctx context.Context, c check.Caller, kind privacy.Kind, selector privacy.Selector) (
	begun *privacy.Request, err error) {
	defer concluding("beginning a privacy request", &err)
	r, err := s.findRequester(ctx, s.db, c)
	var p subject
	if err == nil {
		p, err = s.findSubject(ctx, s.db, r, selector)
	}
	switch {
	case err != nil:
		return nil, err
	case p.pseudonym == nil:
		return nil, privacy.ErrUnknownSubject
	case kind == privacy.KindErasure && p.node == nil:
		return nil, errNodeUnknown
	case kind == privacy.KindErasure:
		_, err = s.eraseOverrides(ctx, r, p)
	default:
		err = s.recordExport(ctx, c, p.pseudonym)
	}
	if err != nil {
		return nil, err
	}
	total, err := s.db.NewSelect().TableExpr("? AS r", r.ofSubject(p.pseudonym)).
		Where("account_id = ? AND kind = ?", r.AccountID, audit.Check).Count(ctx)
	if err != nil {
		return nil, err
	}
	name, err := json.Marshal(requestSubject{p.pseudonym, p.node})
	if err != nil {
		return nil, err
	}
	id := "req_" + ulid.Make().String()
	id, err = once[string](ctx, s, statement("begin_request"), named{"chain": r.Chain, "id": id, "account": r.AccountID,
		"key": r.KeyID, "kind": kind, "subject": s.tombstone(r, "subject", string(p.pseudonym)),
		"sealed": s.keys.Seal(name, requestContext(id)), "total": total, "now": s.now()})
	if err != nil {
		return nil, err
	}
	return s.Request(ctx, c, id)
}

// Request returns a request of the caller's account. It fails with check.ErrUnauthorized or privacy.ErrUnknownRequest.
func (s *Store) Request(ctx context.Context, c check.Caller, id string) (*privacy.Request, error) {
	found, err := s.requests(ctx, c, id)
	if err == nil && len(found) == 0 {
		err = privacy.ErrUnknownRequest
	}
	if err != nil {
		return nil, withOutage(fmt.Errorf("reading a privacy request: %w", err))
	}
	return found[0], nil
}

// Requests returns the last requests of the caller's account, newest first, up to 20. It fails with
// check.ErrUnauthorized.
func (s *Store) Requests(ctx context.Context, c check.Caller) ([]*privacy.Request, error) {
	found, err := s.requests(ctx, c, "")
	return found, withOutage(wrap(err, "reading privacy requests"))
}

// requests returns the caller's requests with an id, or all if it is empty.
func (s *Store) requests(ctx context.Context, c check.Caller, id string) ([]*privacy.Request, error) {
	r, err := s.findRequester(ctx, s.db, c)
	if err != nil {
		return nil, err
	}
	var rows []requestRow
	err = query(s.db, "requests", named{"chain": r.Chain, "account": r.AccountID, "id": id}).Scan(ctx, &rows)
	return column(rows, func(row requestRow) *privacy.Request {
		return privacy.NewRequest(privacy.Request{ID: row.ID, Kind: row.Kind, State: row.State, Total: row.Total,
			Done: row.Done, CreatedAt: privacy.Time{Time: row.CreatedAt}, SettledAt: timeOf(row.SettledAt)})
	}), err
}

// Download returns a part of a finished export, as JSON of a privacy.Export: the first one, or that after a check. It
// fails with check.ErrUnauthorized, privacy.ErrUnknownRequest or privacy.ErrNoExport.
func (s *Store) Download(ctx context.Context, c check.Caller, id, after string) (part json.RawMessage, err error) {
	r, err := s.findRequester(ctx, s.db, c)
	if err == nil {
		_, err = s.Request(ctx, c, id)
	}
	if err == nil {
		part, err = s.openPart(ctx, r, id, after)
	}
	return part, withOutage(wrap(err, "downloading an export"))
}

func (s *Store) openPart(ctx context.Context, r requester, id, after string) (json.RawMessage, error) {
	var sealed []byte
	err := query(s.db, "export_part", named{"chain": r.Chain, "id": id, "account": r.AccountID,
		"after": s.partName(r, after), "oldest": s.now().Add(-privacy.KeepExport)}).Scan(ctx, &sealed)
	if err != nil {
		return nil, orElse(err, privacy.ErrNoExport)
	}
	return s.keys.Open(sealed, partContext(id, after))
}

// partName returns the name of the part of an export that follows a check.
func (s *Store) partName(r requester, after string) []byte {
	if after == "" {
		return []byte{}
	}
	return s.tombstone(r, "part", after)
}

func partContext(id, after string) string { return "export " + id + " " + after }
