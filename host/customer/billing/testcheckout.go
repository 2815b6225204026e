package billing

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
)

// TestCheckout is the provider for trials without a Stripe key. It works like Stripe's checkout, but accepts only
// Stripe's published test numbers (docs.stripe.com/testing), and no money moves: anybody can get a key of any plan.
type TestCheckout struct {
	Now func() time.Time
	// Page is the path of the card form, to which the checkout's id is appended.
	Page string
}

var _ Provider = (*TestCheckout)(nil)

// Name implements Provider.
func (*TestCheckout) Name() string { return "test" }

// Test implements Provider.
func (*TestCheckout) Test() bool { return true }

// Checkout implements Provider.
func (t *TestCheckout) Checkout(_ context.Context, c Checkout, _, _ string) (string, error) {
	return t.Page + url.PathEscape(c.ID), nil
}

// Card is the input of the card form.
type Card struct {
	Number string // spaces and hyphens allowed
	Expiry string // MM/YY or MM / YYYY
	CVC    string
	Name   string
}

// CardError describes an invalid field of a card.
type CardError struct {
	Field  string // number, expiry, cvc or name
	Reason string
}

func (e *CardError) Error() string { return e.Reason }

// testCards maps Stripe's published test numbers to the reason why each is declined; "" if it is accepted.
var testCards = map[string]string{
	"4242424242424242": "", "4000056655665556": "", "5555555555554444": "", "2223003122003222": "",
	"5200828282828210": "", "5105105105105100": "", "378282246310005": "", "371449635398431": "",
	"6011111111111117": "", "6011000990139424": "", "3056930009020004": "", "36227206271667": "",
	"3566002020360505": "", "6200000000000005": "", "4000002500003155": "",
	"4000000000000002": "Your card was declined.",
	"4000000000009995": "Your card has insufficient funds.",
	"4000000000009987": "Your card was declined.",
	"4000000000009979": "Your card was declined.",
	"4000000000000069": "Your card has expired.",
	"4000000000000127": "Your card's security code is incorrect.",
	"4000000000000119": "An error occurred while processing your card. Try again in a little bit.",
	"4242424242424241": "Your card number is incorrect.",
	"4000000000006975": "Your card's velocity limit was exceeded.",
}

// Pay pays a checkout with a card and returns the resulting change. It fails with a *CardError if the card is not
// accepted. The input is not stored.
func (t *TestCheckout) Pay(checkout, plan string, card Card) (Change, error) {
	number := strings.NewReplacer(" ", "", "-", "").Replace(card.Number)
	if number == "" || strings.Trim(number, "0123456789") != "" {
		return Change{}, &CardError{"number", "Your card number is incomplete."}
	}
	declined, known := testCards[number]
	if !known {
		return Change{}, &CardError{"number",
			"This is a test checkout: use a test card such as 4242 4242 4242 4242. Real cards are not accepted."}
	}
	if err := t.checkExpiry(card.Expiry); err != nil {
		return Change{}, err
	}
	digits := 3
	if strings.HasPrefix(number, "34") || strings.HasPrefix(number, "37") {
		digits = 4 // American Express
	}
	if len(card.CVC) != digits || strings.Trim(card.CVC, "0123456789") != "" {
		return Change{}, &CardError{"cvc", fmt.Sprintf("Your card's security code has %d digits.", digits)}
	}
	if name := strings.TrimSpace(card.Name); name == "" || len(name) > 200 {
		return Change{}, &CardError{"name", "Enter the name on the card."}
	}
	if declined != "" {
		return Change{}, &CardError{"number", declined}
	}
	// The ids derive from the checkout, so that paying twice creates one subscription.
	id := strings.TrimPrefix(checkout, "co_")
	return Change{
		Event: "test_evt_" + id, At: t.Now(), Provider: t.Name(), Checkout: checkout, Customer: "test_cus_" + id,
		Subscription: "test_sub_" + id, Plan: plan, Status: Active,
	}, nil
}

func (t *TestCheckout) checkExpiry(text string) error {
	month, year, ok := strings.Cut(strings.ReplaceAll(text, " ", ""), "/")
	m, err1 := strconv.Atoi(month)
	y, err2 := strconv.Atoi(year)
	if !ok || err1 != nil || err2 != nil || m < 1 || m > 12 || len(year) != 2 && len(year) != 4 {
		return &CardError{"expiry", "Enter the expiry date as MM / YY."}
	}
	if len(year) == 2 {
		y += 2000
	}
	if end := time.Date(y, time.Month(m)+1, 1, 0, 0, 0, 0, time.UTC); !t.Now().Before(end) || y > t.Now().Year()+50 {
		return &CardError{"expiry", "Your card's expiration date is in the past or too far ahead."}
	}
	return nil
}

// Change implements Provider.
func (t *TestCheckout) Change(_ context.Context, s Subscription, o Offer) (Change, error) {
	c := t.event(s)
	c.Plan, c.Status, c.EndsAt = o.Plan.Name, s.Status, s.EndsAt
	return c, nil
}

// Cancel implements Provider. The paid period ends with the calendar month.
func (t *TestCheckout) Cancel(_ context.Context, s Subscription) (Change, error) {
	c := t.event(s)
	year, month, _ := t.Now().UTC().Date()
	c.Status, c.EndsAt = s.Status, time.Date(year, month+1, 1, 0, 0, 0, 0, time.UTC)
	return c, nil
}

// Resume implements Provider.
func (t *TestCheckout) Resume(_ context.Context, s Subscription) (Change, error) {
	c := t.event(s)
	c.Status = s.Status
	return c, nil
}

// Refund implements Provider. No money moved.
func (*TestCheckout) Refund(context.Context, Subscription) error { return nil }

// event returns a change of the subscription with a new event id.
func (t *TestCheckout) event(s Subscription) Change {
	return Change{Event: "test_evt_" + ulid.Make().String(), At: t.Now(), Provider: t.Name(), Customer: s.Customer,
		Subscription: s.ID}
}

// Closed is the provider of hosts that sell no paid plans. Subscriptions from the test checkout can still be cancelled.
type Closed struct{ TestCheckout }

var _ Provider = (*Closed)(nil)

// Test implements Provider.
func (*Closed) Test() bool { return false }

// Checkout implements Provider. It fails with ErrNotForSale.
func (*Closed) Checkout(context.Context, Checkout, string, string) (string, error) {
	return "", ErrNotForSale
}

// Change implements Provider. It fails with ErrNotForSale.
func (*Closed) Change(context.Context, Subscription, Offer) (Change, error) {
	return Change{}, ErrNotForSale
}
