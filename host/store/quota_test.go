package store

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"assay/host/check"
	"assay/host/entity"
	"assay/host/store/postgres/postgrestest"
)

// appendAll appends the records concurrently, spread over the ledgers, and returns their errors.
func appendAll(t *testing.T, records []check.Record, ledgers ...*Ledger) []error {
	t.Helper()
	return concurrently(len(records), func(i int) error {
		return ledgers[i%len(ledgers)].Append(t.Context(), records[i])
	})
}

func TestQuotaIsExactAcrossHosts(t *testing.T) {
	t.Parallel()
	for _, quota := range []int{0, 50} {
		t.Run(fmt.Sprint(quota), func(t *testing.T) {
			t.Parallel()
			url := postgrestest.Database(t)
			a, b := open(t, url, nil), open(t, url, nil)
			// Small batches make the two ledgers alternate.
			one, two := ledgerOn(t, a, LedgerConfig{Batch: 16}), ledgerOn(t, b, LedgerConfig{Batch: 16})
			first := newCaller(t, a, plan(t, "starter", quota))
			second, _ := newKey(t, b, first.Account) // the account's keys share the quota
			other := newCaller(t, a, plan(t, "starter", 1000))
			var records, others []check.Record
			for i := range 200 {
				records = append(records, allowed(t, []check.Caller{first, second, second, first}[i%4]))
				if i%10 == 0 {
					others = append(others, allowed(t, other))
				}
			}
			errs := appendAll(t, append(records, others...), one, two)
			passed, rejected := 0, 0
			for i, err := range errs[:len(records)] {
				var over *check.QuotaError
				switch {
				case err == nil:
					passed++
				case errors.As(err, &over):
					rejected++
					if over.Quota != quota || over.ResetAt != period(time.Now()).AddDate(0, 1, 0) {
						t.Errorf("quota error %+v", over)
					}
					expect(t, "records of a rejected check", recorded(t, a, records[i].Decision.Ref), 0)
				default:
					t.Errorf("append: %v", err)
				}
			}
			if passed != quota || rejected != 200-quota {
				t.Errorf("%d passed and %d were rejected with a quota of %d", passed, rejected, quota)
			}
			for _, err := range errs[len(records):] {
				if err != nil {
					t.Errorf("another account's check: %v", err)
				}
			}
			verifyLedger(t, a)
		})
	}
}

// Quotas are counted by the database's clock and calendar months, UTC, whatever the host's clock says.
func TestQuotaCountsCalendarMonths(t *testing.T) {
	t.Parallel()
	s, clock := openWithClock(t)
	l := ledgerOn(t, s, LedgerConfig{})
	caller := newCaller(t, s, plan(t, "free", 1))
	zone := time.FixedZone("two hours ahead", 2*60*60)
	steps := []struct {
		name  string
		at    time.Time
		reset time.Time // zero: the check passes
	}{
		{"last microsecond of the year", time.Date(2031, 12, 31, 23, 59, 59, 999999e3, time.UTC), time.Time{}},
		{"first instant of the next", time.Date(2032, 1, 1, 0, 0, 0, 0, time.UTC), time.Time{}},
		{"December is used up", time.Date(2031, 12, 31, 23, 59, 59, 998e6, time.UTC),
			time.Date(2032, 1, 1, 0, 0, 0, 0, time.UTC)},
		{"January is used up", time.Date(2032, 1, 31, 23, 59, 59, 999e6, time.UTC),
			time.Date(2032, 2, 1, 0, 0, 0, 0, time.UTC)},
		{"leap day", time.Date(2032, 2, 29, 12, 0, 0, 0, time.UTC), time.Time{}},
		{"February is used up", time.Date(2032, 2, 1, 0, 0, 0, 0, time.UTC),
			time.Date(2032, 3, 1, 0, 0, 0, 0, time.UTC)},
		{"still February in UTC", time.Date(2032, 3, 1, 1, 0, 0, 0, zone), time.Date(2032, 3, 1, 0, 0, 0, 0, time.UTC)},
		{"March", time.Date(2032, 3, 1, 2, 0, 0, 0, zone), time.Time{}},
	}
	for _, step := range steps {
		clock.set(t, step.at)
		err := l.Append(t.Context(), allowed(t, caller))
		var over *check.QuotaError
		switch {
		case step.reset.IsZero() && err != nil:
			t.Errorf("%s: %v", step.name, err)
		case !step.reset.IsZero() && (!errors.As(err, &over) || over.ResetAt != step.reset):
			t.Errorf("%s: %v, want a quota error that resets at %v", step.name, err, step.reset)
		}
	}
	for period, want := range map[string]int{"2031-12-01": 1, "2032-01-01": 1, "2032-02-01": 1, "2032-03-01": 1} {
		expect(t, "used in "+period, one[int](t, s, "SELECT used FROM quota_usage WHERE period = ?", period), want)
	}
	verifyLedger(t, s)
}

// A call that does not fit is refused whole, and smaller ones after it are recorded.
func TestQuotaAdmitsSmallerCalls(t *testing.T) {
	t.Parallel()
	s, l, _ := newLedger(t, nil, LedgerConfig{})
	caller, other := newCaller(t, s, plan(t, "pro", 10)), newCaller(t, s, plan(t, "pro", 10))
	var calls [][]check.Record
	for _, n := range []int{11, 4, 7, 5, 2, 1, 1} {
		calls = append(calls, allowedMany(t, caller, n))
	}
	calls = append(calls, allowedMany(t, other, 10))
	errs := must(send(t, l, []byte("batch"), prepared(t, l, calls...)))(t)
	for i, want := range []int{10, -1, 6, -1, 1, -1, 0, -1} { // what is left of the quota; -1: recorded
		var over *check.QuotaError
		left := -1
		if errors.As(errs[i], &over) {
			left = over.Left
		}
		expect(t, "what is left", left, want)
		if i == 2 {
			wantErrorText(t, "a call that does not fit", over, "the batch needs 7 checks, but the monthly quota of "+
				"10 has only 6 left; it resets on "+period(time.Now()).AddDate(0, 1, 0).Format(time.DateOnly))
		}
		expect(t, "records of a call's last check", recorded(t, s, calls[i][len(calls[i])-1].Decision.Ref),
			map[bool]int{true: 1}[want < 0])
	}
	exec(t, session(t, s.url), "UPDATE accounts SET quota = 5 WHERE plan = 'pro'")
	var over *check.QuotaError
	if err := l.Append(t.Context(), allowed(t, other)); !errors.As(err, &over) || over.Left != 0 {
		t.Errorf("after the quota was lowered below what is used: %v, want a quota error with nothing left", err)
	}
	verifyLedger(t, s)
}

// A refused call adds no event, no use of its key and nothing to the graph, although other calls of its batch are
// recorded.
func TestRefusedCallLeavesNothing(t *testing.T) {
	t.Parallel()
	s, l, other := newLedger(t, nil, LedgerConfig{})
	caller := newCaller(t, s, plan(t, "pro", 1))
	must(s.SetEndpoint(t.Context(), caller.Account, "https://receiver.example/hook"))(t)
	blocked := decidedMany(caller, parse(t, entity.Domain, "example.org"), check.Block, 2)
	errs := must(send(t, l, []byte("batch"), prepared(t, l, allowedMany(t, other, 1), blocked)))(t)
	if errs[0] != nil || errs[1] == nil {
		t.Errorf("errors %v, want one of the second call", errs)
	}
	expect(t, "events", one[int](t, s, "SELECT count(*) FROM webhook_events"), 0)
	expect(t, "contributions to the graph", waits(t, s), 1)
	expect(t, "used keys", one[string](t, s, "SELECT string_agg(key_id, ' ') FROM key_uses"), other.Key)

	// Nor does a call whose account removed its endpoint after the payload was prepared add an event.
	late := prepared(t, l, blocked[:1])
	noError(t, s.RemoveEndpoint(t.Context(), caller.Account))
	noError(t, must(send(t, l, []byte("late"), late))(t)[0])
	expect(t, "events", one[int](t, s, "SELECT count(*) FROM webhook_events"), 0)
	verifyLedger(t, s)
}

func TestPublicChecksHaveNoQuota(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	l := ledgerOn(t, s, LedgerConfig{})
	for range 3 {
		noError(t, l.Append(t.Context(), allowed(t, s.PublicCaller())))
	}
	expect(t, "public checks recorded", one[int](t, s,
		"SELECT count(*) FROM audit_records WHERE kind = 'check' AND account_id = ? AND key_id = ''", publicAccount), 3)
	expect(t, "quota rows for an account without a quota", one[int](t, s, "SELECT count(*) FROM quota_usage"), 0)
	verifyLedger(t, s)
}
