package store

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"assay/host/apikey"
	"assay/host/billing"
	"assay/host/check"
	"assay/host/postgres/postgrestest"
)

// beginCheckout begins a checkout of the plan; account is "" for a new customer.
func beginCheckout(t *testing.T, s *Store, account, plan string) billing.Checkout {
	t.Helper()
	id := "co_" + ulid.Make().String()
	c := billing.Checkout{ID: id, Session: billing.SessionHash(id), Account: account, Plan: plan, Provider: "stripe",
		Paid: plan == "free", At: time.Now()}
	if err := s.BeginCheckout(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	return c
}

// newChange returns a change of the checkout's subscription, at the given minute of a fixed hour.
func newChange(c billing.Checkout, minute int, status billing.Status) billing.Change {
	return billing.Change{
		Event: "evt_" + ulid.Make().String(), At: time.Date(2031, 5, 1, 10, minute, 0, 0, time.UTC), Provider: "stripe",
		Checkout: c.ID, Customer: "cus_" + c.ID, Subscription: "sub_" + c.ID, Plan: c.Plan, Status: status,
	}
}

func apply(t *testing.T, s *Store, changes ...billing.Change) {
	t.Helper()
	for _, c := range changes {
		if err := s.Apply(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
}

func TestClaimShowsTheKeyOnce(t *testing.T) {
	t.Parallel()
	s := open(t, postgrestest.Database(t), nil)
	c := beginCheckout(t, s, "", "starter")
	if _, err := s.Claim(t.Context(), c.Session); !errors.Is(err, billing.ErrPending) {
		t.Fatalf("claiming before the payment: %v, want ErrPending", err)
	}
	apply(t, s, newChange(c, 0, billing.Active))
	claims := make([]billing.Claim, 100)
	var wg sync.WaitGroup
	for i := range claims {
		wg.Go(func() {
			var err error
			if claims[i], err = s.Claim(t.Context(), c.Session); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	var shown billing.Claim
	for _, claim := range claims {
		if claim.Key == "" {
			continue
		}
		if shown.Key != "" {
			t.Error("two claims returned the key")
		}
		shown = claim
	}
	caller, err := s.Authenticate(t.Context(), shown.Key)
	if err != nil || caller.Plan.Name != "starter" || caller.Plan.Quota != 150 {
		t.Fatalf("the key belongs to %+v: %v", caller, err)
	}
	for _, claim := range claims {
		if claim.KeyID != shown.KeyID || claim.Hint == "" || strings.Contains(claim.Hint, shown.Key) {
			t.Errorf("claim %+v, want the same key's id and hint", claim)
		}
	}

	// The response was lost: the same browser gets another key, and the lost one is revoked.
	again, err := s.Reissue(t.Context(), c.Session)
	if err != nil || again.Key == shown.Key {
		t.Fatalf("Reissue = %+v, %v", again, err)
	}
	s.ForgetCallers()
	if _, err := s.Authenticate(t.Context(), shown.Key); !errors.Is(err, check.ErrUnauthorized) {
		t.Errorf("authenticating with the lost key: %v, want ErrUnauthorized", err)
	}
	l := ledgerOn(t, s, LedgerConfig{})
	caller, err = s.Authenticate(t.Context(), again.Key)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Append(t.Context(), allowed(t, caller)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Reissue(t.Context(), c.Session); !errors.Is(err, billing.ErrNoReissue) {
		t.Errorf("reissuing a key in use: %v, want ErrNoReissue", err)
	}
	if _, err := s.Claim(t.Context(), billing.SessionHash("another")); !errors.Is(err, billing.ErrNoCheckout) {
		t.Errorf("claiming from another browser: %v, want ErrNoCheckout", err)
	}
}

// keyStatus returns the plan and quota that a key authenticates with, or "ended".
func keyStatus(t *testing.T, s *Store, key string) string {
	t.Helper()
	s.ForgetCallers()
	caller, err := s.Authenticate(t.Context(), key)
	if errors.Is(err, check.ErrUnauthorized) {
		return "ended"
	}
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(caller.Plan.Name, " ", caller.Plan.Quota)
}

func TestApplySubscriptionChanges(t *testing.T) {
	t.Parallel()
	s := open(t, postgrestest.Database(t), nil)
	type step struct {
		minute int
		status billing.Status
		plan   string
		want   string
	}
	for name, steps := range map[string][]step{
		"ended by unpaid, restored by a payment": {
			{1, billing.PastDue, "", "starter 150"}, {2, billing.Unpaid, "", "ended"},
			{3, billing.Active, "", "starter 150"},
		},
		"paused and resumed":    {{1, billing.Paused, "", "ended"}, {2, billing.Active, "", "starter 150"}},
		"cancelled permanently": {{1, billing.Canceled, "", "ended"}, {2, billing.Active, "", "ended"}},
		"upgraded and downgraded": {{1, billing.Active, "pro", "pro 1500"},
			{2, billing.Active, "starter", "starter 150"}},
		"out of order": {{5, billing.Unpaid, "", "ended"}, {3, billing.Active, "pro", "ended"},
			{6, billing.Active, "", "starter 150"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := beginCheckout(t, s, "", "starter")
			apply(t, s, newChange(c, 0, billing.Active))
			claim, err := s.Claim(t.Context(), c.Session)
			if err != nil {
				t.Fatal(err)
			}
			for i, step := range steps {
				change := newChange(c, step.minute, step.status)
				change.Checkout, change.Plan = "", step.plan
				apply(t, s, change, change) // every event arrives twice
				if got := keyStatus(t, s, claim.Key); got != step.want {
					t.Errorf("after step %d: %s, want %s", i, got, step.want)
				}
			}
		})
	}
}

// The newest event determines the final state, regardless of the order and number of deliveries.
func TestEventsInAnyOrder(t *testing.T) {
	t.Parallel()
	s := open(t, postgrestest.Database(t), nil)
	for round := range 12 {
		c := beginCheckout(t, s, "", "starter")
		completed := newChange(c, 1, billing.Active)
		completed.Plan = ""
		created := newChange(c, 0, billing.Incomplete)
		bare := func(minute int, status billing.Status, plan string) billing.Change {
			change := newChange(c, minute, status)
			change.Checkout, change.Plan = "", plan
			return change
		}
		events := []billing.Change{completed, created, bare(2, billing.Active, "starter"), bare(3, billing.Unpaid, ""),
			bare(4, billing.Active, "pro")}
		order := rand.New(rand.NewPCG(uint64(round), 7)).Perm(2 * len(events))
		var delivered []int
		for _, i := range order {
			delivered = append(delivered, i%len(events))
			apply(t, s, events[i%len(events)])
		}
		claim, err := s.Claim(t.Context(), c.Session)
		if err != nil {
			t.Fatalf("order %v: %v", delivered, err)
		}
		if got := keyStatus(t, s, claim.Key); got != "pro 1500" {
			t.Errorf("order %v: %s, want pro 1500", delivered, got)
		}
	}
}

func TestUpgradeKeepsTheKey(t *testing.T) {
	t.Parallel()
	s := open(t, postgrestest.Database(t), nil)
	free := beginCheckout(t, s, "", "free")
	claim, err := s.Claim(t.Context(), free.Session)
	if err != nil {
		t.Fatal(err)
	}
	c := beginCheckout(t, s, claim.Account, "pro")
	apply(t, s, newChange(c, 0, billing.Active))
	if got := keyStatus(t, s, claim.Key); got != "pro 1500" {
		t.Errorf("after the upgrade: %s", got)
	}
	upgraded, err := s.Claim(t.Context(), c.Session)
	if err != nil || !upgraded.Upgrade || upgraded.Key != "" {
		t.Errorf("claiming the upgrade = %+v, %v", upgraded, err)
	}
	if n := one[int](t, s, "SELECT count(*) FROM api_keys WHERE account_id = ?", claim.Account); n != 1 {
		t.Errorf("the account has %d keys, want 1", n)
	}
}

func TestUnknownCheckoutChangesNothing(t *testing.T) {
	t.Parallel()
	s := open(t, postgrestest.Database(t), nil)
	foreign := billing.Checkout{ID: "co_of_another_host", Plan: "pro"}
	apply(t, s, newChange(foreign, 0, billing.Active))
	if n := one[int](t, s, "SELECT count(*) FROM accounts WHERE id <> ?", publicAccount); n != 0 {
		t.Errorf("%d accounts were created, want none", n)
	}
}

// A subscription's events name its checkout permanently, but the checkout is deleted.
func TestSubscriptionOutlivesItsCheckout(t *testing.T) {
	t.Parallel()
	now := time.Date(2031, 5, 6, 7, 0, 0, 0, time.UTC)
	s := open(t, postgrestest.Database(t), func() time.Time { return now })
	c := billing.Checkout{ID: "co_old", Session: billing.SessionHash("old"), Plan: "starter", Provider: "stripe",
		At: now}
	if err := s.BeginCheckout(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	apply(t, s, newChange(c, 0, billing.Active))
	claim, err := s.Claim(t.Context(), c.Session)
	if err != nil {
		t.Fatal(err)
	}
	now = now.Add(billing.ClaimLife + time.Hour)
	if err := s.PruneBilling(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := one[int](t, s, "SELECT count(*) FROM billing_checkouts"); n != 0 {
		t.Fatalf("%d checkouts, want none", n)
	}
	for minute, step := range []struct {
		status billing.Status
		want   string
	}{{billing.PastDue, "starter 150"}, {billing.Unpaid, "ended"}, {billing.Active, "starter 150"},
		{billing.Canceled, "ended"}} {
		apply(t, s, newChange(c, minute+1, step.status))
		if got := keyStatus(t, s, claim.Key); got != step.want {
			t.Errorf("status %s: %s, want %s", step.status, got, step.want)
		}
	}
}

func TestEndSubscriptions(t *testing.T) {
	t.Parallel()
	now := time.Date(2031, 5, 1, 10, 30, 0, 0, time.UTC)
	s := open(t, postgrestest.Database(t), func() time.Time { return now })
	c := billing.Checkout{ID: "co_1", Session: billing.SessionHash("x"), Plan: "starter", Provider: "test", At: now}
	if err := s.BeginCheckout(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	paid := newChange(c, 0, billing.Active)
	paid.Provider = "test"
	apply(t, s, paid)
	claim, err := s.Claim(t.Context(), c.Session)
	if err != nil {
		t.Fatal(err)
	}
	cancelled := paid
	cancelled.Event, cancelled.EndsAt = "evt_2", now.Add(time.Hour)
	apply(t, s, cancelled)
	for _, want := range []string{"starter 150", "ended"} {
		if err := s.EndSubscriptions(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := keyStatus(t, s, claim.Key); got != want {
			t.Errorf("at %s: %s, want %s", now.Format(time.TimeOnly), got, want)
		}
		now = now.Add(time.Hour)
	}
	now = now.Add(keyRetention)
	if err := s.PruneBilling(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestRotateKeyOverlap(t *testing.T) {
	t.Parallel()
	now := time.Date(2031, 5, 6, 7, 0, 0, 0, time.UTC)
	s := open(t, postgrestest.Database(t), func() time.Time { return now })
	l := ledgerOn(t, s, LedgerConfig{})
	caller := newCaller(t, s, plan(t, "starter", 150))
	issued, err := s.RotateKey(t.Context(), caller.Account, caller.Key, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.RotateKey(t.Context(), "acct_other", caller.Key, time.Hour); !errors.Is(err, apikey.ErrNotFound) {
		t.Errorf("rotating another account's key: %v, want ErrNotFound", err)
	}
	fresh, err := s.Authenticate(t.Context(), issued.Secret)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []check.Caller{caller, fresh} {
		if err := l.Append(t.Context(), allowed(t, c)); err != nil {
			t.Errorf("recording within the overlap: %v", err)
		}
	}
	now = now.Add(time.Hour)
	if err := l.Append(t.Context(), allowed(t, caller)); !errors.Is(err, check.ErrUnauthorized) {
		t.Errorf("recording after the overlap: %v, want ErrUnauthorized", err)
	}
	if err := l.Append(t.Context(), allowed(t, fresh)); err != nil {
		t.Errorf("recording with the new key: %v", err)
	}
	keys, err := s.Keys(t.Context(), caller.Account)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range keys {
		if k.LastUsedAt == nil {
			t.Errorf("key %s has no LastUsedAt", k.ID)
		}
	}
}
