package store

import (
	"context"

	"github.com/uptrace/bun"

	"assay/host/facts/registration"
)

// Registration implements registration.Store.
func (s *Store) Registration(ctx context.Context, domain string) (r registration.Record, ok bool, err error) {
	var created, expires, changed bun.NullTime
	err = s.db.NewRaw(`SELECT outcome, created, expires, changed, registrar, status, fetched_at, next_at, failures
		FROM registrations WHERE domain = ?`, s.registrationKey(domain)).
		Scan(ctx, &r.Outcome, &created, &expires, &changed, &r.Registrar, &r.Status, &r.Fetched, &r.NextFetch,
			&r.Failures)
	if err != nil {
		return registration.Record{}, false, wrap(orElse(err, nil), "reading a registration")
	}
	r.Created, r.Expires, r.Changed = created.UTC(), expires.UTC(), changed.UTC()
	r.Fetched, r.NextFetch = r.Fetched.UTC(), r.NextFetch.UTC()
	return r, true, nil
}

// SaveRegistration implements registration.Store.
func (s *Store) SaveRegistration(ctx context.Context, domain string, r registration.Record) error {
	_, err := query(s.db, "save_registration", named{
		"domain": s.registrationKey(domain), "outcome": string(r.Outcome),
		"created": bun.NullTime{Time: r.Created}, "expires": bun.NullTime{Time: r.Expires},
		"changed": bun.NullTime{Time: r.Changed}, "registrar": r.Registrar, "status": r.Status,
		"fetched_at": r.Fetched.UTC(), "next_at": r.NextFetch.UTC(), "failures": r.Failures,
	}).Exec(ctx)
	return wrap(err, "storing a registration")
}

// registrationKey returns the keyed hash under which a domain's registration is stored.
func (s *Store) registrationKey(domain string) []byte {
	return keyedHash(s.keys.Graph, "registration\x00"+domain)
}
