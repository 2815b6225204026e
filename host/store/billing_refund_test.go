package store

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"assay/host/customer/billing"
	"assay/host/store/postgres/postgrestest"
)

// due returns the subscriptions that are to be refunded.
func due(t *testing.T, s *Store) (ids []string) {
	t.Helper()
	for _, sub := range must(s.DueRefunds(t.Context(), "stripe", ""))(t) {
		ids = append(ids, sub.ID)
	}
	return ids
}

// An account that pays for a second subscription keeps the first. Nothing that happens to the second one affects it.
func TestSecondSubscriptionIsRefunded(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	claim := must(s.Claim(t.Context(), beginCheckout(t, s, "", "free").Session))(t)
	first, second := beginCheckout(t, s, claim.Account, "starter"), beginCheckout(t, s, claim.Account, "pro")
	must(s.CheckoutPlan(t.Context(), second.ID))(t)
	apply(t, s, newChange(first, 1, billing.Active))
	wantError(t, "the page of the second checkout", errOf(s.CheckoutPlan(t.Context(), second.ID)),
		billing.ErrSubscribed)
	if got := must(s.Claim(t.Context(), second.Session))(t); got.Plan != "starter" || !got.Upgrade || got.Refunded {
		t.Errorf("claiming the second checkout, which is not paid = %+v", got)
	}
	paid := newChange(second, 2, billing.Active)
	apply(t, s, newChange(second, 1, billing.Incomplete), paid)
	noDiff(t, "due refunds", due(t, s), []string{paid.Subscription})
	for minute, status := range []billing.Status{billing.PastDue, billing.Active, billing.Unpaid} {
		change := newChange(second, 3+minute, status)
		apply(t, s, change)
		change.Event, change.Checkout, change.At = change.Event+"_bare", "", change.At.Add(time.Second)
		apply(t, s, change)
		expect(t, "after the second one became "+string(status), keyStatus(t, s, claim.Key), "starter 150")
	}
	got := must(s.Claim(t.Context(), second.Session))(t)
	if !got.Refunded || got.Key != "" {
		t.Errorf("claiming the second checkout = %+v", got)
	}
	if got := must(s.Claim(t.Context(), first.Session))(t); got.Refunded || !got.Upgrade {
		t.Errorf("claiming the first checkout = %+v", got)
	}
	sub := must(s.Subscription(t.Context(), claim.Account))(t)
	expect(t, "the account's subscription", sub.ID, "sub_"+first.ID)
	expect(t, "keys of the account",
		one[int](t, s, "SELECT count(*) FROM api_keys WHERE account_id = ?", claim.Account), 1)
	for _, done := range []bool{false, true} {
		if done {
			noError(t, s.Refunded(t.Context(), paid.Subscription))
			expect(t, "due refunds", len(due(t, s)), 0)
		}
		refunds := must(s.Refunds(t.Context(), claim.Account))(t)
		if len(refunds) != 1 || refunds[0].Plan != "pro" || refunds[0].Done != done || refunds[0].At.IsZero() {
			t.Errorf("refunds %+v, want one of pro, done: %v", refunds, done)
		}
	}
	// Once the first one has ended, the account can subscribe again.
	apply(t, s, newChange(first, 10, billing.Canceled), newChange(beginCheckout(t, s, claim.Account, "pro"), 11,
		billing.Active))
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
				id := fmt.Sprintf("co_%d_%v_%d", round, known, i)
				c := billing.Checkout{ID: id, Session: billing.SessionHash(id), Account: account, Plan: "starter",
					Provider: "stripe", At: time.Now(), Tabs: earlier}
				noError(t, hosts[i%2].BeginCheckout(t.Context(), c))
				checkouts, earlier = append(checkouts, c), append(earlier, c.Session)
			}
			accounts := one[int](t, hosts[0], "SELECT count(*) FROM accounts")
			var wg sync.WaitGroup
			for i, c := range checkouts {
				wg.Go(func() {
					if err := hosts[i%2].Apply(context.Background(), newChange(c, i, billing.Active)); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			made := one[int](t, hosts[0], "SELECT count(*) FROM accounts") - accounts
			if (made == 1) == known || made > 1 {
				t.Errorf("round %d, account known: %v: %d accounts were made", round, known, made)
			}
			live := one[int](t, hosts[0], "SELECT count(*) FROM billing_subscriptions WHERE account_id IS NOT NULL")
			expect(t, "live subscriptions", live, 1)
			refunds := due(t, hosts[1])
			expect(t, "due refunds", len(refunds), tabs-1)
			keys := 0
			for _, c := range checkouts {
				if claim := must(hosts[0].Claim(t.Context(), c.Session))(t); claim.Key != "" {
					keys++
				}
			}
			if (keys == 1) == known || keys > 1 {
				t.Errorf("round %d, account known: %v: %d keys were shown", round, known, keys)
			}
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
		id := fmt.Sprintf("co_%d", i)
		c := billing.Checkout{ID: id, Session: billing.SessionHash(id), Plan: "pro", Provider: "stripe",
			At: time.Now(), Tabs: earlier}
		noError(t, s.BeginCheckout(t.Context(), c))
		earlier = append(earlier, c.Session)
		if i == 0 {
			continue // it was left open and is never paid
		}
		apply(t, s, newChange(c, i, billing.Active))
		if claim := must(s.Claim(t.Context(), c.Session))(t); claim.Key == "" || claim.Refunded {
			t.Errorf("customer %d: %+v", i, claim)
		}
	}
	expect(t, "due refunds", len(due(t, s)), 0)
}

// The database itself refuses a second live subscription of an account.
func TestDatabaseRefusesSecondSubscription(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	c := beginCheckout(t, s, "", "starter")
	apply(t, s, newChange(c, 0, billing.Active))
	account := must(s.Claim(t.Context(), c.Session))(t).Account
	for status, want := range map[string]string{"active": "23505", "unpaid": "23505", "canceled": ""} {
		_, err := s.db.ExecContext(t.Context(),
			"INSERT INTO billing_subscriptions (id, account_id, provider, status) VALUES (?, ?, 'stripe', ?)",
			"sub_"+status, account, status)
		expect(t, "the error of another subscription that is "+status, sqlState(err), want)
	}
}
