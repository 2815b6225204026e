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

// begun is a checkout that was begun, and the token of its browser.
type begun struct {
	billing.Checkout
	session [32]byte
}

func begin(t *testing.T, s *Store, account, plan string) begun {
	t.Helper()
	id := "co_" + ulid.Make().String()
	c := billing.Checkout{ID: id, Session: billing.SessionHash(id), Account: account, Plan: plan, Provider: "stripe",
		Paid: plan == "free", At: time.Now()}
	if err := s.BeginCheckout(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	return begun{c, c.Session}
}

// told is what a provider tells of a checkout's subscription, minute minutes after a beginning.
func told(c begun, minute int, status billing.Status) billing.Change {
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

func TestKeyIsShownOnce(t *testing.T) {
	t.Parallel()
	s := open(t, postgrestest.Database(t), nil)
	c := begin(t, s, "", "starter")
	if _, err := s.Claim(t.Context(), c.session); !errors.Is(err, billing.ErrPending) {
		t.Fatalf("before the payment: %v", err)
	}
	apply(t, s, told(c, 0, billing.Active))
	claims := make([]billing.Claim, 100)
	var wg sync.WaitGroup
	for i := range claims {
		wg.Go(func() {
			var err error
			if claims[i], err = s.Claim(t.Context(), c.session); err != nil {
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
			t.Error("the key was shown twice")
		}
		shown = claim
	}
	caller, err := s.Authenticate(t.Context(), shown.Key)
	if err != nil || caller.Plan.Name != "starter" || caller.Plan.Quota != 150 {
		t.Fatalf("the key belongs to %+v: %v", caller, err)
	}
	for _, claim := range claims {
		if claim.KeyID != shown.KeyID || claim.Hint == "" || strings.Contains(claim.Hint, shown.Key) {
			t.Errorf("a later load got %+v", claim)
		}
	}

	// The answer was lost on the way: the same browser gets another, and the lost one ends.
	again, err := s.Reissue(t.Context(), c.session)
	if err != nil || again.Key == shown.Key {
		t.Fatalf("issued again: %+v, %v", again, err)
	}
	s.ForgetCallers()
	if _, err := s.Authenticate(t.Context(), shown.Key); !errors.Is(err, check.ErrUnauthorized) {
		t.Errorf("the lost key works on: %v", err)
	}
	l := ledgerOn(t, s, LedgerConfig{})
	caller, err = s.Authenticate(t.Context(), again.Key)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Append(t.Context(), allowed(t, caller)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Reissue(t.Context(), c.session); !errors.Is(err, billing.ErrNoReissue) {
		t.Errorf("a key in use was issued again: %v", err)
	}
	if _, err := s.Claim(t.Context(), billing.SessionHash("another")); !errors.Is(err, billing.ErrNoCheckout) {
		t.Errorf("another browser: %v", err)
	}
}

// standing is how an account stands: its plan and quota, and whether its one key works.
func standing(t *testing.T, s *Store, key string) string {
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

func TestSubscriptionFollowsEvents(t *testing.T) {
	t.Parallel()
	s := open(t, postgrestest.Database(t), nil)
	type step struct {
		minute int
		status billing.Status
		plan   string
		want   string
	}
	for name, steps := range map[string][]step{
		"unpaid ends it, paying revives it": {
			{1, billing.PastDue, "", "starter 150"}, {2, billing.Unpaid, "", "ended"},
			{3, billing.Active, "", "starter 150"},
		},
		"paused and resumed":      {{1, billing.Paused, "", "ended"}, {2, billing.Active, "", "starter 150"}},
		"cancelled, and for good": {{1, billing.Canceled, "", "ended"}, {2, billing.Active, "", "ended"}},
		"upgraded and downgraded": {{1, billing.Active, "pro", "pro 1500"},
			{2, billing.Active, "starter", "starter 150"}},
		"late": {{5, billing.Unpaid, "", "ended"}, {3, billing.Active, "pro", "ended"},
			{6, billing.Active, "", "starter 150"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := begin(t, s, "", "starter")
			apply(t, s, told(c, 0, billing.Active))
			claim, err := s.Claim(t.Context(), c.session)
			if err != nil {
				t.Fatal(err)
			}
			for i, step := range steps {
				change := told(c, step.minute, step.status)
				change.Checkout, change.Plan = "", step.plan
				apply(t, s, change, change) // every event comes twice
				if got := standing(t, s, claim.Key); got != step.want {
					t.Errorf("after step %d: %s, want %s", i, got, step.want)
				}
			}
		})
	}
}

// Whatever order events come in, and however often, the account ends where the last of them put it.
func TestEventsInAnyOrder(t *testing.T) {
	t.Parallel()
	s := open(t, postgrestest.Database(t), nil)
	for round := range 12 {
		c := begin(t, s, "", "starter")
		completed := told(c, 1, billing.Active)
		completed.Plan = ""
		created := told(c, 0, billing.Incomplete)
		bare := func(minute int, status billing.Status, plan string) billing.Change {
			change := told(c, minute, status)
			change.Checkout, change.Plan = "", plan
			return change
		}
		events := []billing.Change{completed, created, bare(2, billing.Active, "starter"), bare(3, billing.Unpaid, ""),
			bare(4, billing.Active, "pro")}
		order := rand.New(rand.NewPCG(uint64(round), 7)).Perm(2 * len(events))
		var heard []int
		for _, i := range order {
			heard = append(heard, i%len(events))
			apply(t, s, events[i%len(events)])
		}
		claim, err := s.Claim(t.Context(), c.session)
		if err != nil {
			t.Fatalf("in order %v: %v", heard, err)
		}
		if got := standing(t, s, claim.Key); got != "pro 1500" {
			t.Errorf("in order %v: %s", heard, got)
		}
	}
}

func TestUpgradeKeepsTheKey(t *testing.T) {
	t.Parallel()
	s := open(t, postgrestest.Database(t), nil)
	free := begin(t, s, "", "free")
	claim, err := s.Claim(t.Context(), free.session)
	if err != nil {
		t.Fatal(err)
	}
	c := begin(t, s, claim.Account, "pro")
	apply(t, s, told(c, 0, billing.Active))
	if got := standing(t, s, claim.Key); got != "pro 1500" {
		t.Errorf("after the upgrade: %s", got)
	}
	upgraded, err := s.Claim(t.Context(), c.session)
	if err != nil || !upgraded.Upgrade || upgraded.Key != "" {
		t.Errorf("the upgrade's success page: %+v, %v", upgraded, err)
	}
	if n := one[int](t, s, "SELECT count(*) FROM api_keys WHERE account_id = ?", claim.Account); n != 1 {
		t.Errorf("the account has %d keys", n)
	}
}

func TestForeignEventsChangeNothing(t *testing.T) {
	t.Parallel()
	s := open(t, postgrestest.Database(t), nil)
	foreign := begun{Checkout: billing.Checkout{ID: "co_of_another_host", Plan: "pro"}}
	apply(t, s, told(foreign, 0, billing.Active))
	if n := one[int](t, s, "SELECT count(*) FROM accounts WHERE id <> ?", publicAccount); n != 0 {
		t.Errorf("%d accounts were made", n)
	}
}

// A subscription's events name its checkout for as long as it lives, and the checkout is soon forgotten.
func TestSubscriptionOutlivesItsCheckout(t *testing.T) {
	t.Parallel()
	now := time.Date(2031, 5, 6, 7, 0, 0, 0, time.UTC)
	s := open(t, postgrestest.Database(t), func() time.Time { return now })
	c := billing.Checkout{ID: "co_old", Session: billing.SessionHash("old"), Plan: "starter", Provider: "stripe",
		At: now}
	if err := s.BeginCheckout(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	old := begun{c, c.Session}
	apply(t, s, told(old, 0, billing.Active))
	claim, err := s.Claim(t.Context(), old.session)
	if err != nil {
		t.Fatal(err)
	}
	now = now.Add(billing.ClaimLife + time.Hour)
	if err := s.PruneBilling(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := one[int](t, s, "SELECT count(*) FROM billing_checkouts"); n != 0 {
		t.Fatalf("%d checkouts are kept", n)
	}
	for minute, step := range []struct {
		status billing.Status
		want   string
	}{{billing.PastDue, "starter 150"}, {billing.Unpaid, "ended"}, {billing.Active, "starter 150"},
		{billing.Canceled, "ended"}} {
		apply(t, s, told(old, minute+1, step.status))
		if got := standing(t, s, claim.Key); got != step.want {
			t.Errorf("once %s: %s, want %s", step.status, got, step.want)
		}
	}
}

func TestCancelledSubscriptionEnds(t *testing.T) {
	t.Parallel()
	now := time.Date(2031, 5, 1, 10, 30, 0, 0, time.UTC)
	s := open(t, postgrestest.Database(t), func() time.Time { return now })
	c := billing.Checkout{ID: "co_1", Session: billing.SessionHash("x"), Plan: "starter", Provider: "test", At: now}
	if err := s.BeginCheckout(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	paid := told(begun{Checkout: c}, 0, billing.Active)
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
		if got := standing(t, s, claim.Key); got != want {
			t.Errorf("at %s: %s, want %s", now.Format(time.TimeOnly), got, want)
		}
		now = now.Add(time.Hour)
	}
	now = now.Add(keyRetention)
	if err := s.PruneBilling(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestRotatedKeyWorksUntilTheOverlapEnds(t *testing.T) {
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
		t.Errorf("another account rotated the key: %v", err)
	}
	fresh, err := s.Authenticate(t.Context(), issued.Secret)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []check.Caller{caller, fresh} {
		if err := l.Append(t.Context(), allowed(t, c)); err != nil {
			t.Errorf("within the overlap: %v", err)
		}
	}
	now = now.Add(time.Hour)
	if err := l.Append(t.Context(), allowed(t, caller)); !errors.Is(err, check.ErrUnauthorized) {
		t.Errorf("after the overlap: %v", err)
	}
	if err := l.Append(t.Context(), allowed(t, fresh)); err != nil {
		t.Errorf("the new key: %v", err)
	}
	keys, err := s.Keys(t.Context(), caller.Account)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range keys {
		if k.LastUsedAt == nil {
			t.Errorf("key %s was never used", k.ID)
		}
	}
}
