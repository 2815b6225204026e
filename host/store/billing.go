package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/uptrace/bun"

	"assay/host/billing"
	"assay/host/check"
)

// How long a checkout can be paid and its key issued again, and how long applied events are remembered: Stripe sends an event
// again for three days.
const (
	checkoutLife  = 24 * time.Hour
	mostReissues  = 3
	rememberEvent = 30 * 24 * time.Hour
)

var _ billing.Accounts = (*Store)(nil)

type checkoutRow struct {
	bun.BaseModel `bun:"table:billing_checkouts,alias:c"`

	ID        string `bun:",pk"`
	Session   []byte
	AccountID string `bun:",nullzero"`
	Upgrade   bool
	Plan      string
	Provider  string
	State     string
	KeyID     string `bun:",nullzero"`
	Reissues  int
	CreatedAt time.Time
	ClaimedAt time.Time `bun:",nullzero"`
}

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

// BeginCheckout implements billing.Accounts.
func (s *Store) BeginCheckout(ctx context.Context, c billing.Checkout) error {
	row := checkoutRow{
		ID: c.ID, Session: c.Session[:], AccountID: c.Account, Upgrade: c.Account != "", Plan: c.Plan, Provider: c.Provider,
		State: "open", CreatedAt: c.At,
	}
	err := s.inTx(ctx, func(ctx context.Context, tx bun.Tx) error {
		if _, err := tx.NewInsert().Model(&row).Exec(ctx); err != nil || !c.Paid {
			return err
		}
		return s.pay(ctx, tx, &row)
	})
	if err != nil {
		return fmt.Errorf("beginning checkout: %w", err)
	}
	return nil
}

// CheckoutPlan returns the plan that an unpaid checkout is for, for the page that asks for a card. Error:
// billing.ErrNoCheckout.
func (s *Store) CheckoutPlan(ctx context.Context, id string) (string, error) {
	var row checkoutRow
	err := s.db.NewSelect().Model(&row).Where("id = ? AND state = 'open' AND created_at > ?", id, s.now().Add(-checkoutLife)).Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return "", billing.ErrNoCheckout
	}
	if err != nil {
		return "", fmt.Errorf("reading checkout: %w", err)
	}
	return row.Plan, nil
}

// pay marks a locked checkout as paid, and makes the account of a new customer.
func (s *Store) pay(ctx context.Context, tx bun.Tx, c *checkoutRow) error {
	if c.AccountID == "" {
		plan, ok := check.PlanNamed(c.Plan)
		if !ok {
			return fmt.Errorf("%w: %q", billing.ErrNoPlan, c.Plan)
		}
		a := newAccount("acct_"+ulid.Make().String(), plan)
		if _, err := tx.NewInsert().Model(a).Exec(ctx); err != nil {
			return err
		}
		c.AccountID = a.ID
	}
	c.State = "paid"
	_, err := tx.NewUpdate().Model(c).Column("state", "account_id").WherePK().Exec(ctx)
	return err
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
		return nil // of another installation with the same provider account
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
	// What happened last is what counts, in whatever order it is told; and what has ended does not begin again.
	if !c.At.Before(row.ChangedAt) && row.Status != billing.Canceled {
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
		row.AccountID = checkout.AccountID
	}
	if _, err := tx.NewUpdate().Model(&row).WherePK().Exec(ctx); err != nil {
		return err
	}
	if row.AccountID == "" {
		return nil
	}
	return s.settleAccount(ctx, tx, row.AccountID)
}

func lockCheckout(ctx context.Context, tx bun.Tx, id string) (*checkoutRow, error) {
	if id == "" {
		return nil, nil
	}
	var c checkoutRow
	err := tx.NewSelect().Model(&c).Where("id = ?", id).For("UPDATE").Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return &c, err
}

// settleAccount makes an account's plan and keys what its subscriptions say: a serving one counts before one that has ended,
// the latest before others.
func (s *Store) settleAccount(ctx context.Context, tx bun.Tx, id string) error {
	var sub subscriptionRow
	err := tx.NewSelect().Model(&sub).Column("plan", "status").Where("account_id = ?", id).
		OrderExpr("status IN ('active', 'past_due') DESC, s.changed_at DESC").Limit(1).Scan(ctx)
	if err != nil {
		return err
	}
	if _, err := lockHeads(ctx, tx, tx.NewSelect().Table("accounts").Column("chain").Where("id = ?", id)); err != nil {
		return err
	}
	if !sub.Status.Serves() {
		_, err := tx.NewUpdate().Model((*Key)(nil)).Set("state = 'cancelled', ended_at = now()").
			Where("account_id = ? AND state = 'valid'", id).Exec(ctx)
		return errors.Join(err, notify(ctx, tx, TopicKeys))
	}
	plan, ok := check.PlanNamed(sub.Plan)
	if !ok {
		return fmt.Errorf("%w: %q", billing.ErrNoPlan, sub.Plan)
	}
	// A quota that an operator raised stays as long as the plan does.
	_, err = tx.NewUpdate().Model((*account)(nil)).Set("plan = ?, quota = ?", plan.Name, plan.Quota).
		Where("id = ? AND plan <> ?", id, plan.Name).Exec(ctx)
	if err != nil {
		return err
	}
	_, err = tx.NewUpdate().Model((*Key)(nil)).Set("state = 'valid', ended_at = NULL").
		Where("account_id = ? AND state = 'cancelled'", id).Exec(ctx)
	if err != nil {
		return err
	}
	return notify(ctx, tx, TopicKeys)
}

// Claim implements billing.Accounts.
func (s *Store) Claim(ctx context.Context, session [32]byte) (claim billing.Claim, err error) {
	err = s.withCheckout(ctx, session, func(ctx context.Context, tx bun.Tx, c *checkoutRow) error {
		claim = billing.Claim{Plan: c.Plan, Account: c.AccountID, Upgrade: c.Upgrade}
		switch {
		case c.State == "open":
			return billing.ErrPending
		case c.Upgrade:
			return nil
		case c.State == "claimed":
			claim.KeyID = c.KeyID
			return tx.NewSelect().Model((*Key)(nil)).Column("hint").Where("id = ?", c.KeyID).Scan(ctx, &claim.Hint)
		}
		c.State, c.ClaimedAt = "claimed", s.now()
		return claimKey(ctx, tx, c, &claim)
	})
	if err != nil {
		return billing.Claim{}, fmt.Errorf("claiming key: %w", err)
	}
	return claim, nil
}

// Reissue implements billing.Accounts.
func (s *Store) Reissue(ctx context.Context, session [32]byte) (claim billing.Claim, err error) {
	err = s.withCheckout(ctx, session, func(ctx context.Context, tx bun.Tx, c *checkoutRow) error {
		if c.State != "claimed" || c.Reissues >= mostReissues {
			return billing.ErrNoReissue
		}
		var old Key
		if err := tx.NewSelect().Model(&old).Where("id = ?", c.KeyID).Scan(ctx); err != nil {
			return err
		}
		if old.State != "valid" || old.LastUsedAt != nil {
			return billing.ErrNoReissue // somebody has it
		}
		if err := endKey(ctx, tx, old.ID, "revoked"); err != nil {
			return err
		}
		claim = billing.Claim{Plan: c.Plan, Account: c.AccountID}
		c.Reissues++
		return claimKey(ctx, tx, c, &claim)
	})
	if err != nil {
		return billing.Claim{}, fmt.Errorf("issuing key again: %w", err)
	}
	return claim, nil
}

// withCheckout runs fn with the session's checkout locked, so that of many loads of one page one only gets the key.
func (s *Store) withCheckout(ctx context.Context, session [32]byte, fn func(context.Context, bun.Tx, *checkoutRow) error) error {
	return s.inTx(ctx, func(ctx context.Context, tx bun.Tx) error {
		var c checkoutRow
		err := tx.NewSelect().Model(&c).Where("session = ? AND created_at > ?", session[:], s.now().Add(-checkoutLife)).For("UPDATE").Scan(ctx)
		if errors.Is(err, sql.ErrNoRows) {
			return billing.ErrNoCheckout
		}
		if err != nil {
			return err
		}
		return fn(ctx, tx, &c)
	})
}

// claimKey issues a key for a checkout and keeps which.
func claimKey(ctx context.Context, tx bun.Tx, c *checkoutRow, claim *billing.Claim) error {
	secret, k, err := mintKey(c.AccountID, "default")
	if err != nil {
		return err
	}
	if _, err := tx.NewInsert().Model(k).Exec(ctx); err != nil {
		return err
	}
	c.KeyID, claim.Key, claim.KeyID, claim.Hint = k.ID, secret, k.ID, k.Hint
	_, err = tx.NewUpdate().Model(c).Column("state", "key_id", "reissues", "claimed_at").WherePK().Exec(ctx)
	return err
}

// Subscription implements billing.Accounts.
func (s *Store) Subscription(ctx context.Context, account string) (billing.Subscription, error) {
	var row subscriptionRow
	err := s.db.NewSelect().Model(&row).ExcludeColumn("changed_at").Where("account_id = ?", account).
		OrderExpr("status IN ('active', 'past_due') DESC, s.changed_at DESC").Limit(1).Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return billing.Subscription{}, billing.ErrNotPaid
	}
	if err != nil {
		return billing.Subscription{}, fmt.Errorf("reading subscription: %w", err)
	}
	return billing.Subscription{
		ID: row.ID, Account: row.AccountID, Provider: row.Provider, Customer: row.Customer, Plan: row.Plan, Status: row.Status, EndsAt: row.EndsAt,
	}, nil
}

// EndSubscriptions ends those of the test checkout that were cancelled to a time that has come; a real provider tells of the
// end itself.
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

// ForgetBilling deletes what has served its time: keys that ended 30 days ago, checkouts that were never paid, and the ids of
// old events.
func (s *Store) ForgetBilling(ctx context.Context) error {
	now := s.now()
	for _, q := range []struct {
		sql    string
		before time.Time
	}{
		{"DELETE FROM api_keys WHERE state <> 'valid' AND ended_at < ?", now.Add(-keyRetention)},
		{"DELETE FROM billing_checkouts WHERE created_at < ?", now.Add(-2 * checkoutLife)},
		{"DELETE FROM billing_events WHERE applied_at < ?", now.Add(-rememberEvent)},
	} {
		if _, err := s.db.ExecContext(ctx, q.sql, q.before); err != nil {
			return fmt.Errorf("forgetting old billing rows: %w", err)
		}
	}
	return nil
}
