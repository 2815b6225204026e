package check

import (
	"slices"

	"assay/host/entity"
)

// Plan is what a subscription covers (spec section 8).
type Plan struct {
	Name     string        // free, starter, pro; public for the no-key endpoint
	Quota    int           // checks a calendar month (UTC) of an account; 0 means not counted by month
	Types    []entity.Type // the entity types it may check
	Webhooks bool          // events on block and review
	Batch    bool          // up to 100 checks a call
	Privacy  bool          // the GDPR endpoints
}

// Covers says whether the plan may check entities of type t.
func (p Plan) Covers(t entity.Type) bool { return slices.Contains(p.Types, t) }

// Plans lists what can be subscribed to, cheapest first (spec section 8).
func Plans() []Plan {
	all := entity.Types()
	return []Plan{
		{Name: "free", Quota: 50, Types: []entity.Type{entity.Domain, entity.Email}},
		{Name: "starter", Quota: 150, Types: all, Webhooks: true},
		{Name: "pro", Quota: 1500, Types: all, Webhooks: true, Batch: true, Privacy: true},
	}
}

// PublicPlan is that of callers without a key: domains only, limited by the hour and address instead of the month.
func PublicPlan() Plan { return Plan{Name: "public", Types: []entity.Type{entity.Domain}} }

// PlanNamed returns the plan of that name, the public one included, and whether there is one.
func PlanNamed(name string) (Plan, bool) {
	for _, p := range append(Plans(), PublicPlan()) {
		if p.Name == name {
			return p, true
		}
	}
	return Plan{}, false
}

// Caller is who asks for a check.
type Caller struct {
	Account string // acct_...
	Key     string // key_..., empty on the no-key endpoint
	Plan    Plan
}
