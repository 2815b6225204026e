package store

import (
	"testing"
	"time"

	"assay/host/check"
	"assay/host/customer/billing"
	"assay/host/customer/webhook"
)

// signingSecrets returns the secrets that currently sign an account's events.
func signingSecrets(t *testing.T, s *Store, o *Outbox, account string) []string {
	t.Helper()
	must(s.SendTestEvent(t.Context(), account, check.Review))(t)
	d := claimOne(t, o)
	finish(t, o, ended(d, 200))
	return d.Secrets
}

func TestReplacedSecretsOverlap(t *testing.T) {
	t.Parallel()
	s, clock := openWithClock(t)
	o := outboxOf(t, s)
	account := newCaller(t, s, plan(t, "pro", 1)).Account
	first := must(s.SetEndpoint(t.Context(), account, "https://one.example"))(t)
	rotate := func(overlap time.Duration) string {
		t.Helper()
		return must(s.RotateSecret(t.Context(), account, overlap))(t)
	}
	expect := func(when string, want ...string) {
		t.Helper()
		noDiff(t, when, want, signingSecrets(t, s, o, account))
	}
	expect("initially", first)
	second := rotate(webhook.SecretOverlap)
	expect("after a rotation", second, first)
	clock.advance(t, 23*time.Hour)
	third := rotate(webhook.SecretOverlap)
	expect("after a second rotation", third, second, first)
	clock.advance(t, time.Hour-time.Microsecond)
	expect("just before the first one's overlap ends", third, second, first)
	endpoints, err := s.Endpoints(t.Context(), account)
	if now := value[time.Time](t, clock.conn, "SELECT at FROM fake.clock"); err != nil || len(endpoints) != 1 ||
		endpoints[0].OldSecretUntil == nil ||
		!endpoints[0].OldSecretUntil.Equal(now.Add(23*time.Hour+time.Microsecond)) || endpoints[0].Delivered != 4 {
		t.Errorf("endpoint: %+v, %v", endpoints, err)
	}
	clock.advance(t, time.Microsecond)
	expect("after it ends", third, second)
	fourth, fifth := rotate(webhook.SecretOverlap), rotate(webhook.SecretOverlap)
	expect("after more rotations than may overlap", fifth, fourth, third)
	sixth := rotate(0)
	expect("after a rotation without overlap", sixth)
	rotate(webhook.SecretOverlap)
	seventh := must(s.SetEndpoint(t.Context(), account, "https://two.example"))(t)
	expect("for a new endpoint", seventh)
	noError(t, s.MoveEndpoint(t.Context(), account, "https://three.example"))
	expect("after a move", seventh)
}

func TestRemoveEndpoint(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	o := outboxOf(t, s)
	l := ledgerOn(t, s, LedgerConfig{})
	caller, other := subscriber(t, s), subscriber(t, s)
	must(s.RotateSecret(t.Context(), caller.Account, webhook.SecretOverlap))(t)
	blocked(t, l, caller, 2)
	inFlight := claim(t, o, webhook.ClaimOptions{MaxEvents: 1, MaxPerAccount: 1})[0]
	kept := blocked(t, l, other, 1)[0]
	noError(t, s.RemoveEndpoint(t.Context(), caller.Account))
	n := one[int](t, s, `SELECT count(*) FROM webhook_events
		WHERE state = 'failed' AND sealed_payload IS NULL AND account_id = ?`, caller.Account)
	expect(t, "events that failed without a payload", n, 2)
	if _, retry := finish(t, o, ended(inFlight, 500)); retry {
		t.Error("the attempt in flight is retried")
	}
	blocked(t, l, caller, 1) // creates no event
	if d := claimOne(t, o); d.Ref != kept {
		t.Errorf("event %s of the removed endpoint was claimed", d.Ref)
	}
	for _, account := range []string{"acct_unknown", publicAccount} {
		wantError(t, "endpoint of "+account, errOf(s.SetEndpoint(t.Context(), account, "https://one.example")),
			billing.ErrNoAccount)
	}
	for name, err := range map[string]error{
		"removing again": s.RemoveEndpoint(t.Context(), caller.Account),
		"moving":         s.MoveEndpoint(t.Context(), caller.Account, "https://one.example"),
		"rotating":       errOf(s.RotateSecret(t.Context(), caller.Account, 0)),
	} {
		wantError(t, name, err, webhook.ErrNoEndpoint)
	}
}
