package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/uptrace/bun"

	"assay/host/access/apikey"
	"assay/host/check"
	"assay/host/customer/billing"
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
	Page      string
	Customer  string
	PolledAt  time.Time `bun:",nullzero"`
	KeyID     string    `bun:",nullzero"`
	Reissues  int
	CreatedAt time.Time
	ClaimedAt time.Time `bun:",nullzero"`
	Version   string    `bun:",scanonly"` // the row as text
}

func (c *checkoutRow) json() string {
	return columns{"id": c.ID, "session": c.Session, "account_id": orNull(c.AccountID), "upgrade": c.Upgrade,
		"plan": c.Plan, "provider": c.Provider, "state": c.State, "page": c.Page, "customer": c.Customer,
		"polled_at": orNull(c.PolledAt),
		"key_id":    orNull(c.KeyID), "reissues": c.Reissues, "created_at": c.CreatedAt,
		"claimed_at": orNull(c.ClaimedAt)}.json()
}

// BeginCheckout implements billing.Accounts.
func (s *Store) BeginCheckout(ctx context.Context, c billing.Checkout) error {
	row := checkoutRow{
		ID: c.ID, Session: c.Session[:], AccountID: c.Account, Upgrade: c.Account != "", Plan: c.Plan,
		Provider: c.Provider, State: "open", CreatedAt: c.At,
	}
	var account *string
	var err error
	if c.Paid {
		account, err = s.pay(&row)
	}
	var refusal string
	if err == nil {
		refusal, err = once[string](ctx, s, "SELECT begin_checkout(?checkout, ?account, ?plans, ?serving)",
			withTerms(named{"checkout": row.json(), "account": account}))
		err = errors.Join(withoutPlan(err), refusals[refusal])
	}
	if err == nil && c.Paid && row.Upgrade {
		err = s.discardOrphans(ctx, row.AccountID)
	}
	if err == nil && !c.Paid && len(c.Tabs) > 0 {
		err = s.joinTabs(ctx, c)
	}
	return wrap(err, "beginning checkout")
}

// SetPage implements billing.Accounts.
func (s *Store) SetPage(ctx context.Context, id string, page billing.Page) error {
	_, err := s.db.NewUpdate().Model((*checkoutRow)(nil)).Set("page = ?, customer = ?", page.ID, page.Customer).
		Where("id = ?", id).Exec(ctx)
	return wrap(err, "storing the page of a checkout")
}

// OtherPages implements billing.Accounts.
func (s *Store) OtherPages(ctx context.Context, checkout string) (pages []string, _ error) {
	err := query(s.db, "other_pages", named{"id": checkout, "since": s.now().Add(-billing.PayLife)}).Scan(ctx, &pages)
	return pages, wrap(err, "listing open checkouts")
}

// Decline implements billing.Accounts.
func (s *Store) Decline(ctx context.Context, d billing.Decline, since time.Time, most int) (pages []string, _ error) {
	_, err := s.db.NewRaw(`INSERT INTO billing_declines (id, customer, card, declined_at) VALUES (?, ?, ?, ?)
		ON CONFLICT DO NOTHING`, d.ID, d.Customer, d.Card, d.At).Exec(ctx)
	if err == nil {
		err = query(s.db, "declined_pages", named{"customer": d.Customer, "card": d.Card, "since": since, "most": most,
			"open_since": s.now().Add(-billing.PayLife)}).Scan(ctx, &pages)
	}
	return pages, wrap(err, "storing a declined card")
}

// Declined implements billing.Accounts.
func (s *Store) Declined(ctx context.Context, checkout string, n int64) (at time.Time, _ error) {
	err := s.db.NewRaw(`SELECT declined_at FROM billing_declines WHERE customer IN (
			SELECT customer FROM billing_checkouts WHERE id IN (SELECT related_checkouts(?)))
		ORDER BY declined_at DESC OFFSET ? LIMIT 1`, checkout, n-1).Scan(ctx, &at)
	return at, wrap(orElse(err, nil), "counting declined cards")
}

// PollPage implements billing.Accounts.
func (s *Store) PollPage(ctx context.Context, session [32]byte, every time.Duration) (page string, _ error) {
	now := s.now()
	page, err := only[string](ctx, s.db.NewRaw(`UPDATE billing_checkouts SET polled_at = ?now WHERE session = ?session
		AND page <> '' AND state = 'open' AND (polled_at IS NULL OR polled_at <= ?before) RETURNING page`,
		named{"session": session[:], "now": now, "before": now.Add(-every)}))
	return page, wrap(orElse(err, nil), "polling a checkout")
}

// CheckoutPlan returns the plan of an open checkout, for the page that asks for a card. It fails with
// billing.ErrNoCheckout, or with billing.ErrSubscribed if the account has subscribed in the meantime.
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
	if plan, err := s.livePlan(ctx, row.AccountID); err != nil {
		return "", err
	} else if plan != "" {
		return "", billing.ErrSubscribed
	}
	return row.Plan, nil
}

// livePlan returns the plan of an account's live subscription, or "" if there is none.
func (s *Store) livePlan(ctx context.Context, account string) (string, error) {
	if account == "" {
		return "", nil
	}
	sub, err := s.Subscription(ctx, account)
	if errors.Is(err, billing.ErrNotPaid) || err == nil && !sub.Status.Live() {
		return "", nil
	}
	return sub.Plan, err
}

// pay marks a checkout as paid and returns the account of a new customer, or nil if there is one already.
func (s *Store) pay(c *checkoutRow) (*string, error) {
	c.State = "paid"
	if c.AccountID != "" {
		return nil, nil
	}
	plan, ok := check.PlanNamed(c.Plan)
	if !ok {
		return nil, fmt.Errorf("%w: %q", billing.ErrNoPlan, c.Plan)
	}
	a := s.newAccount("acct_"+ulid.Make().String(), plan)
	c.AccountID = a.ID
	return new(a.json()), nil
}

// findCheckout returns a checkout. It fails with billing.ErrNoCheckout.
func (s *Store) findCheckout(ctx context.Context, where string, args ...any) (*checkoutRow, error) {
	var c checkoutRow
	err := s.db.NewSelect().Model(&c).ColumnExpr("c.*, c::text AS version").Where(where, args...).Scan(ctx)
	if err != nil {
		return nil, orElse(err, billing.ErrNoCheckout)
	}
	return &c, nil
}

// Claim implements billing.Accounts.
func (s *Store) Claim(ctx context.Context, session [32]byte) (claim billing.Claim, err error) {
	err = s.withCheckout(ctx, session, func(c *checkoutRow) error {
		claim = billing.Claim{Plan: c.Plan, Account: c.AccountID, Upgrade: c.Upgrade}
		if c.State == "open" {
			// The account may have subscribed in another tab, which makes this checkout obsolete.
			plan, err := s.livePlan(ctx, c.AccountID)
			if plan == "" {
				return cmp.Or(err, billing.ErrPending)
			}
			claim.Plan = plan
			return err
		}
		if c.CreatedAt.After(s.now()) {
			return &billing.PausedError{Until: c.CreatedAt}
		}
		claim.Refunded, err = s.db.NewSelect().Table("billing_refunds").Where("checkout_id = ?", c.ID).Exists(ctx)
		switch {
		case err != nil:
			return err
		case claim.Refunded, c.Upgrade:
			return nil
		case c.State == "claimed":
			claim.KeyID = c.KeyID
			return s.db.NewSelect().Model((*keyRow)(nil)).Column("hint").Where("id = ?", c.KeyID).
				Scan(ctx, &claim.Hint)
		}
		c.State, c.ClaimedAt = "claimed", s.now()
		return s.claimKey(ctx, c, "", &claim)
	})
	if err != nil {
		return billing.Claim{}, fmt.Errorf("claiming key: %w", err)
	}
	return claim, nil
}

// Reissue implements billing.Accounts.
func (s *Store) Reissue(ctx context.Context, session [32]byte) (claim billing.Claim, err error) {
	err = s.withCheckout(ctx, session, func(c *checkoutRow) error {
		if c.State != "claimed" || c.Reissues >= maxReissues || s.now().Sub(c.ClaimedAt) >= reissueLife {
			return billing.ErrNoReissue
		}
		claim = billing.Claim{Plan: c.Plan, Account: c.AccountID}
		c.Reissues++
		return s.claimKey(ctx, c, c.KeyID, &claim)
	})
	if err != nil {
		return billing.Claim{}, fmt.Errorf("reissuing key: %w", err)
	}
	return claim, nil
}

// withCheckout calls fn with the session's checkout, again if it changes in the meantime.
func (s *Store) withCheckout(ctx context.Context, session [32]byte, fn func(*checkoutRow) error) error {
	return again(func() error {
		c, err := s.findCheckout(ctx, "session = ? AND created_at > ?", session[:], s.now().Add(-billing.ClaimLife))
		if err != nil {
			return err
		}
		return fn(c)
	})
}

// claimKey issues a key for a checkout, in place of an unused one if replaces is not empty. Of several concurrent
// requests only one gets the key. If the subscription has ended in the meantime, the key does not work until another
// subscription serves the account.
func (s *Store) claimKey(ctx context.Context, c *checkoutRow, replaces string, claim *billing.Claim) error {
	secret := apikey.New()
	k, err := newKeyRow(secret, c.AccountID, "default")
	if err != nil {
		return err
	}
	c.KeyID = k.ID
	refusal, err := once[string](ctx, s,
		"SELECT claim_key(?checkout, ?before, ?replaces, ?key, ?now, ?plans, ?serving)", withTerms(named{
			"checkout": c.json(), "before": c.Version, "replaces": replaces, "key": k.insert(apikey.Wanted{}),
			"now": s.now(),
		}))
	claim.Key, claim.KeyID, claim.Hint, claim.Ended = secret, k.ID, k.Hint, refusal == "ended"
	return errors.Join(err, refusals[refusal])
}
