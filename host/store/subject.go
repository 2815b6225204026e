package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/schema"

	"assay/host/access/apikey"
	"assay/host/audit"
	"assay/host/check"
	"assay/host/customer/privacy"
	"assay/host/entity"
	"assay/host/facts/reputation"
)

// requester is the account and the key of a privacy request.
type requester struct {
	AccountID string
	KeyID     string
	State     string
	ExpiresAt time.Time
	Salt      []byte
	Chain     int
}

// operatorKey is the key's id in records of the operator's actions. The ids of real keys begin with "key_".
const operatorKey = "operator"

// OperatorCallers returns the callers for whom the operator exports or erases a person's data: one for each account,
// also if it is suspended, and for the checks without a key.
func (s *Store) OperatorCallers(ctx context.Context) ([]check.Caller, error) {
	var accounts []string
	err := s.db.NewRaw("SELECT id FROM accounts ORDER BY id").Scan(ctx, &accounts)
	return column(accounts, func(id string) check.Caller { return check.Caller{Account: id, Key: operatorKey} }),
		wrap(err, "listing accounts")
}

// findRequester reads the caller's account and key. It fails with check.ErrUnauthorized if the key is no longer valid.
func (s *Store) findRequester(ctx context.Context, db bun.IDB, c check.Caller) (requester, error) {
	if c.Key == operatorKey {
		r, err := s.findHolder(ctx, db, check.Caller{Account: c.Account})
		r.KeyID = operatorKey
		return r, err
	}
	var r requester
	err := query(db, "requester", named{"key": c.Key, "account": c.Account}).Scan(ctx, &r)
	switch {
	case err != nil:
		err = orElse(err, check.ErrUnauthorized)
	case r.State == string(apikey.Suspended):
		err = check.ErrSuspended
	case r.State != string(apikey.Valid) || !r.ExpiresAt.IsZero() && !s.now().Before(r.ExpiresAt):
		err = check.ErrUnauthorized
	}
	return r, err
}

// SubjectOf returns the reference of an entity in the account's privacy requests. It fails with check.ErrUnauthorized.
func (s *Store) SubjectOf(ctx context.Context, c check.Caller, e entity.Entity) (string, error) {
	r, err := s.findRequester(ctx, s.db, c)
	return privacy.Reference(s.pseudonym(r, e)), withOutage(wrap(err, "naming subject"))
}

func (s *Store) pseudonym(r requester, e entity.Entity) []byte {
	return audit.Pseudonym(s.keys.Pseudonym, r.Salt, string(e.Type), e.Value)
}

// ofSubject selects the records of a data subject, to be used in FROM.
func (r requester) ofSubject(pseudonym []byte) schema.QueryWithArgs {
	return bun.SafeQuery(statement("of_subject"), named{"chain": r.Chain, "pseudonym": pseudonym})
}

// findRef reads the place and the pseudonym of one of the account's checks. It fails with sql.ErrNoRows.
func (s *Store) findRef(ctx context.Context, db bun.IDB, r requester, ref string) (row auditRow, err error) {
	for _, span := range recordedWithin(ref) {
		// OFFSET 0 as in of_subject.sql.
		err = db.NewSelect().TableExpr(`(SELECT * FROM audit_records
				WHERE chain = ? AND ref = ? AND recorded_at BETWEEN ? AND ? OFFSET 0) AS r`, r.Chain, ref, span[0],
			span[1]).
			Column("seq", "pseudonym").Where("account_id = ? AND kind = ?", r.AccountID, audit.Check).Scan(ctx, &row)
		if !errors.Is(err, sql.ErrNoRows) {
			break
		}
	}
	return row, err
}

// subject is the data subject of a privacy request.
type subject struct {
	pseudonym []byte // nil: the request names a check that was erased
	node      []byte // in the reputation graph; nil: unknown
	kind      string // the entity's type; "": unknown
	erasures  []privacy.Erasure

	overridden bool // the account has overrides of it
	waiting    bool // contributions of the account's chain are not in the graph yet
}

// reference returns the subject's reference, or nil if its pseudonym is unknown.
func (p subject) reference() *string {
	if p.pseudonym == nil {
		return nil
	}
	return new(privacy.Reference(p.pseudonym))
}

// findSubject resolves the selector of a request. It fails with privacy.ErrUnknownSubject if it names a check that the
// account never made.
func (s *Store) findSubject(ctx context.Context, db bun.IDB, r requester, selector privacy.Selector) (subject, error) {
	p, err := s.nameSubject(ctx, db, r, selector)
	if err == nil && p.pseudonym != nil {
		err = s.completeSubject(ctx, db, r, &p)
	}
	return p, err
}

// nameSubject finds the pseudonym of a subject, or that the selector names a check that was erased, and when.
func (s *Store) nameSubject(ctx context.Context, db bun.IDB, r requester, selector privacy.Selector) (p subject,
	err error) {
	p.erasures = []privacy.Erasure{} // not nil: encodes as []
	switch {
	case selector.Entity != nil:
		p.pseudonym, p.kind = s.pseudonym(r, *selector.Entity), string(selector.Entity.Type)
		p.node = s.node(reputation.Node{Kind: p.kind, Value: selector.Entity.Value})
	case selector.Subject != "":
		p.pseudonym, err = privacy.ParseReference(selector.Subject)
	default:
		var record auditRow
		record, err = s.findRef(ctx, db, r, selector.Ref)
		if p.pseudonym = record.Pseudonym; !errors.Is(err, sql.ErrNoRows) {
			break
		}
		err = query(db, "erasures_of_check", named{"chain": r.Chain, "tombstone": s.tombstone(r, "ref", selector.Ref)}).
			Scan(ctx, &p.erasures)
		if err == nil && len(p.erasures) == 0 {
			err = privacy.ErrUnknownSubject
		}
	}
	return p, err
}

// completeSubject reads a subject's node, erasures and overrides, and whether contributions are waiting.
func (s *Store) completeSubject(ctx context.Context, db bun.IDB, r requester, p *subject) error {
	if p.node == nil {
		if err := s.findNode(ctx, db, r, p); err != nil {
			return err
		}
	}
	var known struct {
		Erasures            json.RawMessage
		Overridden, Waiting bool
	}
	err := query(db, "subject", named{"chain": r.Chain, "account": r.AccountID, "pseudonym": p.pseudonym,
		"tombstone": s.tombstone(r, "subject", string(p.pseudonym))}).Scan(ctx, &known)
	p.overridden, p.waiting = known.Overridden, known.Waiting
	if err == nil {
		err = json.Unmarshal(known.Erasures, &p.erasures)
	}
	return err
}

// findNode sets the subject's type and node from its checks. It skips a node that cannot be opened, because it was
// altered.
func (s *Store) findNode(ctx context.Context, db bun.IDB, r requester, p *subject) error {
	const maxChecks = 16
	var rows []auditRow
	err := db.NewSelect().TableExpr("? AS r", r.ofSubject(p.pseudonym)).Column("ref", "type", "sealed_node").
		Where("account_id = ? AND kind = ?", r.AccountID, audit.Check).
		OrderExpr("sealed_node IS NULL, seq DESC").Limit(maxChecks).Scan(ctx, &rows)
	if err != nil {
		return err
	}
	for _, row := range rows {
		p.kind = row.Type
		if p.node, err = s.keys.OpenNode(row.SealedNode, nodeContext(row.Ref)); err == nil {
			return nil
		}
		p.node = nil
	}
	return nil
}

// tombstone returns the keyed hash under which the database remembers that a check or subject of an account was erased.
// It does not reveal the erased name, not even to someone with the pseudonyms of an older copy of the database.
func (s *Store) tombstone(r requester, kind, name string) []byte {
	return audit.Pseudonym(s.keys.Erased, []byte(r.AccountID), kind, name)
}
