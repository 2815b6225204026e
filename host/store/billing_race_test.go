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

// TestEventsThroughTwoHosts applies the events of many subscriptions through two hosts, in random order and with
// duplicates. The newest event of each subscription determines its final state, and no transaction deadlocks.
func TestEventsThroughTwoHosts(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	hosts := []*Store{open(t, url, nil), open(t, url, nil)}
	random := rand.New(rand.NewPCG(1, 5))
	type customer struct {
		checkout billing.Checkout
		key      string
		want     string
	}
	customers := make([]customer, 12)
	var events []billing.Change
	for i := range customers {
		c := &customers[i]
		c.checkout = beginCheckout(t, hosts[0], "", "starter")
		var history []billing.Change
		history, c.want = randomHistory(random, c.checkout)
		events = append(append(events, history...), history...)
	}
	random.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
	before := deadlocks(t, hosts[0])
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := worker; i < len(events); i += 8 {
				for {
					err := hosts[(worker+i/8)%2].Apply(context.Background(), events[i])
					if err == nil {
						break
					}
					if sqlState(err) != "55P03" { // lock timeout on a slow machine: the provider resends the event
						t.Errorf("%+v: %v", events[i], err)
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
				if err != nil && !errors.Is(err, billing.ErrPending) && sqlState(err) != "55P03" {
					t.Error(err)
				}
				customers[i].key = claim.Key
				return err == nil
			})
		})
	}
	wg.Wait()
	if n := deadlocks(t, hosts[0]) - before; n != 0 {
		t.Errorf("%d deadlocks", n)
	}
	for i, c := range customers {
		if got := keyStatus(t, hosts[i%2], c.key); got != c.want {
			t.Errorf("customer %d: %s, want %s", i, got, c.want)
		}
	}
}

// deadlocks returns how many deadlocks Postgres has detected in this database.
func deadlocks(t *testing.T, s *Store) int {
	t.Helper()
	return one[int](t, s, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
}

// randomHistory returns the events of a subscription, some of them in the same second, and the final status of its key.
func randomHistory(random *rand.Rand, c billing.Checkout) (history []billing.Change, want string) {
	created := newChange(c, 0, billing.Incomplete)
	paid := newChange(c, 0, billing.Active) // within the same second
	completed := newChange(c, 1, billing.Active)
	completed.Plan = ""
	history = append(history, created, paid, completed)
	want = "starter 150"
	quotas := map[string]string{"starter": "starter 150", "pro": "pro 1500"}
	for minute := 2; minute < 2+random.IntN(6); minute++ {
		plan := []string{"starter", "pro"}[random.IntN(2)]
		status := []billing.Status{billing.Active, billing.PastDue, billing.Unpaid, billing.Paused}[random.IntN(4)]
		change := newChange(c, minute, status)
		change.Checkout, change.Plan = "", plan
		history = append(history, change)
		if want = quotas[plan]; !status.Serves() {
			want = "ended"
		}
	}
	if random.IntN(4) == 0 {
		change := newChange(c, 20, billing.Canceled)
		change.Checkout, change.Plan = "", ""
		history, want = append(history, change), "ended"
	}
	return history, want
}

// TestApplySurvivesLostConnections cuts the connection at each statement of Apply, before or after it or within its
// response. The provider resends the event, and the customer gets exactly one account and key.
func TestApplySurvivesLostConnections(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	direct := open(t, url, nil)
	var payments atomic.Int64
	t.Run("cuts", func(t *testing.T) {
		for name, fits := range map[string]func(string) bool{
			"begin":          isBegin,
			"the event's id": func(m string) bool { return strings.Contains(m, "INSERT INTO billing_events") },
			"the subscription": func(m string) bool {
				return strings.Contains(m, `INSERT INTO "billing_subscriptions"`)
			},
			"the account":  func(m string) bool { return strings.Contains(m, `INSERT INTO "accounts"`) },
			"the checkout": func(m string) bool { return strings.Contains(m, `UPDATE "billing_checkouts"`) },
			"commit":       isCommit,
		} {
			for how, f := range map[string]fate{"before": lost, "after": muted, "within the response to": truncated} {
				t.Run(how+" "+name, func(t *testing.T) {
					t.Parallel()
					payments.Add(1)
					p := proxied(t, url)
					s := open(t, p.URL, nil)
					c := beginCheckout(t, s, "", "pro")
					event := newChange(c, 0, billing.Active)
					happened := p.once(f, false, fits)
					if err := s.Apply(t.Context(), event); err == nil {
						t.Error("Apply succeeded in spite of the cut")
					}
					receive(t, "the cut", happened)
					apply(t, s, event)
					claim, err := s.Claim(t.Context(), c.Session)
					if err != nil {
						t.Fatal(err)
					}
					if got := keyStatus(t, direct, claim.Key); got != "pro 1500" {
						t.Errorf("key status %s, want pro 1500", got)
					}
				})
			}
		}
	})
	if n := one[int64](t, direct, "SELECT count(*) FROM accounts WHERE id <> ?", publicAccount); n != payments.Load() {
		t.Errorf("%d accounts for %d payments", n, payments.Load())
	}
}

// TestClaimSurvivesLostConnections cuts the connection while Claim commits. A second call returns the key, or the key
// can be reissued.
func TestClaimSurvivesLostConnections(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]fate{"before commit": lost, "after commit": muted} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := postgrestest.Database(t)
			p := proxied(t, url)
			s := open(t, p.URL, nil)
			c := beginCheckout(t, s, "", "starter")
			apply(t, s, newChange(c, 0, billing.Active))
			happened := p.once(f, false, isCommit)
			if claim, err := s.Claim(t.Context(), c.Session); err == nil {
				t.Errorf("Claim = %+v, want an error", claim)
			}
			receive(t, "the cut", happened)
			claim, err := s.Claim(t.Context(), c.Session)
			if err != nil {
				t.Fatal(err)
			}
			if (claim.Key == "") != (f == muted) {
				t.Errorf("second Claim = %+v", claim)
			}
			if claim.Key == "" {
				if claim, err = s.Reissue(t.Context(), c.Session); err != nil {
					t.Fatal(err)
				}
			}
			if got := keyStatus(t, s, claim.Key); got != "starter 150" {
				t.Errorf("key status %s, want starter 150", got)
			}
			if n := one[int](t, s, "SELECT count(*) FROM api_keys WHERE state = 'valid'"); n != 1 {
				t.Errorf("%d valid keys, want 1", n)
			}
		})
	}
}

func TestSupersedes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		status billing.Status
		after  time.Duration // the stored change
		stored billing.Status
		want   bool
	}{
		"later":                             {billing.Active, time.Second, billing.Unpaid, true},
		"earlier":                           {billing.Active, -time.Second, billing.Unpaid, false},
		"later status in the same second":   {billing.Unpaid, 0, billing.Active, true},
		"earlier status in the same second": {billing.Active, 0, billing.PastDue, false},
		"same status in the same second":    {billing.Active, 0, billing.Active, true},
		"no status in the same second":      {"", 0, billing.Active, true},
		"late cancellation":                 {billing.Canceled, -time.Hour, billing.Active, true},
		"incomplete after active":           {billing.Incomplete, time.Second, billing.Active, false},
		"incomplete":                        {billing.Incomplete, time.Second, billing.Incomplete, true},
	} {
		stored := subscriptionRow{Status: test.stored, ChangedAt: noon}
		if got := supersedes(billing.Change{Status: test.status, At: noon.Add(test.after)}, stored); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}

// No call may give a working key to an account whose subscription has ended.
func TestEndedAccountsGetNoKeys(t *testing.T) {
	t.Parallel()
	s := open(t, postgrestest.Database(t), nil)
	c := beginCheckout(t, s, "", "pro")
	cancelled := newChange(c, 2, billing.Canceled)
	cancelled.Checkout = ""
	// The cancellation arrives first.
	apply(t, s, cancelled, newChange(c, 0, billing.Incomplete), newChange(c, 1, billing.Active))
	claim, err := s.Claim(t.Context(), c.Session)
	if err != nil || !claim.Ended {
		t.Fatalf("Claim = %+v, %v; want Ended", claim, err)
	}
	if got := keyStatus(t, s, claim.Key); got != "ended" {
		t.Errorf("the claimed key: %s, want ended", got)
	}
	if _, err := s.SignIn(t.Context(), claim.Key); err != nil {
		t.Errorf("signing in: %v", err)
	}
	created, err := s.CreateKey(t.Context(), claim.Account, "another")
	if !errors.Is(err, billing.ErrSubscriptionEnded) {
		t.Errorf("CreateKey = %+v, %v; want ErrSubscriptionEnded", created, err)
	}
	rotated, err := s.RotateKey(t.Context(), claim.Account, claim.KeyID, time.Hour)
	if !errors.Is(err, apikey.ErrNotFound) {
		t.Errorf("RotateKey = %+v, %v; want ErrNotFound", rotated, err)
	}
	if again, err := s.Reissue(t.Context(), c.Session); !errors.Is(err, billing.ErrNoReissue) {
		t.Errorf("Reissue = %+v, %v; want ErrNoReissue", again, err)
	}

	if _, err := s.SetEndpoint(t.Context(), claim.Account, "https://example.com/"); err != nil {
		t.Fatal(err)
	}

	// The customer can choose the free plan or subscribe again.
	beginCheckout(t, s, claim.Account, "free")
	if got := keyStatus(t, s, claim.Key); got != "free 50" {
		t.Errorf("on the free plan: %s, want free 50", got)
	}
	if endpoints, err := s.Endpoints(t.Context(), claim.Account); err != nil || len(endpoints) != 0 {
		t.Errorf("the free plan has webhooks: %v, %v", endpoints, err)
	}
	again := cancelled
	again.Event, again.At = "evt_again", again.At.Add(time.Hour)
	apply(t, s, again) // an event of the old subscription does not affect the free plan
	if got := keyStatus(t, s, claim.Key); got != "free 50" {
		t.Errorf("after another event of the old subscription: %s, want free 50", got)
	}
	apply(t, s, newChange(beginCheckout(t, s, claim.Account, "starter"), 3, billing.Active))
	if got := keyStatus(t, s, claim.Key); got != "starter 150" {
		t.Errorf("after subscribing again: %s, want starter 150", got)
	}
	err = s.BeginCheckout(t.Context(), billing.Checkout{ID: "co_free", Session: billing.SessionHash("co_free"),
		Account: claim.Account, Plan: "free", Paid: true, At: time.Now()})
	if got := keyStatus(t, s, claim.Key); !errors.Is(err, billing.ErrSubscribed) || got != "starter 150" {
		t.Errorf("choosing the free plan while subscribed: %v, %s; want ErrSubscribed", err, got)
	}
}

// An upgrade that was begun but not paid does not affect the account's keys.
func TestUnpaidUpgradeChangesNothing(t *testing.T) {
	t.Parallel()
	s := open(t, postgrestest.Database(t), nil)
	claim, err := s.Claim(t.Context(), beginCheckout(t, s, "", "free").Session)
	if err != nil {
		t.Fatal(err)
	}
	c := beginCheckout(t, s, claim.Account, "pro")
	for i, status := range []billing.Status{billing.Incomplete, billing.Canceled} {
		apply(t, s, newChange(c, i, status))
		if got := keyStatus(t, s, claim.Key); got != "free 50" {
			t.Errorf("with the upgrade %s: %s, want free 50", status, got)
		}
	}
	if _, err := s.Subscription(t.Context(), claim.Account); !errors.Is(err, billing.ErrNotPaid) {
		t.Errorf("Subscription: %v, want ErrNotPaid", err)
	}
}

// Creating keys while the subscription ends leaves no working key.
func TestKeysCreatedWhileTheSubscriptionEnds(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	a, b := open(t, url, nil), open(t, url, nil)
	for round := range 5 {
		c := beginCheckout(t, a, "", "pro")
		apply(t, a, newChange(c, 0, billing.Active))
		claim, err := a.Claim(t.Context(), c.Session)
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
			cancelled := newChange(c, 1, billing.Canceled)
			if err := b.Apply(context.Background(), cancelled); err != nil {
				t.Error(err)
			}
		})
		wg.Wait()
		if n := one[int](t, a, "SELECT count(*) FROM api_keys WHERE account_id = ? AND state = 'valid'",
			claim.Account); n != 0 {
			t.Errorf("round %d: %d valid keys after the subscription ended", round, n)
		}
	}
}

func TestKeyLimits(t *testing.T) {
	t.Parallel()
	s := open(t, postgrestest.Database(t), nil)
	caller := newCaller(t, s, plan(t, "pro", 1500))
	if err := s.RevokeAccountKey(t.Context(), caller.Account, caller.Key); !errors.Is(err, apikey.ErrLast) {
		t.Errorf("revoking the only key: %v, want ErrLast", err)
	}
	if err := s.RevokeAccountKey(t.Context(), "acct_other", caller.Key); !errors.Is(err, apikey.ErrNotFound) {
		t.Errorf("revoking another account's key: %v, want ErrNotFound", err)
	}
	var wg sync.WaitGroup
	for range 2 * apikey.MaxPerAccount {
		wg.Go(func() {
			if _, err := s.CreateKey(context.Background(), caller.Account, "another"); err != nil &&
				!errors.Is(err, apikey.ErrTooMany) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	n := one[int](t, s, "SELECT count(*) FROM api_keys WHERE account_id = ?", caller.Account)
	if n != apikey.MaxPerAccount {
		t.Errorf("%d keys, want %d", n, apikey.MaxPerAccount)
	}
	if _, err := s.RotateKey(t.Context(), caller.Account, caller.Key, time.Hour); !errors.Is(err, apikey.ErrTooMany) {
		t.Errorf("rotating at the limit: %v, want ErrTooMany", err)
	}
	if err := s.RevokeAccountKey(t.Context(), caller.Account, caller.Key); err != nil {
		t.Error(err)
	}
	if _, err := s.CreateKey(t.Context(), caller.Account, "replacement"); err != nil {
		t.Error(err)
	}
}

// The notification of a revoked key clears the caches of other hosts.
func TestRevokingNotifiesOtherHosts(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	a, b := open(t, url, nil), open(t, url, nil)
	notified, listening := make(chan struct{}, 100), sync.WaitGroup{}
	ctx, stop := context.WithCancel(context.Background())
	listening.Go(func() {
		b.Listen(ctx, func(topic Topic) {
			if topic == TopicKeys {
				b.ForgetCallers()
				notified <- struct{}{}
			}
		})
	})
	defer listening.Wait()
	defer stop()
	receive(t, "the other host listens", notified)
	caller := newCaller(t, a, plan(t, "pro", 1500))
	_, spare := newKey(t, a, caller.Account)
	b.now = func() time.Time { return noon } // its cache never expires
	if _, err := b.Authenticate(t.Context(), spare.Secret); err != nil {
		t.Fatal(err)
	}
	if err := a.RevokeAccountKey(t.Context(), caller.Account, spare.ID); err != nil {
		t.Fatal(err)
	}
	until(t, "the other host rejects the key", func() bool {
		_, err := b.Authenticate(t.Context(), spare.Secret)
		return errors.Is(err, check.ErrUnauthorized)
	})
}

func TestPruneBilling(t *testing.T) {
	t.Parallel()
	now := time.Date(2031, 5, 6, 7, 0, 0, 0, time.UTC)
	s := open(t, postgrestest.Database(t), func() time.Time { return now })
	beginAt := func(id string) billing.Checkout {
		c := billing.Checkout{ID: id, Session: billing.SessionHash(id), Plan: "starter", Provider: "stripe", At: now}
		if err := s.BeginCheckout(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		return c
	}
	abandoned, late := beginAt("co_abandoned"), beginAt("co_late")
	foreign := newChange(billing.Checkout{ID: "other"}, 0, billing.Active)
	foreign.Checkout = "" // belongs to another product with the same provider account
	apply(t, s, foreign)
	caller := newCaller(t, s, plan(t, "pro", 1500))
	if _, err := s.RotateKey(t.Context(), caller.Account, caller.Key, time.Hour); err != nil {
		t.Fatal(err)
	}
	prune := func() {
		t.Helper()
		if err := s.PruneBilling(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	// Paid at the last moment, and delivered by Stripe at its last attempt.
	now = now.Add(billing.PayLife + 3*24*time.Hour)
	prune()
	if _, err := s.CheckoutPlan(t.Context(), late.ID); !errors.Is(err, billing.ErrNoCheckout) {
		t.Errorf("CheckoutPlan after PayLife: %v, want ErrNoCheckout", err)
	}
	apply(t, s, newChange(late, 0, billing.Active))
	if claim, err := s.Claim(t.Context(), late.Session); err != nil || claim.Key == "" {
		t.Errorf("claiming after a late payment = %+v, %v", claim, err)
	}
	now = now.Add(billing.ClaimLife)
	if _, err := s.Claim(t.Context(), abandoned.Session); !errors.Is(err, billing.ErrNoCheckout) {
		t.Errorf("claiming after ClaimLife: %v, want ErrNoCheckout", err)
	}
	now = now.Add(keyRetention)
	prune()
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
