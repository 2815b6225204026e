package store

import (
	"context"
	"fmt"
	"time"

	"assay/host/check"
)

// Usage is how far an account has used its month.
type Usage struct {
	Plan    check.Plan // its quota is the account's own
	Used    int
	ResetAt time.Time // the first instant of the next calendar month, UTC
}

// Usage returns the account's plan and what it has used of it this month. Error: ErrNoAccount.
func (s *Store) Usage(ctx context.Context, accountID string) (Usage, error) {
	plan, err := s.accountPlan(ctx, accountID)
	if err != nil {
		return Usage{}, fmt.Errorf("reading usage: %w", err)
	}
	month := period(s.now())
	u := Usage{Plan: plan, ResetAt: month.AddDate(0, 1, 0)}
	err = s.db.NewRaw("SELECT coalesce(sum(used), 0) FROM quota_usage WHERE account_id = ? AND period = ?", accountID,
		month).Scan(ctx, &u.Used)
	if err != nil {
		return Usage{}, fmt.Errorf("reading usage: %w", err)
	}
	return u, nil
}

// Day is how an account's checks of one day (UTC) came out.
type Day struct {
	Date                 time.Time
	Allow, Review, Block int
}

// Days counts an account's checks by day and verdict, for the given number of days up to today, those without checks
// included.
func (s *Store) Days(ctx context.Context, accountID string, days int) ([]Day, error) {
	today := s.now().UTC().Truncate(24 * time.Hour)
	first := today.AddDate(0, 0, 1-days)
	var rows []struct {
		Date    time.Time
		Verdict check.Verdict
		N       int
	}
	err := s.db.NewRaw(`SELECT date_trunc('day', recorded_at AT TIME ZONE 'UTC') AS date, verdict, count(*) AS n FROM audit_records
		WHERE account_id = ? AND kind = 'check' AND recorded_at >= ? GROUP BY 1, 2`, accountID, first).Scan(ctx, &rows)
	if err != nil {
		return nil, fmt.Errorf("counting checks: %w", err)
	}
	list := make([]Day, days)
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

// RecentCheck is what is kept of a check and may be shown: no value, no pseudonym.
type RecentCheck struct {
	Ref     string
	Type    string
	Score   int
	Verdict check.Verdict
	At      string // as the client saw it
	KeyID   string
}

// RecentChecks lists an account's checks, newest first: those before the check with reference before, or from the
// newest when it is empty.
func (s *Store) RecentChecks(ctx context.Context, accountID, before string, limit int) ([]RecentCheck, error) {
	q := s.db.NewSelect().Table("audit_records").Column("ref", "type", "score", "verdict", "at", "key_id").
		Where("account_id = ? AND kind = 'check'", accountID).Order("recorded_at DESC", "ref DESC").Limit(int64(limit))
	if before != "" {
		q = q.Where("(recorded_at, ref) < (SELECT recorded_at, ref FROM audit_records WHERE ref = ? AND account_id = ? LIMIT 1)", before, accountID)
	}
	var checks []RecentCheck
	if err := q.Scan(ctx, &checks); err != nil {
		return nil, fmt.Errorf("listing checks: %w", err)
	}
	return checks, nil
}
