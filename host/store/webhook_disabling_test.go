package store

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"assay/host/check"
	"assay/host/customer/webhook"
	"assay/host/entity"
)

// endpointState describes an endpoint's state, with times as durations before the database's now.
func endpointState(t *testing.T, s *Store, account string) string {
	t.Helper()
	endpoints, err := s.Endpoints(t.Context(), account)
	mustHold(t, err == nil && len(endpoints) == 1, "endpoints %+v, %v", endpoints, err)
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

func expectEndpoint(t *testing.T, s *Store, account, when, want string) {
	t.Helper()
	expect(t, when+": the endpoint", endpointState(t, s, account), want)
}

// attempt makes one attempt to deliver a test event, with the given status, and returns the event's reference.
func attempt(t *testing.T, s *Store, o *Outbox, caller check.Caller, status int) (ref string) {
	t.Helper()
	ref = must(s.SendTestEvent(t.Context(), caller.Account, check.Review))(t)
	for _, d := range claim(t, o, all) {
		finish(t, o, ended(d, status))
	}
	return ref
}

// failAlmostUntilDisabled fails an endpoint for a microsecond less than webhook.DisableAfter, then lets a minute pass.
func failAlmostUntilDisabled(t *testing.T, s *Store, clock *dbClock, o *Outbox, caller check.Caller) {
	t.Helper()
	attempt(t, s, o, caller, 500)
	clock.advance(t, webhook.DisableAfter/2)
	attempt(t, s, o, caller, 0)
	clock.advance(t, webhook.DisableAfter/2-time.Microsecond)
	attempt(t, s, o, caller, 503)
	expectEndpoint(t, s, caller.Account, "a microsecond before five days", "enabled, failing for 119h59m59.999999s")
	clock.advance(t, time.Minute)
	failPending(t, s)
}

// failPending fails all pending events, as if their retries were used up.
func failPending(t *testing.T, s *Store) {
	t.Helper()
	must(s.db.NewRaw(`UPDATE webhook_events
		SET state = 'failed', next_attempt_at = NULL, leased_until = NULL, settled_at = now()
		WHERE state = 'pending'`).Exec(t.Context()))(t)
}

func TestEndpointIsDisabledAfterFiveDaysOfFailures(t *testing.T) {
	t.Parallel()
	s, clock, o, l, caller := withEndpoint(t)
	other := subscriber(t, s)
	failAlmostUntilDisabled(t, s, clock, o, caller)
	ref := blocked(t, l, caller, 1)[0]
	delay, retry := finish(t, o, ended(claimOne(t, o), 500))
	expectEndpoint(t, s, caller.Account, "after five days",
		"disabled, failing for 120h0m59.999999s, failing disabled it 0s ago")
	expectEndpoint(t, s, other.Account, "another account's endpoint", "enabled")
	notice := webhook.Notice{AccountID: caller.Account, Disabled: true}
	noError(t, s.EndNotice(t.Context(), webhook.Notice{AccountID: caller.Account})) // it was about something else
	notices := must(s.Notices(t.Context()))(t)
	holds(t, len(notices) == 1 && notices[0] == notice, "the notices are %+v", notices)
	noError(t, s.EndNotice(t.Context(), notice))
	expect(t, "notices that ended", len(must(s.Notices(t.Context()))(t)), 0)
	holds(t, retry && delay == time.Second, "next attempt in %v, %v, want 1s, true", delay, retry)

	// Neither pending nor new events are sent to a disabled endpoint.
	clock.advance(t, 2*webhook.AttemptLease)
	claimNone(t, o, "while the endpoint is disabled")
	arrived := blocked(t, l, caller, 1)[0]
	expect(t, "an event recorded while the endpoint is disabled", state(t, s, arrived), "failed 0 begun 0 ended held")
	sent := blocked(t, l, other, 1)[0]
	d := claimOne(t, o)
	expect(t, "the event that was claimed", d.Ref, sent)
	finish(t, o, ended(d, 200))
	noError(t, s.Prune(t.Context()))
	expect(t, "the pending event", state(t, s, ref), "failed 1 begun 1 ended held")
	wantError(t, "resending one", s.ResendEvent(t.Context(), caller.Account, arrived), webhook.ErrEndpointDisabled)
	_, _, err := s.ResendFailed(t.Context(), caller.Account, noon)
	wantError(t, "resending all", err, webhook.ErrEndpointDisabled)

	// A test event is sent, but does not enable the endpoint.
	test := attempt(t, s, o, caller, 500)
	clock.advance(t, time.Second)
	finish(t, o, ended(claimOne(t, o), 200))
	expect(t, "the test event", state(t, s, test), "delivered 2 begun 2 ended")
	expectEndpoint(t, s, caller.Account, "after a test",
		"disabled, failing for 120h1m30.999999s, failing disabled it 31s ago")

	// Once enabled, it receives new events, and earlier ones when they are resent.
	noError(t, s.EnableEndpoint(t.Context(), caller.Account))
	expectEndpoint(t, s, caller.Account, "after EnableEndpoint", "enabled")
	claimNone(t, o, "after EnableEndpoint")
	resent, gone, err := s.ResendFailed(t.Context(), caller.Account, noon)
	holds(t, err == nil && resent == 4 && gone == 1, "resent %d, gone %d, %v, want 4, and 1 of five days ago", resent,
		gone, err)
	for _, d := range claim(t, o, all) {
		finish(t, o, ended(d, 500))
	}
	expectEndpoint(t, s, caller.Account, "after new failures", "enabled, failing for 0s")
	wantError(t, "enabling an unknown endpoint", s.EnableEndpoint(t.Context(), "acct_unknown"), webhook.ErrNoEndpoint)
}

// A success ends a series of failures, and so does a gap longer than maxFailureGap.
func TestEndOfFailureSeries(t *testing.T) {
	t.Parallel()
	s, clock := openWithClock(t)
	o := outboxOf(t, s)
	for name, test := range map[string]struct {
		attempted int // the status of an attempt between the failures, if not 0
		gap       time.Duration
		movedTo   string
		want      string
	}{
		"no event":     {0, maxFailureGap, "", "disabled, failing for 122h1m0s, failing disabled it 0s ago"},
		"a success":    {200, maxFailureGap, "", "enabled, failing for 0s"},
		"a longer gap": {0, maxFailureGap + time.Microsecond, "", "enabled, failing for 0s"},
		"another URL":  {0, maxFailureGap, "https://another.example/", "enabled, failing for 0s"},
		"the same URL": {0, maxFailureGap, "https://receiver.example/hook",
			"disabled, failing for 122h1m0s, failing disabled it 0s ago"},
	} {
		t.Run(name, func(t *testing.T) {
			caller := subscriber(t, s)
			attempt(t, s, o, caller, 500)
			clock.advance(t, 50*time.Hour+time.Minute)
			failPending(t, s)
			attempt(t, s, o, caller, 500)
			failPending(t, s)
			if test.attempted != 0 {
				attempt(t, s, o, caller, test.attempted)
			}
			clock.advance(t, test.gap)
			if test.movedTo != "" {
				noError(t, s.MoveEndpoint(t.Context(), caller.Account, test.movedTo))
			}
			attempt(t, s, o, caller, 500)
			expectEndpoint(t, s, caller.Account, "after "+name, test.want)
			failPending(t, s)
		})
	}
}

func TestSettingOrMovingAnEndpointEnablesIt(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	account := subscriber(t, s).Account
	for name, enable := range map[string]func() error{
		"set":  func() error { return errOf(s.SetEndpoint(t.Context(), account, "https://receiver.example/hook")) },
		"move": func() error { return s.MoveEndpoint(t.Context(), account, "https://another.example/") },
	} {
		exec(t, session(t, s.url), `UPDATE webhook_endpoints SET failing_since = now() - interval '5 days',
			failed_at = now(), disabled_at = now(), disabled_reason = 'failing'`)
		noError(t, enable())
		expectEndpoint(t, s, account, "after "+name, "enabled")
	}
}

// A success and the failure that disables the endpoint race: in any order, the endpoint ends up enabled.
func TestSuccessBeatsConcurrentDisabling(t *testing.T) {
	t.Parallel()
	s, clock := openWithClock(t)
	o := outboxOf(t, s)
	for _, order := range []string{"success first", "failure first", "concurrently"} {
		t.Run(order, func(t *testing.T) {
			caller := subscriber(t, s)
			failAlmostUntilDisabled(t, s, clock, o, caller)
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
			case "concurrently":
				outcomes := []webhook.Outcome{success, failure}
				noError(t, errors.Join(concurrently(2, func(i int) error {
					return errOf2(o.Finish(t.Context(), outcomes[i]))
				})...))
			}
			expect(t, "time of disabling", one[string](t, s,
				"SELECT concat(disabled_at) FROM webhook_endpoints WHERE account_id = ?", caller.Account), "")
			clock.advance(t, time.Second)
			claimOne(t, o) // the failed event is retried
			failPending(t, s)
		})
	}
}

func TestRetrySchedule(t *testing.T) {
	t.Parallel()
	s, clock, o, l, caller := withEndpoint(t)
	ref := blocked(t, l, caller, 1)[0]
	for i, wait := range []time.Duration{time.Second, 4 * time.Second, 16 * time.Second, 0} {
		d := claimOne(t, o)
		holds(t, d.Attempt == i+1 && d.Late == 0, "attempt %d was claimed as %d, %v late", i+1, d.Attempt, d.Late)
		claimNone(t, o, "while an attempt is in flight")
		clock.advance(t, 9*time.Second) // a long attempt; the delay counts from its end
		delay, retry := finish(t, o, ended(d, 500))
		holds(t, delay == wait && retry == (wait > 0), "after attempt %d the next is due in %v, %v, want %v", i+1,
			delay, retry, wait)
		if wait > 0 {
			clock.advance(t, wait-time.Microsecond)
			claimNone(t, o, "a microsecond before the next attempt is due")
			clock.advance(t, time.Microsecond)
		}
	}
	clock.advance(t, time.Hour)
	claimNone(t, o, "after the last attempt")
	expect(t, "the event", state(t, s, ref), "failed 4 begun 4 ended held")
}

// The delay counts from the end of an attempt: the time that its outcome waits for a connection is part of it.
func TestRetryDelayCountsWhileOutcomesQueue(t *testing.T) {
	t.Parallel()
	_, _, o, l, caller := withEndpoint(t)
	blocked(t, l, caller, 1)
	e := ended(claimOne(t, o), 500)
	e.EndedAt = time.Now()
	busy := listOf(outcomeConnections, func(int) *sql.Conn { return must(o.outcomes.DB.Conn(t.Context()))(t) })
	var delay time.Duration
	var retry bool
	finished := async(func() (err error) {
		delay, retry, err = o.Finish(t.Context(), e)
		return err
	})
	until(t, "the outcome has waited for 700 ms", func() bool {
		return o.outcomes.Stats().WaitCount > 0 && time.Since(e.EndedAt) >= 700*time.Millisecond
	})
	for _, conn := range busy {
		conn.Close()
	}
	noError(t, receive(t, "the outcome", finished))
	holds(t, retry && delay <= 300*time.Millisecond,
		"700 ms after the attempt ended, the next is due in %v, %v, want at most 300 ms", delay, retry)
}

func TestEventsNeedAnEndpoint(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	l := ledgerOn(t, s, LedgerConfig{})
	with := func(planName string) check.Caller {
		t.Helper()
		caller := newCaller(t, s, plan(t, planName, 100))
		_, err := s.SetEndpoint(t.Context(), caller.Account, "https://receiver.example/hook")
		want := map[bool]error{false: webhook.ErrPlanWithoutWebhooks}[caller.Plan.Webhooks]
		wantError(t, "an endpoint on the plan "+planName, err, want)
		return caller
	}
	starter, free, noEndpoint := with("starter"), with("free"), newCaller(t, s, plan(t, "pro", 100))
	// The plan that a host remembers may be out of date.
	upgraded := with("pro")
	upgraded.Plan = plan(t, "free", 100)
	args := withTerms(named{"account": free.Account})
	set := one[bool](t, s, "SELECT set_endpoint(?, 'https://a.example/', '', ?)", free.Account, args["plans"])
	expect(t, "an endpoint for a plan that has changed", set, false)
	revoked := with("starter")
	for name, test := range map[string]struct {
		caller  check.Caller
		verdict check.Verdict
		want    string
	}{
		"block":                 {starter, check.Block, "check.blocked"},
		"review":                {starter, check.Review, "check.review"},
		"allow":                 {starter, check.Allow, ""},
		"without an endpoint":   {noEndpoint, check.Block, ""},
		"plan without webhooks": {free, check.Block, ""},
		"upgraded plan":         {upgraded, check.Block, "check.blocked"},
		"without a key":         {s.PublicCaller(), check.Block, ""},
	} {
		r := decided(test.caller, parse(t, entity.Domain, "example.org"), test.verdict)
		wantError(t, name, l.Append(t.Context(), r), nil)
		var events []string
		err := s.db.NewRaw(`SELECT event FROM webhook_events WHERE ref = ? AND account_id = ? AND state = 'pending'
			AND attempts = 0 AND next_attempt_at <= now()`,
			r.Decision.Ref, test.caller.Account).Scan(t.Context(), &events)
		holds(t, err == nil && strings.Join(events, " ") == test.want, "%s: events %v, %v, want %q", name, events, err,
			test.want)
	}
	// A rejected check creates no event.
	noError(t, s.RevokeKey(t.Context(), revoked.Key))
	rejected := decided(revoked, parse(t, entity.Domain, "example.org"), check.Block)
	wantError(t, "append with a revoked key", l.Append(t.Context(), rejected), check.ErrUnauthorized)
	expect(t, "events in total", rowsOf(t, s, "webhook_events"), 3)
	verifyLedger(t, s)
}
