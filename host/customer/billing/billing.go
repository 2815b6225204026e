// Package billing manages subscriptions to plans: it opens checkouts with a payment provider, applies the provider's
// events, and issues the key that was paid for. Pages and storage are elsewhere. It never sees card data, except in the
// built-in test checkout, which accepts published test numbers only.
package billing

import (
	"context"
	"errors"
	"fmt"
	"time"

	"assay/host/check"
)

// OfferOf returns the plan of that name that customers can subscribe to, and whether there is one.
func OfferOf(name string) (check.Plan, bool) {
	p, ok := check.PlanNamed(name)
	return p, ok && name != check.PublicPlan().Name
}

// Status is the status of a subscription, in Stripe's terms.
type Status string

// The statuses of a subscription. It is incomplete until its first payment. After a failed payment it is past due while
// the provider retries, then unpaid.
const (
	Incomplete Status = "incomplete"
	Active     Status = "active"
	PastDue    Status = "past_due"
	Unpaid     Status = "unpaid"
	Paused     Status = "paused"
	Canceled   Status = "canceled" // permanently
)

// Serves reports whether keys work in this status. They still work while a failed payment is retried.
func (s Status) Serves() bool { return s == Active || s == PastDue }

// Live reports whether a subscription in this status was paid and has not ended. An account has at most one.
func (s Status) Live() bool { return s != Incomplete && s != Canceled }

// Subscription is a subscription as reported by the provider, and as stored (contract section 2.5).
type Subscription struct {
	ID        string
	Account   string // "" until its checkout is paid
	Provider  string
	Checkout  string // the checkout that created it; "" if unknown. It is not stored
	Customer  string
	Plan      string // the plan that is served, because it was paid last; "" if the provider does not know it
	NextPlan  string // the plan that begins at PaidUntil or EndsAt; "" if the customer chose none
	Status    Status
	PaidUntil time.Time // the end of the period that was paid last
	EndsAt    time.Time // when a cancelled subscription ends; zero if it is not cancelled

	item string // Stripe's id of its item
}

// Reader reads a subscription at the provider. It gets the stored one, whose status is Incomplete if there is none yet.
// A result without ID says that the provider does not have it.
type Reader func(ctx context.Context, stored Subscription) (Subscription, error)

// Refund is a subscription that was paid although the account had one.
type Refund struct {
	Plan string
	At   time.Time // when the payment arrived
	Done bool      // the provider has cancelled it and returned the money
}

// Errors of this package.
var (
	ErrNoCheckout  = errors.New("there is no such checkout, or it has expired")
	ErrPending     = errors.New("the payment has not been confirmed yet")
	ErrNoPlan      = errors.New("there is no such plan")
	ErrNoReissue   = errors.New("this key cannot be issued again: rotate it in the dashboard, or contact support")
	ErrSubscribed  = errors.New("the account already has a subscription: change its plan instead")
	ErrNotPaid     = errors.New("there is no subscription to change: choose a plan first")
	ErrNotForSale  = errors.New("this host does not sell paid plans; nothing was charged")
	ErrUnavailable = errors.New("the payment provider cannot be reached; nothing was charged")
	ErrDue         = errors.New("a payment is due: pay it first, then you can change to this plan")
)

// UnpaidError means that an upgrade was not paid, so nothing has changed. URL is the provider's page where it can still
// be paid or confirmed; it may be "".
type UnpaidError struct{ URL string }

func (e *UnpaidError) Error() string { return "the payment did not succeed, so nothing has changed" }

// PausedError means that the key of a free plan is issued later, because the client's network got several.
type PausedError struct{ Until time.Time }

func (e *PausedError) Error() string {
	return "the key will be issued at " + e.Until.UTC().Format(time.RFC3339)
}

// DeclinedError means that no further card can be tried for now.
type DeclinedError struct{ Until time.Time }

func (e *DeclinedError) Error() string {
	return "too many cards were declined; nothing was charged, and another one can be tried from " +
		e.Until.UTC().Format("2 January at 15:04") + " UTC on"
}

// Accounts stores checkouts and subscriptions, and updates accounts and keys accordingly.
type Accounts interface {
	// BeginCheckout stores a checkout. It fails with ErrSubscribed if the plan is free and a subscription serves the
	// account.
	BeginCheckout(ctx context.Context, c Checkout) error
	// SetPage stores the provider's page of a checkout.
	SetPage(ctx context.Context, checkout string, page Page) error
	// OtherPages returns the pages of the other open checkouts of a checkout's account or browser.
	OtherPages(ctx context.Context, checkout string) ([]string, error)
	// PollPage returns the page of the session's unpaid checkout, or "" if there is none or it was returned within the
	// interval.
	PollPage(ctx context.Context, session [32]byte, every time.Duration) (page string, err error)
	// Decline stores that a card was declined. If the card, or the customer's account or browser, has at least most
	// declines since then, it returns the customer's open pages.
	Decline(ctx context.Context, d Decline, since time.Time, most int) (pages []string, err error)
	// Declined returns the time of the nth newest decline of a checkout's account or browser; zero if there are fewer.
	Declined(ctx context.Context, checkout string, n int64) (time.Time, error)
	// Apply reads a subscription at the provider and stores it with its consequences in one transaction: the account of
	// a new customer, the plan, the quota, and whether the keys work. It reads again if the stored subscription changes
	// in the meantime, so what is stored last was read last, whatever the order of events. A subscription that is paid
	// although the account has a live one, or one from another tab, becomes a due refund.
	Apply(ctx context.Context, subscription string, read Reader) error
	// DueSubscriptions returns the ids of the provider's subscriptions whose period is over.
	DueSubscriptions(ctx context.Context, provider string) ([]string, error)
	// DueRefunds returns the provider's subscriptions that are to be refunded: the given one, or all if it is "".
	DueRefunds(ctx context.Context, provider, subscription string) ([]Subscription, error)
	// Refunded records that a subscription was cancelled and refunded.
	Refunded(ctx context.Context, subscription string) error
	// Claim issues the key of a paid checkout. Further calls return only its hint. It fails with ErrNoCheckout,
	// ErrPending or a *PausedError.
	Claim(ctx context.Context, session [32]byte) (Claim, error)
	// Reissue revokes the key that Claim issued and issues another. It fails with ErrNoCheckout or ErrNoReissue.
	Reissue(ctx context.Context, session [32]byte) (Claim, error)
	// Subscription returns the account's current or most recent subscription. It fails with ErrNotPaid.
	Subscription(ctx context.Context, account string) (Subscription, error)
}

// Provider takes payments. Its transient errors wrap ErrUnavailable.
type Provider interface {
	Name() string
	// Test reports whether this is a test mode, in which no money moves.
	Test() bool
	// Checkout opens the provider's page for a checkout. From there the browser returns to returnTo, or to cancelTo if
	// the customer did not pay.
	Checkout(ctx context.Context, c Checkout, returnTo, cancelTo string) (Page, error)
	// Read is a Reader.
	Read(ctx context.Context, stored Subscription) (Subscription, error)
	// Due returns what an upgrade to a plan costs now, in cents.
	Due(ctx context.Context, s Subscription, o check.Plan) (int64, error)
	// Change moves a subscription to another plan: to a dearer one at once, if it is paid, otherwise at the end of the
	// paid period. Changing to the plan that is served reverts an earlier change or cancellation. It fails with an
	// *UnpaidError or ErrDue, and can be repeated.
	Change(ctx context.Context, s Subscription, o check.Plan) (Subscription, error)
	// Cancel ends a subscription at the end of the paid period.
	Cancel(ctx context.Context, s Subscription) (Subscription, error)
	// Refund ends a subscription at once and returns all its payments. It can be repeated.
	Refund(ctx context.Context, s Subscription) error
}

// Billing manages subscriptions. Its fields must not change after the first call.
type Billing struct {
	Accounts Accounts
	Provider Provider
	Now      func() time.Time
}

// Events is implemented by providers that report changes by HTTP.
type Events interface {
	// Event verifies an event. It fails with ErrSignature, or with a description of the malformed event.
	Event(body []byte, signature string) (Event, error)
}

// Event is the subject of an event: a subscription or a decline, or neither if the event does not matter.
type Event struct {
	Subscription string // its id
	Decline      *Decline
}

// Receive reads the subscription that an event is about, or stores the decline. Events may arrive repeatedly, late and
// in any order. Receive fails with ErrSignature, or because of the provider, the database or a refund; then the
// provider resends the event.
func (b *Billing) Receive(ctx context.Context, body []byte, signature string) error {
	events, ok := b.Provider.(Events)
	if !ok {
		return ErrSignature
	}
	e, err := events.Event(body, signature)
	switch {
	case err != nil:
		return err
	case e.Decline != nil:
		return b.Decline(ctx, *e.Decline)
	case e.Subscription != "":
		return b.Apply(ctx, e.Subscription, b.Provider.Read)
	}
	return nil
}

// Apply reads and stores a subscription. It closes the other checkouts of the customer, and refunds the subscription if
// the account had one already.
func (b *Billing) Apply(ctx context.Context, id string, read Reader) error {
	checkout := ""
	err := b.Accounts.Apply(ctx, id, func(ctx context.Context, stored Subscription) (Subscription, error) {
		s, err := read(ctx, stored)
		if checkout = ""; stored.Account == "" && s.Status.Serves() {
			checkout = s.Checkout
		}
		return s, err
	})
	if err != nil {
		return err
	}
	if checkout != "" {
		_, err = b.closeOthers(ctx, checkout)
	}
	return errors.Join(err, b.refund(ctx, id))
}

// Refresh reads the subscriptions whose period is over: those of the test checkout, which sends no events, and those
// whose event was lost.
func (b *Billing) Refresh(ctx context.Context) error {
	ids, err := b.Accounts.DueSubscriptions(ctx, b.Provider.Name())
	for _, id := range ids {
		err = errors.Join(err, b.Apply(ctx, id, b.Provider.Read))
	}
	return err
}

// RefundDue makes all due refunds, including those that the provider did not accept before.
func (b *Billing) RefundDue(ctx context.Context) error { return b.refund(ctx, "") }

func (b *Billing) refund(ctx context.Context, subscription string) error {
	due, err := b.Accounts.DueRefunds(ctx, b.Provider.Name(), subscription)
	for _, s := range due {
		err2 := b.Provider.Refund(ctx, s)
		if err2 == nil {
			err2 = b.Accounts.Refunded(ctx, s.ID)
		}
		err = errors.Join(err, err2) // a failed refund must not delay the others
	}
	return err
}

// Portal is implemented by providers with pages for payment methods, open payments and invoices.
type Portal interface {
	// Portal opens these pages for the subscription's customer and returns their URL. From there the browser returns to
	// returnTo.
	Portal(ctx context.Context, s Subscription, returnTo string) (url string, err error)
}

// HasPortal reports whether the provider implements Portal.
func (b *Billing) HasPortal() bool { _, ok := b.Provider.(Portal); return ok }

// Portal returns the URL of the provider's payment pages for an account. It fails with ErrNotPaid if the account never
// had a subscription or the provider has no such pages, and with ErrUnavailable.
func (b *Billing) Portal(ctx context.Context, account, returnTo string) (url string, err error) {
	portal, ok := b.Provider.(Portal)
	if !ok {
		return "", ErrNotPaid
	}
	s, err := b.Accounts.Subscription(ctx, account)
	if err != nil {
		return "", err
	}
	return portal.Portal(ctx, s, returnTo)
}

// Sells reports whether paid plans can be bought.
func (b *Billing) Sells() bool { t, ok := b.Provider.(*TestCheckout); return !ok || !t.Closed }

// Errors of accounts.
var (
	ErrNoAccount         = errors.New("there is no such account")
	ErrSubscriptionEnded = errors.New("the account's subscription has ended: choose a plan first")
)

// Usage is how much of its monthly quota an account has used.
type Usage struct {
	Plan    check.Plan // with the account's own quota
	Used    int
	ResetAt time.Time // the first instant of the next calendar month, UTC
}

// Quote describes the effect of a change of plan.
type Quote struct {
	Plan    check.Plan
	Current Subscription
	Due     int64     // cents to be paid now
	From    time.Time // when the plan changes; zero: at once
}

// Quote returns the effect of changing an account's plan. It fails like ChangePlan.
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
// when it is paid; a cheaper one at the end of the paid period. Choosing the served plan reverts an earlier choice or a
// cancellation. It fails with ErrNoPlan, ErrNotPaid, ErrNotForSale, ErrDue, ErrUnavailable or an *UnpaidError.
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
