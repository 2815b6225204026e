package store

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"assay/host/access/apikey"
	"assay/host/check"
	"assay/host/entity"
)

var byPrefix = cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })

func TestLimitsOfKeys(t *testing.T) {
	t.Parallel()
	now := noon
	s := newStore(t, func() time.Time { return now })
	account := must(s.CreateAccount(t.Context(), plan(t, "pro", 10)))(t)
	networks := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8::/32")}
	for _, c := range []struct {
		name   string
		wanted apikey.Wanted
	}{
		{"none", apikey.Wanted{}},
		{"scopes", apikey.Wanted{Limits: apikey.Limits{Scopes: []apikey.Scope{apikey.ScopeCheck, apikey.ScopeEvents}}}},
		{"networks", apikey.Wanted{Limits: apikey.Limits{Networks: networks}}},
		{"a test key", apikey.Wanted{Limits: apikey.Limits{Test: true}}},
		{"a lifetime", apikey.Wanted{Lifetime: 90 * 24 * time.Hour}},
		{"all", apikey.Wanted{Lifetime: 36 * time.Hour, Limits: apikey.Limits{Scopes: []apikey.Scope{apikey.ScopeBatch},
			Networks: networks[:1], Test: true}}},
	} {
		c.wanted.Name = c.name
		issued := must(s.IssueKey(t.Context(), account, c.wanted))(t)
		// Rotated twice: a replacement passes the limits on.
		for _, overlap := range []time.Duration{time.Hour, time.Minute} {
			issued = must(s.RotateKey(t.Context(), "", issued.ID, overlap))(t)
			expect(t, c.name+": plan", issued.Plan, "pro")
		}
		caller := must(s.Authenticate(t.Context(), issued.Secret))(t)
		noDiff(t, c.name+": limits", c.wanted.Limits, caller.Limits, byPrefix)
		k := must(s.Keys(t.Context(), account))(t)[0]
		noDiff(t, c.name+": listed limits", c.wanted.Limits, k.Limits, byPrefix)
		expect(t, c.name+": name", k.Name, c.name)
		if want := now.Add(c.wanted.Lifetime); c.wanted.Lifetime == 0 && k.ExpiresAt != nil ||
			c.wanted.Lifetime != 0 && (k.ExpiresAt == nil || !k.ExpiresAt.Equal(want)) {
			t.Errorf("%s: expires at %v, want %v", c.name, k.ExpiresAt, want)
		}
		if _, ok := apikey.Parse(issued.Secret); !ok || (issued.Secret[:11] == "assay_test_") != c.wanted.Limits.Test {
			t.Errorf("%s: the key is %s", c.name, issued.Secret)
		}
	}
}

// A key is refused from the instant at which it expires, also by a host that has it in its cache.
func TestExpiredKey(t *testing.T) {
	t.Parallel()
	now := noon
	s := newStore(t, func() time.Time { return now })
	account := must(s.CreateAccount(t.Context(), plan(t, "pro", 10)))(t)
	issued := must(s.IssueKey(t.Context(), account, apikey.Wanted{Lifetime: time.Second}))(t)
	must(s.Authenticate(t.Context(), issued.Secret))(t)
	now = now.Add(time.Second - time.Microsecond)
	must(s.Authenticate(t.Context(), issued.Secret))(t)
	now = now.Add(time.Microsecond)
	for range 2 { // from the database, and from the cache
		wantError(t, "an expired key", errOf(s.Authenticate(t.Context(), issued.Secret)), check.ErrExpired)
	}
	wantError(t, "rotating it", errOf(s.RotateKey(t.Context(), account, issued.ID, time.Hour)), apikey.ErrNotFound)
	expect(t, "state", must(s.Keys(t.Context(), account))(t)[0].State, apikey.Revoked)
	for limits, pass := range []time.Duration{2 * time.Second, keyRetention} { // its limits are deleted with it
		now = now.Add(pass)
		noError(t, s.PruneBilling(t.Context()))
		expect(t, "rows of limits", one[int](t, s, "SELECT count(*) FROM key_limits"), 1-limits)
	}
}

// Whatever goes wrong before it, the ledger records no check with a test key.
func TestLedgerRefusesTestKeys(t *testing.T) {
	t.Parallel()
	s, l, caller := newLedger(t, nil, LedgerConfig{})
	issued := must(s.IssueKey(t.Context(), caller.Account, apikey.Wanted{Limits: apikey.Limits{Test: true}}))(t)
	test := must(s.Authenticate(t.Context(), issued.Secret))(t)
	err := l.Append(t.Context(), decided(test, parse(t, entity.Domain, "block.test"), check.Block))
	wantError(t, "recording a check with a test key", err, errTestKey)
	expect(t, "records", one[int](t, s, "SELECT count(*) FROM audit_records WHERE kind <> 'state'"), 0)
	expect(t, "checks counted", one[int](t, s, "SELECT count(*) FROM quota_usage"), 0)
}

// An empty list in the database would read as no limit.
func TestEmptyLimitsCannotBeStored(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	account := must(s.CreateAccount(t.Context(), plan(t, "pro", 10)))(t)
	for name, limits := range map[string]apikey.Limits{
		"scopes": {Scopes: []apikey.Scope{}}, "networks": {Networks: []netip.Prefix{}},
	} {
		_, err := s.IssueKey(t.Context(), account, apikey.Wanted{Limits: limits})
		expect(t, name, sqlState(err), "23514") // check_violation
	}
}
