package store

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"assay/host/billing"
	"assay/host/check"
)

// Usage returns the account's plan and its use of this month's quota. It fails with billing.ErrNoAccount.
func (s *Store) Usage(ctx context.Context, accountID string) (billing.Usage, error) {
	plan, err := s.accountPlan(ctx, accountID)
	if err != nil {
		return billing.Usage{}, fmt.Errorf("reading usage: %w", err)
	}
	// The ledger counts by the database's clock.
	var row struct {
		Used  int
		Month time.Time
	}
	err = s.db.NewRaw(`SELECT m.month, coalesce(q.used, 0) AS used
		FROM (SELECT date_trunc('month', now() AT TIME ZONE 'UTC')::date AS month) AS m
		LEFT JOIN accounts AS a ON a.id = ?
		LEFT JOIN quota_usage AS q ON q.chain = a.chain AND q.account_id = a.id AND q.period = m.month`, accountID).
		Scan(ctx, &row)
	if err != nil {
		return billing.Usage{}, fmt.Errorf("reading usage: %w", err)
	}
	return billing.Usage{Plan: plan, Used: row.Used, ResetAt: row.Month.UTC().AddDate(0, 1, 0)}, nil
}

//go:embed sql/daily_checks.sql
var dailyChecks string

// DailyChecks counts an account's checks by day and verdict for the last days days, including today and days without
// checks.
func (s *Store) DailyChecks(ctx context.Context, accountID string, days int) ([]billing.DailyChecks, error) {
	today := s.now().UTC().Truncate(24 * time.Hour)
	first := today.AddDate(0, 0, 1-days)
	var rows []struct {
		Date    time.Time
		Verdict check.Verdict
		N       int
	}
	err := s.db.NewRaw(dailyChecks, named{"account": accountID, "first": first}).Scan(ctx, &rows)
	if err != nil {
		return nil, fmt.Errorf("counting checks: %w", err)
	}
	list := make([]billing.DailyChecks, days)
	for i := range list {
		list[i].Date = first.AddDate(0, 0, i)
	}
	for _, r := range rows {
		i := int(r.Date.UTC().Sub(first) / (24 * time.Hour))
		if i < 0 || i >= days {
			continue // the clocks of two hosts differ
		}
		switch r.Verdict {
		case check.Allow:
			list[i].Allow += r.N
		case check.Review:
			list[i].Review += r.N
		case check.Block:
			list[i].Block += r.N
		}
	}
	return list, nil
}
