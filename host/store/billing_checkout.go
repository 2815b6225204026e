package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/uptrace/bun"

	"assay/host/apikey"
	"assay/host/billing"
	"assay/host/check"
)

// A claimed key can be reissued maxReissues times, within reissueLife after it was claimed.
const (
	maxReissues = 3
	reissueLife = 24 * time.Hour
)

// checkoutRow is a row of billing_checkouts. Its state is open, paid or claimed.
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

// BeginCheckout implements billing.Accounts.
func (s *Store) BeginCheckout(ctx context.Context, c billing.Checkout) error {
	row := checkoutRow{
		ID: c.ID, Session: c.Session[:], AccountID: c.Account, Upgrade: c.Account != "", Plan: c.Plan,
		Provider: c.Provider, State: "open", CreatedAt: c.At,
	}
	err := s.inTx(ctx, func(ctx context.Context, tx bun.Tx) error {
		if _, err := tx.NewInsert().Model(&row).Exec(ctx); err != nil || !c.Paid {
			return err
		}
		if err := s.markPaid(ctx, tx, &row); err != nil || !row.Upgrade {
			return err
		}
		return s.moveToFreePlan(ctx, tx, &row)
	})
	if err != nil {
		return fmt.Errorf("beginning checkout: %w", err)
	}
	return nil
}

// CheckoutPlan returns the plan of an open checkout, for the page that asks for a card. It fails with
// billing.ErrNoCheckout.
func (s *Store) CheckoutPlan(ctx context.Context, id string) (string, error) {
	var row checkoutRow
	err := s.db.NewSelect().Model(&row).
		Where("id = ? AND state = 'open' AND created_at > ?", id, s.now().Add(-billing.PayLife)).Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return "", billing.ErrNoCheckout
	}
	if err != nil {
		return "", fmt.Errorf("reading checkout: %w", err)
	}
	return row.Plan, nil
}

// moveToFreePlan moves an account that no subscription serves to the checkout's free plan. It fails with
// billing.ErrSubscribed.
func (s *Store) moveToFreePlan(ctx context.Context, tx bun.Tx, c *checkoutRow) error {
	if err := lockAccount(ctx, tx, c.AccountID); err != nil {
		return err
	}
	serving, err := tx.NewSelect().Model((*subscriptionRow)(nil)).
		Where("account_id = ? AND status IN (?)", c.AccountID, bun.List(servingStatuses)).Exists(ctx)
	if err != nil {
		return err
	}
	if serving {
		return billing.ErrSubscribed
	}
	return setPlan(ctx, tx, c.AccountID, c.Plan)
}

// markPaid marks a locked checkout as paid and creates the account of a new customer.
func (s *Store) markPaid(ctx context.Context, tx bun.Tx, c *checkoutRow) error {
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

// lockCheckout returns the checkout locked for update, or nil if there is none.
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
			return tx.NewSelect().Model((*keyRow)(nil)).Column("hint").Where("id = ?", c.KeyID).Scan(ctx, &claim.Hint)
		}
		c.State, c.ClaimedAt = "claimed", s.now()
		return s.claimKey(ctx, tx, c, &claim)
	})
	if err != nil {
		return billing.Claim{}, fmt.Errorf("claiming key: %w", err)
	}
	return claim, nil
}

// Reissue implements billing.Accounts.
func (s *Store) Reissue(ctx context.Context, session [32]byte) (claim billing.Claim, err error) {
	err = s.withCheckout(ctx, session, func(ctx context.Context, tx bun.Tx, c *checkoutRow) error {
		if c.State != "claimed" || c.Reissues >= maxReissues || s.now().Sub(c.ClaimedAt) >= reissueLife {
			return billing.ErrNoReissue
		}
		var old keyRow
		if err := lockAccount(ctx, tx, c.AccountID); err != nil { // the key must not be used meanwhile
			return err
		}
		if err := tx.NewSelect().Model(&old).Where("id = ?", c.KeyID).Scan(ctx); err != nil {
			return err
		}
		if old.State != apikey.Valid || old.LastUsedAt != nil || old.ExpiresAt != nil {
			return billing.ErrNoReissue // the first key is in use
		}
		if err := revokeKey(ctx, tx, old.ID); err != nil {
			return err
		}
		claim = billing.Claim{Plan: c.Plan, Account: c.AccountID}
		c.Reissues++
		return s.claimKey(ctx, tx, c, &claim)
	})
	if err != nil {
		return billing.Claim{}, fmt.Errorf("reissuing key: %w", err)
	}
	return claim, nil
}

// withCheckout runs fn with the session's checkout locked, so that only one of several concurrent requests gets the
// key.
func (s *Store) withCheckout(ctx context.Context, session [32]byte,
	fn func(context.Context, bun.Tx, *checkoutRow) error) error {
	return s.inTx(ctx, func(ctx context.Context, tx bun.Tx) error {
		var c checkoutRow
		err := tx.NewSelect().Model(&c).
			Where("session = ? AND created_at > ?", session[:], s.now().Add(-billing.ClaimLife)).For("UPDATE").Scan(ctx)
		if errors.Is(err, sql.ErrNoRows) {
			return billing.ErrNoCheckout
		}
		if err != nil {
			return err
		}
		return fn(ctx, tx, &c)
	})
}

// claimKey issues a key for a checkout and stores the key's id there. If the subscription has ended in the meantime,
// the key can sign in but does not work until another subscription serves the account.
func (s *Store) claimKey(ctx context.Context, tx bun.Tx, c *checkoutRow, claim *billing.Claim) error {
	if err := lockAccount(ctx, tx, c.AccountID); err != nil {
		return err
	}
	ok, err := keysEnabled(ctx, tx, c.AccountID)
	if err != nil {
		return err
	}
	secret, k, err := generateKey(c.AccountID, "default")
	if err != nil {
		return err
	}
	if !ok {
		now := s.now()
		k.State, k.EndedAt, claim.Ended = apikey.Cancelled, &now, true
	}
	if _, err := tx.NewInsert().Model(k).Exec(ctx); err != nil {
		return err
	}
	c.KeyID, claim.Key, claim.KeyID, claim.Hint = k.ID, secret, k.ID, k.Hint
	_, err = tx.NewUpdate().Model(c).Column("state", "key_id", "reissues", "claimed_at").WherePK().Exec(ctx)
	return err
}
