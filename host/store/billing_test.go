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
	is "assay/registry/expect"
)

// beginCheckout begins a checkout of the plan in a browser with other tabs; account is "" for a new customer.
func beginCheckout(t *testing.T, s *Store, account, plan string, tabs ...[32]byte) billing.Checkout {
	t.Helper()
	id := "co_" + ulid.Make().String()
	c := billing.Checkout{ID: id, Session: billing.SessionHash(id), Account: account, Plan: plan, Provider: "stripe",
		Paid: plan == "free", At: s.now(), Tabs: tabs}
	noError(t, s.BeginCheckout(t.Context(), c))
	return c
}

// bought pays a checkout of a new customer, who claims the key.
func bought(t *testing.T, s *Store, plan string) (billing.Checkout, billing.Claim) {
	t.Helper()
	c := beginCheckout(t, s, "", plan)
	apply(t, s, subscriptionOf(c, billing.Active))
	return c, must(s.Claim(t.Context(), c.Session))(t)
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
	wantError(t, "claiming before the payment", errOf(s.Claim(t.Context(), c.Session)), billing.ErrPending)
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
	is.Each(t, map[string][]step{
		"ended by unpaid, restored by a payment": {{billing.PastDue, "", "starter 150"}, {billing.Unpaid, "", "ended"},
			{billing.Active, "", "starter 150"}},
		"paused and resumed":      {{billing.Paused, "", "ended"}, {billing.Active, "", "starter 150"}},
		"cancelled permanently":   {{billing.Canceled, "", "ended"}, {billing.Active, "", "ended"}},
		"upgraded and downgraded": {{billing.Active, "pro", "pro 1500"}, {billing.Active, "starter", "starter 150"}},
	}, func(t *testing.T, steps []step) {
		c, claim := bought(t, s, "starter")
		for i, step := range steps {
			sub := subscriptionOf(c, step.status)
			sub.Checkout, sub.Plan = "", step.plan
			apply(t, s, sub, sub) // every event arrives twice
			expect(t, fmt.Sprintf("after step %d", i), keyStatus(t, s, claim.Key), step.want)
		}
	})
}

// What is stored last was read last: a reading that another one overtakes is repeated.
func TestReadingsThatOvertake(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	c, claim := bought(t, s, "starter")
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

// An account that chose the free plan for afterwards keeps its keys, and the quota that was paid until the month ends.
func TestBackToFree(t *testing.T) {
	t.Parallel()
	s, clock := openWithClock(t) // at noon on May 20
	s.now = time.Now
	l := ledgerOn(t, s, LedgerConfig{})
	for name, test := range map[string]struct {
		then              string
		paidUntil, endsAt int // days in May
		want              string
		quota             int // of the month
	}{
		"to free":                   {"free", 20, 20, "free 50", 150},
		"to free, ended earlier":    {"free", 30, 20, "free 50", 50},
		"to free, paid in April":    {"free", 1, 1, "free 50", 50},
		"cancelled, without a plan": {"", 20, 20, "ended", 0},
	} {
		c := beginCheckout(t, s, "", "starter")
		sub := subscriptionOf(c, billing.Active)
		sub.PaidUntil = time.Date(2031, 5, test.paidUntil, 0, 0, 0, 0, time.UTC)
		apply(t, s, sub)
		claim := must(s.Claim(t.Context(), c.Session))(t)
		sub.NextPlan, sub.EndsAt = test.then, time.Date(2031, 5, test.endsAt, 0, 0, 0, 0, time.UTC)
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
	account := one[string](t, s, "SELECT account_id FROM quota_usage WHERE quota = 150")
	expect(t, "quota in June", must(s.Usage(t.Context(), account))(t).Plan.Quota, 50)
}

// A customer whose Pro has ended keeps its quota with Free or Starter until the month ends, unless the operator sets
// another.
func TestSmallerPlanAfterTheEnd(t *testing.T) {
	t.Parallel()
	s, _ := openWithClock(t) // at noon on May 20
	s.now = time.Now
	b := &billing.Billing{Accounts: s, Provider: &billing.TestCheckout{Now: time.Now, Page: "/x/"}, Now: time.Now}
	var account string
	quota := func() int { return must(s.Usage(t.Context(), account))(t).Plan.Quota }
	ended := func() billing.Subscription {
		c := beginCheckout(t, s, "", "pro")
		pro := subscriptionOf(c, billing.Active)
		pro.PaidUntil = time.Date(2031, 5, 20, 0, 0, 0, 0, time.UTC)
		apply(t, s, pro)
		account = must(s.Claim(t.Context(), c.Session))(t).Account
		pro.Status, pro.EndsAt = billing.Canceled, pro.PaidUntil
		apply(t, s, pro)
		return pro
	}
	ended()
	must(b.Subscribe(t.Context(), billing.Order{Plan: "free", Account: account}))(t)
	expect(t, "quota in May, on Free", quota(), 1500)
	pro := ended()
	starter := subscriptionOf(beginCheckout(t, s, account, "starter"), billing.Active)
	starter.PaidUntil = time.Date(2031, 6, 20, 0, 0, 0, 0, time.UTC)
	apply(t, s, starter)
	expect(t, "quota in May, on Starter", quota(), 1500)
	starter.Status = billing.Unpaid
	apply(t, s, starter)
	apply(t, s, pro) // its event arrives again
	expect(t, "the subscription", must(s.Subscription(t.Context(), account))(t).ID, starter.ID)
	noError(t, s.SetQuota(t.Context(), account, 0))
	expect(t, "quota that the operator has set", quota(), 0)
}

// checksUntilRefused records checks until the quota is used up, and returns how many.
func checksUntilRefused(t *testing.T, l *Ledger, caller check.Caller) (n int) {
	t.Helper()
	for {
		err := l.Append(t.Context(), allowed(t, caller))
		if errors.As(err, new(*check.QuotaError)) {
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
	c, claim := bought(t, s, "starter")
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
	for _, k := range must(s.Keys(t.Context(), caller.Account))(t) {
		holds(t, k.LastUsedAt != nil, "key %s has no LastUsedAt", k.ID)
	}
}

// due returns the subscriptions that are to be refunded.
func due(t *testing.T, s *Store) []string {
	t.Helper()
	due := must(s.DueRefunds(t.Context(), "stripe", ""))(t)
	return column(due, func(sub billing.Subscription) string { return sub.ID })
}
