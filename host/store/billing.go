package store

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"assay/host/billing"
	"assay/host/check"
)

// Transactions take their locks in this order, which rules out deadlocks: the event's id, its checkout, its
// subscription, the head of the account's chain, the account's keys.

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
}

// servingStatuses are the statuses in which keys work. They match billing.Status.Serves.
var servingStatuses = []billing.Status{billing.Active, billing.PastDue}

//go:embed sql/account_subscriptions.sql
var accountSubscriptions string

// keysEnabled reports whether the keys of a locked account may work: its plan is free, it never had a subscription, or
// a subscription serves it.
func keysEnabled(ctx context.Context, tx bun.Tx, accountID string) (bool, error) {
	var row struct {
		Plan                string
		Subscribed, Serving bool
	}
	err := tx.NewRaw(accountSubscriptions,
		named{"account": accountID, "serving": bun.List(servingStatuses)}).Scan(ctx, &row)
	offer, ok := billing.OfferOf(row.Plan)
	return !row.Subscribed || row.Serving || (ok && offer.Cents == 0), err
}

// Apply implements billing.Accounts.
func (s *Store) Apply(ctx context.Context, c billing.Change) error {
	err := s.inTx(ctx, func(ctx context.Context, tx bun.Tx) error {
		fresh, err := tx.NewRaw("INSERT INTO billing_events (id) VALUES (?) ON CONFLICT DO NOTHING", c.Event).Exec(ctx)
		if err != nil {
			return err
		}
		if n, err := fresh.RowsAffected(); err != nil || n == 0 {
			return err // applied before
		}
		return s.apply(ctx, tx, c)
	})
	if err != nil {
		return fmt.Errorf("applying billing event %s: %w", c.Event, err)
	}
	return nil
}

func (s *Store) apply(ctx context.Context, tx bun.Tx, c billing.Change) error {
	checkout, err := lockCheckout(ctx, tx, c.Checkout)
	if err != nil {
		return err
	}
	if checkout == nil && c.Checkout != "" {
		// A subscription's events name its checkout permanently, but the checkout is deleted after billing.ClaimLife.
		known, err := tx.NewSelect().Model((*subscriptionRow)(nil)).
			Where("id = ? AND account_id IS NOT NULL", c.Subscription).Exists(ctx)
		if err != nil {
			return err
		}
		if !known {
			// The event belongs to another installation with the same provider account, or its checkout was deleted.
			s.log.Warn("payment event of an unknown checkout", "event", c.Event, "checkout", c.Checkout, "subscription",
				c.Subscription)
			return nil
		}
	}
	row := subscriptionRow{ID: c.Subscription, Provider: c.Provider, Status: billing.Incomplete}
	_, err = tx.NewInsert().Model(&row).ExcludeColumn("changed_at").On("CONFLICT (id) DO NOTHING").Exec(ctx)
	if err != nil {
		return err
	}
	if err := tx.NewSelect().Model(&row).ExcludeColumn("changed_at").
		ColumnExpr("greatest(changed_at, '0001-01-01') AS changed_at").WherePK().For("UPDATE").Scan(ctx); err != nil {
		return err
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
	if checkout != nil {
		if row.Plan == "" {
			row.Plan = checkout.Plan
		}
		if checkout.State == "open" && (row.Status.Serves() || c.Status.Serves()) {
			if err := s.markPaid(ctx, tx, checkout); err != nil {
				return err
			}
		}
		if checkout.State != "open" { // an unpaid upgrade must not affect the account
			row.AccountID = checkout.AccountID
		}
	}
	if _, err := tx.NewUpdate().Model(&row).WherePK().Exec(ctx); err != nil {
		return err
	}
	if row.AccountID == "" {
		return nil
	}
	return s.applySubscriptions(ctx, tx, row.AccountID)
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

// applySubscriptions sets an account's plan, and whether its keys work, from its subscriptions. The subscription that
// serves the account and changed last determines the plan.
func (s *Store) applySubscriptions(ctx context.Context, tx bun.Tx, id string) error {
	if err := lockAccount(ctx, tx, id); err != nil {
		return err
	}
	if ok, err := keysEnabled(ctx, tx, id); err != nil {
		return err
	} else if !ok {
		_, err := tx.NewUpdate().Model((*keyRow)(nil)).Set("state = 'cancelled', ended_at = now()").
			Where("account_id = ? AND state = 'valid'", id).Exec(ctx)
		return errors.Join(err, notify(ctx, tx, TopicKeys))
	}
	var plan string
	err := tx.NewSelect().Model((*subscriptionRow)(nil)).Column("plan").
		Where("account_id = ? AND status IN (?)", id, bun.List(servingStatuses)).
		Order("changed_at DESC", "id").Limit(1).Scan(ctx, &plan)
	if errors.Is(err, sql.ErrNoRows) {
		return nil // the account has a free plan
	}
	if err != nil {
		return err
	}
	return setPlan(ctx, tx, id, plan)
}

// setPlan moves a locked account to a plan and re-enables the keys that ended with a subscription. If the plan has no
// webhooks, the account's endpoint and undelivered events are dropped.
func setPlan(ctx context.Context, tx bun.Tx, accountID, name string) error {
	plan, ok := check.PlanNamed(name)
	if !ok {
		return fmt.Errorf("%w: %q", billing.ErrNoPlan, name)
	}
	// An operator may have raised the quota, so it changes only with the plan.
	_, err := tx.NewUpdate().Model((*account)(nil)).Set("plan = ?, quota = ?", plan.Name, plan.Quota).
		Where("id = ? AND plan <> ?", accountID, plan.Name).Exec(ctx)
	if err != nil {
		return err
	}
	_, err = tx.NewUpdate().Model((*keyRow)(nil)).Set("state = 'valid', ended_at = NULL").
		Where("account_id = ? AND state = 'cancelled'", accountID).Exec(ctx)
	if err != nil {
		return err
	}
	if !plan.Webhooks {
		if _, err := deleteEndpoint(ctx, tx, accountID); err != nil {
			return err
		}
	}
	return notify(ctx, tx, TopicKeys)
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
// longer resends, and subscriptions that never belonged to an account.
func (s *Store) PruneBilling(ctx context.Context) error {
	now := s.now()
	for _, q := range []struct {
		sql    string
		before time.Time
	}{
		{"DELETE FROM api_keys WHERE state <> 'valid' AND ended_at < ?", now.Add(-keyRetention)},
		{"DELETE FROM api_keys WHERE expires_at < ?", now.Add(-keyRetention)},
		{"DELETE FROM billing_checkouts WHERE created_at < ?", now.Add(-billing.ClaimLife)},
		{"DELETE FROM billing_events WHERE applied_at < ?", now.Add(-eventRetention)},
		{"DELETE FROM billing_subscriptions WHERE account_id IS NULL AND changed_at < ?", now.Add(-eventRetention)},
	} {
		if _, err := s.db.ExecContext(ctx, q.sql, q.before); err != nil {
			return fmt.Errorf("pruning billing: %w", err)
		}
	}
	return nil
}
