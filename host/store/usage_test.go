package store

import (
	"slices"
	"testing"
	"time"

	"assay/host/billing"
	"assay/host/check"
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
	days := must(s.DailyChecks(t.Context(), caller.Account, 3))(t)
	day := func(d int) time.Time { return time.Date(2031, 5, d, 0, 0, 0, 0, time.UTC) }
	want := []billing.DailyChecks{
		{Date: day(4), Block: 1}, {Date: day(5), Allow: 1, Review: 1}, {Date: day(6), Block: 1, Allow: 2},
	}
	if !slices.Equal(days, want) {
		t.Errorf("DailyChecks = %v, want %v", days, want)
	}
	u, err := s.Usage(t.Context(), caller.Account)
	if err != nil || u.Used != 6 || u.Plan.Quota != 150 ||
		!u.ResetAt.Equal(time.Date(2031, 6, 1, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("Usage = %+v, %v", u, err)
	}
	wantError(t, "usage of an unknown account", errOf(s.Usage(t.Context(), "acct_none")), billing.ErrNoAccount)
}
