package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"assay/host/customer/billing"
)

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
		session, err := b.Subscribe(t.Context(), billing.Order{Plan: "pro", Account: account, Tabs: tabs})
		noError(t, err)
		return session.Token
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
