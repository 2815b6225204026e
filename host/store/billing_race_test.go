package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"assay/host/apikey"
	"assay/host/billing"
	"assay/host/check"
	"assay/host/postgres/postgrestest"
)

// TestEventsThroughTwoHosts tells two hosts at once of many subscriptions, in random order and with duplicates. Each
// ends where its newest event puts it, none of the transactions is undone for a deadlock, and hosts agree.
func TestEventsThroughTwoHosts(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	hosts := []*Store{open(t, url, nil), open(t, url, nil)}
	random := rand.New(rand.NewPCG(1, 5))
	type customer struct {
		begun
		key  string
		want string
	}
	customers := make([]customer, 12)
	var told []billing.Change
	for i := range customers {
		c := &customers[i]
		c.begun = begin(t, hosts[0], "", "starter")
		var history []billing.Change
		history, c.want = randomHistory(random, c.begun)
		told = append(append(told, history...), history...)
	}
	random.Shuffle(len(told), func(i, j int) { told[i], told[j] = told[j], told[i] })
	undone := deadlocks(t, hosts[0])
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := worker; i < len(told); i += 8 {
				for {
					err := hosts[(worker+i/8)%2].Apply(context.Background(), told[i])
					if err == nil {
						break
					}
					if sqlState(err) != "55P03" { // waited too long on a slow machine: the provider sends it again
						t.Errorf("%+v: %v", told[i], err)
						return
					}
				}
			}
		})
	}
	// Meanwhile those who have paid come for their keys, through either host.
	for i := range customers {
		wg.Go(func() {
			until(t, "the key can be claimed", func() bool {
				claim, err := hosts[i%2].Claim(context.Background(), customers[i].session)
				if err != nil && !errors.Is(err, billing.ErrPending) && sqlState(err) != "55P03" {
					t.Error(err)
				}
				customers[i].key = claim.Key
				return err == nil
			})
		})
	}
	wg.Wait()
	if n := deadlocks(t, hosts[0]) - undone; n != 0 {
		t.Errorf("%d deadlocks", n)
	}
	for i, c := range customers {
		if got := standing(t, hosts[i%2], c.key); got != c.want {
			t.Errorf("customer %d: %s, want %s", i, got, c.want)
		}
	}
}

// deadlocks is how many Postgres has broken in this database.
func deadlocks(t *testing.T, s *Store) int {
	t.Helper()
	return one[int](t, s, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
}

// randomHistory is what happens to a subscription from its checkout on, some of it within one second, and where that
// leaves the account.
func randomHistory(random *rand.Rand, c begun) (history []billing.Change, want string) {
	created := told(c, 0, billing.Incomplete)
	paid := told(c, 0, billing.Active) // within the same second
	completed := told(c, 1, billing.Active)
	completed.Plan = ""
	history = append(history, created, paid, completed)
	want = "starter 150"
	quotas := map[string]string{"starter": "starter 150", "pro": "pro 1500"}
	for minute := 2; minute < 2+random.IntN(6); minute++ {
		plan := []string{"starter", "pro"}[random.IntN(2)]
		status := []billing.Status{billing.Active, billing.PastDue, billing.Unpaid, billing.Paused}[random.IntN(4)]
		change := told(c, minute, status)
		change.Checkout, change.Plan = "", plan
		history = append(history, change)
		if want = quotas[plan]; !status.Serves() {
			want = "ended"
		}
	}
	if random.IntN(4) == 0 {
		change := told(c, 20, billing.Canceled)
		change.Checkout, change.Plan = "", ""
		history, want = append(history, change), "ended"
	}
	return history, want
}

// TestPaymentOutlivesTheConnection cuts the connection at each statement that makes a payment an account, and in place
// of the answer. The provider sends the event again, and the customer gets the one key that was paid for.
func TestPaymentOutlivesTheConnection(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	direct := open(t, url, nil)
	var payments atomic.Int64
	t.Run("cuts", func(t *testing.T) {
		for name, fits := range map[string]func(string) bool{
			"begin":          isBegin,
			"the event's id": func(m string) bool { return strings.Contains(m, "INSERT INTO billing_events") },
			"the subscription": func(m string) bool {
				return strings.Contains(m,
					`INSERT INTO "billing_subscriptions"`)
			},
			"the account":  func(m string) bool { return strings.Contains(m, `INSERT INTO "accounts"`) },
			"the checkout": func(m string) bool { return strings.Contains(m, `UPDATE "billing_checkouts"`) },
			"commit":       isCommit,
		} {
			for how, f := range map[string]fate{"before": lost, "after": muted, "within the answer to": truncated} {
				t.Run(how+" "+name, func(t *testing.T) {
					t.Parallel()
					payments.Add(1)
					p := proxied(t, url)
					s := open(t, p.URL, nil)
					c := begin(t, s, "", "pro")
					event := told(c, 0, billing.Active)
					happened := p.once(f, false, fits)
					if err := s.Apply(t.Context(), event); err == nil {
						t.Error("the cut went unnoticed")
					}
					receive(t, "the cut", happened)
					apply(t, s, event)
					claim, err := s.Claim(t.Context(), c.session)
					if err != nil {
						t.Fatal(err)
					}
					if got := standing(t, direct, claim.Key); got != "pro 1500" {
						t.Errorf("got %s", got)
					}
				})
			}
		}
	})
	if n := one[int64](t, direct, "SELECT count(*) FROM accounts WHERE id <> ?", publicAccount); n != payments.Load() {
		t.Errorf("%d accounts for %d payments", n, payments.Load())
	}
}

// TestClaimOutlivesTheConnection cuts the connection while the key is handed out: either it was not, and is now, or it
// was and can be issued again.
func TestClaimOutlivesTheConnection(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]fate{"before commit": lost, "after commit": muted} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := postgrestest.Database(t)
			p := proxied(t, url)
			s := open(t, p.URL, nil)
			c := begin(t, s, "", "starter")
			apply(t, s, told(c, 0, billing.Active))
			happened := p.once(f, false, isCommit)
			if claim, err := s.Claim(t.Context(), c.session); err == nil {
				t.Errorf("claimed %+v", claim)
			}
			receive(t, "the cut", happened)
			claim, err := s.Claim(t.Context(), c.session)
			if err != nil {
				t.Fatal(err)
			}
			if (claim.Key == "") != (f == muted) {
				t.Errorf("afterwards: %+v", claim)
			}
			if claim.Key == "" {
				if claim, err = s.Reissue(t.Context(), c.session); err != nil {
					t.Fatal(err)
				}
			}
			if got := standing(t, s, claim.Key); got != "starter 150" {
				t.Errorf("the key: %s", got)
			}
			if n := one[int](t, s, "SELECT count(*) FROM api_keys WHERE state = 'valid'"); n != 1 {
				t.Errorf("%d keys work", n)
			}
		})
	}
}

func TestWhatSupersedesWhat(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		status billing.Status
		after  time.Duration // what is known already
		known  billing.Status
		want   bool
	}{
		"later":                            {billing.Active, time.Second, billing.Unpaid, true},
		"earlier":                          {billing.Active, -time.Second, billing.Unpaid, false},
		"further in the same second":       {billing.Unpaid, 0, billing.Active, true},
		"less far in the same second":      {billing.Active, 0, billing.PastDue, false},
		"the same in the same second":      {billing.Active, 0, billing.Active, true},
		"says no status, same second":      {"", 0, billing.Active, true},
		"the end, told late":               {billing.Canceled, -time.Hour, billing.Active, true},
		"created, by a clock that differs": {billing.Incomplete, time.Second, billing.Active, false},
		"created":                          {billing.Incomplete, time.Second, billing.Incomplete, true},
	} {
		known := subscriptionRow{Status: test.known, ChangedAt: noon}
		if got := supersedes(billing.Change{Status: test.status, At: noon.Add(test.after)}, known); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// An account of which nothing is paid any more must not come by a key that works, whichever way.
func TestEndedAccountsGetNoKeys(t *testing.T) {
	t.Parallel()
	s := open(t, postgrestest.Database(t), nil)
	c := begin(t, s, "", "pro")
	cancelled := told(c, 2, billing.Canceled)
	cancelled.Checkout = ""
	apply(t, s, cancelled, told(c, 0, billing.Incomplete), told(c, 1, billing.Active)) // told of the end first
	claim, err := s.Claim(t.Context(), c.session)
	if err != nil || !claim.Ended {
		t.Fatalf("claimed %+v, %v", claim, err)
	}
	if got := standing(t, s, claim.Key); got != "ended" {
		t.Errorf("the claimed key: %s", got)
	}
	if _, err := s.SignIn(t.Context(), claim.Key); err != nil {
		t.Errorf("to choose a plan again: %v", err)
	}
	if issued, err := s.CreateKey(t.Context(), claim.Account, "free of charge"); !errors.Is(err, billing.ErrSubscriptionEnded) {
		t.Errorf("another key: %+v, %v", issued, err)
	}
	if issued, err := s.RotateKey(t.Context(), claim.Account, claim.KeyID, time.Hour); !errors.Is(err, apikey.ErrNotFound) {
		t.Errorf("a rotated key: %+v, %v", issued, err)
	}
	if again, err := s.Reissue(t.Context(), c.session); !errors.Is(err, billing.ErrNoReissue) {
		t.Errorf("issued again: %+v, %v", again, err)
	}

	if _, err := s.SetEndpoint(t.Context(), claim.Account, "https://example.com/"); err != nil {
		t.Fatal(err)
	}

	// Choosing the free plan, and another that is paid, are the ways back.
	begin(t, s, claim.Account, "free")
	if got := standing(t, s, claim.Key); got != "free 50" {
		t.Errorf("on the free plan: %s", got)
	}
	if endpoints, err := s.Endpoints(t.Context(), claim.Account); err != nil || len(endpoints) != 0 {
		t.Errorf("the free plan has webhooks: %v, %v", endpoints, err)
	}
	again := cancelled
	again.Event, again.At = "evt_again", again.At.Add(time.Hour)
	apply(t, s, again) // of the old subscription, which is nothing to the free plan
	if got := standing(t, s, claim.Key); got != "free 50" {
		t.Errorf("after another event of what has ended: %s", got)
	}
	apply(t, s, told(begin(t, s, claim.Account, "starter"), 3, billing.Active))
	if got := standing(t, s, claim.Key); got != "starter 150" {
		t.Errorf("subscribed again: %s", got)
	}
	err = s.BeginCheckout(t.Context(), billing.Checkout{ID: "co_free", Session: billing.SessionHash("co_free"),
		Account: claim.Account, Plan: "free", Paid: true, At: time.Now()})
	if got := standing(t, s, claim.Key); !errors.Is(err, billing.ErrSubscribed) || got != "starter 150" {
		t.Errorf("the free plan while another is paid: %v, %s", err, got)
	}
}

// An upgrade that is begun and not paid, or never will be, is nothing to the account's keys.
func TestUnpaidUpgradeChangesNothing(t *testing.T) {
	t.Parallel()
	s := open(t, postgrestest.Database(t), nil)
	claim, err := s.Claim(t.Context(), begin(t, s, "", "free").session)
	if err != nil {
		t.Fatal(err)
	}
	c := begin(t, s, claim.Account, "pro")
	for i, status := range []billing.Status{billing.Incomplete, billing.Canceled} {
		apply(t, s, told(c, i, status))
		if got := standing(t, s, claim.Key); got != "free 50" {
			t.Errorf("once the upgrade is %s: %s", status, got)
		}
	}
	if _, err := s.Subscription(t.Context(), claim.Account); !errors.Is(err, billing.ErrNotPaid) {
		t.Errorf("it counts as a subscription: %v", err)
	}
}

// Keys that are created and subscriptions that end at the same time leave no key that works.
func TestKeysCreatedWhileTheSubscriptionEnds(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	a, b := open(t, url, nil), open(t, url, nil)
	for round := range 5 {
		c := begin(t, a, "", "pro")
		apply(t, a, told(c, 0, billing.Active))
		claim, err := a.Claim(t.Context(), c.session)
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for i := range 6 {
			wg.Go(func() {
				host := []*Store{a, b}[i%2]
				var err error
				if i < 3 {
					_, err = host.CreateKey(context.Background(), claim.Account, fmt.Sprint("key ", i))
				} else {
					_, err = host.RotateKey(context.Background(), claim.Account, claim.KeyID, time.Hour)
				}
				if err != nil && !errors.Is(err, billing.ErrSubscriptionEnded) && !errors.Is(err, apikey.ErrNotFound) {
					t.Error(err)
				}
			})
		}
		wg.Go(func() {
			cancelled := told(c, 1, billing.Canceled)
			if err := b.Apply(context.Background(), cancelled); err != nil {
				t.Error(err)
			}
		})
		wg.Wait()
		if n := one[int](t, a, "SELECT count(*) FROM api_keys WHERE account_id = ? AND state = 'valid'",
			claim.Account); n != 0 {
			t.Errorf("round %d: %d keys outlive the subscription", round, n)
		}
	}
}

func TestKeysAreBounded(t *testing.T) {
	t.Parallel()
	s := open(t, postgrestest.Database(t), nil)
	caller := newCaller(t, s, plan(t, "pro", 1500))
	if err := s.RevokeAccountKey(t.Context(), caller.Account, caller.Key); !errors.Is(err, apikey.ErrLast) {
		t.Errorf("revoking the only key: %v", err)
	}
	if err := s.RevokeAccountKey(t.Context(), "acct_other", caller.Key); !errors.Is(err, apikey.ErrNotFound) {
		t.Errorf("revoking another account's key: %v", err)
	}
	var wg sync.WaitGroup
	for range 2 * apikey.MaxPerAccount {
		wg.Go(func() {
			if _, err := s.CreateKey(context.Background(), caller.Account, "one more"); err != nil &&
				!errors.Is(err, apikey.ErrTooMany) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := one[int](t, s, "SELECT count(*) FROM api_keys WHERE account_id = ?", caller.Account); n != apikey.MaxPerAccount {
		t.Errorf("%d keys, want %d", n, apikey.MaxPerAccount)
	}
	if _, err := s.RotateKey(t.Context(), caller.Account, caller.Key, time.Hour); !errors.Is(err, apikey.ErrTooMany) {
		t.Errorf("rotating at the limit: %v", err)
	}
	if err := s.RevokeAccountKey(t.Context(), caller.Account, caller.Key); err != nil {
		t.Error(err)
	}
	if _, err := s.CreateKey(t.Context(), caller.Account, "in its place"); err != nil {
		t.Error(err)
	}
}

// A key that is revoked through one host is refused by another as soon as that has heard of it, without anything to
// wait for.
func TestRevokedKeyIsForgottenByOtherHosts(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	a, b := open(t, url, nil), open(t, url, nil)
	listening, heard := make(chan struct{}, 100), sync.WaitGroup{}
	ctx, stop := context.WithCancel(context.Background())
	heard.Go(func() {
		b.Listen(ctx, func(topic Topic) {
			if topic == TopicKeys {
				b.ForgetCallers()
				listening <- struct{}{}
			}
		})
	})
	defer heard.Wait()
	defer stop()
	receive(t, "the other host listens", listening)
	caller := newCaller(t, a, plan(t, "pro", 1500))
	_, spare := newKey(t, a, caller.Account)
	b.now = func() time.Time { return noon } // what it remembers never grows old
	if _, err := b.Authenticate(t.Context(), spare.Secret); err != nil {
		t.Fatal(err)
	}
	if err := a.RevokeAccountKey(t.Context(), caller.Account, spare.ID); err != nil {
		t.Fatal(err)
	}
	until(t, "the other host refuses the key", func() bool {
		_, err := b.Authenticate(t.Context(), spare.Secret)
		return errors.Is(err, check.ErrUnauthorized)
	})
}

func TestOldBillingRowsAreForgotten(t *testing.T) {
	t.Parallel()
	now := time.Date(2031, 5, 6, 7, 0, 0, 0, time.UTC)
	s := open(t, postgrestest.Database(t), func() time.Time { return now })
	beginAt := func(id string) begun {
		c := billing.Checkout{ID: id, Session: billing.SessionHash(id), Plan: "starter", Provider: "stripe", At: now}
		if err := s.BeginCheckout(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		return begun{c, c.Session}
	}
	abandoned, late := beginAt("co_abandoned"), beginAt("co_late")
	foreign := told(begun{Checkout: billing.Checkout{ID: "other"}}, 0, billing.Active)
	foreign.Checkout = "" // of another product with the same provider account
	apply(t, s, foreign)
	caller := newCaller(t, s, plan(t, "pro", 1500))
	if _, err := s.RotateKey(t.Context(), caller.Account, caller.Key, time.Hour); err != nil {
		t.Fatal(err)
	}
	forget := func() {
		t.Helper()
		if err := s.PruneBilling(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	// paid at the last moment, and Stripe got through at the last attempt
	now = now.Add(billing.PayLife + 3*24*time.Hour)
	forget()
	if _, err := s.CheckoutPlan(t.Context(), late.ID); !errors.Is(err, billing.ErrNoCheckout) {
		t.Errorf("a checkout can still be paid: %v", err)
	}
	apply(t, s, told(late, 0, billing.Active))
	if claim, err := s.Claim(t.Context(), late.session); err != nil || claim.Key == "" {
		t.Errorf("what was paid is lost: %+v, %v", claim, err)
	}
	now = now.Add(billing.ClaimLife)
	if _, err := s.Claim(t.Context(), abandoned.session); !errors.Is(err, billing.ErrNoCheckout) {
		t.Errorf("an old checkout: %v", err)
	}
	now = now.Add(keyRetention)
	forget()
	for query, want := range map[string]int{
		"SELECT count(*) FROM billing_checkouts":                                    0,
		"SELECT count(*) FROM billing_subscriptions":                                1,
		"SELECT count(*) FROM api_keys WHERE account_id = '" + caller.Account + "'": 1,
	} {
		if n := one[int](t, s, query); n != want {
			t.Errorf("%s: %d, want %d", query, n, want)
		}
	}
}
