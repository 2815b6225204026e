package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/uptrace/bun"

	"assay/host/audit"
	"assay/host/check"
	"assay/host/customer/override"
	"assay/host/customer/privacy"
)

// overrideColumns are the columns of an override.Entry.
const overrideColumns = `id, account_id AS account, action, kind, match, subject, masked, sealed_reason, author,
	created_at, expires_at, mac`

func selectOverrides(db bun.IDB) *bun.SelectQuery {
	return db.NewSelect().TableExpr("overrides").ColumnExpr(overrideColumns)
}

func reasonContext(id string) string { return "override " + id }

// OverrideKeys returns the secrets for overrides.
func (s *Store) OverrideKeys() override.Keys {
	return override.Keys{Targets: s.keys.Override, Rows: s.keys.OverrideRow}
}

// Now returns the time of the database's clock.
func (s *Store) Now() time.Time { return s.now() }

// listed decrypts a row for display.
func (s *Store) listed(r override.Entry) override.Listed {
	l := override.Listed{ID: r.ID, Account: r.Account, Action: r.Action, Kind: r.Kind, Target: r.Masked,
		Author: r.Author, CreatedAt: privacy.Time{Time: r.CreatedAt}, ExpiresAt: privacy.Time{Time: r.ExpiresAt}}
	reason, err := s.keys.Open(r.SealedReason, reasonContext(r.ID))
	switch {
	case err != nil || !s.OverrideKeys().Authentic(r):
		l.Ignored = "altered"
	case !r.ExpiresAt.After(s.now()):
		l.Ignored = "expired"
	}
	l.Reason = string(reason)
	return l
}

// AddOverride adds an override of the caller's account, in place of the one for the same value if there is one. It
// fails with an *entity.InvalidError, check.ErrUnauthorized or override.TooManyError.
func (s *Store) AddOverride(ctx context.Context, c check.Caller, w override.Wanted) (*override.Listed, error) {
	r, err := s.findRequester(ctx, s.db, c)
	if err != nil {
		return nil, withOutage(fmt.Errorf("adding override: %w", err))
	}
	w.Author = cmp.Or(w.Author, r.KeyID)
	return s.addOverride(ctx, r, w, override.MaxOfAccount)
}

// AddOverrideForAll adds an operator's override, which applies to all accounts. It fails with an *entity.InvalidError.
func (s *Store) AddOverrideForAll(ctx context.Context, w override.Wanted) (*override.Listed, error) {
	return s.addOverride(ctx, requester{}, w, 0) // the operator's are recorded in the first chain
}

func (s *Store) addOverride(ctx context.Context, r requester, w override.Wanted, limit int) (
	added *override.Listed, err error) {
	if err := w.Validate(s.now()); err != nil {
		return nil, err
	}
	err = again(func() error {
		added, err = s.tryAddOverride(ctx, r, w, limit)
		return err
	})
	return added, withOutage(wrap(orUnauthorized(err), "adding override"))
}

func (s *Store) tryAddOverride(ctx context.Context, r requester, w override.Wanted, limit int) (
	*override.Listed, error) {
	at := s.now().UTC().Truncate(time.Millisecond)
	keys := s.OverrideKeys()
	id := "ovr_" + ulid.Make().String()
	row := override.Entry{
		ID: id, Account: r.AccountID, Action: w.Action, Kind: w.Target.Kind,
		Match:        keys.Match(r.AccountID, w.Target),
		SealedReason: s.keys.Seal([]byte(w.Reason), reasonContext(id)), Author: w.Author,
		CreatedAt: at, ExpiresAt: w.ExpiresAt.UTC().Truncate(time.Millisecond),
	}
	if w.Edits == "" {
		row.Masked = w.Target.Masked()
	}
	if typ, value, ok := w.Target.Subject(); ok && r.AccountID != "" {
		row.Subject = audit.Pseudonym(s.keys.Pseudonym, r.Salt, string(typ), value)
	}
	var old override.Entry
	err := selectOverrides(s.db).Where("account_id = ?", r.AccountID).
		Where("CASE WHEN ? = '' THEN match = ? ELSE id = ? END", w.Edits, row.Match, w.Edits).Scan(ctx, &old)
	switch {
	case errors.Is(err, sql.ErrNoRows) && w.Edits != "":
		return nil, override.ErrUnknown
	case err != nil && !errors.Is(err, sql.ErrNoRows):
		return nil, err
	case w.Edits != "":
		row.Kind, row.Match, row.Masked, row.Subject = old.Kind, old.Match, old.Masked, old.Subject
	}
	row.MAC = keys.MAC(row)
	refusal, err := once[string](ctx, s,
		"SELECT override_add(?chain, ?key, ?now, ?row, ?added, ?replaces, ?removed, ?limit)", named{
			"chain": r.Chain, "key": r.KeyID, "now": s.now(), "limit": limit, "replaces": old.ID,
			"row": columns{"id": row.ID, "account_id": row.Account, "action": row.Action, "kind": row.Kind,
				"match": row.Match, "subject": row.Subject, "masked": row.Masked, "sealed_reason": row.SealedReason,
				"author": row.Author, "created_at": row.CreatedAt, "expires_at": row.ExpiresAt, "mac": row.MAC}.json(),
			"added":   entry(overrideRecord(r, row, at, string(row.Action)), at),
			"removed": entry(overrideRecord(r, old, at, audit.OverrideRemoved), at),
		})
	if err == nil && refusal != "" {
		err = override.TooManyError{}
	}
	if err != nil {
		return nil, err
	}
	added := s.listed(row)
	added.Replaced = old.ID
	return &added, nil
}

// overrideRecord returns the audit record of an override's addition or removal. It contains nothing about the value
// except the row's MAC, so an erasure keeps it.
func overrideRecord(r requester, row override.Entry, at time.Time, verdict string) audit.Record {
	ref := row.ID
	if verdict == audit.OverrideRemoved {
		ref += "-" + audit.OverrideRemoved
	}
	return audit.Record{Kind: audit.Override, At: at.Format(check.TimeFormat), Ref: ref, Account: r.AccountID,
		Key: r.KeyID, Verdict: verdict, Revision: row.ExpiresAt.UnixMilli(), Digest: row.MAC}
}

// RemoveOverride removes an override of the caller's account. It fails with override.ErrUnknown or
// check.ErrUnauthorized.
func (s *Store) RemoveOverride(ctx context.Context, c check.Caller, id string) error {
	r, err := s.findRequester(ctx, s.db, c)
	if err == nil {
		err = s.removeOverride(ctx, r, id)
	}
	return withOutage(wrap(err, "removing override"))
}

// RemoveAnyOverride removes an override of the operator or of any account for the operator. It fails with
// override.ErrUnknown.
func (s *Store) RemoveAnyOverride(ctx context.Context, id string) error {
	var r requester
	err := orElse(s.db.NewRaw(`SELECT o.account_id, coalesce(a.chain, 0) AS chain
		FROM overrides AS o LEFT JOIN accounts AS a ON a.id = o.account_id WHERE o.id = ?`, id).
		Scan(ctx, &r.AccountID, &r.Chain), override.ErrUnknown)
	if err == nil {
		err = s.removeOverride(ctx, r, id)
	}
	return wrap(err, "removing override")
}

func (s *Store) removeOverride(ctx context.Context, r requester, id string) error {
	var row override.Entry
	err := selectOverrides(s.db).Where("account_id = ? AND id = ?", r.AccountID, id).Scan(ctx, &row)
	if err != nil {
		return orElse(err, override.ErrUnknown)
	}
	removed, err := s.deleteOverride(ctx, r, row)
	if err == nil && !removed {
		err = override.ErrUnknown // another request was faster
	}
	return err
}

func (s *Store) deleteOverride(ctx context.Context, r requester, row override.Entry) (removed bool, err error) {
	at := s.now().UTC().Truncate(time.Millisecond)
	err = again(func() error {
		removed, err = once[bool](ctx, s,
			"SELECT override_remove(?chain, ?account, ?key, ?now, ?id, ?mac, ?removed)", named{
				"chain": r.Chain, "account": r.AccountID, "key": r.KeyID, "now": s.now(), "id": row.ID, "mac": row.MAC,
				"removed": entry(overrideRecord(r, row, at, audit.OverrideRemoved), at)})
		return orUnauthorized(err)
	})
	return removed, err
}

// Overrides lists the overrides of an account, newest first. The account "" is the operator's.
func (s *Store) Overrides(ctx context.Context, account string) ([]override.Listed, error) {
	return s.listOverrides(ctx, s.db, "account_id = ?", account)
}

// AllOverrides lists the overrides of all accounts and of the operator, newest first.
func (s *Store) AllOverrides(ctx context.Context) ([]override.Listed, error) {
	return s.listOverrides(ctx, s.db, "TRUE")
}

func (s *Store) listOverrides(ctx context.Context, db bun.IDB, where string, args ...any) ([]override.Listed, error) {
	var rows []override.Entry
	err := selectOverrides(db).Where(where, args...).OrderExpr("created_at DESC, id DESC").Scan(ctx, &rows)
	return column(rows, s.listed), withOutage(wrap(err, "listing overrides"))
}

const (
	overridesPage    = 5000            // rows that one statement reads: a busy machine also reads so many in time
	overridesTimeout = 3 * time.Second // of such a statement
)

// OverridesSince implements override.Source.
func (s *Store) OverridesSince(ctx context.Context, since int64) (override.Changes, error) {
	changes := override.Changes{Accounts: map[string][]override.Entry{}}
	if seen := s.unchanged(); seen != nil && since == seen.Override {
		changes.Last = since
		return changes, nil
	}
	// The last change that the caller knows is among them, unless the database was set back to an earlier state. The
	// numbers are read before the rows, so a change in between is read again next time.
	var changed []struct {
		AccountID string
		Change    int64
	}
	bounded, cancel := context.WithTimeout(ctx, overridesTimeout)
	defer cancel()
	err := s.db.NewRaw("SELECT account_id, change FROM override_changes WHERE change >= ? ORDER BY change", since).
		Scan(bounded, &changed)
	if err != nil {
		return changes, err
	}
	for _, c := range changed {
		if changes.Last = c.Change; c.Change > since {
			changes.Accounts[c.AccountID] = nil
		}
	}
	if since > 0 && len(changes.Accounts) == 0 {
		return changes, nil
	}
	for after := ""; ; {
		rows, err := s.readOverrides(ctx, since, after)
		if err != nil {
			return changes, err
		}
		for _, r := range rows {
			changes.Accounts[r.Account] = append(changes.Accounts[r.Account], r)
		}
		if len(rows) < overridesPage {
			return changes, nil
		}
		after = rows[len(rows)-1].ID
	}
}

// readOverrides reads a page of the rows for OverridesSince.
func (s *Store) readOverrides(ctx context.Context, since int64, after string) (rows []override.Entry, err error) {
	ctx, cancel := context.WithTimeout(ctx, overridesTimeout)
	defer cancel()
	args := named{"since": since, "after": after, "limit": overridesPage, "columns": bun.Safe(overrideColumns)}
	err = query(s.db, "overrides_since", args).Scan(ctx, &rows)
	return rows, err
}

// overridesOfSubject returns the overrides of an account whose value is the subject.
func (s *Store) overridesOfSubject(ctx context.Context, db bun.IDB, r requester, p subject) (rows []override.Entry,
	err error) {
	err = selectOverrides(db).Where("account_id = ? AND subject = ?", r.AccountID, p.pseudonym).Order("id").
		Scan(ctx, &rows)
	return rows, err
}

// eraseOverrides removes the overrides of an account whose value is the subject, and returns their number.
func (s *Store) eraseOverrides(ctx context.Context, r requester, p subject) (n int, err error) {
	rows, err := s.overridesOfSubject(ctx, s.db, r, p)
	for _, row := range rows {
		var removed bool
		if err == nil {
			removed, err = s.deleteOverride(ctx, r, row)
		}
		if removed {
			n++
		}
	}
	return n, err
}

// exportOverrides returns the overrides of an account whose value is the subject.
func (s *Store) exportOverrides(ctx context.Context, db bun.IDB, r requester, p subject) ([]privacy.Override, error) {
	rows, err := s.overridesOfSubject(ctx, db, r, p)
	return column(rows, func(row override.Entry) privacy.Override {
		l := s.listed(row)
		return privacy.Override{ID: l.ID, Action: string(l.Action), Kind: string(l.Kind), Reason: l.Reason,
			Author: l.Author, CreatedAt: l.CreatedAt, ExpiresAt: l.ExpiresAt}
	}), err
}

// StoredOverride is a row of the overrides, for a verifier.
type StoredOverride struct {
	ID        string
	Chain     int // of its account
	MAC       []byte
	Authentic bool // the MAC is that of the row
}

// Overrides returns the stored overrides that have not expired by a time.
func (l AuditLog) Overrides(ctx context.Context, keys override.Keys, now time.Time) (stored []StoredOverride,
	err error) {
	var rows []struct {
		override.Entry
		Chain int
	}
	err = l.db.NewRaw(`SELECT o.*, coalesce(a.chain, 0) AS chain
		FROM (SELECT ? FROM overrides WHERE expires_at > ?) AS o LEFT JOIN accounts AS a ON a.id = o.account
		ORDER BY o.id`, bun.Safe(overrideColumns), now).Scan(ctx, &rows)
	if err != nil {
		return nil, fmt.Errorf("reading overrides: %w", err)
	}
	for _, r := range rows {
		stored = append(stored, StoredOverride{ID: r.ID, Chain: r.Chain, MAC: r.MAC,
			Authentic: keys.Authentic(r.Entry)})
	}
	return stored, nil
}
