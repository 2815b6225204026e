package billing

import (
	"context"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"assay/host/check"
)

// TestCheckout is the provider for trials without a Stripe key. It works like Stripe's checkout, but accepts only
// Stripe's published test numbers (docs.stripe.com/testing), and no money moves: anybody can get a key of any plan.
type TestCheckout struct {
	Now func() time.Time
	// Page is the path of the card form, to which the checkout's id is appended.
	Page string
	// Closed is set on hosts that sell no paid plans. Subscriptions from the test checkout can still be cancelled.
	Closed bool
}

var _ Provider = (*TestCheckout)(nil)

// Name implements Provider.
func (*TestCheckout) Name() string { return "test" }

// Test implements Provider.
func (t *TestCheckout) Test() bool { return !t.Closed }

// Checkout implements Provider.
func (t *TestCheckout) Checkout(_ context.Context, c Checkout, _, _ string) (Page, error) {
	if t.Closed {
		return Page{}, ErrNotForSale
	}
	return Page{URL: t.Page + url.PathEscape(c.ID), Customer: testCustomer(c.ID)}, nil
}

// testCustomer returns the customer of a checkout.
func testCustomer(checkout string) string { return "test_cus_" + strings.TrimPrefix(checkout, "co_") }

// Card is the input of the card form.
type Card struct {
	Number string // spaces and hyphens allowed
	Expiry string // MM/YY, MMYY or MM / YYYY
	CVC    string
	Name   string
}

// Shown returns the card without data that could be a real card's, so that a page may show it again.
func (c Card) Shown() Card {
	if _, known := testCards[c.digits()]; !known {
		c.Number, c.CVC = "", ""
	}
	return c
}

func (c Card) digits() string { return strings.NewReplacer(" ", "", "-", "").Replace(c.Number) }

// CardError describes an invalid field of a card.
type CardError struct {
	Field  string // number, expiry, cvc or name
	Reason string
	// Decline is set if the card was declined. It names no card, because everybody uses the same test cards.
	Decline *Decline
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

// Pay pays a checkout with a card and returns the resulting subscription. It fails with a *CardError if the card is not
// accepted. The input is not stored.
func (t *TestCheckout) Pay(checkout, plan string, card Card) (Subscription, error) {
	number := card.digits()
	if number == "" || strings.Trim(number, "0123456789") != "" {
		return Subscription{}, &CardError{Field: "number", Reason: "Your card number is incomplete."}
	}
	declined, known := testCards[number]
	if !known {
		return Subscription{}, &CardError{Field: "number", Reason: "This is a test checkout: use a test card " +
			"such as 4242 4242 4242 4242. Real cards are not accepted."}
	}
	if err := t.checkExpiry(card.Expiry); err != nil {
		return Subscription{}, err
	}
	digits := 3
	if strings.HasPrefix(number, "34") || strings.HasPrefix(number, "37") {
		digits = 4 // American Express
	}
	if len(card.CVC) != digits || strings.Trim(card.CVC, "0123456789") != "" {
		return Subscription{}, &CardError{Field: "cvc",
			Reason: fmt.Sprintf("Your card's security code has %d digits.", digits)}
	}
	if name := strings.TrimSpace(card.Name); name == "" || len(name) > 200 {
		return Subscription{}, &CardError{Field: "name", Reason: "Enter the name on the card."}
	}
	if declined != "" {
		return Subscription{}, &CardError{"number", declined,
			&Decline{ID: "test_decline_" + ulid.Make().String(), Customer: testCustomer(checkout), At: t.Now()}}
	}
	// The ids derive from the checkout, so that paying twice creates one subscription.
	return Subscription{ID: "test_sub_" + strings.TrimPrefix(checkout, "co_"), Provider: t.Name(), Checkout: checkout,
		Customer: testCustomer(checkout), Plan: plan, Status: Active, PaidUntil: t.Now().AddDate(0, 1, 0)}, nil
}

// Read is a Reader of a subscription that was just paid. It changes nothing if it is repeated.
func (s Subscription) Read(_ context.Context, stored Subscription) (Subscription, error) {
	if stored.Status != Incomplete {
		return stored, nil
	}
	return s, nil
}

func (t *TestCheckout) checkExpiry(text string) error {
	text = strings.NewReplacer(" ", "", "-", "/", ".", "/").Replace(text)
	if !strings.Contains(text, "/") && len(text) > 2 { // 1230 is 12/30
		text = text[:2] + "/" + text[2:]
	}
	month, year, ok := strings.Cut(text, "/")
	m, err1 := strconv.Atoi(month)
	y, err2 := strconv.Atoi(year)
	if !ok || err1 != nil || err2 != nil || m < 1 || m > 12 || len(year) != 2 && len(year) != 4 {
		return &CardError{Field: "expiry", Reason: "Enter the expiry date as MM / YY."}
	}
	if len(year) == 2 {
		y += 2000
	}
	if end := time.Date(y, time.Month(m)+1, 1, 0, 0, 0, 0, time.UTC); !t.Now().Before(end) || y > t.Now().Year()+50 {
		return &CardError{Field: "expiry", Reason: "Your card's expiration date is in the past or too far ahead."}
	}
	return nil
}

// Read implements Provider. A period lasts a month.
func (t *TestCheckout) Read(_ context.Context, s Subscription) (Subscription, error) {
	now := t.Now()
	for s.Status == Active && s.EndsAt.IsZero() && !now.Before(s.PaidUntil) {
		if s.PaidUntil = s.PaidUntil.AddDate(0, 1, 0); s.NextPlan != "" {
			s.Plan, s.NextPlan = s.NextPlan, ""
		}
	}
	if !s.EndsAt.IsZero() && !now.Before(s.EndsAt) {
		s.Status = Canceled
	}
	return s, nil
}

// Due implements Provider: a month's price minus the rest of the paid period.
func (t *TestCheckout) Due(_ context.Context, s Subscription, o check.Plan) (int64, error) {
	if t.Closed {
		return 0, ErrNotForSale
	}
	current, _ := OfferOf(s.Plan)
	left, month := s.PaidUntil.Sub(t.Now()), s.PaidUntil.Sub(s.PaidUntil.AddDate(0, -1, 0))
	return o.Cents - int64(math.Round(float64(current.Cents)*max(0, left.Hours())/month.Hours())), nil
}

// Change implements Provider.
func (t *TestCheckout) Change(_ context.Context, s Subscription, o check.Plan) (Subscription, error) {
	switch {
	case o.Name == s.Plan:
		s.NextPlan, s.EndsAt = "", time.Time{}
	case s.raises(o) && t.Closed:
		return s, ErrNotForSale
	case o.Cents > 0 && s.Status != Active:
		return s, ErrDue
	case s.raises(o):
		s.Plan, s.NextPlan, s.EndsAt, s.PaidUntil = o.Name, "", time.Time{}, t.Now().AddDate(0, 1, 0)
	case o.Cents == 0:
		s.NextPlan, s.EndsAt = o.Name, s.PaidUntil
	default:
		s.NextPlan, s.EndsAt = o.Name, time.Time{}
	}
	return s, nil
}

// Cancel implements Provider.
func (t *TestCheckout) Cancel(_ context.Context, s Subscription) (Subscription, error) {
	s.NextPlan, s.EndsAt = "", s.PaidUntil
	return s, nil
}

// Refund implements Provider. No money moved.
func (*TestCheckout) Refund(context.Context, Subscription) error { return nil }
