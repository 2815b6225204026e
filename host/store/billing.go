package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"assay/host/billing"
	"assay/host/check"
)

// Locks are always taken in this order, so that no two transactions wait for each other: the id of an event, its
// checkout, its subscription, the head of the account's chain, the account's keys.

// rememberEvent is how long applied events are remembered: Stripe sends an event again for three days.
const rememberEvent = 30 * 24 * time.Hour

var _ billing.Accounts = (*Store)(nil)

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

// servingStatuses are those in which keys work.
var servingStatuses = []billing.Status{billing.Active, billing.PastDue}

// served says whether an account's keys may work: its plan costs nothing, or it was never sold one, or a subscription
// serves it. The account must be locked.
func served(ctx context.Context, tx bun.Tx, accountID string) (bool, error) {
	var row struct {
		Plan          string
		Sold, Serving bool
	}
	err := tx.NewRaw(`SELECT a.plan, EXISTS (SELECT FROM billing_subscriptions WHERE account_id = a.id) AS sold,
		EXISTS (SELECT FROM billing_subscriptions WHERE account_id = a.id AND status IN (?)) AS serving
		FROM accounts AS a WHERE a.id = ?`, bun.List(servingStatuses), accountID).Scan(ctx, &row)
	offer, ok := billing.OfferOf(row.Plan)
	return !row.Sold || row.Serving || (ok && offer.Cents == 0), err
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
		// A subscription names its checkout for as long as it lives, and the checkout is deleted after days.
		ours, err := tx.NewSelect().Model((*subscriptionRow)(nil)).Where("id = ? AND account_id IS NOT NULL",
			c.Subscription).Exists(ctx)
		if err != nil {
			return err
		}
		if !ours {
			// Of another installation with the same provider account, or so late that the checkout was deleted.
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
			if err := s.pay(ctx, tx, checkout); err != nil {
				return err
			}
		}
		if checkout.State != "open" { // until it is paid, an upgrade is no business of the account's
			row.AccountID = checkout.AccountID
		}
	}
	if _, err := tx.NewUpdate().Model(&row).WherePK().Exec(ctx); err != nil {
		return err
	}
	if row.AccountID == "" {
		return nil
	}
	return s.settleAccount(ctx, tx, row.AccountID)
}

// progress orders the statuses of one subscription that are told of the same second.
var progress = map[billing.Status]int{
	"": 5, billing.Incomplete: 0, billing.Active: 1, billing.PastDue: 2, billing.Unpaid: 3, billing.Paused: 4,
}

// supersedes says whether a change counts after what is known already: what happened last does, in whatever order it is
// told. A provider's clock tells seconds, in which a subscription is both created and paid. What has ended has ended,
// and what was paid once is never incomplete again.
func supersedes(c billing.Change, known subscriptionRow) bool {
	switch {
	case c.Status == billing.Canceled:
		return true
	case c.Status == billing.Incomplete && known.Status != billing.Incomplete:
		return false
	case c.At.Equal(known.ChangedAt):
		return progress[c.Status] >= progress[known.Status]
	}
	return c.At.After(known.ChangedAt)
}

// settleAccount makes an account's plan and keys what its subscriptions say: a serving one counts before one that has
// ended, the latest before others.
func (s *Store) settleAccount(ctx context.Context, tx bun.Tx, id string) error {
	if err := lockAccount(ctx, tx, id); err != nil {
		return err
	}
	if ok, err := served(ctx, tx, id); err != nil {
		return err
	} else if !ok {
		_, err := tx.NewUpdate().Model((*Key)(nil)).Set("state = 'cancelled', ended_at = now()").
			Where("account_id = ? AND state = 'valid'", id).Exec(ctx)
		return errors.Join(err, notify(ctx, tx, TopicKeys))
	}
	var plan string
	err := tx.NewSelect().Model((*subscriptionRow)(nil)).Column("plan").Where("account_id = ? AND status IN (?)", id,
		bun.List(servingStatuses)).
		Order("changed_at DESC", "id").Limit(1).Scan(ctx, &plan)
	if errors.Is(err, sql.ErrNoRows) {
		return nil // what has ended is not what serves it
	}
	if err != nil {
		return err
	}
	return movePlan(ctx, tx, id, plan)
}

// movePlan puts a locked account on a plan, and lets its keys work that ended with a subscription. Its webhook goes
// when the plan has none.
func movePlan(ctx context.Context, tx bun.Tx, accountID, name string) error {
	plan, ok := check.PlanNamed(name)
	if !ok {
		return fmt.Errorf("%w: %q", billing.ErrNoPlan, name)
	}
	// A quota that an operator raised stays as long as the plan does.
	_, err := tx.NewUpdate().Model((*account)(nil)).Set("plan = ?, quota = ?", plan.Name, plan.Quota).
		Where("id = ? AND plan <> ?", accountID, plan.Name).Exec(ctx)
	if err != nil {
		return err
	}
	_, err = tx.NewUpdate().Model((*Key)(nil)).Set("state = 'valid', ended_at = NULL").
		Where("account_id = ? AND state = 'cancelled'", accountID).Exec(ctx)
	if err != nil {
		return err
	}
	if !plan.Webhooks {
		if _, err := tx.NewDelete().Model((*Endpoint)(nil)).Where("account_id = ?", accountID).Exec(ctx); err != nil {
			return err
		}
		if err := abandon(ctx, tx, "account_id = ?", accountID); err != nil {
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

// EndSubscriptions ends those of the test checkout that were cancelled to a time that has come; a real provider tells
// of the end itself.
func (s *Store) EndSubscriptions(ctx context.Context) error {
	var due []subscriptionRow
	err := s.db.NewSelect().Model(&due).ExcludeColumn("changed_at").
		Where("provider = 'test' AND status <> 'canceled' AND ends_at <= ?", s.now()).Scan(ctx)
	if err != nil {
		return fmt.Errorf("listing subscriptions that end: %w", err)
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

// keyRetention is how long the hash of a key outlives the subscription (spec section 8).
const keyRetention = 30 * 24 * time.Hour

// ForgetBilling deletes what has served its time: keys that ended 30 days ago, checkouts that nobody can come back to
// and whose events Stripe sends no more, the ids of old events, and subscriptions that turned out to be none of ours.
func (s *Store) ForgetBilling(ctx context.Context) error {
	now := s.now()
	for _, q := range []struct {
		sql    string
		before time.Time
	}{
		{"DELETE FROM api_keys WHERE state <> 'valid' AND ended_at < ?", now.Add(-keyRetention)},
		{"DELETE FROM api_keys WHERE expires_at < ?", now.Add(-keyRetention)},
		{"DELETE FROM billing_checkouts WHERE created_at < ?", now.Add(-billing.ClaimLife)},
		{"DELETE FROM billing_events WHERE applied_at < ?", now.Add(-rememberEvent)},
		{"DELETE FROM billing_subscriptions WHERE account_id IS NULL AND changed_at < ?", now.Add(-rememberEvent)},
	} {
		if _, err := s.db.ExecContext(ctx, q.sql, q.before); err != nil {
			return fmt.Errorf("forgetting old billing rows: %w", err)
		}
	}
	return nil
}
