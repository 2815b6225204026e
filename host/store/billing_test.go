package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"assay/host/access/apikey"
	"assay/host/check"
	"assay/host/customer/billing"
	"assay/host/store/postgres/postgrestest"
)

// beginCheckout begins a checkout of the plan; account is "" for a new customer.
func beginCheckout(t *testing.T, s *Store, account, plan string) billing.Checkout {
	t.Helper()
	id := "co_" + ulid.Make().String()
	c := billing.Checkout{ID: id, Session: billing.SessionHash(id), Account: account, Plan: plan, Provider: "stripe",
		Paid: plan == "free", At: time.Now()}
	noError(t, s.BeginCheckout(t.Context(), c))
	return c
}

// subscriptionOf returns the checkout's subscription as the provider has it.
func subscriptionOf(c billing.Checkout, status billing.Status) billing.Subscription {
	return billing.Subscription{ID: "sub_" + c.ID, Provider: "stripe", Checkout: c.ID, Customer: "cus_" + c.ID,
		Plan: c.Plan, Status: status}
}

// give applies a subscription that the provider has.
func give(ctx context.Context, s *Store, sub billing.Subscription) error {
	return s.Apply(ctx, sub.ID, func(context.Context, billing.Subscription) (billing.Subscription, error) {
		return sub, nil
	})
}

func apply(t *testing.T, s *Store, subs ...billing.Subscription) {
	t.Helper()
	for _, sub := range subs {
		noError(t, give(t.Context(), s, sub))
	}
	wantStates(t, s)
}

func TestClaimShowsTheKeyOnce(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	c := beginCheckout(t, s, "", "starter")
	if _, err := s.Claim(t.Context(), c.Session); !errors.Is(err, billing.ErrPending) {
		t.Fatalf("claiming before the payment: %v, want ErrPending", err)
	}
	apply(t, s, subscriptionOf(c, billing.Active))
	claims := make([]billing.Claim, 100)
	noError(t, errors.Join(concurrently(len(claims), func(i int) (err error) {
		claims[i], err = s.Claim(t.Context(), c.Session)
		return err
	})...))
	var shown billing.Claim
	for _, claim := range claims {
		if claim.Key == "" {
			continue
		}
		expect(t, "the key of another claim", shown.Key, "")
		shown = claim
	}
	caller, err := s.Authenticate(t.Context(), shown.Key)
	mustHold(t, err == nil && caller.Plan.Name == "starter" && caller.Plan.Quota == 150, "the key belongs to %+v: %v",
		caller, err)
	for _, claim := range claims {
		holds(t, claim.KeyID == shown.KeyID && claim.Hint != "" && !strings.Contains(claim.Hint, shown.Key),
			"claim %+v, want the same key's id and hint", claim)
	}

	// The response was lost: the same browser gets another key, and the lost one is revoked.
	again, err := s.Reissue(t.Context(), c.Session)
	wantStates(t, s)
	mustHold(t, err == nil && again.Key != shown.Key, "Reissue = %+v, %v", again, err)
	s.ForgetCallers()
	wantError(t, "authenticating with the lost key", errOf(s.Authenticate(t.Context(), shown.Key)),
		check.ErrUnauthorized)
	l := ledgerOn(t, s, LedgerConfig{})
	caller = must(s.Authenticate(t.Context(), again.Key))(t)
	noError(t, l.Append(t.Context(), allowed(t, caller)))
	wantError(t, "reissuing a key in use", errOf(s.Reissue(t.Context(), c.Session)), billing.ErrNoReissue)
	wantError(t, "claiming from another browser", errOf(s.Claim(t.Context(), billing.SessionHash("another"))),
		billing.ErrNoCheckout)
}

// keyStatus returns the plan and quota that a key authenticates with, or "ended".
func keyStatus(t *testing.T, s *Store, key string) string {
	t.Helper()
	s.ForgetCallers()
	caller, err := s.Authenticate(t.Context(), key)
	if errors.Is(err, check.ErrUnauthorized) {
		return "ended"
	}
	noError(t, err)
	return fmt.Sprint(caller.Plan.Name, " ", caller.Plan.Quota)
}

func TestApplySubscriptionChanges(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	type step struct {
		status billing.Status
		plan   string
		want   string
	}
	for name, steps := range map[string][]step{
		"ended by unpaid, restored by a payment": {{billing.PastDue, "", "starter 150"}, {billing.Unpaid, "", "ended"},
			{billing.Active, "", "starter 150"}},
		"paused and resumed":      {{billing.Paused, "", "ended"}, {billing.Active, "", "starter 150"}},
		"cancelled permanently":   {{billing.Canceled, "", "ended"}, {billing.Active, "", "ended"}},
		"upgraded and downgraded": {{billing.Active, "pro", "pro 1500"}, {billing.Active, "starter", "starter 150"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := beginCheckout(t, s, "", "starter")
			apply(t, s, subscriptionOf(c, billing.Active))
			claim := must(s.Claim(t.Context(), c.Session))(t)
			for i, step := range steps {
				sub := subscriptionOf(c, step.status)
				sub.Checkout, sub.Plan = "", step.plan
				apply(t, s, sub, sub) // every event arrives twice
				expect(t, fmt.Sprintf("after step %d", i), keyStatus(t, s, claim.Key), step.want)
			}
		})
	}
}

// What is stored last was read last: a reading that another one overtakes is repeated.
func TestReadingsThatOvertake(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	c := beginCheckout(t, s, "", "starter")
	apply(t, s, subscriptionOf(c, billing.Active))
	claim := must(s.Claim(t.Context(), c.Session))(t)
	now := subscriptionOf(c, billing.Active) // at the provider
	reads := 0
	noError(t, s.Apply(t.Context(), now.ID, func(context.Context, billing.Subscription) (billing.Subscription, error) {
		read := now
		if reads++; reads == 1 { // a later event is applied before this one
			now.Plan = "pro"
			apply(t, s, now)
		}
		return read, nil
	}))
	holds(t, reads == 2 && keyStatus(t, s, claim.Key) == "pro 1500", "%d readings, the key is %s", reads,
		keyStatus(t, s, claim.Key))
}

// A subscription's events name its checkout permanently, but the checkout is deleted.
func TestSubscriptionOutlivesItsCheckout(t *testing.T) {
	t.Parallel()
	now := time.Date(2031, 5, 6, 7, 0, 0, 0, time.UTC)
	s := newStore(t, func() time.Time { return now })
	c := billing.Checkout{ID: "co_old", Session: billing.SessionHash("old"), Plan: "starter", Provider: "stripe",
		At: now}
	noError(t, s.BeginCheckout(t.Context(), c))
	apply(t, s, subscriptionOf(c, billing.Active))
	claim := must(s.Claim(t.Context(), c.Session))(t)
	now = now.Add(billing.ClaimLife + time.Hour)
	noError(t, s.Prune(t.Context()))
	n := one[int](t, s, "SELECT count(*) FROM billing_checkouts")
	mustHold(t, n == 0, "%d checkouts, want none", n)
	for _, step := range []struct {
		status billing.Status
		want   string
	}{{billing.PastDue, "starter 150"}, {billing.Unpaid, "ended"}, {billing.Active, "starter 150"},
		{billing.Canceled, "ended"}} {
		apply(t, s, subscriptionOf(c, step.status))
		expect(t, "status "+string(step.status), keyStatus(t, s, claim.Key), step.want)
	}
}

// An account that chose the free plan for after its subscription keeps its keys. The larger quota of the month that was
// paid stays until the month ends.
func TestBackToFree(t *testing.T) {
	t.Parallel()
	s, clock := openWithClock(t) // at noon on May 20
	s.now = time.Now
	l := ledgerOn(t, s, LedgerConfig{})
	type testCase struct {
		then      string
		paidUntil time.Time
		endsAt    time.Time
		want      string
		quota     int // of the month
	}
	day := func(d int) time.Time { return time.Date(2031, 5, d, 0, 0, 0, 0, time.UTC) }
	cases := map[string]testCase{
		"to free":                   {"free", day(20), day(20), "free 50", 150},
		"to free, ended earlier":    {"free", day(30), day(20), "free 50", 50},
		"to free, paid in April":    {"free", day(1), day(1), "free 50", 50},
		"cancelled, without a plan": {"", day(20), day(20), "ended", 0},
	}
	for name, test := range cases {
		c := beginCheckout(t, s, "", "starter")
		sub := subscriptionOf(c, billing.Active)
		sub.PaidUntil = test.paidUntil
		apply(t, s, sub)
		claim := must(s.Claim(t.Context(), c.Session))(t)
		sub.NextPlan, sub.EndsAt = test.then, test.endsAt
		apply(t, s, sub)
		expect(t, name+": before the end", keyStatus(t, s, claim.Key), "starter 150")
		sub.Status = billing.Canceled
		apply(t, s, sub, sub)
		expect(t, name, keyStatus(t, s, claim.Key), test.want)
		if test.quota == 0 {
			continue
		}
		expect(t, name+": quota", must(s.Usage(t.Context(), claim.Account))(t).Plan.Quota, test.quota)
		caller := must(s.Authenticate(t.Context(), claim.Key))(t)
		expect(t, name+": checks", checksUntilRefused(t, l, caller), test.quota)
	}
	clock.set(t, time.Date(2031, 6, 1, 0, 0, 0, 0, time.UTC))
	var account string
	noError(t, s.db.NewRaw("SELECT account_id FROM quota_usage WHERE quota = 150").Scan(t.Context(), &account))
	expect(t, "quota in June", must(s.Usage(t.Context(), account))(t).Plan.Quota, 50)
}

// checksUntilRefused records checks until the quota is used up, and returns how many.
func checksUntilRefused(t *testing.T, l *Ledger, caller check.Caller) (n int) {
	t.Helper()
	for {
		var quota *check.QuotaError
		err := l.Append(t.Context(), allowed(t, caller))
		if errors.As(err, &quota) {
			return n
		}
		noError(t, err)
		n++
	}
}

// A payment for the same plan does not undo what an operator or the customer changed.
func TestPaymentKeepsQuotaAndRevokedKeys(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	c := beginCheckout(t, s, "", "starter")
	apply(t, s, subscriptionOf(c, billing.Active))
	claim := must(s.Claim(t.Context(), c.Session))(t)
	revoked := must(s.CreateKey(t.Context(), claim.Account, "revoked"))(t)
	noError(t, s.RevokeKey(t.Context(), revoked.ID))
	noError(t, s.SetQuota(t.Context(), claim.Account, 9999))
	for _, account := range []string{publicAccount, "acct_unknown"} {
		wantError(t, "raising the quota of "+account, s.SetQuota(t.Context(), account, 1), billing.ErrNoAccount)
	}
	apply(t, s, subscriptionOf(c, billing.Active))
	expect(t, "quota", one[int](t, s, "SELECT quota FROM accounts WHERE id = ?", claim.Account), 9999)
	expect(t, "state", one[string](t, s, "SELECT state FROM api_keys WHERE id = ?", revoked.ID), "revoked")
}

func TestRotateKeyOverlap(t *testing.T) {
	t.Parallel()
	now := noon
	s, clock := openWithClock(t)
	s.now = func() time.Time { return now }
	l := ledgerOn(t, s, LedgerConfig{})
	caller := newCaller(t, s, plan(t, "starter", 150))
	issued := must(s.RotateKey(t.Context(), caller.Account, caller.Key, time.Hour))(t)
	wantError(t, "rotating another account's key", errOf(s.RotateKey(t.Context(), "acct_other", caller.Key, time.Hour)),
		apikey.ErrNotFound)
	fresh := must(s.Authenticate(t.Context(), issued.Secret))(t)
	issued = must(s.RotateKey(t.Context(), caller.Account, caller.Key, 2*time.Hour))(t) // ends no later for it
	second := must(s.Authenticate(t.Context(), issued.Secret))(t)
	for _, c := range []check.Caller{caller, fresh, second} {
		wantError(t, "recording within the overlap", l.Append(t.Context(), allowed(t, c)), nil)
	}
	wantStates(t, s)
	now = now.Add(time.Hour)
	clock.advance(t, time.Hour-time.Microsecond)
	wantError(t, "recording at the end of the overlap", l.Append(t.Context(), allowed(t, caller)), nil)
	clock.advance(t, time.Microsecond)
	wantError(t, "recording after the overlap", l.Append(t.Context(), allowed(t, caller)), check.ErrUnauthorized)
	wantError(t, "rotating after the overlap", errOf(s.RotateKey(t.Context(), caller.Account, caller.Key, time.Hour)),
		apikey.ErrNotFound)
	wantError(t, "recording with the new key", l.Append(t.Context(), allowed(t, fresh)), nil)
	keys := must(s.Keys(t.Context(), caller.Account))(t)
	for _, k := range keys {
		holds(t, k.LastUsedAt != nil, "key %s has no LastUsedAt", k.ID)
	}
}

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
	sub := must(s.Subscription(t.Context(), claim.Account))(t)
	expect(t, "the account's subscription", sub.ID, "sub_"+first.ID)
	expect(t, "keys of the account",
		one[int](t, s, "SELECT count(*) FROM api_keys WHERE account_id = ?", claim.Account), 1)
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
				id := fmt.Sprintf("co_%d_%v_%d", round, known, i)
				c := billing.Checkout{ID: id, Session: billing.SessionHash(id), Account: account, Plan: "starter",
					Provider: "stripe", At: time.Now(), Tabs: earlier}
				noError(t, hosts[i%2].BeginCheckout(t.Context(), c))
				checkouts, earlier = append(checkouts, c), append(earlier, c.Session)
			}
			accounts := one[int](t, hosts[0], "SELECT count(*) FROM accounts")
			noError(t, errors.Join(concurrently(tabs, func(i int) error {
				return give(context.Background(), hosts[i%2], subscriptionOf(checkouts[i], billing.Active))
			})...))
			made := one[int](t, hosts[0], "SELECT count(*) FROM accounts") - accounts
			holds(t, (made == 1) != known && made <= 1, "round %d, account known: %v: %d accounts were made", round,
				known, made)
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
		id := fmt.Sprintf("co_%d", i)
		c := billing.Checkout{ID: id, Session: billing.SessionHash(id), Plan: "pro", Provider: "stripe",
			At: time.Now(), Tabs: earlier}
		noError(t, s.BeginCheckout(t.Context(), c))
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
	c := beginCheckout(t, s, "", "starter")
	apply(t, s, subscriptionOf(c, billing.Active))
	account := must(s.Claim(t.Context(), c.Session))(t).Account
	for status, want := range map[string]string{"active": "23505", "unpaid": "23505", "canceled": ""} {
		_, err := s.db.ExecContext(t.Context(),
			"INSERT INTO billing_subscriptions (id, account_id, provider, status) VALUES (?, ?, 'stripe', ?)",
			"sub_"+status, account, status)
		expect(t, "the error of another subscription that is "+status, sqlState(err), want)
	}

	// The page of a checkout cannot replace a key that the customer has rotated: the key still works for a while.
	c = beginCheckout(t, s, "", "starter")
	apply(t, s, subscriptionOf(c, billing.Active))
	claim := must(s.Claim(t.Context(), c.Session))(t)
	must(s.RotateKey(t.Context(), claim.Account, claim.KeyID, time.Hour))(t)
	wantError(t, "reissuing", errOf(s.Reissue(t.Context(), c.Session)), billing.ErrNoReissue)
	expect(t, "keys that work", one[int](t, s, "SELECT count(*) FROM api_keys WHERE state = 'valid' AND account_id = ?",
		claim.Account), 2)
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
		if !errors.As(err, &refused) || !refused.Until.Equal(at.Add(billing.DeclineWindow)) {
			t.Fatalf("%s: a further page: %v, want a DeclinedError until a day later", name, err)
		}
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
