package check

import (
	"sync"
	"time"
)

// spentQuotas remembers which accounts the ledger has refused because of their quota, so that their further checks need
// neither lookups nor layers. Only the ledger decides: its answer counts for a second, and only while the account's
// plan, quota and month are the same. The zero value is ready for use.
type spentQuotas struct {
	mu       sync.Mutex
	accounts map[string]spentQuota
}

// spentQuota is an answer of the ledger.
type spentQuota struct {
	plan     string
	quota    int // of the caller's plan
	answer   QuotaError
	answered time.Time
}

const (
	spentTime   = time.Second
	maxAccounts = 10_000 // if there are more, all are forgotten
)

// Spent returns a *QuotaError if the ledger has just refused the account's checks because of its quota, and would
// refuse the next one too.
func (c *Checker) Spent(caller Caller) error {
	if caller.Limits.Test {
		return nil
	}
	return c.spent.refusal(caller, 1, c.Now())
}

// remember keeps the ledger's answer to a caller.
func (s *spentQuotas) remember(c Caller, answer *QuotaError, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.accounts == nil || len(s.accounts) >= maxAccounts {
		s.accounts = map[string]spentQuota{}
	}
	s.accounts[c.Account] = spentQuota{plan: c.Plan.Name, quota: c.Plan.Quota, answer: *answer, answered: now}
}

// refusal returns a *QuotaError if the ledger has just answered that fewer than n checks are left.
func (s *spentQuotas) refusal(c Caller, n int, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	spent, ok := s.accounts[c.Account]
	if !ok {
		return nil
	}
	age := now.Sub(spent.answered)
	current := spent.plan == c.Plan.Name && spent.quota == c.Plan.Quota && 0 <= age && age < spentTime &&
		nextMonth(now).Equal(spent.answer.ResetAt)
	if !current || n <= spent.answer.Left {
		return nil
	}
	answer := spent.answer
	answer.Needed = n
	return &answer
}

// nextMonth returns the first instant of the calendar month after t, in UTC.
func nextMonth(t time.Time) time.Time {
	year, month, _ := t.UTC().Date()
	return time.Date(year, month+1, 1, 0, 0, 0, 0, time.UTC)
}
