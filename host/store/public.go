package store

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"net/netip"
	"time"
)

// The limit of the no-key endpoint (spec section 4.2), counted over any hour, not by the clock's.
const (
	publicUses   = 10
	publicWindow = time.Hour
)

// TakePublic counts a use of the no-key endpoint by a client, exact across hosts. When the client has used it up, ok is
// false and resetAt says when the oldest use of the last hour no longer counts.
func (s *Store) TakePublic(ctx context.Context, client netip.Prefix) (resetAt time.Time, ok bool, err error) {
	return s.Take(ctx, "", client, publicUses, publicWindow)
}

// Take counts a client's doing something that it may do so many times within a window of an hour at most, exact across
// hosts. When that is used up, nothing is counted, ok is false, and resetAt says when it may again.
func (s *Store) Take(ctx context.Context, what string, client netip.Prefix, most int,
	window time.Duration) (resetAt time.Time, ok bool, err error) {
	now := s.now().UTC()
	name, since := s.clientName(what, client), now.Add(-window)
	// The row lock orders the uses of one client; the condition sees what the one before left.
	var uses int
	err = s.db.NewRaw(`INSERT INTO public_uses AS p (client, uses, last_used) VALUES (?0, ARRAY[?1::timestamptz], ?1)
		ON CONFLICT (client) DO UPDATE SET last_used = ?1,
			uses = array_append(ARRAY(SELECT u FROM unnest(p.uses) AS u WHERE u > ?2), ?1::timestamptz)
		WHERE (SELECT count(*) FROM unnest(p.uses) AS u WHERE u > ?2) < ?3
		RETURNING cardinality(uses)`, name, now, since, most).Scan(ctx, &uses)
	if err == nil {
		return time.Time{}, true, nil
	}
	if !errors.Is(err, sql.ErrNoRows) {
		return time.Time{}, false, fmt.Errorf("counting what a client does: %w", err)
	}
	var oldest time.Time
	err = s.db.NewRaw("SELECT min(u) FROM public_uses, unnest(uses) AS u WHERE client = ? AND u > ?", name,
		since).Scan(ctx, &oldest)
	if err != nil {
		return time.Time{}, false, fmt.Errorf("counting what a client does: %w", err)
	}
	return oldest.Add(window).UTC(), false, nil
}

// PrunePublic forgets clients that have done nothing that is counted within the last hour.
func (s *Store) PrunePublic(ctx context.Context) error {
	if _, err := s.db.NewRaw("DELETE FROM public_uses WHERE last_used <= ?",
		s.now().UTC().Add(-publicWindow)).Exec(ctx); err != nil {
		return fmt.Errorf("forgetting clients without a key: %w", err)
	}
	return nil
}

// clientName is the keyed hash under which what a client does is counted, so that no address stands in the database.
func (s *Store) clientName(what string, client netip.Prefix) []byte {
	mac := hmac.New(sha256.New, s.keys.Client)
	mac.Write([]byte(what + client.Masked().String()))
	return mac.Sum(nil)
}
