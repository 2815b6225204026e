package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"assay/host/facts/feed"
)

// Errors of subscriptions.
var (
	ErrNoSubscription = errors.New("there is no subscription of that name")
	ErrNothingHeld    = errors.New("no version of that list is held back")
)

// feedSubscriptionRow is a row of feed_subscriptions.
type feedSubscriptionRow struct {
	feed.Subscription
	SealedURL    []byte
	ETag         string `bun:"etag"`
	LastModified string
}

// urlContext binds a sealed URL to its subscription.
func urlContext(name string) string { return "subscription " + name }

// Subscribe creates or replaces a subscription, which is due at once.
func (s *Store) Subscribe(ctx context.Context, sub feed.Subscription) error {
	args := named{"name": sub.Name, "url": s.keys.Seal([]byte(sub.URL), urlContext(sub.Name)), "source": sub.Source,
		"kind": sub.Kind, "category": sub.Category, "format": sub.Format, "column": sub.Column, "country": sub.Country,
		"licence": sub.Licence, "every": int64(sub.Every.Seconds()), "fresh": int64(sub.FreshFor.Seconds()),
		"expires": int64(sub.ExpiresAfter.Seconds()), "now": s.now().UTC()}
	_, err := query(s.db, "subscribe", args).Exec(ctx)
	return wrap(err, "subscribing to list")
}

// Unsubscribe ends a subscription. Its list stays until it expires or is withdrawn.
func (s *Store) Unsubscribe(ctx context.Context, name string) error {
	return s.changeSubscription(ctx, "unsubscribing from list", ErrNoSubscription,
		"DELETE FROM feed_subscriptions WHERE name = ?name", named{"name": name})
}

// AcceptSubscribed allows the size of the version that is held back, and makes the subscription due.
func (s *Store) AcceptSubscribed(ctx context.Context, name string) error {
	return s.changeSubscription(ctx, "accepting version", ErrNothingHeld, `UPDATE feed_subscriptions
		SET accepted_entries = held_entries, next_fetch_at = ?now WHERE name = ?name AND held_entries IS NOT NULL`,
		named{"name": name, "now": s.now().UTC()})
}

// changeSubscription runs a statement that must affect one row. It fails with otherwise if it affects none.
func (s *Store) changeSubscription(ctx context.Context, what string, otherwise error, query string, args named) error {
	result, err := s.db.NewRaw(query, args).Exec(ctx)
	return wrap(oneRow(result, err, otherwise), "%s", what)
}

// Subscriptions returns all subscriptions by name, without their URLs.
func (s *Store) Subscriptions(ctx context.Context) ([]feed.Subscription, error) {
	all := []feed.Subscription{}
	err := query(s.db, "subscriptions").Scan(ctx, &all)
	return all, wrap(err, "reading subscriptions")
}

// ClaimSubscription claims the named subscription, or the next due one if name is empty. It returns nil if there is
// none, or another process has claimed it.
func (s *Store) ClaimSubscription(ctx context.Context, name string, lease time.Duration) (*feed.Claim, error) {
	if !s.holdsKeys() {
		return nil, nil
	}
	var r feedSubscriptionRow
	until := s.now().UTC().Add(lease).Truncate(time.Microsecond) // as Postgres stores it
	args := named{"name": name, "now": s.now().UTC(), "until": until}
	err := query(s.db, "claim_subscription", args).Scan(ctx, &r)
	if err != nil {
		return nil, wrap(orElse(err, nil), "claiming subscription")
	}
	url, err := s.keys.Open(r.SealedURL, urlContext(r.Name))
	if err != nil {
		return nil, fmt.Errorf("opening the URL of list %s: %w", r.Name, err)
	}
	r.URL = string(url)
	return &feed.Claim{Subscription: r.Subscription, Until: until,
		Known: feed.Validators{ETag: r.ETag, LastModified: r.LastModified}}, nil
}

const (
	claimed = " WHERE name = ?name AND leased_until = ?until" // the condition that a claim still holds
	storing = "storing the outcome of a fetch"
)

// ImportSubscribed replaces the list by a new version and ends the claim. It fails with a *feed.HeldError if the size
// of the version is unusual, and with feed.ErrClaimLost if the claim has ended.
func (s *Store) ImportSubscribed(
	ctx context.Context, c *feed.Claim, format feed.Format, version feed.Validators, next func() ([]feed.Entry, error),
) (feed.Change, error) {
	now := s.now().UTC()
	fresh, expires := now.Add(c.FreshFor), now.Add(c.ExpiresAfter)
	list := feed.List{Name: c.Name, Kind: c.Kind, Category: c.Category, Source: c.Source, Format: format,
		Licence: c.Licence, FreshUntil: &fresh, ExpiresAt: &expires}
	change, err := s.importFeed(ctx, list, next, func(ctx context.Context, tx pgx.Tx, entries int) error {
		var before, accepted int
		// An imported list of the same name may have another source, so its size is no reference.
		err := tx.QueryRow(ctx, `SELECT coalesce(f.entries, 0), coalesce(s.accepted_entries, 0)
			FROM feed_subscriptions AS s LEFT JOIN feeds AS f USING (name, source, kind)
			WHERE s.name = $1 AND s.leased_until = $2 FOR UPDATE OF s`, c.Name, c.Until).Scan(&before, &accepted)
		if errors.Is(err, pgx.ErrNoRows) {
			return feed.ErrClaimLost
		}
		if err != nil {
			return err
		}
		if err := feed.CheckSize(entries, before, accepted); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `UPDATE feed_subscriptions SET leased_until = NULL, next_fetch_at = $2, etag = $3,
			last_modified = $4, confirmed_at = $5, failing_since = NULL, failures = 0, error = '', held_entries = NULL,
			accepted_entries = NULL WHERE name = $1`, c.Name, now.Add(c.Every), version.ETag, version.LastModified, now)
		return err
	})
	return change, wrap(err, "importing list")
}

// ConfirmSubscribed records that the publisher's version has not changed, and ends the claim.
func (s *Store) ConfirmSubscribed(ctx context.Context, c *feed.Claim) error {
	now := s.now().UTC()
	return wrap(s.require(ctx, feed.ErrClaimLost, "SELECT confirm_list(?name, ?until, ?now, ?next, ?fresh, ?expires)",
		named{"name": c.Name, "until": c.Until, "now": now, "next": now.Add(c.Every), "fresh": now.Add(c.FreshFor),
			"expires": now.Add(c.ExpiresAfter)}), storing)
}

// FailSubscribed records why no new version was imported, and ends the claim. held is the size of a version that is
// held back, or 0.
func (s *Store) FailSubscribed(ctx context.Context, c *feed.Claim, reason string, held int, retry time.Duration) error {
	now := s.now().UTC()
	return s.changeSubscription(ctx, storing, feed.ErrClaimLost, `UPDATE feed_subscriptions
		SET leased_until = NULL, next_fetch_at = ?next,
		error = ?error, held_entries = nullif(?held, 0), failures = failures + 1,
		failing_since = coalesce(failing_since, ?now)`+claimed,
		named{"name": c.Name, "until": c.Until, "now": now, "next": now.Add(retry), "error": reason, "held": held})
}

// ReleaseSubscription ends the claim. The subscription stays due.
func (s *Store) ReleaseSubscription(ctx context.Context, c *feed.Claim) error {
	return s.changeSubscription(ctx, storing, feed.ErrClaimLost,
		"UPDATE feed_subscriptions SET leased_until = NULL"+claimed,
		named{"name": c.Name, "until": c.Until})
}

var _ feed.Subscriptions = (*Store)(nil)
