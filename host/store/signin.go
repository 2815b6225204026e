package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"

	"assay/host/access/signin"
	"assay/host/check"
)

// usePrecision is the precision of a session's stored last use, so that most pages write nothing.
const usePrecision = time.Minute

// maxSessions limits the list of an account's sessions.
const maxSessions = 100

const useCode = "UPDATE sign_in_codes SET used_at = ?now WHERE hash = ?used RETURNING account_id"

// SignInByCode begins a session of the account whose sign-in code is presented, as BeginSession does. It fails with
// signin.ErrMistyped or signin.ErrUnknown.
func (s *Store) SignInByCode(ctx context.Context, presented string, from signin.Origin) (token string, err error) {
	hash, ok := signin.ParseCode(presented)
	if !ok {
		return "", signin.ErrMistyped
	}
	return s.beginSession(ctx, useCode, "", hash[:], from)
}

// FirstCode issues the sign-in code of a new account, in place of one that nobody has used. If the account's code was
// used, it returns "".
func (s *Store) FirstCode(ctx context.Context, account string) (code string, err error) {
	return s.issueCode(ctx, account, false)
}

// ReplaceCode issues another sign-in code to an account. The previous one no longer signs in, and all links and other
// sessions end.
func (s *Store) ReplaceCode(ctx context.Context, account, session string) (code string, err error) {
	code, err = s.issueCode(ctx, account, true)
	if err == nil {
		_, err = s.db.NewRaw("DELETE FROM sign_in_links WHERE account_id = ?", account).Exec(ctx)
	}
	if err == nil { // last, when no former code or link can begin another
		err = s.EndOtherSessions(ctx, account, session)
	}
	return code, withOutage(wrap(err, "replacing sign-in code"))
}

// issueCode issues a sign-in code in place of one that nobody has used, or, with replace, in place of any code. A new
// account's code is unused until it signs in; one that replaces another goes to an owner who is signed in.
func (s *Store) issueCode(ctx context.Context, account string, replace bool) (string, error) {
	code, hash := signin.NewCode()
	result, err := query(s.db, "issue_code", named{"account": account, "hash": hash[:], "now": s.now(),
		"replace": replace}).Exec(ctx)
	if err = oneRow(result, err, signin.ErrUnknown); errors.Is(err, signin.ErrUnknown) {
		return "", nil // the account's code stays
	}
	return code, withOutage(wrap(err, "issuing sign-in code"))
}

// CodeIssuedAt returns when an account's sign-in code was issued, or the zero time if it has none.
func (s *Store) CodeIssuedAt(ctx context.Context, account string) (at time.Time, err error) {
	err = s.db.NewRaw("SELECT issued_at FROM sign_in_codes WHERE account_id = ?", account).Scan(ctx, &at)
	return at, withOutage(wrap(orElse(err, nil), "reading sign-in code"))
}

// NewLink returns the token of a link that signs in to an account once, within signin.LinkLife. It fails with
// billing.ErrNoAccount.
func (s *Store) NewLink(ctx context.Context, account string) (token string, err error) {
	if _, err = s.accountPlan(ctx, account); err == nil {
		token, err = s.addLink(ctx, account, nil, false)
	}
	return token, withOutage(wrap(err, "creating sign-in link"))
}

// addLink creates a link that signs in, that confirms an address, or that makes it the recovery address.
func (s *Store) addLink(ctx context.Context, account string, sealedAddress []byte, recovers bool) (
	token string, err error) {
	token, hash := signin.NewToken()
	_, err = s.db.NewRaw(`INSERT INTO sign_in_links (hash, account_id, sealed_address, recovers, expires_at)
		VALUES (?, ?, ?, ?, ?)`, hash[:], account, sealedAddress, recovers, s.now().Add(signin.LinkLife)).Exec(ctx)
	return token, withOutage(wrap(err, "creating link"))
}

// UseLink uses up a link and begins a session of its account, as BeginSession does. It fails with signin.ErrUnknown.
func (s *Store) UseLink(ctx context.Context, link string, from signin.Origin) (token string, err error) {
	hash, ok := signin.ParseToken(link)
	if !ok {
		return "", signin.ErrUnknown
	}
	return s.beginSession(ctx, `DELETE FROM sign_in_links
		WHERE hash = ?used AND sealed_address IS NULL AND expires_at > ?now RETURNING account_id`, "", hash[:], from)
}

// BeginSession begins a session and returns its token, the only credential that the session needs.
func (s *Store) BeginSession(ctx context.Context, account string, from signin.Origin) (token string, err error) {
	return s.beginSession(ctx, "SELECT ?account AS account_id", account, nil, from)
}

// beginSession runs the statement by, which returns an account, and begins a session of that account. Both are one
// statement, so that no session begins after all were ended. used is the hash of the code or link that by uses up. It
// fails with signin.ErrUnknown if by returns no row.
func (s *Store) beginSession(ctx context.Context, by, account string, used []byte, from signin.Origin) (
	token string, err error) {
	token, hash := signin.NewToken()
	_, err = once[string](ctx, s, "WITH used AS ("+by+") "+statement("begin_session"), named{"account": account,
		"used": used, "id": "ses_" + ulid.Make().String(), "hash": hash[:], "now": s.now(),
		"expires": s.now().Add(signin.SessionLife), "browser": from.Browser, "network": from.Network})
	return token, withOutage(wrap(orElse(err, signin.ErrUnknown), "beginning session"))
}

// ProveSession records that the sign-in code of an account was presented in one of its sessions. It fails with
// signin.ErrMistyped or signin.ErrUnknown.
func (s *Store) ProveSession(ctx context.Context, account, id, presented string) error {
	hash, ok := signin.ParseCode(presented)
	if !ok {
		return signin.ErrMistyped
	}
	owner, err := once[string](ctx, s, useCode, named{"used": hash[:], "now": s.now()})
	if err = withOutage(orElse(err, signin.ErrUnknown)); err == nil && owner != account {
		err = signin.ErrUnknown
	}
	if err == nil {
		_, err = s.db.NewRaw("UPDATE sessions SET proved_at = ? WHERE account_id = ? AND id = ?", s.now(), account, id).
			Exec(ctx)
		err = withOutage(wrap(err, "proving a session"))
	}
	return err
}

// Session returns the session of a token, and the caller that the dashboard acts as: its key is "" if no key of the
// account works. It records when and from which network the session is used. It fails with signin.ErrNoSession, cached
// for a second: made-up tokens cost few queries. A new session's token is random, so this never hides one.
func (s *Store) Session(ctx context.Context, token, network string) (signin.Session, check.Caller, error) {
	hash, ok := signin.ParseToken(token)
	now := s.now()
	if until, _ := s.strangers.Get(hash); !ok || now.Before(until) {
		return signin.Session{}, check.Caller{}, signin.ErrNoSession
	}
	var row struct {
		signin.Session
		Plan, KeyID string
		Quota       int
	}
	err := query(s.db, "session", named{"hash": hash[:], "now": now}).Scan(ctx, &row)
	if err = withOutage(wrap(orElse(err, signin.ErrNoSession), "looking up session")); err != nil {
		if errors.Is(err, signin.ErrNoSession) {
			s.strangers.Put(hash, now.Add(cacheInvalid), 0)
		}
		return signin.Session{}, check.Caller{}, err
	}
	plan, ok := check.PlanNamed(row.Plan)
	if !ok {
		return signin.Session{}, check.Caller{}, fmt.Errorf("looking up session: the plan %q is unknown", row.Plan)
	}
	plan.Quota = row.Quota
	if now.Sub(row.UsedAt) >= usePrecision {
		// Pages still work while the database is read-only.
		if _, err := s.db.NewRaw("UPDATE sessions SET used_at = ?, network = ? WHERE hash = ?", now, network,
			hash[:]).Exec(ctx); err != nil {
			s.log.Debug("a session's use is not stored", "error", err)
		}
	}
	return row.Session, check.Caller{Account: row.Account, Key: row.KeyID, Plan: plan}, nil
}

// Sessions lists an account's sessions, the most recently used first.
func (s *Store) Sessions(ctx context.Context, account string) ([]signin.Session, error) {
	sessions := []signin.Session{}
	err := s.db.NewRaw(`SELECT id, account_id AS account, began_at, used_at, proved_at, browser, network FROM sessions
		WHERE account_id = ? AND expires_at > ? ORDER BY used_at DESC, id DESC LIMIT ?`, account, s.now(), maxSessions).
		Scan(ctx, &sessions)
	return sessions, withOutage(wrap(err, "listing sessions"))
}

// EndSession ends a session of an account at once. It fails with signin.ErrNoSession.
func (s *Store) EndSession(ctx context.Context, account, id string) error {
	result, err := s.db.NewRaw("DELETE FROM sessions WHERE account_id = ? AND id = ?", account, id).Exec(ctx)
	return withOutage(wrap(oneRow(result, err, signin.ErrNoSession), "ending session"))
}

// EndOtherSessions ends all sessions of an account except one.
func (s *Store) EndOtherSessions(ctx context.Context, account, except string) error {
	_, err := s.db.NewRaw("DELETE FROM sessions WHERE account_id = ? AND id <> ?", account, except).Exec(ctx)
	return withOutage(wrap(err, "ending sessions"))
}

// CloseAccountSignIn ends all sessions and links of an account, withdraws its sign-in code and deletes its owner's
// address. Nobody can sign in until the operator hands out a link. It fails with billing.ErrNoAccount.
func (s *Store) CloseAccountSignIn(ctx context.Context, account string) error {
	_, err := s.accountPlan(ctx, account)
	if err == nil {
		_, err = s.issueCode(ctx, account, true) // shown to nobody
	}
	for _, statement := range []string{"DELETE FROM owner_addresses WHERE account_id = ?",
		"DELETE FROM sign_in_links WHERE account_id = ?", "DELETE FROM sessions WHERE account_id = ?"} {
		if err == nil {
			_, err = s.db.NewRaw(statement, account).Exec(ctx)
		}
	}
	return wrap(err, "closing an account's sign-in")
}
