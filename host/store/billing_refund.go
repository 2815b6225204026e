package store

import (
	"context"
	"fmt"

	"github.com/uptrace/bun"

	"assay/host/customer/billing"
)

// joinTabs remembers that a new customer's browser has other checkouts open, so that a second payment is refunded
// instead of making a second account. apply_billing finds it.
func (s *Store) joinTabs(ctx context.Context, c billing.Checkout) error {
	sessions := column(c.Tabs, func(tab [32]byte) []byte { return tab[:] })
	_, err := query(s.db, "join_tabs", named{"id": c.ID, "at": c.At, "sessions": bun.List(sessions),
		"since": c.At.Add(-billing.ClaimLife)}).Exec(ctx)
	return wrap(err, "joining checkouts")
}

// DueRefunds implements billing.Accounts.
func (s *Store) DueRefunds(ctx context.Context, provider, subscription string) ([]billing.Subscription, error) {
	var rows []subscriptionRow
	err := s.db.NewSelect().Model(&rows).Join("JOIN billing_refunds AS r ON r.subscription_id = s.id").
		Where("r.refunded_at IS NULL AND s.provider = ?", provider).
		Where("? = '' OR s.id = ?", subscription, subscription).OrderExpr("r.found_at").Scan(ctx)
	due := column(rows, func(row subscriptionRow) billing.Subscription { return row.subscription() })
	return due, wrap(err, "listing refunds")
}

// Refunded implements billing.Accounts.
func (s *Store) Refunded(ctx context.Context, subscription string) error {
	// Two statements: if the second is lost, the provider is asked again, which changes nothing.
	_, err := s.db.NewRaw("UPDATE billing_subscriptions SET status = ? WHERE id = ?", billing.Canceled, subscription).
		Exec(ctx)
	if err == nil {
		_, err = s.db.NewRaw("UPDATE billing_refunds SET refunded_at = ? WHERE subscription_id = ?", s.now(),
			subscription).Exec(ctx)
	}
	if err != nil {
		return fmt.Errorf("recording the refund of %s: %w", subscription, err)
	}
	s.log.Warn("refunded a second subscription of an account", "subscription", subscription)
	return nil
}

// Refunds lists the second subscriptions that an account paid for in the last 30 days, newest first.
func (s *Store) Refunds(ctx context.Context, account string) ([]billing.Refund, error) {
	refunds := []billing.Refund{}
	err := s.db.NewRaw(`SELECT s.plan, r.found_at AS at, r.refunded_at IS NOT NULL AS done
		FROM billing_refunds AS r JOIN billing_subscriptions AS s ON s.id = r.subscription_id
		WHERE r.account_id = ? AND (r.refunded_at IS NULL OR r.refunded_at > ?) ORDER BY r.found_at DESC`, account,
		s.now().Add(-refundRetention)).Scan(ctx, &refunds)
	return refunds, wrap(err, "listing refunds")
}
