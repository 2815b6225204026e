package store

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"assay/host/check"
	"assay/host/postgres/postgrestest"
)

// endpointStands is where an endpoint stands, times as how long ago by the database's clock.
func endpointStands(t *testing.T, s *Store, account string) string {
	t.Helper()
	endpoints, err := s.Endpoints(t.Context(), account)
	if err != nil || len(endpoints) != 1 {
		t.Fatalf("endpoints %+v, %v", endpoints, err)
	}
	e, now := endpoints[0], one[time.Time](t, s, "SELECT now()")
	text := e.State
	if e.FailingSince != nil {
		text += fmt.Sprint(", failing for ", now.Sub(*e.FailingSince))
	}
	if e.DisabledAt != nil {
		text += fmt.Sprint(", ", *e.DisabledReason, " disabled it ", now.Sub(*e.DisabledAt), " ago")
	}
	return text
}

func stands(t *testing.T, s *Store, account, when, want string) {
	t.Helper()
	if got := endpointStands(t, s, account); got != want {
		t.Errorf("%s the endpoint is %q, want %q", when, got, want)
	}
}

// attempt sends an event once, with a status, and returns its reference.
func attempt(t *testing.T, s *Store, o *Outbox, caller check.Caller, status int) (ref string) {
	t.Helper()
	ref, err := s.SendTestEvent(t.Context(), caller.Account)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range claim(t, o, all) {
		finish(t, o, ended(d, status))
	}
	return ref
}

// failFor has an endpoint fail for DisableAfter, a microsecond less than would disable it.
func failFor(t *testing.T, s *Store, clock *dbClock, o *Outbox, caller check.Caller) {
	t.Helper()
	attempt(t, s, o, caller, 500)
	clock.advance(t, DisableAfter/2)
	attempt(t, s, o, caller, 0)
	clock.advance(t, DisableAfter/2-time.Microsecond)
	attempt(t, s, o, caller, 503)
	stands(t, s, caller.Account, "a microsecond before five days have passed", "enabled, failing for 119h59m59.999999s")
	clock.advance(t, time.Minute)
	settleAll(t, s)
}

// settleAll makes what waits fail, as if its schedule had passed.
func settleAll(t *testing.T, s *Store) {
	t.Helper()
	_, err := s.db.NewRaw(`UPDATE webhook_events SET state = 'failed', next_attempt_at = NULL, leased_until = NULL, settled_at = now()
		WHERE state = 'pending'`).Exec(t.Context())
	if err != nil {
		t.Fatal(err)
	}
}

func TestEndpointThatFailsForFiveDaysIsDisabled(t *testing.T) {
	t.Parallel()
	s, clock := openWithClock(t)
	o, l := outboxOf(t, s), ledgerOn(t, s, LedgerConfig{})
	caller, other := subscriber(t, s), subscriber(t, s)
	failFor(t, s, clock, o, caller)
	ref := blocked(t, l, caller, 1)[0]
	in, again := finish(t, o, ended(claimOne(t, o), 500))
	stands(t, s, caller.Account, "after five days",
		"disabled, failing for 120h0m59.999999s, failing disabled it 0s ago")
	stands(t, s, other.Account, "another's", "enabled")
	if !again || in != time.Second {
		t.Errorf("the event goes on in %v, %v", in, again)
	}

	// Nothing more is sent but by hand: neither what waited nor what comes.
	clock.advance(t, 2*AttemptLease)
	claimNone(t, o, "while the endpoint is disabled")
	came := blocked(t, l, caller, 1)[0]
	if got, want := state(t, s, came), "failed 0 begun 0 ended held"; got != want {
		t.Errorf("an event that came while the endpoint was disabled is %q, want %q", got, want)
	}
	sent := blocked(t, l, other, 1)[0]
	if d := claimOne(t, o); d.Ref != sent {
		t.Errorf("%s is sent", d.Ref)
	} else {
		finish(t, o, ended(d, 200))
	}
	if err := s.PruneWebhooks(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, want := state(t, s, ref), "failed 1 begun 1 ended held"; got != want {
		t.Errorf("the event that waited is %q, want %q", got, want)
	}
	for name, err := range map[string]error{
		"one": s.ResendEvent(t.Context(), caller.Account, came),
		"all": func() error { _, _, err := s.ResendFailed(t.Context(), caller.Account, noon); return err }(),
	} {
		if !errors.Is(err, ErrEndpointDisabled) {
			t.Errorf("resending %s: %v, want ErrEndpointDisabled", name, err)
		}
	}

	// A test event tries it, whatever becomes of it, and does not enable it.
	test := attempt(t, s, o, caller, 500)
	clock.advance(t, time.Second)
	finish(t, o, ended(claimOne(t, o), 200))
	if got, want := state(t, s, test), "delivered 2 begun 2 ended"; got != want {
		t.Errorf("the test event is %q, want %q", got, want)
	}
	stands(t, s, caller.Account, "after a test", "disabled, failing for 120h1m30.999999s, failing disabled it 31s ago")

	// Enabled, it gets what comes, and what came when it is sent again.
	if err := s.EnableEndpoint(t.Context(), caller.Account); err != nil {
		t.Fatal(err)
	}
	stands(t, s, caller.Account, "once enabled", "enabled")
	claimNone(t, o, "enabled")
	if resent, gone, err := s.ResendFailed(t.Context(), caller.Account, noon); err != nil || resent != 5 || gone != 0 {
		t.Errorf("resent %d, gone %d, %v; want the three that disabled it, and the two that waited and came", resent,
			gone, err)
	}
	for _, d := range claim(t, o, all) {
		finish(t, o, ended(d, 500))
	}
	stands(t, s, caller.Account, "failing again", "enabled, failing for 0s")
	if err := s.EnableEndpoint(t.Context(), "acct_unknown"); !errors.Is(err, ErrNoEndpoint) {
		t.Errorf("enabling what is not there: %v", err)
	}
}

// What came while the endpoint was disabled is held for 72 hours, as what failed is.
func TestWhatCameWhileDisabledIsHeldForThreeDays(t *testing.T) {
	t.Parallel()
	s, clock := openWithClock(t)
	caller := subscriber(t, s)
	disable(t, s, caller.Account)
	ref := blocked(t, ledgerOn(t, s, LedgerConfig{}), caller, 1)[0]
	for _, step := range []struct {
		pass time.Duration
		want string
	}{{failedPayloads - time.Second, "failed 0 begun 0 ended held"}, {time.Second, "failed 0 begun 0 ended"}} {
		clock.advance(t, step.pass)
		if err := s.PruneWebhooks(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := state(t, s, ref); got != step.want {
			t.Errorf("the event is %q, want %q", got, step.want)
		}
	}
}

func disable(t *testing.T, s *Store, account string) {
	t.Helper()
	_, err := s.db.NewRaw(`UPDATE webhook_endpoints SET failing_since = now() - interval '5 days', failed_at = now(), disabled_at = now(), disabled_reason = 'failing'
		WHERE account_id = ?`, account).Exec(t.Context())
	if err != nil {
		t.Fatal(err)
	}
}

// One success ends the series, and so does a silence that no weekend explains.
func TestWhatEndsASeriesOfFailures(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		between func(*testing.T, *Store, *dbClock, *Outbox, check.Caller)
		want    string
	}{
		"nothing": {func(t *testing.T, _ *Store, clock *dbClock, _ *Outbox,
			_ check.Caller) {
			clock.advance(t, sameSeries)
		},
			"disabled, failing for 122h1m0s, failing disabled it 0s ago"},
		"a success": {func(t *testing.T, s *Store, clock *dbClock, o *Outbox, caller check.Caller) {
			attempt(t, s, o, caller, 200)
			clock.advance(t, sameSeries)
		}, "enabled, failing for 0s"},
		"a silence": {func(t *testing.T, _ *Store, clock *dbClock, _ *Outbox, _ check.Caller) {
			clock.advance(t, sameSeries+time.Microsecond)
		},
			"enabled, failing for 0s"},
		"another address": {func(t *testing.T, s *Store, clock *dbClock, _ *Outbox, caller check.Caller) {
			clock.advance(t, sameSeries)
			if err := s.MoveEndpoint(t.Context(), caller.Account, "https://another.example/"); err != nil {
				t.Error(err)
			}
		}, "enabled, failing for 0s"},
		"the same address": {func(t *testing.T, s *Store, clock *dbClock, _ *Outbox, caller check.Caller) {
			clock.advance(t, sameSeries)
			if err := s.MoveEndpoint(t.Context(), caller.Account, "https://receiver.example/hook"); err != nil {
				t.Error(err)
			}
		}, "disabled, failing for 122h1m0s, failing disabled it 0s ago"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, clock := openWithClock(t)
			o, caller := outboxOf(t, s), subscriber(t, s)
			attempt(t, s, o, caller, 500)
			clock.advance(t, 50*time.Hour+time.Minute)
			settleAll(t, s)
			attempt(t, s, o, caller, 500)
			settleAll(t, s)
			test.between(t, s, clock, o, caller)
			attempt(t, s, o, caller, 500)
			stands(t, s, caller.Account, "after "+name, test.want)
		})
	}
}

// Setting an endpoint anew or moving it enables it.
func TestWhatEnables(t *testing.T) {
	t.Parallel()
	s := open(t, postgrestest.Database(t), nil)
	account := subscriber(t, s).Account
	for name, enable := range map[string]func() error{
		"set": func() error {
			_, err := s.SetEndpoint(t.Context(), account, "https://receiver.example/hook")
			return err
		},
		"move": func() error { return s.MoveEndpoint(t.Context(), account, "https://another.example/") },
	} {
		disable(t, s, account)
		if err := enable(); err != nil {
			t.Fatal(err)
		}
		stands(t, s, account, "after "+name, "enabled")
	}
}

// A success and the failure that disables meet: in whichever order they are recorded, the endpoint ends enabled.
func TestSuccessWinsOverDisabling(t *testing.T) {
	t.Parallel()
	for _, order := range []string{"success first", "failure first", "at once"} {
		t.Run(order, func(t *testing.T) {
			t.Parallel()
			s, clock := openWithClock(t)
			o, caller := outboxOf(t, s), subscriber(t, s)
			failFor(t, s, clock, o, caller)
			blocked(t, ledgerOn(t, s, LedgerConfig{}), caller, 2)
			both := claim(t, o, all)
			success, failure := ended(both[0], 200), ended(both[1], 500)
			switch order {
			case "success first":
				finish(t, o, success)
				finish(t, o, failure)
			case "failure first":
				finish(t, o, failure)
				finish(t, o, success)
			case "at once":
				done := make(chan error, 2)
				for _, e := range []Ended{success, failure} {
					go func() { _, _, err := o.Finish(t.Context(), e); done <- err }()
				}
				for range 2 {
					if err := <-done; err != nil {
						t.Error(err)
					}
				}
			}
			if got := one[string](t, s, "SELECT concat(disabled_at) FROM webhook_endpoints"); got != "" {
				t.Errorf("the endpoint is disabled since %s", got)
			}
			clock.advance(t, time.Second)
			claimOne(t, o) // the one that failed goes on
		})
	}
}
