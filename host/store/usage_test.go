package store

import (
	"testing"
	"time"

	"assay/host/check"
	"assay/host/customer/billing"
	"assay/host/customer/decision"
	"assay/host/entity"
)

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
	if err != nil || u.Used != 6 || u.Plan.Quota != 150 ||
		!u.ResetAt.Equal(time.Date(2031, 6, 1, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("Usage = %+v, %v", u, err)
	}
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
	if yesterday, today := late(); yesterday != 1 || today != 3 {
		t.Errorf("counted at once: %d yesterday, %d today", yesterday, today)
	}
	now = now.Add(pastAge)
	if yesterday, today := late(); yesterday != 2 || today != 3 {
		t.Errorf("counted later: %d yesterday, %d today", yesterday, today)
	}
	now = now.AddDate(0, 0, 26) // on the first day of June, the forecast looks at May
	noDiff(t, "days before the month", []decision.Count{},
		must(s.MonthlyUsage(t.Context(), caller, month(time.June)))(t).Counts)
	wantError(t, "usage of an unknown account", errOf(s.Usage(t.Context(), "acct_none")), billing.ErrNoAccount)
}
