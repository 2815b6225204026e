// Package billing sells plans: it opens checkouts with a payment provider, takes what the provider says happened, and
// hands out the key that was paid for. Card data never passes through it, but for the built-in test checkout, which
// takes published test numbers only.
package billing

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"

	"assay/host/check"
)

// Offer is a plan and what it costs.
type Offer struct {
	Plan  check.Plan
	Cents int64 // euro cents a month, 0 for free
}

// Offers lists what can be subscribed to, cheapest first. The plans are those of spec section 8; the prices are this
// service's own, since the specification names none.
func Offers() []Offer {
	cents := map[string]int64{"starter": 19_00, "pro": 99_00}
	var offers []Offer
	for _, p := range check.Plans() {
		offers = append(offers, Offer{Plan: p, Cents: cents[p.Name]})
	}
	return offers
}

// OfferOf returns the offer of the named plan and whether there is one.
func OfferOf(plan string) (Offer, bool) {
	for _, o := range Offers() {
		if o.Plan.Name == plan {
			return o, true
		}
	}
	return Offer{}, false
}

// Status is a subscription's, in Stripe's words.
type Status string

// The statuses. A new subscription is incomplete until its first payment, and a failed one is past due while the
// provider tries again, then unpaid.
const (
	Incomplete Status = "incomplete"
	Active     Status = "active"
	PastDue    Status = "past_due"
	Unpaid     Status = "unpaid"
	Paused     Status = "paused"
	Canceled   Status = "canceled" // for ever
)

// Serves says whether keys work in this status: also while a failed payment is tried again.
func (s Status) Serves() bool { return s == Active || s == PastDue }

// Change is what a provider says happened. Each is applied at most once, and none that is older than what is known
// already; what has ended does not begin again.
type Change struct {
	Event        string    // the provider's id of it
	At           time.Time // by the provider's clock
	Provider     string
	Checkout     string // the checkout that it belongs to; "" when it names none
	Customer     string // the provider's id
	Subscription string // the provider's id
	Plan         string // "" when it does not say
	Status       Status // "" when it does not say
	EndsAt       time.Time
}

// Subscription is what is stored about a customer's subscription (spec section 2.5).
type Subscription struct {
	ID       string
	Account  string // "" until its checkout is known
	Provider string
	Customer string
	Plan     string
	Status   Status
	EndsAt   time.Time // when it was cancelled to the end of what is paid for; else zero
}

// How long a checkout can be paid, which is as Stripe has it, and how long the browser that began it can come for the
// key: payment events come up to three days late.
const (
	PayLife   = 24 * time.Hour
	ClaimLife = 7 * 24 * time.Hour
)

// Checkout is one attempt to subscribe.
type Checkout struct {
	ID       string   // co_..., told to the provider
	Session  [32]byte // SHA-256 of the token that the browser keeps
	Account  string   // whose plan changes; "" for a new customer
	Plan     string
	Provider string
	Paid     bool // when it costs nothing
	At       time.Time
}

// Claim is the answer to whoever comes back from a checkout.
type Claim struct {
	Plan    string
	Account string
	Key     string // shown this once; "" when there is none to show
	KeyID   string
	Hint    string // of a key that was shown before
	Upgrade bool   // an existing account's plan changed; its keys stay
	Ended   bool   // the subscription has ended already: the key signs in and does no more
}

// Errors of this package.
var (
	ErrNoCheckout  = errors.New("there is no such checkout, or it has expired")
	ErrPending     = errors.New("the payment has not been confirmed yet")
	ErrNoPlan      = errors.New("there is no such plan")
	ErrNoReissue   = errors.New("this key cannot be issued again here: sign in with it, or write to support")
	ErrSubscribed  = errors.New("the account has a subscription already: change its plan instead")
	ErrNotPaid     = errors.New("the account has no subscription")
	ErrUnavailable = errors.New("the payment provider cannot be reached; nothing was charged")
)

// Accounts keeps checkouts, subscriptions and what hangs on them.
type Accounts interface {
	// BeginCheckout keeps a checkout. Error: ErrSubscribed, for a free one of an account that a subscription serves.
	BeginCheckout(ctx context.Context, c Checkout) error
	// Apply makes a change and what follows from it durable together: the account of a new customer, its plan and
	// quota, and whether its keys work. A change that was applied before, or that is older than what is known, does
	// nothing.
	Apply(ctx context.Context, c Change) error
	// Claim issues the key of a paid checkout, once; afterwards it tells the hint only. Errors: ErrNoCheckout,
	// ErrPending.
	Claim(ctx context.Context, session [32]byte) (Claim, error)
	// Reissue replaces the key that Claim issued, which ends. Errors: ErrNoCheckout, ErrNoReissue.
	Reissue(ctx context.Context, session [32]byte) (Claim, error)
	// Subscription returns the account's latest. Error: ErrNotPaid.
	Subscription(ctx context.Context, account string) (Subscription, error)
}

// Provider takes cards. Errors that are its own and may pass wrap ErrUnavailable.
type Provider interface {
	Name() string
	// Test says whether no real money moves.
	Test() bool
	// Checkout opens the provider's page for a checkout and returns where to send the browser. From there it comes back
	// to returnTo, or to cancelTo when nothing was bought.
	Checkout(ctx context.Context, c Checkout, returnTo, cancelTo string) (url string, err error)
	// Change moves a subscription to another plan, at once and prorated.
	Change(ctx context.Context, s Subscription, o Offer) (Change, error)
	// Cancel ends a subscription when what is paid for ends; Resume takes that back.
	Cancel(ctx context.Context, s Subscription) (Change, error)
	Resume(ctx context.Context, s Subscription) (Change, error)
}

// Billing sells plans. Its fields are set once.
type Billing struct {
	Accounts Accounts
	Provider Provider
	Now      func() time.Time
}

// Events is a provider that tells what happened by HTTP.
type Events interface {
	// Event reads an event's body; ok is false for one that changes nothing here. Error: ErrSignature, or what is wrong
	// with it.
	Event(body []byte, signature string) (c Change, ok bool, err error)
}

// Receive applies an event that the provider sent. It may come again, late and in any order. Error: ErrSignature, or
// the database's, after which the provider sends it again.
func (b *Billing) Receive(ctx context.Context, body []byte, signature string) error {
	events, ok := b.Provider.(Events)
	if !ok {
		return ErrSignature
	}
	c, ok, err := events.Event(body, signature)
	if err != nil || !ok {
		return err
	}
	return b.Accounts.Apply(ctx, c)
}

// Portal is a provider with pages where customers change their card, settle what is due and find their invoices.
type Portal interface {
	// Portal opens these pages for the customer of a subscription; from there the browser comes back to returnTo.
	Portal(ctx context.Context, s Subscription, returnTo string) (url string, err error)
}

// HasPortal says whether the provider has such pages.
func (b *Billing) HasPortal() bool { _, ok := b.Provider.(Portal); return ok }

// Portal returns where to send the browser of an account that wants to change how it pays. Errors: ErrNotPaid, for one
// that never subscribed and where there are no such pages; ErrUnavailable.
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

// Session is a browser's side of a checkout.
type Session struct {
	Token string // the secret that claims the key; for a cookie, never a URL
	URL   string // where to go now
}

// Subscribe begins a checkout of plan, for a new customer or for an account that has no subscription. A free plan needs
// no payment. Errors: ErrNoPlan, ErrSubscribed, ErrUnavailable.
func (b *Billing) Subscribe(ctx context.Context, plan, account, returnTo, cancelTo string) (Session, error) {
	offer, ok := OfferOf(plan)
	if !ok {
		return Session{}, fmt.Errorf("%w: %q", ErrNoPlan, plan)
	}
	if account != "" {
		if s, err := b.Accounts.Subscription(ctx, account); err == nil && s.Status != Canceled {
			return Session{}, ErrSubscribed
		} else if err != nil && !errors.Is(err, ErrNotPaid) {
			return Session{}, err
		}
	}
	token := newToken()
	c := Checkout{
		ID: "co_" + ulid.Make().String(), Session: SessionHash(token), Account: account, Plan: plan,
		Provider: b.Provider.Name(), Paid: offer.Cents == 0, At: b.Now(),
	}
	if err := b.Accounts.BeginCheckout(ctx, c); err != nil {
		return Session{}, err
	}
	if c.Paid {
		return Session{Token: token, URL: returnTo}, nil
	}
	url, err := b.Provider.Checkout(ctx, c, returnTo, cancelTo)
	if err != nil {
		return Session{}, fmt.Errorf("opening checkout: %w", err)
	}
	return Session{Token: token, URL: url}, nil
}

// Claim returns the key that the browser's checkout paid for, the first time. Errors: ErrNoCheckout, ErrPending.
func (b *Billing) Claim(ctx context.Context, token string) (Claim, error) {
	return b.Accounts.Claim(ctx, SessionHash(token))
}

// Reissue ends the key that was claimed and returns another, for a browser that never saw the first. Errors:
// ErrNoCheckout, ErrNoReissue.
func (b *Billing) Reissue(ctx context.Context, token string) (Claim, error) {
	return b.Accounts.Reissue(ctx, SessionHash(token))
}

// ChangePlan moves an account's subscription to another paid plan. Its keys stay, its quota changes at once. Errors:
// ErrNoPlan, ErrNotPaid, ErrUnavailable.
func (b *Billing) ChangePlan(ctx context.Context, account, plan string) error {
	offer, ok := OfferOf(plan)
	if !ok || offer.Cents == 0 {
		return fmt.Errorf("%w: %q", ErrNoPlan, plan)
	}
	return b.with(ctx, account, func(s Subscription) (Change, error) { return b.Provider.Change(ctx, s, offer) })
}

// Cancel ends an account's subscription when what is paid for ends; Resume takes that back. Errors: ErrNotPaid,
// ErrUnavailable.
func (b *Billing) Cancel(ctx context.Context, account string) error {
	return b.with(ctx, account, func(s Subscription) (Change, error) { return b.Provider.Cancel(ctx, s) })
}

// Resume is described at Cancel.
func (b *Billing) Resume(ctx context.Context, account string) error {
	return b.with(ctx, account, func(s Subscription) (Change, error) { return b.Provider.Resume(ctx, s) })
}

// with asks the provider for a change and applies it at once: the provider's own event, which says the same, may take a
// while.
func (b *Billing) with(ctx context.Context, account string, ask func(Subscription) (Change, error)) error {
	s, err := b.Accounts.Subscription(ctx, account)
	if err != nil {
		return err
	}
	if s.Status == Canceled {
		return ErrNotPaid
	}
	c, err := ask(s)
	if err != nil {
		return err
	}
	return b.Accounts.Apply(ctx, c)
}

// SessionHash is what is stored of a checkout's token.
func SessionHash(token string) [32]byte { return sha256.Sum256([]byte(token)) }

func newToken() string {
	raw := make([]byte, 32)
	rand.Read(raw)
	return base64.RawURLEncoding.EncodeToString(raw)
}
