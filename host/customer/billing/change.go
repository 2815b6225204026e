package billing

import (
	"context"
	"fmt"
	"time"

	"assay/host/check"
)

// Quote is what a change of plan means.
type Quote struct {
	Plan    check.Plan
	Current Subscription
	Due     int64     // cents to be paid now
	From    time.Time // when the plan changes; zero: at once
}

// Quote returns what a change of an account's plan means. It fails like ChangePlan.
func (b *Billing) Quote(ctx context.Context, account, plan string) (Quote, error) {
	offer, ok := OfferOf(plan)
	if !ok {
		return Quote{}, fmt.Errorf("%w: %q", ErrNoPlan, plan)
	}
	s, err := b.live(ctx, account)
	q := Quote{Plan: offer, Current: s}
	switch {
	case err != nil || plan == s.Plan: // nothing is due, and nothing changes
	case offer.Cents > 0 && s.Status != Active:
		err = ErrDue
	case !s.raises(offer):
		q.From = s.PaidUntil
	default:
		q.Due, err = b.Provider.Due(ctx, s, offer)
	}
	return q, err
}

// raises reports whether an offer costs more than the plan that is served.
func (s Subscription) raises(o check.Plan) bool {
	current, _ := OfferOf(s.Plan)
	return o.Cents > current.Cents
}

// ChangePlan moves an account's subscription to another plan. Its keys stay the same. A dearer plan begins at once,
// when it is paid; a cheaper one at the end of the paid period. The served plan reverts an earlier choice or a
// cancellation.
// It fails with ErrNoPlan, ErrNotPaid, ErrNotForSale, ErrDue, ErrUnavailable or an *UnpaidError.
func (b *Billing) ChangePlan(ctx context.Context, account, plan string) error {
	offer, ok := OfferOf(plan)
	if !ok {
		return fmt.Errorf("%w: %q", ErrNoPlan, plan)
	}
	return b.change(ctx, account, func(ctx context.Context, s Subscription) (Subscription, error) {
		return b.Provider.Change(ctx, s, offer)
	})
}

// Cancel ends an account's subscription at the end of the paid period. It fails with ErrNotPaid or ErrUnavailable.
func (b *Billing) Cancel(ctx context.Context, account string) error {
	return b.change(ctx, account, b.Provider.Cancel)
}

// live returns the account's subscription. It fails with ErrNotPaid if there is none or it has ended.
func (b *Billing) live(ctx context.Context, account string) (Subscription, error) {
	s, err := b.Accounts.Subscription(ctx, account)
	if err == nil && !s.Status.Live() {
		err = ErrNotPaid
	}
	return s, err
}

// change requests a change from the provider and stores the outcome immediately, because the provider's own event for
// it may take a while.
func (b *Billing) change(ctx context.Context, account string, request Reader) error {
	s, err := b.live(ctx, account)
	if err != nil {
		return err
	}
	return b.Accounts.Apply(ctx, s.ID, request)
}
