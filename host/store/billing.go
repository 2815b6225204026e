package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"assay/host/customer/billing"
)

// The functions of the database take their locks in this order, which rules out deadlocks: the checkout, the
// subscription, the event's id, the account's webhook endpoint, the head of the account's chain, the account's keys.

// eventRetention is how long the ids of applied events are kept. Stripe resends an event for three days.
const eventRetention = 30 * 24 * time.Hour

var _ billing.Accounts = (*Store)(nil)

// subscriptionRow is a row of billing_subscriptions.
type subscriptionRow struct {
	bun.BaseModel `bun:"table:billing_subscriptions,alias:s"`

	ID        string `bun:",pk"`
	AccountID string `bun:",nullzero"`
	Provider  string
	Customer  string
	Plan      string
	Status    billing.Status
	EndsAt    time.Time `bun:",nullzero"`
	ChangedAt time.Time
	Version   *string `bun:",scanonly"` // the row as text; nil: there is none
}

// servingStatuses are the statuses in which keys work. They match billing.Status.Serves.
var servingStatuses = []billing.Status{billing.Active, billing.PastDue}

// Apply implements billing.Accounts.
func (s *Store) Apply(ctx context.Context, c billing.Change) error {
	if err := again(func() error { return s.apply(ctx, c) }); err != nil {
		return fmt.Errorf("applying billing event %s: %w", c.Event, err)
	}
	return nil
}

func (s *Store) apply(ctx context.Context, c billing.Change) error {
	checkout, err := s.findCheckout(ctx, "id = ?", c.Checkout)
	if err != nil && !errors.Is(err, billing.ErrNoCheckout) {
		return err
	}
	row := subscriptionRow{ID: c.Subscription, Provider: c.Provider, Status: billing.Incomplete}
	err = s.db.NewSelect().Model(&row).ExcludeColumn("changed_at").ColumnExpr("s::text AS version").
		ColumnExpr("greatest(changed_at, '0001-01-01') AS changed_at").WherePK().Scan(ctx)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	// A subscription's events name its checkout permanently, but the checkout is deleted after billing.ClaimLife.
	if checkout == nil && c.Checkout != "" && row.AccountID == "" {
		// The event belongs to another installation that shares the provider account, or its checkout was deleted.
		result, err := s.db.NewRaw("INSERT INTO billing_events (id) VALUES (?) ON CONFLICT DO NOTHING", c.Event).
			Exec(ctx)
		if err := oneRow(result, err, errApplied); err != nil && !errors.Is(err, errApplied) {
			return err
		} else if err == nil {
			s.log.Warn("payment event of an unknown checkout", "event", c.Event, "checkout", c.Checkout, "subscription",
				c.Subscription)
		}
		return nil
	}
	if row.Status != billing.Canceled && supersedes(c, row) {
		row.ChangedAt, row.EndsAt = c.At, c.EndsAt
		if c.Status != "" {
			row.Status = c.Status
		}
		if c.Plan != "" {
			row.Plan = c.Plan
		}
	}
	if c.Customer != "" {
		row.Customer = c.Customer
	}
	args := named{"event": c.Event, "checkout": c.Checkout, "before": nil, "paid": false, "account": nil,
		"subscription_before": row.Version}
	if checkout != nil {
		args["before"] = checkout.Version
		if row.Plan == "" {
			row.Plan = checkout.Plan
		}
		if checkout.State == "open" && (row.Status.Serves() || c.Status.Serves()) {
			account, err := s.pay(checkout)
			if err != nil {
				return err
			}
			args["paid"], args["account"] = true, account
		}
		if checkout.State != "open" { // an unpaid upgrade must not affect the account
			row.AccountID = checkout.AccountID
		}
	}
	args["subscription"] = columns{"id": row.ID, "account_id": orNull(row.AccountID), "provider": row.Provider,
		"customer": row.Customer, "plan": row.Plan, "status": row.Status, "ends_at": orNull(row.EndsAt),
		"changed_at": row.ChangedAt}.json()
	_, err = once[string](ctx, s,
		`SELECT apply_billing(?event, ?checkout, ?before, ?subscription_before, ?subscription, ?paid,
		?account, ?plans, ?serving)`, withTerms(args))
	if err == nil && row.AccountID != "" {
		err = s.discardOrphans(ctx, row.AccountID)
	}
	return withoutPlan(err)
}

var errApplied = errors.New("the event was applied before")

// orNull returns nil for a zero value.
func orNull[T comparable](v T) any {
	if v == *new(T) {
		return nil
	}
	return v
}

// discardOrphans discards the events of an account that lost its endpoint with its plan. This is not urgent, so it is
// not done under the lock of the account's chain. If it fails, PruneWebhooks does it later.
func (s *Store) discardOrphans(ctx context.Context, accountID string) error {
	_, err := discardEvents(s.db).Where("account_id = ?", accountID).
		Where("NOT EXISTS (SELECT FROM webhook_endpoints AS w WHERE w.account_id = ?)", accountID).Exec(ctx)
	return err
}

// withoutPlan returns billing.ErrNoPlan if a function of the database was asked for a plan that does not exist, or err.
func withoutPlan(err error) error {
	if sqlState(err) == noDataFound {
		return fmt.Errorf("%w: %w", billing.ErrNoPlan, err)
	}
	return err
}

// statusOrder decides which of two changes with the same timestamp counts. "" is a change without a status.
var statusOrder = map[billing.Status]int{
	"": 5, billing.Incomplete: 0, billing.Active: 1, billing.PastDue: 2, billing.Unpaid: 3, billing.Paused: 4,
}

// supersedes reports whether a change is newer than the stored subscription, because events can arrive in any order. A
// provider's timestamps are in seconds, and a subscription can be created and paid in the same second. A cancellation
// always counts, and a subscription that was paid never becomes incomplete again.
func supersedes(c billing.Change, stored subscriptionRow) bool {
	switch {
	case c.Status == billing.Canceled:
		return true
	case c.Status == billing.Incomplete && stored.Status != billing.Incomplete:
		return false
	case c.At.Equal(stored.ChangedAt):
		return statusOrder[c.Status] >= statusOrder[stored.Status]
	}
	return c.At.After(stored.ChangedAt)
}

// Subscription implements billing.Accounts.
func (s *Store) Subscription(ctx context.Context, account string) (billing.Subscription, error) {
	var row subscriptionRow
	err := s.db.NewSelect().Model(&row).ExcludeColumn("changed_at").Where("account_id = ?", account).
		OrderExpr("status IN (?) DESC, s.changed_at DESC, s.id", bun.List(servingStatuses)).Limit(1).Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return billing.Subscription{}, billing.ErrNotPaid
	}
	if err != nil {
		return billing.Subscription{}, fmt.Errorf("reading subscription: %w", err)
	}
	return billing.Subscription{
		ID: row.ID, Account: row.AccountID, Provider: row.Provider, Customer: row.Customer, Plan: row.Plan,
		Status: row.Status, EndsAt: row.EndsAt,
	}, nil
}

// EndSubscriptions ends the subscriptions of the test checkout whose cancellation is due. A real provider sends an
// event instead.
func (s *Store) EndSubscriptions(ctx context.Context) error {
	var due []subscriptionRow
	err := s.db.NewSelect().Model(&due).ExcludeColumn("changed_at").
		Where("provider = 'test' AND status <> 'canceled' AND ends_at <= ?", s.now()).Scan(ctx)
	if err != nil {
		return fmt.Errorf("listing subscriptions that are due to end: %w", err)
	}
	for _, sub := range due {
		err := s.Apply(ctx, billing.Change{
			Event: fmt.Sprintf("test_end_%s_%d", sub.ID, sub.EndsAt.Unix()), At: s.now(), Provider: sub.Provider,
			Subscription: sub.ID, Status: billing.Canceled,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// keyRetention is how long the hash of an ended key is kept (contract section 8).
const keyRetention = 30 * 24 * time.Hour

// PruneBilling deletes expired rows: ended keys, checkouts whose key can no longer be claimed, event ids that Stripe no
// longer resends, refunds, and subscriptions that never belonged to an account.
func (s *Store) PruneBilling(ctx context.Context) error {
	now := s.now()
	for _, q := range []struct {
		sql    string
		before time.Time
	}{
		{"DELETE FROM api_keys WHERE state <> 'valid' AND ended_at < ?", now.Add(-keyRetention)},
		{"DELETE FROM api_keys WHERE expires_at < ?", now.Add(-keyRetention)},
		{"DELETE FROM key_limits AS l WHERE NOT EXISTS (SELECT 1 FROM api_keys AS k WHERE k.id = l.key_id)", now},
		{"DELETE FROM billing_checkouts WHERE created_at < ?", now.Add(-billing.ClaimLife)},
		{"DELETE FROM billing_events WHERE applied_at < ?", now.Add(-eventRetention)},
		{"DELETE FROM billing_tabs WHERE created_at < ?", now.Add(-billing.ClaimLife)},
		{"DELETE FROM billing_refunds WHERE refunded_at < ?", now.Add(-refundRetention)},
		{`DELETE FROM billing_subscriptions WHERE account_id IS NULL AND changed_at < ?
			AND id NOT IN (SELECT subscription_id FROM billing_refunds)`, now.Add(-eventRetention)},
	} {
		if _, err := s.db.ExecContext(ctx, q.sql, q.before); err != nil {
			return fmt.Errorf("pruning billing: %w", err)
		}
	}
	return nil
}
