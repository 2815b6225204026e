package billing

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"assay/registry/expect"
)

// recorder is an Accounts that records its calls.
type recorder struct {
	begun   []Checkout
	applied []Change
	sub     Subscription
	err     error // of Subscription

	due      []Subscription
	refunded []string
}

func (a *recorder) DueRefunds(_ context.Context, provider, subscription string) (due []Subscription, _ error) {
	for _, s := range a.due {
		if s.Provider == provider && (subscription == "" || s.ID == subscription) {
			due = append(due, s)
		}
	}
	return due, nil
}
func (a *recorder) Refunded(_ context.Context, subscription string) error {
	a.refunded = append(a.refunded, subscription)
	return nil
}

func (a *recorder) BeginCheckout(_ context.Context, c Checkout) error {
	a.begun = append(a.begun, c)
	return nil
}
func (a *recorder) Apply(_ context.Context, c Change) error {
	a.applied = append(a.applied, c)
	return nil
}
func (*recorder) Claim(context.Context, [32]byte) (Claim, error)   { return Claim{}, ErrPending }
func (*recorder) Reissue(context.Context, [32]byte) (Claim, error) { return Claim{}, ErrNoReissue }
func (a *recorder) Subscription(context.Context, string) (Subscription, error) {
	return a.sub, a.err
}

var testTime = time.Date(2031, 5, 15, 12, 0, 0, 0, time.UTC)

func now() time.Time { return testTime }

func newTest(a *recorder) (*Billing, *TestCheckout) {
	provider := &TestCheckout{Now: now, Page: "/checkout/test/"}
	return &Billing{Accounts: a, Provider: provider, Now: now}, provider
}

func TestSubscribe(t *testing.T) {
	t.Parallel()
	type testCase struct {
		plan, account string
		sub           Subscription
		subErr        error
		url           string // a prefix
		err           error
	}
	expect.Each(t, map[string]testCase{
		"new customer":      {plan: "starter", url: "/checkout/test/co_"},
		"free":              {plan: "free", url: "https://a.example/back"},
		"upgrade from free": {plan: "pro", account: "acct_1", subErr: ErrNotPaid, url: "/checkout/test/co_"},
		"after a cancellation": {plan: "pro", account: "acct_1", sub: Subscription{Status: Canceled},
			url: "/checkout/test/co_"},
		"unknown plan":       {plan: "gold", err: ErrNoPlan},
		"the public plan":    {plan: "public", err: ErrNoPlan},
		"already subscribed": {plan: "pro", account: "acct_1", sub: Subscription{Status: PastDue}, err: ErrSubscribed},
	}, func(t *testing.T, test testCase) {
		a := &recorder{sub: test.sub, err: test.subErr}
		b, _ := newTest(a)
		s, err := b.Subscribe(t.Context(), Order{Plan: test.plan, Account: test.account,
			ReturnTo: "https://a.example/back", CancelTo: "https://a.example/no"})
		expect.Must(t, errors.Is(err, test.err), "got %v, want %v", err, test.err)
		if test.err != nil {
			expect.Equal(t, "a checkout was stored", len(a.begun), 0)
			return
		}
		c := a.begun[0]
		expect.That(t, strings.HasPrefix(s.URL, test.url) && !strings.Contains(s.URL, s.Token), "URL %s", s.URL)
		expect.That(t, c.Session == SessionHash(s.Token) && len(s.Token) == 43 && c.Plan == test.plan &&
			c.Account == test.account && c.Paid == (test.plan == "free"), "stored %+v", c)
	})
}

func TestPayValidatesCards(t *testing.T) {
	t.Parallel()
	_, provider := newTest(nil)
	good := Card{Number: "4242 4242 4242 4242", Expiry: "12 / 34", CVC: "123", Name: "Jane Doe"}
	with := func(change func(*Card)) Card {
		c := good
		change(&c)
		return c
	}
	for name, test := range map[string]struct {
		card  Card
		field string // the invalid field; "" if the card is accepted
		text  string
	}{
		"visa":                  {good, "", ""},
		"hyphens":               {with(func(c *Card) { c.Number = "5555-5555-5555-4444" }), "", ""},
		"four-digit year":       {with(func(c *Card) { c.Expiry = "05/2031" }), "", ""},
		"american express":      {with(func(c *Card) { c.Number, c.CVC = "378282246310005", "1234" }), "", ""},
		"amex, short code":      {with(func(c *Card) { c.Number = "378282246310005" }), "cvc", "4 digits"},
		"real number":           {with(func(c *Card) { c.Number = "4111111111111111" }), "number", "Real cards"},
		"empty":                 {Card{}, "number", "incomplete"},
		"letters":               {with(func(c *Card) { c.Number = "4242x" }), "number", "incomplete"},
		"declined":              {with(func(c *Card) { c.Number = "4000000000000002" }), "number", "declined"},
		"no funds":              {with(func(c *Card) { c.Number = "4000000000009995" }), "number", "insufficient"},
		"last month":            {with(func(c *Card) { c.Expiry = "04/31" }), "expiry", "past"},
		"month 13":              {with(func(c *Card) { c.Expiry = "13/34" }), "expiry", "MM / YY"},
		"no expiry":             {with(func(c *Card) { c.Expiry = "" }), "expiry", "MM / YY"},
		"no code":               {with(func(c *Card) { c.CVC = "" }), "cvc", "3 digits"},
		"no name":               {with(func(c *Card) { c.Name = "  " }), "name", "name"},
		"expiry before decline": {with(func(c *Card) { c.Number, c.Expiry = "4000000000000002", "1" }), "expiry", "MM"},
	} {
		c, err := provider.Pay("co_1", "pro", test.card)
		var wrong *CardError
		if test.field == "" {
			expect.That(t, err == nil && c.Checkout == "co_1" && c.Plan == "pro" && c.Status == Active &&
				c.Subscription != "" && c.Event != "", "%s: got %+v, %v", name, c, err)
			continue
		}
		expect.That(t, errors.As(err, &wrong) && wrong.Field == test.field &&
			strings.Contains(wrong.Reason, test.text), "%s: got %v", name, err)
		expect.Equal(t, name+": a rejected card caused the change", c, (Change{}))
	}
}

func TestChangeCancelResume(t *testing.T) {
	t.Parallel()
	sub := Subscription{ID: "test_sub_1", Account: "acct_1", Customer: "test_cus_1", Plan: "starter", Status: PastDue}
	month := time.Date(2031, 6, 1, 0, 0, 0, 0, time.UTC)
	type testCase struct {
		call func(context.Context, *Billing) error
		want Change
	}
	expect.Each(t, map[string]testCase{
		"change": {func(ctx context.Context, b *Billing) error { return b.ChangePlan(ctx, "acct_1", "pro") },
			Change{Plan: "pro", Status: PastDue}},
		"cancel": {func(ctx context.Context, b *Billing) error { return b.Cancel(ctx, "acct_1") },
			Change{Status: PastDue, EndsAt: month}},
		"resume": {func(ctx context.Context, b *Billing) error { return b.Resume(ctx, "acct_1") },
			Change{Status: PastDue}},
	}, func(t *testing.T, test testCase) {
		a := &recorder{sub: sub}
		b, _ := newTest(a)
		expect.NoError(t, test.call(t.Context(), b))
		got := a.applied[0]
		expect.Equal(t, "the change has no id", got.Event == "", false)
		test.want.Event, test.want.At, test.want.Provider = got.Event, testTime, "test"
		test.want.Subscription, test.want.Customer = sub.ID, sub.Customer
		expect.Equal(t, "change", got, test.want)
		b.Accounts = &recorder{sub: Subscription{Status: Canceled}}
		expect.Error(t, "with a canceled subscription", test.call(t.Context(), b), ErrNotPaid)
	})
	b, _ := newTest(&recorder{sub: sub})
	expect.Error(t, "changing to the free plan", b.ChangePlan(t.Context(), "acct_1", "free"), ErrNoPlan)
}

func TestTestCheckoutRejectsEvents(t *testing.T) {
	t.Parallel()
	a := &recorder{}
	b, _ := newTest(a)
	err := b.Receive(t.Context(), []byte(`{}`), "")
	expect.That(t, errors.Is(err, ErrSignature) && len(a.applied) == 0, "got %v and %v", err, a.applied)
}

// brokenProvider refuses to refund one subscription.
type brokenProvider struct{ *TestCheckout }

func (brokenProvider) Refund(_ context.Context, s Subscription) error {
	if s.ID == "sub_refused" {
		return ErrUnavailable
	}
	return nil
}

// A second subscription is refunded when its payment arrives. A refund that fails is tried again, and delays no other.
func TestRefunds(t *testing.T) {
	t.Parallel()
	a := &recorder{due: []Subscription{{ID: "sub_refused", Provider: "test"}, {ID: "sub_2", Provider: "test"},
		{ID: "sub_of_another_provider", Provider: "stripe"}}}
	b, provider := newTest(a)
	b.Provider = brokenProvider{provider}
	if err := b.Apply(t.Context(), Change{Subscription: "sub_1"}); err != nil || len(a.refunded) != 0 {
		t.Errorf("a first subscription: %v, refunded %v", err, a.refunded)
	}
	if err := b.Apply(t.Context(), Change{Subscription: "sub_refused"}); !errors.Is(err, ErrUnavailable) {
		t.Errorf("a refund that failed: %v, want ErrUnavailable, so that the event is sent again", err)
	}
	err := b.RefundDue(t.Context())
	expect.That(t, errors.Is(err, ErrUnavailable) && slices.Equal(a.refunded, []string{"sub_2"}),
		"RefundDue: %v, refunded %v", err, a.refunded)
	expect.NoError(t, b.Apply(t.Context(), Change{Subscription: "sub_2"}))
}

// A host without a payment provider gives free keys only. What was sold for test cards can be cancelled.
func TestClosed(t *testing.T) {
	t.Parallel()
	a := &recorder{err: ErrNotPaid}
	b, provider := newTest(a)
	b.Provider = &Closed{*provider}
	for plan, want := range map[string]error{"free": nil, "starter": ErrNotForSale, "pro": ErrNotForSale} {
		_, err := b.Subscribe(t.Context(), Order{Plan: plan})
		expect.That(t, errors.Is(err, want), "subscribing to %s: %v, want %v", plan, err, want)
	}
	expect.That(t, len(a.begun) == 1 && !b.Sells() && !b.Provider.Test(), "checkouts %+v, sells: %v, test mode: %v",
		a.begun, b.Sells(), b.Provider.Test())
	b.Accounts = &recorder{sub: Subscription{ID: "test_sub_1", Status: Active}}
	expect.Error(t, "changing the plan", b.ChangePlan(t.Context(), "acct_1", "pro"), ErrNotForSale)
	expect.NoError(t, b.Cancel(t.Context(), "acct_1"))
}
