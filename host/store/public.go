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
	now := s.now().UTC()
	name := s.clientName(client)
	// The row lock orders the uses of one client; the condition sees what the one before left.
	var uses int
	err = s.db.NewRaw(`INSERT INTO public_uses AS p (client, uses, last_used) VALUES (?0, ARRAY[?1::timestamptz], ?1)
		ON CONFLICT (client) DO UPDATE SET last_used = ?1,
			uses = array_append(ARRAY(SELECT u FROM unnest(p.uses) AS u WHERE u > ?2), ?1::timestamptz)
		WHERE (SELECT count(*) FROM unnest(p.uses) AS u WHERE u > ?2) < ?3
		RETURNING cardinality(uses)`, name, now, now.Add(-publicWindow), publicUses).Scan(ctx, &uses)
	if err == nil {
		return time.Time{}, true, nil
	}
	if !errors.Is(err, sql.ErrNoRows) {
		return time.Time{}, false, fmt.Errorf("counting a use without a key: %w", err)
	}
	var oldest time.Time
	err = s.db.NewRaw("SELECT min(u) FROM public_uses, unnest(uses) AS u WHERE client = ? AND u > ?", name, now.Add(-publicWindow)).Scan(ctx, &oldest)
	if err != nil {
		return time.Time{}, false, fmt.Errorf("counting a use without a key: %w", err)
	}
	return oldest.Add(publicWindow).UTC(), false, nil
}

// PrunePublic forgets clients that have not used the no-key endpoint within the last hour.
func (s *Store) PrunePublic(ctx context.Context) error {
	if _, err := s.db.NewRaw("DELETE FROM public_uses WHERE last_used <= ?", s.now().UTC().Add(-publicWindow)).Exec(ctx); err != nil {
		return fmt.Errorf("forgetting clients without a key: %w", err)
	}
	return nil
}

// clientName is the keyed hash under which a client is counted, so that no address stands in the database.
func (s *Store) clientName(client netip.Prefix) []byte {
	mac := hmac.New(sha256.New, s.keys.Client)
	mac.Write([]byte(client.Masked().String()))
	return mac.Sum(nil)
}
