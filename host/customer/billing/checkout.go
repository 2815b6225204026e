package billing

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"
)

const (
	// PayLife is how long a checkout can be paid, as in Stripe.
	PayLife = 24 * time.Hour
	// ClaimLife is how long the browser that began a checkout can claim the key. Payment events arrive up to three days
	// late.
	ClaimLife = 7 * 24 * time.Hour

	// MaxDeclines limits the declined cards of an account or browser, and the declines of one card, within
	// DeclineWindow. Then no further card can be tried. People who test stolen cards have hundreds of them.
	MaxDeclines = 5
	// DeclineWindow is how long a declined card counts.
	DeclineWindow = 24 * time.Hour
)

// Decline is a card that was declined at a checkout.
type Decline struct {
	ID       string // the provider's, of the attempt
	Customer string // of the page
	Card     string // the provider's fingerprint of the card, from which its number cannot be read; "" if unknown
	At       time.Time
}

// Checkout is one attempt to subscribe. An account or browser has at most one that is open.
type Checkout struct {
	ID       string   // co_..., also sent to the provider
	Session  [32]byte // SHA-256 of the browser's token
	Account  string   // the account whose plan changes; "" for a new customer
	Plan     string
	Provider string
	Paid     bool       // set from the beginning if the plan is free
	At       time.Time  // when it begins; in the future after a pause
	Tabs     [][32]byte // sessions of the browser's earlier checkouts; empty if there is an account
}

// Claim is the result of a checkout, for the browser that began it.
type Claim struct {
	Plan    string
	Account string
	Key     string // shown only once; "" if it was shown before, or for an upgrade
	KeyID   string
	Hint    string // of the key, see apikey.Hint
	Upgrade bool   // an existing account's plan changed; its keys stay the same
	Ended   bool   // the subscription has already ended: the key does not work until another one is active

	Refunded bool // the payment is returned without a key, because the account was already subscribed
}

// Page is a provider's page that asks for a card.
type Page struct {
	ID       string // "" if it cannot be closed
	URL      string
	Customer string // the customer whom the provider's reports of declined cards name
}

// Pages is implemented by providers whose pages stay open until they are paid or closed.
type Pages interface {
	// Paid returns the id of the subscription that was paid on a page, or "".
	Paid(ctx context.Context, page string) (subscription string, err error)
	// Close closes a page, or returns the id of the subscription that was paid on it.
	Close(ctx context.Context, page string) (subscription string, err error)
}

// Session is a browser's side of a checkout.
type Session struct {
	Token string // the secret that claims the key; belongs in a cookie, never in a URL
	URL   string // where to send the browser
}

// Order is a customer's request to subscribe.
type Order struct {
	Plan     string
	Account  string   // "" for a new customer
	Tabs     []string // the tokens of checkouts that the browser began earlier
	ReturnTo string   // the URL for the browser once it has paid
	CancelTo string   // the URL for the browser if it has not paid

	Pause time.Duration // before the key of a free plan is issued
}

// Subscribe begins a checkout of a plan for a new customer, or for an account without a subscription. A free plan needs
// no payment. It fails with ErrNoPlan, ErrNotForSale, ErrSubscribed, ErrUnavailable or a *DeclinedError.
func (b *Billing) Subscribe(ctx context.Context, o Order) (Session, error) {
	offer, ok := OfferOf(o.Plan)
	if !ok {
		return Session{}, fmt.Errorf("%w: %q", ErrNoPlan, o.Plan)
	}
	if offer.Cents > 0 && !b.Sells() {
		return Session{}, ErrNotForSale
	}
	if o.Account != "" {
		if s, err := b.Accounts.Subscription(ctx, o.Account); err == nil && s.Status != Canceled {
			return Session{}, ErrSubscribed
		} else if err != nil && !errors.Is(err, ErrNotPaid) {
			return Session{}, err
		}
	}
	token := rand.Text()
	c := Checkout{
		ID: "co_" + ulid.Make().String(), Session: SessionHash(token), Account: o.Account, Plan: o.Plan,
		Provider: b.Provider.Name(), Paid: offer.Cents == 0, At: b.Now(),
	}
	if c.Paid {
		c.At = c.At.Add(o.Pause)
	}
	if o.Account == "" {
		for _, tab := range o.Tabs {
			c.Tabs = append(c.Tabs, SessionHash(tab))
		}
	}
	if err := b.Accounts.BeginCheckout(ctx, c); err != nil {
		return Session{}, err
	}
	if c.Paid {
		return Session{Token: token, URL: o.ReturnTo}, nil
	}
	// One page at a time, so that a card tester cannot use a second one, and nobody pays twice.
	if paid, err := b.closeOthers(ctx, c.ID); err != nil {
		return Session{}, fmt.Errorf("closing other checkouts: %w", err)
	} else if paid {
		return Session{Token: token, URL: o.ReturnTo}, nil
	}
	if err := b.MayTryCard(ctx, c.ID); err != nil {
		return Session{}, err
	}
	page, err := b.Provider.Checkout(ctx, c, o.ReturnTo, o.CancelTo)
	if err == nil {
		err = b.Accounts.SetPage(ctx, c.ID, page)
	}
	if err != nil {
		return Session{}, fmt.Errorf("opening checkout: %w", err)
	}
	return Session{Token: token, URL: page.URL}, nil
}

// pollInterval is the minimum interval at which the provider is asked whether a checkout was paid.
const pollInterval = 2 * time.Second

// Claim issues the key of the browser's paid checkout. If the provider's event is late, it asks the provider. Further
// calls return only its hint. It fails with ErrNoCheckout, ErrPending or a *PausedError.
func (b *Billing) Claim(ctx context.Context, token string) (Claim, error) {
	session := SessionHash(token)
	claim, err := b.Accounts.Claim(ctx, session)
	pages, ok := b.Provider.(Pages)
	if !ok || !errors.Is(err, ErrPending) {
		return claim, err
	}
	page, failed := b.Accounts.PollPage(ctx, session, pollInterval)
	if failed != nil || page == "" {
		return claim, errors.Join(err, failed)
	}
	subscription, failed := pages.Paid(ctx, page)
	if failed == nil && subscription != "" {
		failed = b.Apply(ctx, subscription, b.Provider.Read)
	}
	if failed != nil || subscription == "" {
		return claim, errors.Join(err, failed)
	}
	return b.Accounts.Claim(ctx, session)
}

// Reissue revokes the claimed key and issues another, for a customer who never saw the first. It fails with
// ErrNoCheckout or ErrNoReissue.
func (b *Billing) Reissue(ctx context.Context, token string) (Claim, error) {
	return b.Accounts.Reissue(ctx, SessionHash(token))
}

// MayTryCard returns a *DeclinedError if too many cards of a checkout's account or browser were declined.
func (b *Billing) MayTryCard(ctx context.Context, checkout string) error {
	at, err := b.Accounts.Declined(ctx, checkout, MaxDeclines)
	if until := at.Add(DeclineWindow); err == nil && until.After(b.Now()) {
		return &DeclinedError{until}
	}
	return err
}

// Decline stores that a card was declined. After too many declines, it closes the customer's open pages.
func (b *Billing) Decline(ctx context.Context, d Decline) error {
	open, err := b.Accounts.Decline(ctx, d, b.Now().Add(-DeclineWindow), MaxDeclines)
	if err == nil {
		_, err = b.closePages(ctx, open)
	}
	return err
}

// closeOthers closes the pages of the other open checkouts of a checkout's account or browser. It reports whether one
// of them turned out to be paid.
func (b *Billing) closeOthers(ctx context.Context, checkout string) (paid bool, err error) {
	others, err := b.Accounts.OtherPages(ctx, checkout)
	if err != nil {
		return false, err
	}
	return b.closePages(ctx, others)
}

// closePages closes pages. It reports whether one of them turned out to be paid.
func (b *Billing) closePages(ctx context.Context, open []string) (paid bool, err error) {
	pages, ok := b.Provider.(Pages)
	if !ok {
		return false, nil
	}
	for _, page := range open {
		subscription, failed := pages.Close(ctx, page)
		if failed == nil && subscription != "" {
			paid, failed = true, b.Apply(ctx, subscription, b.Provider.Read)
		}
		err = errors.Join(err, failed)
	}
	return paid, err
}

// SessionHash returns the hash under which a checkout's token is stored.
func SessionHash(token string) [32]byte { return sha256.Sum256([]byte(token)) }
