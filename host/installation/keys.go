package installation

import (
	"context"

	"assay/host/access/apikey"
	"assay/host/check"
	"assay/host/store"
)

// Unlimited returns the Pro plan with more quota than any measurement uses.
func Unlimited() check.Plan {
	plan, _ := check.PlanNamed("pro")
	plan.Quota = 1_000_000_000
	return plan
}

// AccountOn returns accountID, or a new account on the plan if accountID is empty.
func AccountOn(ctx context.Context, s *store.Store, accountID string, plan check.Plan) (string, error) {
	if accountID != "" {
		return accountID, nil
	}
	return s.CreateAccount(ctx, plan)
}

// IssueKey creates an account with a key without limits.
func IssueKey(ctx context.Context, s *store.Store, plan check.Plan, name string) (apikey.Issued, error) {
	accountID, err := s.CreateAccount(ctx, plan)
	if err != nil {
		return apikey.Issued{}, err
	}
	return s.CreateKey(ctx, accountID, name)
}
