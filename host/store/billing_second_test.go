package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"assay/host/customer/billing"
	"assay/host/store/postgres/postgrestest"
)

// An account that pays for a second subscription keeps the first. Nothing that happens to the second one affects it.
func TestSecondSubscriptionIsRefunded(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	claim := must(s.Claim(t.Context(), beginCheckout(t, s, "", "free").Session))(t)
	first, second := beginCheckout(t, s, claim.Account, "starter"), beginCheckout(t, s, claim.Account, "pro")
	must(s.CheckoutPlan(t.Context(), second.ID))(t)
	apply(t, s, subscriptionOf(first, billing.Active))
	wantError(t, "the page of the second checkout", errOf(s.CheckoutPlan(t.Context(), second.ID)),
		billing.ErrSubscribed)
	if got := must(s.Claim(t.Context(), second.Session))(t); got.Plan != "starter" || !got.Upgrade || got.Refunded {
		t.Errorf("claiming the second checkout, which is not paid = %+v", got)
	}
	paid := subscriptionOf(second, billing.Active)
	apply(t, s, subscriptionOf(second, billing.Incomplete), paid)
	noDiff(t, "due refunds", due(t, s), []string{paid.ID})
	for _, status := range []billing.Status{billing.PastDue, billing.Active, billing.Unpaid} {
		sub := subscriptionOf(second, status)
		apply(t, s, sub)
		sub.Checkout = ""
		apply(t, s, sub)
		expect(t, "after the second one became "+string(status), keyStatus(t, s, claim.Key), "starter 150")
	}
	got := must(s.Claim(t.Context(), second.Session))(t)
	holds(t, got.Refunded && got.Key == "", "claiming the second checkout = %+v", got)
	got = must(s.Claim(t.Context(), first.Session))(t)
	holds(t, !got.Refunded && got.Upgrade, "claiming the first checkout = %+v", got)
	expect(t, "the account's subscription", must(s.Subscription(t.Context(), claim.Account))(t).ID, "sub_"+first.ID)
	expect(t, "keys of the account", rowsOf(t, s, "api_keys WHERE account_id = ?", claim.Account), 1)
	for _, done := range []bool{false, true} {
		if done {
			noError(t, s.Refunded(t.Context(), paid.ID))
			expect(t, "due refunds", len(due(t, s)), 0)
		}
		refunds := must(s.Refunds(t.Context(), claim.Account))(t)
		holds(t, len(refunds) == 1 && refunds[0].Plan == "pro" && refunds[0].Done == done && !refunds[0].At.IsZero(),
			"refunds %+v, want one of pro, done: %v", refunds, done)
	}
	// Once the first one has ended, the account can subscribe again.
	third := beginCheckout(t, s, claim.Account, "pro")
	apply(t, s, subscriptionOf(first, billing.Canceled), subscriptionOf(third, billing.Active))
	expect(t, "after subscribing again", keyStatus(t, s, claim.Key), "pro 1500")
}

// The payments of many tabs arrive at two hosts at once. Each account has one live subscription, and all others are to
// be refunded. The tabs of a new customer's browser make one account.
func TestSecondPaymentsAtOnce(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	hosts := []*Store{open(t, url, nil), open(t, url, nil)}
	const tabs = 4
	for round := range 5 {
		for _, known := range []bool{true, false} {
			account := ""
			if known {
				account = must(hosts[0].Claim(t.Context(), beginCheckout(t, hosts[0], "", "free").Session))(t).Account
			}
			var checkouts []billing.Checkout
			var earlier [][32]byte
			for i := range tabs {
				c := beginCheckout(t, hosts[i%2], account, "starter", earlier...)
				checkouts, earlier = append(checkouts, c), append(earlier, c.Session)
			}
			accounts := rowsOf(t, hosts[0], "accounts")
			noError(t, errors.Join(concurrently(tabs, func(i int) error {
				return give(context.Background(), hosts[i%2], subscriptionOf(checkouts[i], billing.Active))
			})...))
			made := rowsOf(t, hosts[0], "accounts") - accounts
			holds(t, (made == 1) != known && made <= 1, "round %d, account known: %v: %d accounts were made", round,
				known, made)
			live := rowsOf(t, hosts[0], "billing_subscriptions WHERE account_id IS NOT NULL")
			expect(t, "live subscriptions", live, 1)
			refunds := due(t, hosts[1])
			expect(t, "due refunds", len(refunds), tabs-1)
			keys := 0
			for _, c := range checkouts {
				if claim := must(hosts[0].Claim(t.Context(), c.Session))(t); claim.Key != "" {
					keys++
				}
			}
			holds(t, (keys == 1) != known && keys <= 1, "round %d, account known: %v: %d keys were shown", round, known,
				keys)
			for _, id := range refunds {
				noError(t, hosts[0].Refunded(t.Context(), id))
			}
			exec(t, session(t, url), "DELETE FROM billing_refunds", "DELETE FROM billing_subscriptions")
		}
	}
}

// A browser whose key was shown can subscribe for another customer.
func TestBrowserOfTwoCustomers(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	var earlier [][32]byte
	for i := range 3 {
		c := beginCheckout(t, s, "", "pro", earlier...)
		earlier = append(earlier, c.Session)
		if i == 0 {
			continue // it was left open and is never paid
		}
		apply(t, s, subscriptionOf(c, billing.Active))
		claim := must(s.Claim(t.Context(), c.Session))(t)
		holds(t, claim.Key != "" && !claim.Refunded, "customer %d: %+v", i, claim)
	}
	expect(t, "due refunds", len(due(t, s)), 0)

	// The database itself refuses a second live subscription of an account.
	_, claim := bought(t, s, "starter")
	for status, want := range map[string]string{"active": "23505", "unpaid": "23505", "canceled": ""} {
		_, err := s.db.ExecContext(t.Context(),
			"INSERT INTO billing_subscriptions (id, account_id, provider, status) VALUES (?, ?, 'stripe', ?)",
			"sub_"+status, claim.Account, status)
		expect(t, "the error of another subscription that is "+status, sqlState(err), want)
	}

	// The page of a checkout cannot replace a key that the customer has rotated: the key still works for a while.
	c, claim := bought(t, s, "starter")
	must(s.RotateKey(t.Context(), claim.Account, claim.KeyID, time.Hour))(t)
	wantError(t, "reissuing", errOf(s.Reissue(t.Context(), c.Session)), billing.ErrNoReissue)
	expect(t, "keys that work", rowsOf(t, s, "api_keys WHERE state = 'valid' AND account_id = ?", claim.Account), 2)
}

// pagesProvider is a provider whose pages can be closed.
type pagesProvider struct {
	*billing.TestCheckout

	opened, closed []string
}

func (p *pagesProvider) Checkout(_ context.Context, c billing.Checkout, _, _ string) (billing.Page, error) {
	p.opened = append(p.opened, c.ID)
	return billing.Page{ID: "page_" + c.ID, URL: "/", Customer: "cus_" + c.ID}, nil
}

func (p *pagesProvider) Paid(context.Context, string) (string, error) { return "", nil }

func (p *pagesProvider) Close(_ context.Context, page string) (string, error) {
	p.closed = append(p.closed, page)
	return "", nil
}

// TestDeclines declines cards until the page is closed and none is opened for a day: by browser, by account, by card.
func TestDeclines(t *testing.T) {
	t.Parallel()
	at := time.Now().UTC().Truncate(time.Second)
	s := newStore(t, nil)
	s.now = func() time.Time { return at }
	p := &pagesProvider{TestCheckout: &billing.TestCheckout{Now: s.now}}
	b := &billing.Billing{Accounts: s, Provider: p, Now: s.now}
	declines := 0
	decline := func(card string, again bool) {
		t.Helper()
		if !again {
			declines++
		}
		noError(t, b.Decline(t.Context(), billing.Decline{ID: fmt.Sprint("ch_", declines),
			Customer: "cus_" + p.opened[len(p.opened)-1], Card: card, At: at}))
	}
	closed := func() string { return strings.Join(p.closed, " ") }
	newest := func() string { return "page_" + p.opened[len(p.opened)-1] }
	subscribe := func(account string, tabs ...string) string {
		t.Helper()
		p.closed = nil
		return must(b.Subscribe(t.Context(), billing.Order{Plan: "pro", Account: account, Tabs: tabs}))(t).Token
	}
	free := must(s.CreateAccount(t.Context(), plan(t, "free", 50)))(t)
	for name, account := range map[string]string{"a browser": "", "an account": free} {
		tab := subscribe(account)
		for i := range billing.MaxDeclines - 1 {
			decline(fmt.Sprint("card ", name, i), false)
			decline(fmt.Sprint("card ", name, i), true) // the event arrives twice
		}
		expect(t, name+": closed early", closed(), "")
		var refused *billing.DeclinedError
		tab2 := subscribe(account, tab) // closes the page of the other tab
		expect(t, name+": closed with another tab", len(p.closed), 1)
		decline("card last "+name, false)
		expect(t, name+": closed pages", strings.Contains(closed(), newest()), true)
		_, err := b.Subscribe(t.Context(), billing.Order{Plan: "pro", Account: account, Tabs: []string{tab, tab2}})
		mustHold(t, errors.As(err, &refused) && refused.Until.Equal(at.Add(billing.DeclineWindow)),
			"%s: a further page: %v, want a DeclinedError until a day later", name, err)
		at = at.Add(billing.DeclineWindow)
		subscribe(account, tab, tab2)
	}
	for range billing.MaxDeclines {
		subscribe("")
		expect(t, "closed before the card was declined too often", closed(), "")
		decline("one card", false)
	}
	expect(t, "pages closed because of their card", closed(), newest())
	subscribe("")
	decline("", false) // an unknown card is none that is known
	expect(t, "closed for an unknown card", closed(), "")
}
