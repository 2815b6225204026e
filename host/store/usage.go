package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"assay/host/check"
	"assay/host/customer/billing"
	"assay/host/customer/decision"
	"assay/host/internal/maintenance"
)

// Usage returns the account's plan and its use of this month's quota. It fails with billing.ErrNoAccount.
func (s *Store) Usage(ctx context.Context, accountID string) (billing.Usage, error) {
	plan, err := s.accountPlan(ctx, accountID)
	var row monthUsed
	if err == nil {
		row, err = s.monthUsage(ctx, accountID, nil) // the ledger counts by the database's clock
	}
	plan.Quota = max(plan.Quota, row.Quota)
	return billing.Usage{Plan: plan, Used: row.Used, ResetAt: row.Month.UTC().AddDate(0, 1, 0)},
		wrap(err, "reading usage")
}

// monthUsed is the use of a month's quota, and a larger quota that was paid for in the month; 0: none.
type monthUsed struct {
	Used, Quota int
	Month       time.Time
}

func (s *Store) monthUsage(ctx context.Context, account string, month *string) (row monthUsed, err error) {
	err = query(s.db, "usage", named{"account": account, "month": month}).Scan(ctx, &row)
	return row, err
}

// CountChecks counts an account's checks from one instant until another, which is not included. It fails with
// check.ErrUnauthorized.
func (s *Store) CountChecks(ctx context.Context, c check.Caller, from, until time.Time) ([]decision.Count, error) {
	return s.countOf(ctx, c, from, until, byDay)
}

// CountHours is CountChecks by hour.
func (s *Store) CountHours(ctx context.Context, c check.Caller, from, until time.Time) ([]decision.Count, error) {
	return s.countOf(ctx, c, from, until, byHour)
}

func (s *Store) countOf(ctx context.Context, c check.Caller, from, until time.Time, format string) (
	counts []decision.Count, err error) {
	r, err := s.findHolder(ctx, s.db, c)
	if err == nil {
		counts, err = s.countChecks(ctx, r, from, until, format)
	}
	return counts, withOutage(wrap(err, "counting checks"))
}

// The formats of decision.Daily and decision.Hourly in Postgres.
const (
	byDay  = "YYYY-MM-DD"
	byHour = "YYYY-MM-DD HH24:00"
)

// countChecks counts in one of the account's slots, which it waits for until ctx ends. A count reads the account's
// whole history, so the slots leave connections to others.
func (s *Store) countChecks(ctx context.Context, r requester, from, until time.Time, format string) (
	[]decision.Count, error) {
	release, err := s.counting.Take(r.AccountID)
	for ; err != nil; release, err = s.counting.Take(r.AccountID) {
		if !maintenance.Pause(ctx, 20*time.Millisecond) {
			return nil, err
		}
	}
	defer release()
	counts := []decision.Count{}
	err = query(s.db, "count_checks", named{"chain": r.Chain, "account": r.AccountID, "from": from, "until": until,
		"format": format}).Scan(ctx, &counts)
	return counts, err
}

const (
	pastAge   = 5 * time.Minute // how long the counts of past days are kept, which change little
	maxCounts = 50_000          // of all accounts together
)

// span is a part of an account's checks, in Unix seconds.
type span struct {
	account     string
	from, until int64
}

// pastDays are the counts of a span that ended.
type pastDays struct {
	counts []decision.Count
	until  time.Time // when they are counted again
}

// CountDays is CountChecks for pages: today's checks are always counted, those of earlier days at most every five
// minutes, so that recently erased checks may still be included.
func (s *Store) CountDays(ctx context.Context, c check.Caller, from, until time.Time) (counts []decision.Count,
	err error) {
	defer concluding("counting checks", &err)
	r, err := s.findHolder(ctx, s.db, c)
	if err != nil {
		return nil, err
	}
	now := s.now().UTC()
	today := now.Truncate(24 * time.Hour)
	if until.Before(today) {
		today = until
	}
	var past pastDays
	if from.Before(today) {
		key := span{r.AccountID, from.Unix(), today.Unix()}
		var known bool
		if past, known = s.counted.Get(key); !known || !now.Before(past.until) {
			if past.counts, err = s.countChecks(ctx, r, from, today, byDay); err != nil {
				return nil, err
			}
			past.until = now.Add(pastAge)
			s.counted.Put(key, past, 1+len(past.counts))
		}
		from = today
	}
	if from.Before(until) {
		counts, err = s.countChecks(ctx, r, from, until, byDay)
	}
	return append(append([]decision.Count{}, past.counts...), counts...), err // the caller may change them
}

// MonthlyUsage returns an account's usage in the month that begins at the given instant, with a forecast if the month
// is not over. It fails with check.ErrUnauthorized.
func (s *Store) MonthlyUsage(ctx context.Context, c check.Caller, month time.Time) (*decision.Usage, error) {
	now, next := s.now().UTC(), month.AddDate(0, 1, 0)
	current := !now.Before(month) && now.Before(next)
	from := month
	if since := now.Truncate(24*time.Hour).AddDate(0, 0, -decision.ForecastDays); current && since.Before(from) {
		from = since
	}
	counts, err := s.CountDays(ctx, c, from, next)
	if err != nil {
		return nil, err
	}
	u := &decision.Usage{Month: month.Format(decision.MonthFormat)}
	used, err := s.monthUsage(ctx, c.Account, new(month.Format(time.DateOnly)))
	var plan check.Plan
	if err == nil {
		plan, err = s.accountPlan(ctx, c.Account)
	}
	if err != nil {
		return nil, withOutage(fmt.Errorf("reading usage: %w", err))
	}
	u.Used, u.Quota = used.Used, max(used.Quota, plan.Quota)
	if current {
		u.Forecast = decision.Forecast(u.Used, counts, now)
	}
	first := month.Format(time.DateOnly)
	u.Counts = slices.DeleteFunc(counts, func(n decision.Count) bool { return n.Date < first })
	return u, nil
}
