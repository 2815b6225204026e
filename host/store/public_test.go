package store

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"assay/host/access/apikey"
	"assay/host/access/signin"
	"assay/host/customer/billing"
	"assay/host/store/postgres/postgrestest"
)

func TestTakePublicIsExactAcrossHosts(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	clock := func() time.Time { return noon }
	hosts := []*Store{open(t, url, clock), open(t, url, clock)}
	client := netip.MustParsePrefix("192.0.2.7/32")
	oks, resets := make([]bool, 30), make([]time.Time, 30)
	noError(t, errors.Join(concurrently(len(oks), func(i int) (err error) {
		resets[i], oks[i], err = hosts[i%2].TakePublic(t.Context(), client)
		return err
	})...))
	passed := 0
	for i, ok := range oks {
		if ok {
			passed++
		} else if !resets[i].Equal(noon.Add(time.Hour)) {
			t.Errorf("reset at %v, want an hour after the first use", resets[i])
		}
	}
	expect(t, "uses that passed", passed, publicUses)
}

// TestSpentClientsCostNoQuery checks that a client who has reached the limit is refused without the database.
func TestSpentClientsCostNoQuery(t *testing.T) {
	t.Parallel()
	now := noon
	s := newStore(t, func() time.Time { return now })
	client := netip.MustParsePrefix("192.0.2.7/32")
	take := func() (time.Time, bool, error) { return s.Take(t.Context(), "a ", client, 2, time.Minute) }
	for i := range 3 {
		_, ok, err := take()
		mustHold(t, err == nil && ok == (i < 2), "use %d: %v, %v", i+1, ok, err)
	}
	noError(t, s.Close())
	reset, ok, err := take()
	holds(t, err == nil && !ok && reset.Equal(noon.Add(time.Minute)), "without a database: %v, %v, %v", reset, ok, err)
	_, _, err = s.Take(t.Context(), "b ", client, 2, time.Minute)
	holds(t, err != nil, "another action did not ask the database")
	now = noon.Add(time.Minute)
	_, _, err = take()
	holds(t, err != nil, "after the reset, the database was not asked")
}

func TestTakeCountsClientsAndActionsSeparately(t *testing.T) {
	t.Parallel()
	s := newStore(t, func() time.Time { return noon })
	first := netip.MustParsePrefix("2001:db8:0:1::7/64")
	for range publicUses {
		if _, ok, err := s.TakePublic(t.Context(), first); err != nil || !ok {
			t.Fatal(ok, err)
		}
	}
	for name, test := range map[string]struct {
		client string
		ok     bool
	}{
		"same":                         {"2001:db8:0:1::7/64", false},
		"another address of the /64":   {"2001:db8:0:1:ffff::1/64", false},
		"the neighbouring /64":         {"2001:db8:0:2::7/64", true},
		"an IPv4 client":               {"192.0.2.7/32", true},
		"the next IPv4 client":         {"192.0.2.8/32", true},
		"the /64's first address /128": {"2001:db8:0:1::/128", true},
	} {
		_, ok, err := s.TakePublic(t.Context(), netip.MustParsePrefix(test.client))
		holds(t, err == nil && ok == test.ok, "%s: %v, %v, want %v", name, ok, err, test.ok)
	}
	for i, action := range []string{"a ", "a ", "b "} {
		_, ok, err := s.Take(t.Context(), action, first, 1, time.Hour)
		holds(t, err == nil && ok == (i != 1), "use %d, of action %q: %v, %v", i+1, action, ok, err)
	}
}

// At most a number of uses fall into any hour.
func TestUsesWithinAnHour(t *testing.T) {
	t.Parallel()
	now := noon
	s := newStore(t, func() time.Time { return now })
	client := netip.MustParsePrefix("192.0.2.7/32")
	take := func(name string, after time.Duration, wantOK bool, wantReset time.Duration) {
		t.Helper()
		now = noon.Add(after)
		reset, ok, err := s.TakePublic(t.Context(), client)
		holds(t, err == nil && ok == wantOK, "%s: %v, %v, want %v", name, ok, err, wantOK)
		holds(t, ok || reset.Equal(noon.Add(wantReset)), "%s: resets at %v, want %v", name, reset, noon.Add(wantReset))
	}
	for i := range publicUses {
		take("within the limit", time.Duration(i)*time.Minute, true, 0)
	}
	take("over the limit", 10*time.Minute, false, time.Hour)
	take("just before the first is an hour old", time.Hour-time.Microsecond, false, time.Hour)
	take("when the first is an hour old", time.Hour, true, 0)
	take("with the second as the oldest", time.Hour, false, time.Hour+time.Minute)
	take("when the second is an hour old", time.Hour+time.Minute, true, 0)
	take("a rejected use does not count", time.Hour+time.Minute, false, time.Hour+2*time.Minute)
	take("hours later", 5*time.Hour, true, 0)
	expect(t, "stored uses", one[int](t, s, "SELECT cardinality(uses) FROM public_uses"), 1)
}

// Of many who present the same key or link at once, one signs in.
func TestSignInOnce(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	account := must(s.CreateAccount(t.Context(), plan(t, "pro", 0)))(t)
	link := must(s.NewLink(t.Context(), account))(t)
	expect(t, "sign-ins with one link", successes(t, concurrently(20, func(int) error {
		return errOf(s.UseLink(context.Background(), link))
	}), signin.ErrUnknown), 1)

	// A new account's code can be issued again until it was used, and replaced by its owner at any time.
	account = must(s.CreateAccount(t.Context(), plan(t, "pro", 0)))(t)
	signsIn := func(code string, want error) {
		t.Helper()
		got, err := s.SignInByCode(t.Context(), code)
		holds(t, errors.Is(err, want) && (err != nil || got == account), "SignInByCode = %q, %v; want %v", got, err,
			want)
	}
	unseen := must(s.FirstCode(t.Context(), account))(t)
	first := must(s.FirstCode(t.Context(), account))(t)
	signsIn(unseen, signin.ErrUnknown)
	signsIn(first, nil)
	expect(t, "the code after it was used", must(s.FirstCode(t.Context(), account))(t), "")
	lost := must(s.BeginSession(t.Context(), account, signin.Origin{}))(t)
	kept := must(s.BeginSession(t.Context(), account, signin.Origin{}))(t)
	session, _, err := s.Session(t.Context(), kept, "")
	noError(t, err)
	link = must(s.NewLink(t.Context(), account))(t)
	second := must(s.ReplaceCode(t.Context(), account, session.ID))(t)
	wantError(t, "a link from before the code was replaced", errOf(s.UseLink(t.Context(), link)), signin.ErrUnknown)
	for token, want := range map[string]error{lost: signin.ErrNoSession, kept: nil} {
		_, _, err := s.Session(t.Context(), token, "")
		wantError(t, "a session after the code was replaced", err, want)
	}
	expect(t, "the code after it was replaced", must(s.FirstCode(t.Context(), account))(t), "")
	signsIn(first, signin.ErrUnknown)
	signsIn(second, nil)
	signsIn(second+"X", signin.ErrMistyped)
	at := must(s.CodeIssuedAt(t.Context(), account))(t)
	holds(t, time.Since(at) <= time.Hour, "the code was issued at %v", at)
	// Neither the code nor a token is in the database.
	token := must(s.BeginSession(t.Context(), account, signin.Origin{}))(t)
	for _, table := range []string{"sign_in_codes", "sessions"} {
		rows := one[string](t, s, "SELECT string_agg(r::text, ' ') FROM "+table+" AS r")
		expect(t, table+" contains a secret", strings.Contains(rows, second) || strings.Contains(rows, token), false)
	}
	wantError(t, "a link to the public account", errOf(s.NewLink(t.Context(), publicAccount)), billing.ErrNoAccount)
}

// The dashboard acts with a key that is not limited and does not expire.
func TestKeyOfASession(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	account := must(s.CreateAccount(t.Context(), plan(t, "pro", 0)))(t)
	token := must(s.BeginSession(t.Context(), account, signin.Origin{}))(t)
	_, caller, err := s.Session(t.Context(), token, "192.0.2.0/24")
	noError(t, err)
	expect(t, "the key of an account without keys", caller.Key, "")
	_, key := newKey(t, s, account)
	rotated := must(s.RotateKey(t.Context(), account, key.ID, time.Hour))(t)
	_, caller, err = s.Session(t.Context(), token, "192.0.2.0/24")
	noError(t, err)
	expect(t, "the key that does not expire", caller.Key, rotated.ID)

	// A test key makes no checks, and the dashboard has no limits.
	for _, limits := range []apikey.Limits{{Test: true}, {Scopes: []apikey.Scope{apikey.Scope("check")}}} {
		must(s.IssueKey(t.Context(), account, apikey.Wanted{Name: "limited", Limits: limits}))(t)
		_, caller, err = s.Session(t.Context(), token, "192.0.2.0/24")
		noError(t, err)
		expect(t, "the key without limits", caller.Key, rotated.ID)
	}
}
