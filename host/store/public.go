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

// maxSpent is how many clients that have reached a limit are remembered.
const maxSpent = 50_000

// The limit of the endpoint without a key (contract section 4.2), counted over a sliding hour.
const (
	publicUses   = 10
	publicWindow = time.Hour
)

// TakePublic counts a client's use of the endpoint without a key, exactly across hosts. If the client has reached the
// limit, ok is false and resetAt is when the oldest use in the window stops counting.
func (s *Store) TakePublic(ctx context.Context, client netip.Prefix) (resetAt time.Time, ok bool, err error) {
	return s.Take(ctx, "", client, publicUses, publicWindow)
}

// PublicSpent reports, without a query, whether this host knows that a client has no public check left, and until when.
func (s *Store) PublicSpent(client netip.Prefix) (until time.Time, spent bool) {
	until, spent = s.spent.Get(string(s.clientName("", client)))
	return until, spent && s.now().Before(until)
}

// Take counts a client's use of an action that is limited to limit uses in a sliding window, exactly across hosts. If
// the client has reached the limit, Take counts nothing, ok is false and resetAt is when the next use is possible.
// Until then, further uses cost no query.
func (s *Store) Take(ctx context.Context, action string, client netip.Prefix, limit int,
	window time.Duration) (resetAt time.Time, ok bool, err error) {
	uses, resetAt, err := s.TakeCounted(ctx, action, client, limit, window)
	return resetAt, uses > 0, err
}

// TakeCounted is like Take, and returns the number of uses in the window, this one included; 0 if the client has
// reached the limit.
func (s *Store) TakeCounted(ctx context.Context, action string, client netip.Prefix, limit int,
	window time.Duration) (uses int, resetAt time.Time, err error) {
	now := s.now().UTC()
	name, since := s.clientName(action, client), now.Add(-window)
	if until, ok := s.spent.Get(string(name)); ok && now.Before(until) {
		return 0, until, nil
	}
	args := named{"client": name, "now": now, "expires": now.Add(window), "since": since, "limit": limit}
	uses, err = only[int](ctx, query(s.db, "take_use", args))
	if err == nil {
		return uses, time.Time{}, nil
	}
	if !errors.Is(err, sql.ErrNoRows) {
		return 0, time.Time{}, withOutage(fmt.Errorf("counting a client's use: %w", err))
	}
	var oldest time.Time
	err = s.db.NewRaw("SELECT min(u) FROM public_uses, unnest(uses) AS u WHERE client = ? AND u > ?", name,
		since).Scan(ctx, &oldest)
	if err != nil {
		return 0, time.Time{}, withOutage(fmt.Errorf("counting a client's use: %w", err))
	}
	resetAt = oldest.Add(window).UTC()
	s.spent.Put(string(name), resetAt, 1)
	return 0, resetAt, nil
}

// GiveBack uncounts a client's latest use of the endpoint without a key.
func (s *Store) GiveBack(ctx context.Context, client netip.Prefix) error {
	name := s.clientName("", client)
	_, err := s.db.NewRaw("UPDATE public_uses SET uses = trim_array(uses, 1) WHERE client = ? AND uses <> '{}'", name).
		Exec(ctx)
	s.spent.Forget(string(name))
	return withOutage(wrap(err, "giving back a client's use"))
}

// clientName returns the keyed hash that identifies a client and an action, so that the database holds no addresses.
func (s *Store) clientName(action string, client netip.Prefix) []byte {
	return keyedHash(s.keys.Client, action+client.Masked().String())
}

// keyedHash returns the HMAC-SHA256 of a text.
func keyedHash(key []byte, text string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}
