package store

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"
)

// Registration is what is kept of a registry's answer about a domain.
type Registration struct {
	Outcome   string    // registered, absent, unserved or failed
	Created   time.Time // zero when the registry does not tell
	Expires   time.Time // likewise
	Registrar string
	Status    string
	Fetched   time.Time
	Next      time.Time // when to ask again
	Failures  int
}

// registrationsKept is for how long an answer is kept that nobody refreshed: domains that are checked are, every week.
const registrationsKept = 60 * 24 * time.Hour

// Registration returns what was kept last of a domain; ok is false when nothing was.
func (s *Store) Registration(ctx context.Context, domain string) (r Registration, ok bool, err error) {
	var created, expires bun.NullTime
	err = s.db.NewRaw(`SELECT outcome, created, expires, registrar, status, fetched_at, next_at, failures
		FROM registrations WHERE domain = ?`, s.registrationName(domain)).
		Scan(ctx, &r.Outcome, &created, &expires, &r.Registrar, &r.Status, &r.Fetched, &r.Next, &r.Failures)
	if errors.Is(err, sql.ErrNoRows) {
		return Registration{}, false, nil
	}
	if err != nil {
		return Registration{}, false, fmt.Errorf("reading a registration: %w", err)
	}
	r.Created, r.Expires, r.Fetched, r.Next = created.UTC(), expires.UTC(), r.Fetched.UTC(), r.Next.UTC()
	return r, true, nil
}

// KeepRegistration keeps r in place of what was kept of the domain before, unless that is newer.
func (s *Store) KeepRegistration(ctx context.Context, domain string, r Registration) error {
	_, err := s.db.NewRaw(`INSERT INTO registrations AS k (domain, outcome, created, expires, registrar, status, fetched_at, next_at, failures)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (domain) DO UPDATE SET outcome = excluded.outcome, created = excluded.created, expires = excluded.expires,
			registrar = excluded.registrar, status = excluded.status, fetched_at = excluded.fetched_at, next_at = excluded.next_at,
			failures = excluded.failures
		WHERE k.fetched_at <= excluded.fetched_at`,
		s.registrationName(domain), r.Outcome, bun.NullTime{Time: r.Created}, bun.NullTime{Time: r.Expires},
		r.Registrar, r.Status,
		r.Fetched.UTC(), r.Next.UTC(), r.Failures).Exec(ctx)
	if err != nil {
		return fmt.Errorf("keeping a registration: %w", err)
	}
	return nil
}

// PruneRegistrations forgets answers that nobody has refreshed for long.
func (s *Store) PruneRegistrations(ctx context.Context) error {
	if _, err := s.db.NewRaw("DELETE FROM registrations WHERE fetched_at < ?",
		s.now().UTC().Add(-registrationsKept)).Exec(ctx); err != nil {
		return fmt.Errorf("forgetting old registrations: %w", err)
	}
	return nil
}

// registrationName is the keyed hash under which a domain's registration is kept.
func (s *Store) registrationName(domain string) []byte {
	mac := hmac.New(sha256.New, s.keys.Graph)
	mac.Write([]byte("registration\x00" + domain))
	return mac.Sum(nil)
}
