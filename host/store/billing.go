package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"assay/host/customer/billing"
)

// The functions of the database take their locks in this order, which rules out deadlocks: the checkout, the
// subscription, the account's webhook endpoint, the head of the account's chain, the account's keys.

var _ billing.Accounts = (*Store)(nil)

// subscriptionRow is a row of billing_subscriptions.
type subscriptionRow struct {
	bun.BaseModel `bun:"table:billing_subscriptions,alias:s"`

	ID        string `bun:",pk"`
	AccountID string `bun:",nullzero"`
	Provider  string
	Customer  string
	Plan      string
	NextPlan  string
	Status    billing.Status
	PaidUntil time.Time `bun:",nullzero"`
	EndsAt    time.Time `bun:",nullzero"`
	ChangedAt time.Time `bun:",scanonly"`
	Version   *string   `bun:",scanonly"` // the row as text; nil: there is none
}

func (r *subscriptionRow) subscription() billing.Subscription {
	return billing.Subscription{ID: r.ID, Account: r.AccountID, Provider: r.Provider, Customer: r.Customer,
		Plan: r.Plan, NextPlan: r.NextPlan, Status: r.Status, PaidUntil: r.PaidUntil.UTC(), EndsAt: r.EndsAt.UTC()}
}

// servingStatuses are the statuses in which keys work. They match billing.Status.Serves.
var servingStatuses = []billing.Status{billing.Active, billing.PastDue}

// Apply implements billing.Accounts.
func (s *Store) Apply(ctx context.Context, id string, read billing.Reader) error {
	return wrap(again(func() error { return s.apply(ctx, id, read) }), "applying subscription %s", id)
}

func (s *Store) apply(ctx context.Context, id string, read billing.Reader) error {
	row := subscriptionRow{ID: id, Status: billing.Incomplete}
	err := s.db.NewSelect().Model(&row).ColumnExpr("s.*, s::text AS version").WherePK().Scan(ctx)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	sub, err := read(ctx, row.subscription())
	if err != nil || sub.ID == "" {
		return err
	}
	checkout, err := s.findCheckout(ctx, "id = ?", sub.Checkout)
	if err != nil && !errors.Is(err, billing.ErrNoCheckout) {
		return err
	}
	// A subscription names its checkout permanently, but the checkout is deleted after billing.ClaimLife.
	if checkout == nil && sub.Checkout != "" && row.AccountID == "" {
		// It belongs to another installation that shares the provider account, or its checkout was deleted.
		s.log.Warn("payment of an unknown checkout", "checkout", sub.Checkout, "subscription", id)
		return nil
	}
	if row.Status == billing.Canceled { // permanently
		sub.Status, sub.EndsAt = row.Status, row.EndsAt
	}
	sub.Plan, sub.Customer = cmp.Or(sub.Plan, row.Plan), cmp.Or(sub.Customer, row.Customer)
	args := named{"checkout": sub.Checkout, "before": nil, "paid": false, "account": nil,
		"subscription_before": row.Version}
	if checkout != nil {
		args["before"] = checkout.Version
		sub.Plan = cmp.Or(sub.Plan, checkout.Plan)
		if checkout.State == "open" && sub.Status.Serves() {
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
	args["subscription"] = columns{"id": id, "account_id": orNull(row.AccountID), "provider": sub.Provider,
		"customer": sub.Customer, "plan": sub.Plan, "next_plan": sub.NextPlan, "status": sub.Status,
		"paid_until": orNull(sub.PaidUntil), "ends_at": orNull(sub.EndsAt)}.json()
	_, err = once[string](ctx, s, `SELECT apply_billing(?checkout, ?before, ?subscription_before, ?subscription, ?paid,
		?account, ?plans, ?serving)`, withTerms(args))
	if err == nil && row.AccountID != "" {
		err = s.discardOrphans(ctx, row.AccountID)
	}
	return withoutPlan(err)
}

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

// Subscription implements billing.Accounts.
func (s *Store) Subscription(ctx context.Context, account string) (billing.Subscription, error) {
	var row subscriptionRow
	err := s.db.NewSelect().Model(&row).Where("account_id = ?", account).
		OrderExpr("status NOT IN ('incomplete', 'canceled') DESC, s.changed_at DESC, s.id").Limit(1).Scan(ctx)
	return row.subscription(), wrap(orElse(err, billing.ErrNotPaid), "reading subscription")
}

// DueSubscriptions implements billing.Accounts.
func (s *Store) DueSubscriptions(ctx context.Context, provider string) (ids []string, _ error) {
	err := s.db.NewSelect().Model((*subscriptionRow)(nil)).Column("id").
		Where("provider = ? AND status <> 'canceled' AND account_id IS NOT NULL", provider).
		Where("least(paid_until, ends_at) <= ?", s.now()).Scan(ctx, &ids)
	return ids, wrap(err, "listing subscriptions whose period is over")
}
