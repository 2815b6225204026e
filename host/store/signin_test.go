package store

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"assay/host/access/apikey"
	"assay/host/access/signin"
	"assay/host/customer/billing"
)

// Of many who present the same key or link at once, one signs in.
func TestSignInOnce(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	account := must(s.CreateAccount(t.Context(), plan(t, "pro", 0)))(t)
	_, key := newKey(t, s, account)
	link := must(s.NewLink(t.Context(), account))(t)
	for _, test := range []struct {
		name   string
		signIn func() error
		want   error // of all but one
	}{
		{"key", func() error {
			_, _, err := s.SignInByKey(context.Background(), key.Secret)
			return err
		}, signin.ErrKeyRetired},
		{"link", func() error { return errOf(s.UseLink(context.Background(), link)) }, signin.ErrUnknown},
	} {
		signedIn := 0
		for _, err := range concurrently(20, func(int) error { return test.signIn() }) {
			if err == nil {
				signedIn++
			} else if !errors.Is(err, test.want) {
				t.Errorf("%s: %v, want %v", test.name, err, test.want)
			}
		}
		expect(t, test.name, signedIn, 1)
	}
}

// A new account's code can be issued again until it was used, and replaced by its owner at any time.
func TestCodes(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	account := must(s.CreateAccount(t.Context(), plan(t, "pro", 0)))(t)
	signsIn := func(code string, want error) {
		t.Helper()
		got, err := s.SignInByCode(t.Context(), code)
		if !errors.Is(err, want) || (err == nil && got != account) {
			t.Errorf("SignInByCode = %q, %v; want %v", got, err, want)
		}
	}
	lost := must(s.FirstCode(t.Context(), account))(t)
	first := must(s.FirstCode(t.Context(), account))(t)
	signsIn(lost, signin.ErrUnknown)
	signsIn(first, nil)
	expect(t, "the code after it was used", must(s.FirstCode(t.Context(), account))(t), "")
	second := must(s.ReplaceCode(t.Context(), account))(t)
	expect(t, "the code after it was replaced", must(s.FirstCode(t.Context(), account))(t), "")
	signsIn(first, signin.ErrUnknown)
	signsIn(second, nil)
	signsIn(second+"X", signin.ErrMistyped)
	if at := must(s.CodeIssuedAt(t.Context(), account))(t); time.Since(at) > time.Hour {
		t.Errorf("the code was issued at %v", at)
	}
	// Neither the code nor a token is in the database.
	token := must(s.BeginSession(t.Context(), account, signin.Origin{}))(t)
	for _, table := range []string{"sign_in_codes", "sessions"} {
		rows := one[string](t, s, "SELECT string_agg(r::text, ' ') FROM "+table+" AS r")
		expect(t, table+" contains a secret", strings.Contains(rows, second) || strings.Contains(rows, token), false)
	}
	wantError(t, "a link to the public account", errOf(s.NewLink(t.Context(), publicAccount)), billing.ErrNoAccount)
}

// Expired sessions and links are deleted, and others kept.
func TestPruneSignIns(t *testing.T) {
	t.Parallel()
	now := noon
	s := newStore(t, func() time.Time { return now })
	account := must(s.CreateAccount(t.Context(), plan(t, "pro", 0)))(t)
	must(s.NewLink(t.Context(), account))(t)
	must(s.BeginSession(t.Context(), account, signin.Origin{}))(t)
	now = now.Add(signin.SessionLife)
	must(s.NewLink(t.Context(), account))(t)
	token := must(s.BeginSession(t.Context(), account, signin.Origin{}))(t)
	noError(t, s.PruneSignIns(t.Context()))
	expect(t, "links", one[int](t, s, "SELECT count(*) FROM sign_in_links"), 1)
	expect(t, "sessions", one[int](t, s, "SELECT count(*) FROM sessions"), 1)
	_, caller, err := s.Session(t.Context(), token, "192.0.2.0/24")
	noError(t, err)
	expect(t, "the key of an account without keys", caller.Key, "")
	_, key := newKey(t, s, account)
	rotated := must(s.RotateKey(t.Context(), account, key.ID, time.Hour))(t)
	_, caller, err = s.Session(t.Context(), token, "192.0.2.0/24")
	noError(t, err)
	expect(t, "the key that does not expire", caller.Key, rotated.ID)

	// A test key makes no checks, and one with limits signs in to nothing.
	for _, limits := range []apikey.Limits{{Test: true}, {Scopes: []apikey.Scope{apikey.Scope("check")}}} {
		limited := must(s.IssueKey(t.Context(), account, apikey.Wanted{Name: "limited", Limits: limits}))(t)
		_, caller, err = s.Session(t.Context(), token, "192.0.2.0/24")
		noError(t, err)
		expect(t, "the key without limits", caller.Key, rotated.ID)
		_, _, err = s.SignInByKey(t.Context(), limited.Secret)
		wantError(t, "signing in with a limited key", err, signin.ErrUnknown)
	}
}
