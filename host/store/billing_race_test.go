package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"assay/host/access/apikey"
	"assay/host/customer/billing"
	"assay/host/store/postgres/postgrestest"
	"assay/host/store/storetest"
)

// TestEventsThroughTwoHosts changes many subscriptions at the provider, whose events arrive at two hosts repeatedly and
// late. The final state is that at the provider, and no transaction deadlocks.
func TestEventsThroughTwoHosts(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	hosts := []*Store{open(t, url, nil), open(t, url, nil)}
	random := rand.New(rand.NewPCG(1, 5))
	type customer struct {
		checkout billing.Checkout
		history  []billing.Subscription
		events   atomic.Int64
		key      string
		want     string
	}
	customers := make([]customer, 12)
	const perCustomer = 12
	for i := range customers {
		c := &customers[i]
		c.checkout = beginCheckout(t, hosts[0], "", "starter")
		c.history, c.want = randomHistory(random, c.checkout)
	}
	before := deadlocks(t, hosts[0])
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := worker; i < len(customers)*perCustomer; i += 8 {
				c := &customers[i%len(customers)]
				// Each event comes with a change, which other events read too.
				c.events.Add(1)
				read := func(context.Context, billing.Subscription) (billing.Subscription, error) {
					return c.history[min(int(c.events.Load()), len(c.history)-1)], nil
				}
				for {
					err := hosts[(worker+i/8)%2].Apply(context.Background(), c.history[0].ID, read)
					if err == nil {
						break
					}
					if sqlState(err) != "55P03" { // lock timeout on a slow machine: the provider resends the event
						t.Error(err)
						return
					}
				}
			}
		})
	}
	// In the meantime customers claim their keys through either host.
	for i := range customers {
		wg.Go(func() {
			until(t, "the key can be claimed", func() bool {
				claim, err := hosts[i%2].Claim(context.Background(), customers[i].checkout.Session)
				holds(t, err == nil || errors.Is(err, billing.ErrPending) || sqlState(err) == "55P03", "%v", err)
				customers[i].key = claim.Key
				return err == nil
			})
		})
	}
	wg.Wait()
	expect(t, "deadlocks", deadlocks(t, hosts[0])-before, 0)
	for i := range customers {
		c := &customers[i]
		expect(t, fmt.Sprintf("customer %d", i), keyStatus(t, hosts[i%2], c.key), c.want)
	}
}

// deadlocks returns how many deadlocks Postgres has detected in this database.
func deadlocks(t *testing.T, s *Store) int {
	t.Helper()
	return one[int](t, s, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
}

// randomHistory returns the states of a subscription, and the final status of its key.
func randomHistory(random *rand.Rand, c billing.Checkout) (history []billing.Subscription, want string) {
	history = []billing.Subscription{subscriptionOf(c, billing.Incomplete), subscriptionOf(c, billing.Active),
		subscriptionOf(c, billing.Active)}
	for range random.IntN(6) {
		statuses := []billing.Status{billing.Active, billing.PastDue, billing.Unpaid, billing.Paused}
		sub := subscriptionOf(c, statuses[random.IntN(len(statuses))])
		sub.Plan = []string{"starter", "pro"}[random.IntN(2)]
		history = append(history, sub)
	}
	last := history[len(history)-1]
	if random.IntN(4) == 0 {
		last.Status = billing.Canceled
		history = append(history, last)
	}
	if !last.Status.Serves() {
		return history, "ended"
	}
	return history, map[string]string{"starter": "starter 150", "pro": "pro 1500"}[last.Plan]
}

// The connection is cut at each statement of Apply, before or after it or within its response. The provider resends the
// event, and the customer gets exactly one account and key.
func TestApplySurvivesLostConnections(t *testing.T) {
	t.Parallel()
	direct := newStore(t, nil)
	p := proxied(t, direct.url)
	s := open(t, p.URL, nil)
	payments := 0
	for name, fits := range map[string]func(string) bool{
		"reading the checkout":     containing(`FROM "billing_checkouts"`),
		"reading the subscription": containing(`FROM "billing_subscriptions"`),
		"writing":                  containing("apply_billing"),
	} {
		for how, f := range map[string]storetest.Fate{"before": storetest.Lost, "after": storetest.Muted,
			"within the response to": storetest.Truncated} {
			payments++
			c := beginCheckout(t, s, "", "pro")
			event := subscriptionOf(c, billing.Active)
			happened := p.Once(f, false, fits)
			err := give(t.Context(), s, event) // reads are sent again
			holds(t, err != nil || name != "writing", "Apply succeeded in spite of a cut %s writing", how)
			receive(t, "the cut "+how+" "+name, happened)
			apply(t, s, event)
			claim := must(s.Claim(t.Context(), c.Session))(t)
			expect(t, "the key after a cut "+how+" "+name, keyStatus(t, direct, claim.Key), "pro 1500")
		}
	}
	expect(t, "accounts", rowsOf(t, direct, "accounts WHERE id <> ?", publicAccount), payments)
}

// The connection is cut while Claim writes. A second call returns the key, or the key can be reissued.
func TestClaimSurvivesLostConnections(t *testing.T) {
	t.Parallel()
	p := proxied(t, postgrestest.Database(t))
	s := open(t, p.URL, nil)
	for when, f := range map[string]storetest.Fate{"before": storetest.Lost, "after": storetest.Muted} {
		c := beginCheckout(t, s, "", "starter")
		apply(t, s, subscriptionOf(c, billing.Active))
		happened := p.Once(f, false, containing("claim_key"))
		wantFailure(t, errOf(s.Claim(t.Context(), c.Session)), "a claim was shown that was cut %s the write", when)
		receive(t, "the cut", happened)
		claim := must(s.Claim(t.Context(), c.Session))(t)
		expect(t, "the second claim has no key", claim.Key == "", f == storetest.Muted)
		if claim.Key == "" {
			claim = must(s.Reissue(t.Context(), c.Session))(t)
		}
		expect(t, "key status", keyStatus(t, s, claim.Key), "starter 150")
		expect(t, "valid keys", rowsOf(t, s, "api_keys WHERE account_id = ? AND state = 'valid'", claim.Account), 1)
	}
}

// No call may give a working key to an account whose subscription has ended.
func TestEndedAccountsGetNoKeys(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	c := beginCheckout(t, s, "", "pro")
	cancelled := subscriptionOf(c, billing.Canceled)
	apply(t, s, subscriptionOf(c, billing.Incomplete), subscriptionOf(c, billing.Active), cancelled)
	claim, err := s.Claim(t.Context(), c.Session)
	mustHold(t, err == nil && claim.Ended, "Claim = %+v, %v; want Ended", claim, err)
	expect(t, "the claimed key", keyStatus(t, s, claim.Key), "ended")
	wantError(t, "CreateKey", errOf(s.CreateKey(t.Context(), claim.Account, "another")), billing.ErrSubscriptionEnded)
	wantError(t, "RotateKey", errOf(s.RotateKey(t.Context(), claim.Account, claim.KeyID, time.Hour)),
		apikey.ErrNotFound)
	wantError(t, "Reissue", errOf(s.Reissue(t.Context(), c.Session)), billing.ErrNoReissue)

	must(s.SetEndpoint(t.Context(), claim.Account, "https://example.com/"))(t)

	// The customer can choose the free plan or subscribe again.
	beginCheckout(t, s, claim.Account, "free")
	expect(t, "on the free plan", keyStatus(t, s, claim.Key), "free 50")
	endpoints, err := s.Endpoints(t.Context(), claim.Account)
	holds(t, err == nil && len(endpoints) == 0, "the free plan has webhooks: %v, %v", endpoints, err)
	apply(t, s, cancelled) // an event of the old subscription does not affect the free plan
	expect(t, "after another event of the old subscription", keyStatus(t, s, claim.Key), "free 50")
	apply(t, s, subscriptionOf(beginCheckout(t, s, claim.Account, "starter"), billing.Active))
	expect(t, "after subscribing again", keyStatus(t, s, claim.Key), "starter 150")
	wantError(t, "choosing the free plan while subscribed", s.BeginCheckout(t.Context(), billing.Checkout{ID: "co_free",
		Account: claim.Account, Plan: "free", Paid: true, At: time.Now()}), billing.ErrSubscribed)
	expect(t, "after choosing the free plan while subscribed", keyStatus(t, s, claim.Key), "starter 150")
}

// An upgrade that was begun but not paid changes nothing, and neither does the payment of another host's checkout. One
// for a plan that this release does not know is refused, and can be applied later.
func TestPaymentsThatChangeNothing(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	claim := must(s.Claim(t.Context(), beginCheckout(t, s, "", "free").Session))(t)
	c := beginCheckout(t, s, claim.Account, "pro")
	for _, status := range []billing.Status{billing.Incomplete, billing.Canceled} {
		apply(t, s, subscriptionOf(c, status))
		expect(t, "with the upgrade "+string(status), keyStatus(t, s, claim.Key), "free 50")
	}
	wantError(t, "Subscription", errOf(s.Subscription(t.Context(), claim.Account)), billing.ErrNotPaid)
	apply(t, s, subscriptionOf(billing.Checkout{ID: "co_of_another_host", Plan: "pro"}, billing.Active))
	expect(t, "accounts", rowsOf(t, s, "accounts WHERE id <> ?", publicAccount), 1)
	paid := beginCheckout(t, s, claim.Account, "starter")
	apply(t, s, subscriptionOf(paid, billing.Active))
	change := subscriptionOf(paid, billing.Active)
	change.Plan = "of-the-next-release"
	wantError(t, "applying an unknown plan", give(t.Context(), s, change), billing.ErrNoPlan)
	expect(t, "with the unknown plan", keyStatus(t, s, claim.Key), "starter 150")
	change.Plan = "pro"
	apply(t, s, change)
	expect(t, "once it is known", keyStatus(t, s, claim.Key), "pro 1500")
}

// Creating keys while the subscription ends leaves no working key.
func TestKeysCreatedWhileTheSubscriptionEnds(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	a, b := open(t, url, nil), open(t, url, nil)
	for range 5 {
		c, claim := bought(t, a, "pro")
		noError(t, errors.Join(concurrently(7, func(i int) (err error) {
			host := []*Store{a, b}[i%2]
			switch {
			case i == 6:
				return give(context.Background(), host, subscriptionOf(c, billing.Canceled))
			case i < 3:
				_, err = host.CreateKey(context.Background(), claim.Account, fmt.Sprint("key ", i))
			default:
				_, err = host.RotateKey(context.Background(), claim.Account, claim.KeyID, time.Hour)
			}
			return except(err, billing.ErrSubscriptionEnded, apikey.ErrNotFound)
		})...))
		expect(t, "valid keys after the subscription ended",
			rowsOf(t, a, "api_keys WHERE account_id = ? AND state = 'valid'", claim.Account), 0)
	}
}

func TestKeyLimits(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	caller := newCaller(t, s, plan(t, "pro", 1500))
	wantError(t, "revoking the only key", s.RevokeAccountKey(t.Context(), caller.Account, caller.Key), apikey.ErrLast)
	wantError(t, "revoking another account's key", s.RevokeAccountKey(t.Context(), "acct_other", caller.Key),
		apikey.ErrNotFound)
	rotated := must(s.RotateKey(t.Context(), caller.Account, caller.Key, time.Hour))(t)
	wantError(t, "revoking the only key that does not expire",
		s.RevokeAccountKey(t.Context(), caller.Account, rotated.ID), apikey.ErrLast)
	expect(t, "further keys", successes(t, concurrently(2*apikey.MaxPerAccount, func(int) error {
		return errOf(s.CreateKey(context.Background(), caller.Account, "another"))
	}), apikey.ErrTooMany), apikey.MaxPerAccount-2)
	wantError(t, "rotating at the limit", errOf(s.RotateKey(t.Context(), caller.Account, caller.Key, time.Hour)),
		apikey.ErrTooMany)
	noError(t, s.RevokeAccountKey(t.Context(), caller.Account, caller.Key))
	must(s.CreateKey(t.Context(), caller.Account, "replacement"))(t)
	exec(t, session(t, s.url), fmt.Sprintf("UPDATE api_keys SET expires_at = now() WHERE id = '%s'", rotated.ID))
	must(s.CreateKey(t.Context(), caller.Account, "instead of an expired one"))(t)
}

func TestPruneBilling(t *testing.T) {
	t.Parallel()
	now := noon
	s := newStore(t, func() time.Time { return now })
	abandoned, late := beginCheckout(t, s, "", "starter"), beginCheckout(t, s, "", "starter")
	foreign := subscriptionOf(billing.Checkout{ID: "other"}, billing.Active)
	foreign.Checkout = "" // belongs to another product with the same provider account
	apply(t, s, foreign)
	caller := newCaller(t, s, plan(t, "pro", 1500))
	must(s.RotateKey(t.Context(), caller.Account, caller.Key, time.Hour))(t)
	// Paid at the last moment, and delivered by Stripe at its last attempt.
	now = now.Add(billing.PayLife + 3*24*time.Hour)
	noError(t, s.Prune(t.Context()))
	wantError(t, "CheckoutPlan after PayLife", errOf(s.CheckoutPlan(t.Context(), late.ID)), billing.ErrNoCheckout)
	apply(t, s, subscriptionOf(late, billing.Active))
	claim, err := s.Claim(t.Context(), late.Session)
	holds(t, err == nil && claim.Key != "", "claiming after a late payment = %+v, %v", claim, err)
	now = now.Add(billing.ClaimLife)
	wantError(t, "claiming after ClaimLife", errOf(s.Claim(t.Context(), abandoned.Session)), billing.ErrNoCheckout)
	now = now.Add(keyRetention)
	noError(t, s.Prune(t.Context()))
	for query, want := range map[string]int{
		"SELECT count(*) FROM billing_checkouts":                                    0,
		"SELECT count(*) FROM billing_subscriptions":                                1,
		"SELECT count(*) FROM api_keys WHERE account_id = '" + caller.Account + "'": 1,
	} {
		expect(t, query, one[int](t, s, query), want)
	}
	// A subscription's events name its checkout permanently, but the checkout is deleted.
	for _, step := range []struct {
		status billing.Status
		want   string
	}{{billing.PastDue, "starter 150"}, {billing.Unpaid, "ended"}, {billing.Active, "starter 150"},
		{billing.Canceled, "ended"}} {
		noError(t, give(t.Context(), s, subscriptionOf(late, step.status)))
		expect(t, "status "+string(step.status), keyStatus(t, s, claim.Key), step.want)
	}
}
