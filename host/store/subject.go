package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"assay/host/audit"
	"assay/host/check"
	"assay/host/entity"
	"assay/host/facts/reputation"
	"assay/host/privacy"
)

// requester is who makes a privacy request, as its transaction knows the account and the key.
type requester struct {
	AccountID string
	KeyID     string
	State     string
	ExpiresAt time.Time
	Salt      []byte
	Chain     int
}

// findRequester reads who findRequester. Error: check.ErrUnauthorized, once the key has ended.
func (s *Store) findRequester(ctx context.Context, db bun.IDB, c check.Caller) (requester, error) {
	var a requester
	err := db.NewRaw(`SELECT a.id AS account_id, k.id AS key_id, k.state, k.expires_at, a.salt, a.chain
		FROM api_keys AS k JOIN accounts AS a ON a.id = k.account_id WHERE k.id = ? AND a.id = ?`, c.Key, c.Account).Scan(ctx, &a)
	if errors.Is(err, sql.ErrNoRows) || err == nil && !(caller{State: a.State, ExpiresAt: a.ExpiresAt}).isValid(s.now()) {
		return a, check.ErrUnauthorized
	}
	return a, err
}

// SubjectOf names an entity as an account's privacy requests do. Error: check.ErrUnauthorized.
func (s *Store) SubjectOf(ctx context.Context, c check.Caller, e entity.Entity) (string, error) {
	a, err := s.findRequester(ctx, s.db, c)
	if err != nil {
		return "", fmt.Errorf("naming subject: %w", err)
	}
	return privacy.Reference(s.pseudonym(a, e)), nil
}

func (s *Store) pseudonym(a requester, e entity.Entity) []byte {
	return audit.Pseudonym(s.keys.Pseudonym, a.Salt, string(e.Type), e.Value)
}

// subject is whom a privacy request is about, as far as the database and the request tell.
type subject struct {
	pseudonym []byte // nil: a check of it was asked about that was erased
	node      []byte // in the reputation graph; nil: it cannot be found
	kind      string
	erasures  []privacy.Erasure
}

func (p subject) reference() *string {
	if p.pseudonym == nil {
		return nil
	}
	name := privacy.Reference(p.pseudonym)
	return &name
}

// findSubject finds whom a request is about. Error: privacy.ErrUnknown, when it names a check that the account never made.
func (s *Store) findSubject(ctx context.Context, db bun.IDB, a requester, whose privacy.Selector) (subject, error) {
	var p subject
	var err error
	switch {
	case whose.Entity != nil:
		p.pseudonym, p.kind = s.pseudonym(a, *whose.Entity), string(whose.Entity.Type)
		p.node = s.node(reputation.Node{Kind: p.kind, Value: whose.Entity.Value})
	case whose.Subject != "":
		if p.pseudonym, err = privacy.ParseReference(whose.Subject); err != nil {
			return p, err
		}
	default:
		err := db.NewRaw("SELECT pseudonym FROM audit_records WHERE ref = ? AND account_id = ? AND kind = ?", whose.Ref,
			a.AccountID, audit.Check).
			Scan(ctx, &p.pseudonym)
		if errors.Is(err, sql.ErrNoRows) {
			return p, s.erasuresOf(ctx, db, &p,
				"(e.chain, e.seq) IN (SELECT chain, erasure FROM erased_records WHERE ref = ?)",
				s.tombstone(a, "ref", whose.Ref))
		}
		if err != nil {
			return p, err
		}
	}
	if p.node == nil {
		if err := s.findNode(ctx, db, a, &p); err != nil {
			return p, err
		}
	}
	err = s.erasuresOf(ctx, db, &p, "e.subject = ?", s.tombstone(a, "subject", string(p.pseudonym)))
	if errors.Is(err, privacy.ErrUnknownSubject) { // by erasures alone
		err = nil
	}
	return p, err
}

// findNode opens the node that the subject's checks carry. One that cannot be opened was altered, or is from before
// nodes were kept; another check may have it.
func (s *Store) findNode(ctx context.Context, db bun.IDB, a requester, p *subject) error {
	const tries = 16
	var rows []auditRow
	err := db.NewSelect().Model(&rows).Column("ref", "type", "sealed_node").
		Where("pseudonym = ? AND account_id = ? AND kind = ?", p.pseudonym, a.AccountID, audit.Check).
		OrderExpr("sealed_node IS NULL, seq DESC").Limit(tries).Scan(ctx)
	if err != nil {
		return err
	}
	for _, r := range rows {
		p.kind = r.Type
		if p.node, err = s.keys.OpenNode(r.SealedNode, nodeContext(r.Ref)); err == nil {
			return nil
		}
		p.node = nil
	}
	return nil
}

// erasuresOf reads the erasures that a condition picks. Error: privacy.ErrUnknown, when there are none.
func (s *Store) erasuresOf(ctx context.Context, db bun.IDB, p *subject, where string, mark []byte) error {
	p.erasures = []privacy.Erasure{}
	err := db.NewRaw(`SELECT r.ref, r.at AS timestamp, e.checks FROM erasures AS e JOIN audit_records AS r ON r.chain = e.chain AND r.seq = e.seq
		WHERE `+where+" ORDER BY e.chain, e.seq", mark).Scan(ctx, &p.erasures)
	if err == nil && len(p.erasures) == 0 {
		err = privacy.ErrUnknownSubject
	}
	return err
}

// tombstone is the keyed hash under which it is remembered that something of an account was erased: what it was cannot be
// had from it, not even by who has the pseudonyms of an older copy of the database.
func (s *Store) tombstone(a requester, kind, name string) []byte {
	return audit.Pseudonym(s.keys.Erased, []byte(a.AccountID), kind, name)
}
