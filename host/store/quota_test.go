package store

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"assay/host/check"
	"assay/host/customer/billing"
	"assay/host/customer/decision"
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
	const quota = 50
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
	passed := 0
	for i, err := range errs[:len(records)] {
		var over *check.QuotaError
		if err == nil {
			passed++
			continue
		}
		holds(t, errors.As(err, &over) && over.Quota == quota && over.ResetAt == period(time.Now()).AddDate(0, 1, 0),
			"append: %v", err)
		expect(t, "records of a rejected check", recorded(t, a, records[i].Decision.Ref), 0)
	}
	expect(t, "checks that passed", passed, quota)
	noError(t, errors.Join(errs[len(records):]...))
	verifyLedger(t, a)
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

// A refused call adds no event, use of its key or contribution, although others of its batch are recorded.
func TestRefusedCallLeavesNothing(t *testing.T) {
	t.Parallel()
	s, l, other := newVerified(t, nil, LedgerConfig{})
	caller := newCaller(t, s, plan(t, "pro", 1))
	must(s.SetEndpoint(t.Context(), caller.Account, "https://receiver.example/hook"))(t)
	blocked := decidedMany(caller, parse(t, entity.Domain, "example.org"), check.Block, 2)
	errs := must(send(t, l, []byte("batch"), prepared(t, l, allowedMany(t, other, 1), blocked)))(t)
	holds(t, errs[0] == nil && errs[1] != nil, "errors %v, want one of the second call", errs)
	expect(t, "events", one[int](t, s, "SELECT count(*) FROM webhook_events"), 0)
	expect(t, "contributions to the graph", waits(t, s), 1)
	expect(t, "used keys", one[string](t, s, "SELECT string_agg(key_id, ' ') FROM key_uses"), other.Key)

	// Nor does a call whose account removed its endpoint after the payload was prepared add an event.
	late := prepared(t, l, blocked[:1])
	noError(t, s.RemoveEndpoint(t.Context(), caller.Account))
	noError(t, must(send(t, l, []byte("late"), late))(t)[0])
	expect(t, "events", one[int](t, s, "SELECT count(*) FROM webhook_events"), 0)
	verifyLedger(t, s)

	// A call that does not fit is refused whole, and smaller ones after it are recorded.
	caller, other = newCaller(t, s, plan(t, "pro", 10)), newCaller(t, s, plan(t, "pro", 10))
	var calls [][]check.Record
	for _, n := range []int{11, 4, 7, 5, 2, 1, 1} {
		calls = append(calls, allowedMany(t, caller, n))
	}
	calls = append(calls, allowedMany(t, other, 10))
	errs = must(send(t, l, []byte("smaller"), prepared(t, l, calls...)))(t)
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
}

func TestUsage(t *testing.T) {
	t.Parallel()
	now := time.Date(2031, 5, 6, 23, 0, 0, 0, time.UTC)
	s, _ := openWithClock(t)
	s.now = func() time.Time { return now }
	l := ledgerOn(t, s, LedgerConfig{})
	caller, other := newCaller(t, s, plan(t, "starter", 150)), newCaller(t, s, plan(t, "pro", 1500))
	e := parse(t, entity.Domain, "example.com")
	for _, c := range []struct {
		caller  check.Caller
		verdict check.Verdict
		age     time.Duration
	}{
		{caller, check.Block, 49 * time.Hour}, {caller, check.Allow, 24 * time.Hour},
		{caller, check.Review, 24 * time.Hour},
		{other, check.Block, time.Hour}, {caller, check.Block, 22 * time.Hour}, {caller, check.Allow, 0},
		{caller, check.Allow, 0},
	} {
		r := at(decided(c.caller, e, c.verdict), now.Add(-c.age))
		noError(t, l.Append(t.Context(), r))
	}
	day := func(d int) time.Time { return time.Date(2031, 5, d, 0, 0, 0, 0, time.UTC) }
	count := func(d, verdict string, checks int) decision.Count {
		return decision.Count{Date: "2031-05-0" + d, Key: caller.Key, Type: "domain", Verdict: verdict, Checks: checks}
	}
	want := []decision.Count{count("5", "allow", 1), count("5", "review", 1), count("6", "allow", 2),
		count("6", "block", 1)}
	noDiff(t, "counts", want, must(s.CountChecks(t.Context(), caller, day(5), day(7)))(t))
	noDiff(t, "without the last day", want[:2], must(s.CountChecks(t.Context(), caller, day(5), day(6)))(t))
	u, err := s.Usage(t.Context(), caller.Account)
	holds(t, err == nil && u.Used == 6 && u.Plan.Quota == 150 &&
		u.ResetAt.Equal(time.Date(2031, 6, 1, 0, 0, 0, 0, time.UTC)), "Usage = %+v, %v", u, err)
	month := func(m time.Month) time.Time { return time.Date(2031, m, 1, 0, 0, 0, 0, time.UTC) }
	forecast := 44 // 6, and 25 days and an hour more like the two before
	noDiff(t, "this month", &decision.Usage{Month: "2031-05", Quota: 150, Used: 6, Forecast: &forecast,
		Counts: append([]decision.Count{count("4", "block", 1)}, want...)},
		must(s.MonthlyUsage(t.Context(), caller, month(time.May)))(t))
	noDiff(t, "another month", &decision.Usage{Month: "2031-04", Quota: 150, Counts: []decision.Count{}},
		must(s.MonthlyUsage(t.Context(), check.Caller{Account: caller.Account}, month(time.April)))(t))
	noError(t, l.Append(t.Context(), at(decided(caller, e, check.Allow), now.Add(-24*time.Hour))))
	noError(t, l.Append(t.Context(), at(decided(caller, e, check.Allow), now)))
	late := func() (yesterday, today int) {
		for _, c := range must(s.MonthlyUsage(t.Context(), caller, month(time.May)))(t).Counts {
			switch {
			case c.Date == "2031-05-05" && c.Verdict == "allow":
				yesterday = c.Checks
			case c.Date == "2031-05-06" && c.Verdict == "allow":
				today = c.Checks
			}
		}
		return yesterday, today
	}
	yesterday, today := late()
	holds(t, yesterday == 1 && today == 3, "counted at once: %d yesterday, %d today", yesterday, today)
	now = now.Add(pastAge)
	yesterday, today = late()
	holds(t, yesterday == 2 && today == 3, "counted later: %d yesterday, %d today", yesterday, today)
	now = now.AddDate(0, 0, 26) // on the first day of June, the forecast looks at May
	noDiff(t, "days before the month", []decision.Count{},
		must(s.MonthlyUsage(t.Context(), caller, month(time.June)))(t).Counts)
	wantError(t, "usage of an unknown account", errOf(s.Usage(t.Context(), "acct_none")), billing.ErrNoAccount)
}

func TestSettleUses(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	a, b := open(t, url, nil), open(t, url, nil)
	settle := func(s *Store, accepted, want map[string]int64) {
		t.Helper()
		got := must(s.SettleUses(t.Context(), accepted))(t)
		holds(t, maps.Equal(got, want), "after %v: %v, want %v", accepted, got, want)
	}
	type uses = map[string]int64
	settle(a, uses{"key 1": 3, "key 2": 0}, uses{"key 1": 3})
	settle(b, uses{"key 1": 4, "network 192.0.2.0/24": 1}, uses{"key 1": 7, "network 192.0.2.0/24": 1})
	settle(a, uses{"key 1": 0, "network 192.0.2.0/24": 2}, uses{"key 1": 7, "network 192.0.2.0/24": 3})
	expect(t, "names that are hashes", one[int](t, a, "SELECT count(*) FROM rate_uses WHERE name ~ '^[0-9a-f]{32}$'"),
		2)
	expect(t, "rows", one[int](t, a, "SELECT count(*) FROM rate_uses"), 2)
	noError(t, errOf(a.db.Exec("UPDATE rate_uses SET used_at = now() - interval '61 s'")))
	settle(b, uses{"key 1": 1}, uses{"key 1": 1})

	// Two hosts that write the same names in any order do not block each other.
	many := uses{}
	for i := range 500 {
		many["key "+strings.Repeat("x", i)] = 1
	}
	noError(t, errors.Join(concurrently(8, func(i int) error {
		_, err := []*Store{a, b}[i%2].SettleUses(t.Context(), many)
		return err
	})...))
	expect(t, "uses", one[int](t, a, "SELECT max(used) FROM rate_uses"), 8)
}
