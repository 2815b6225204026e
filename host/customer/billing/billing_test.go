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

// recorder is an Accounts that records its calls. Those that it lacks are not called.
type recorder struct {
	Accounts

	begun   []Checkout
	applied []Subscription
	sub     Subscription
	err     error    // of Subscription
	pages   []string // of other checkouts
	stale   []string

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
func (a *recorder) Apply(ctx context.Context, id string, read Reader) error {
	stored := a.sub
	if stored.ID != id {
		stored = Subscription{ID: id, Status: Incomplete}
	}
	s, err := read(ctx, stored)
	if err == nil {
		a.applied = append(a.applied, s)
	}
	return err
}
func (a *recorder) OtherPages(context.Context, string) ([]string, error)       { return a.pages, nil }
func (a *recorder) DueSubscriptions(context.Context, string) ([]string, error) { return a.stale, nil }
func (*recorder) SetPage(context.Context, string, Page) error                  { return nil }
func (*recorder) Declined(context.Context, string, int64) (time.Time, error)   { return time.Time{}, nil }
func (*recorder) PollPage(context.Context, [32]byte, time.Duration) (string, error) {
	return "cs_1", nil
}
func (*recorder) Claim(context.Context, [32]byte) (Claim, error)               { return Claim{}, ErrPending }
func (a *recorder) Subscription(context.Context, string) (Subscription, error) { return a.sub, a.err }

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
		expect.That(t, c.Session == SessionHash(s.Token) && len(s.Token) == 26 && c.Plan == test.plan &&
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
		"without a slash":       {with(func(c *Card) { c.Expiry = "1234" }), "", ""},
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
				c.ID != "" && c.PaidUntil.Equal(testTime.AddDate(0, 1, 0)), "%s: got %+v, %v", name, c, err)
			continue
		}
		expect.That(t, errors.As(err, &wrong) && wrong.Field == test.field &&
			strings.Contains(wrong.Reason, test.text), "%s: got %v", name, err)
		expect.Equal(t, name+": a rejected card paid", c, (Subscription{}))
	}
}

func TestChangeCancelResume(t *testing.T) {
	t.Parallel()
	end := testTime.AddDate(0, 0, 10)
	base := Subscription{ID: "test_sub_1", Account: "acct_1", Customer: "test_cus_1", Plan: "starter", Status: Active,
		PaidUntil: end}
	to := func(plan string) func(context.Context, *Billing) error {
		return func(ctx context.Context, b *Billing) error { return b.ChangePlan(ctx, "acct_1", plan) }
	}
	cancel := func(ctx context.Context, b *Billing) error { return b.Cancel(ctx, "acct_1") }
	pro, free, late, ending := base, base, base, base
	pro.Plan, late.Status, ending.EndsAt = "pro", PastDue, end
	free.NextPlan, free.EndsAt = "free", end
	upgraded, downgraded, lateEnding := pro, pro, ending
	upgraded.PaidUntil, downgraded.NextPlan, lateEnding.Status = testTime.AddDate(0, 1, 0), "starter", PastDue
	type testCase struct {
		before Subscription
		call   func(context.Context, *Billing) error
		want   Subscription // unless there is an error: then nothing changes
		err    error
	}
	expect.Each(t, map[string]testCase{
		"upgrade":      {base, to("pro"), upgraded, nil},
		"downgrade":    {pro, to("starter"), downgraded, nil},
		"to free":      {base, to("free"), free, nil},
		"cancel":       {base, cancel, ending, nil},
		"cancel late":  {late, cancel, lateEnding, nil},
		"resume":       {free, to("starter"), base, nil},
		"upgrade late": {late, to("pro"), base, ErrDue},
		"unknown plan": {base, to("gold"), base, ErrNoPlan},
		"canceled":     {Subscription{Status: Canceled}, cancel, base, ErrNotPaid},
	}, func(t *testing.T, test testCase) {
		a := &recorder{sub: test.before}
		b, _ := newTest(a)
		expect.Error(t, "the call", test.call(t.Context(), b), test.err)
		var want []Subscription
		if test.err == nil {
			want = []Subscription{test.want}
		}
		expect.That(t, slices.Equal(a.applied, want), "applied %+v, want %+v", a.applied, want)
	})
}

// A quote says what is due: an upgrade costs a month less what is left of the one that was paid.
func TestQuote(t *testing.T) {
	t.Parallel()
	end := testTime.AddDate(0, 0, 16) // of a period of 30 days
	type testCase struct {
		plan, to string
		due      int64
		from     time.Time
	}
	expect.Each(t, map[string]testCase{
		"upgrade":   {"starter", "pro", 8887, time.Time{}},
		"downgrade": {"pro", "starter", 0, end},
		"to free":   {"starter", "free", 0, end},
		"the same":  {"starter", "starter", 0, time.Time{}},
	}, func(t *testing.T, test testCase) {
		b, _ := newTest(&recorder{sub: Subscription{Plan: test.plan, Status: Active, PaidUntil: end}})
		q, err := b.Quote(t.Context(), "acct_1", test.to)
		expect.That(t, err == nil && q.Due == test.due && q.From.Equal(test.from), "%+v, %v", q, err)
	})
}

// The test checkout's months pass without events.
func TestRefresh(t *testing.T) {
	t.Parallel()
	paid := Subscription{ID: "test_sub_1", Plan: "pro", Status: Active, PaidUntil: testTime}
	downgraded, ending, renewed := paid, paid, paid
	downgraded.NextPlan, ending.EndsAt, renewed.PaidUntil = "starter", testTime, testTime.AddDate(0, 1, 0)
	starter, ended := renewed, ending
	starter.Plan, ended.Status = "starter", Canceled
	for _, test := range [][2]Subscription{{paid, renewed}, {downgraded, starter}, {ending, ended}} {
		a := &recorder{sub: test[0], stale: []string{paid.ID}}
		b, _ := newTest(a)
		expect.NoError(t, b.Refresh(t.Context()))
		expect.Equal(t, "subscription", a.applied[0], test[1])
	}
}

// pagesOf is a provider with pages. Those in paid were paid.
type pagesOf struct {
	*TestCheckout
	paid   map[string]string
	closed *[]string
}

func (p pagesOf) Paid(_ context.Context, page string) (string, error) { return p.paid[page], nil }
func (p pagesOf) Close(_ context.Context, page string) (string, error) {
	*p.closed = append(*p.closed, page)
	return p.paid[page], nil
}

// A new checkout closes those that the customer left open. If one was paid in the meantime, it counts instead.
func TestOnePageAtATime(t *testing.T) {
	t.Parallel()
	for paid, want := range map[string]string{"": "/checkout/test/co_", "sub_1": "https://a.example/back"} {
		a := &recorder{err: ErrNotPaid, pages: []string{"cs_before"}}
		b, provider := newTest(a)
		b.Provider = pagesOf{provider, map[string]string{"cs_before": paid}, new([]string)}
		s, err := b.Subscribe(t.Context(), Order{Plan: "pro", ReturnTo: "https://a.example/back"})
		expect.That(t, err == nil && strings.HasPrefix(s.URL, want) && len(a.applied) == len(paid)/5,
			"paid %q: %+v, %v, applied %v", paid, s, err, a.applied)
	}
	// So does a payment, in case that two began at once.
	b, provider := newTest(&recorder{pages: []string{"cs_before"}})
	var closed []string
	b.Provider = pagesOf{provider, nil, &closed}
	bought := Subscription{ID: "sub_1", Checkout: "co_1", Status: Active}
	expect.NoError(t, b.Apply(t.Context(), bought.ID, bought.Read))
	expect.NoDiff(t, "closed pages", closed, []string{"cs_before"})
}

// A checkout whose event is late is read at the provider.
func TestClaimAsksTheProvider(t *testing.T) {
	t.Parallel()
	a := &recorder{}
	b, provider := newTest(a)
	b.Provider = pagesOf{provider, map[string]string{"cs_1": "sub_1"}, new([]string)}
	_, err := b.Claim(t.Context(), "token")
	expect.That(t, errors.Is(err, ErrPending) && len(a.applied) == 1 && a.applied[0].ID == "sub_1",
		"%v, applied %+v", err, a.applied)
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
	expect.NoError(t, b.Apply(t.Context(), "sub_1", b.Provider.Read))
	expect.Equal(t, "refunds of a first subscription", len(a.refunded), 0)
	// The provider sends the event again.
	expect.Error(t, "a refund that failed", b.Apply(t.Context(), "sub_refused", b.Provider.Read), ErrUnavailable)
	expect.Error(t, "RefundDue", b.RefundDue(t.Context()), ErrUnavailable)
	expect.NoDiff(t, "refunded", []string{"sub_2"}, a.refunded)
	expect.NoError(t, b.Apply(t.Context(), "sub_2", b.Provider.Read))
}

// A host without a payment provider gives free keys only. What was sold for test cards can be cancelled.
func TestClosed(t *testing.T) {
	t.Parallel()
	a := &recorder{err: ErrNotPaid}
	b, provider := newTest(a)
	provider.Closed = true
	for plan, want := range map[string]error{"free": nil, "starter": ErrNotForSale, "pro": ErrNotForSale} {
		expect.Error(t, "subscribing to "+plan, expect.ErrorOf(b.Subscribe(t.Context(), Order{Plan: plan})), want)
	}
	expect.That(t, len(a.begun) == 1 && !b.Sells() && !b.Provider.Test(), "checkouts %+v, sells: %v, test mode: %v",
		a.begun, b.Sells(), b.Provider.Test())
	b.Accounts = &recorder{sub: Subscription{ID: "test_sub_1", Status: Active}}
	expect.Error(t, "changing the plan", b.ChangePlan(t.Context(), "acct_1", "pro"), ErrNotForSale)
	expect.NoError(t, b.Cancel(t.Context(), "acct_1"))
}
