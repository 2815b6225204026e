package check

import (
	"slices"

	"assay/host/access/apikey"
	"assay/host/entity"
)

// Plan is what a subscription includes (contract section 8).
type Plan struct {
	Name     string        // free, starter, pro, or public for the endpoint without a key
	Quota    int           // checks of an account in a calendar month (UTC); 0 means no monthly quota
	Types    []entity.Type // entity types that can be checked
	Webhooks bool          // events for block and review verdicts
	Batch    bool          // batch checks
	Privacy  bool          // privacy endpoints
}

// Covers reports whether the plan includes checks of entities of type t.
func (p Plan) Covers(t entity.Type) bool { return slices.Contains(p.Types, t) }

// Plans returns the plans that customers can subscribe to, cheapest first (contract section 8).
func Plans() []Plan {
	all := entity.Types()
	return []Plan{
		{Name: "free", Quota: 50, Types: []entity.Type{entity.Domain, entity.Email}},
		{Name: "starter", Quota: 150, Types: all, Webhooks: true},
		{Name: "pro", Quota: 1500, Types: all, Webhooks: true, Batch: true, Privacy: true},
	}
}

// PublicPlan returns the plan of callers without a key: domains only, limited per address and hour instead of per
// month.
func PublicPlan() Plan { return Plan{Name: "public", Types: []entity.Type{entity.Domain}} }

// PlanNamed returns the plan with the given name, which may be the public plan, and whether it exists.
func PlanNamed(name string) (Plan, bool) {
	for _, p := range append(Plans(), PublicPlan()) {
		if p.Name == name {
			return p, true
		}
	}
	return Plan{}, false
}

// Caller identifies the customer who requests a check.
type Caller struct {
	Account string // acct_...
	Key     string // key_...; empty for the endpoint without a key
	Plan    Plan
	Limits  apikey.Limits // of the key
}
