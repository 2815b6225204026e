package check

import (
	"net/netip"
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
	Cents    int64         // price in euro cents a month; 0 for free (the contract sets no prices)
	Rate     int           // requests a minute of a key or, without one, of a network; ASSAY_RATES may set another
}

// Covers reports whether the plan includes checks of entities of type t.
func (p Plan) Covers(t entity.Type) bool { return slices.Contains(p.Types, t) }

// Plans returns the plans that customers can subscribe to, cheapest first (contract section 8). A new plan is a row
// here; CONTRIBUTING.md lists the other places that name plans.
func Plans() []Plan {
	all := entity.Types()
	return []Plan{
		{Name: "free", Quota: 50, Types: []entity.Type{entity.Domain, entity.Email}, Rate: 120},
		{Name: "starter", Quota: 150, Types: all, Webhooks: true, Cents: 19_00, Rate: 300},
		{Name: "pro", Quota: 1500, Types: all, Webhooks: true, Batch: true, Privacy: true, Cents: 99_00, Rate: 1200},
	}
}

// PlanNames returns the names of the plans that customers can subscribe to, cheapest first.
func PlanNames() []string {
	var names []string
	for _, p := range Plans() {
		names = append(names, p.Name)
	}
	return names
}

// PublicPlan returns the plan of callers without a key: domains only, limited per address and hour instead of per
// month.
func PublicPlan() Plan { return Plan{Name: "public", Types: []entity.Type{entity.Domain}, Rate: 120} }

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
	Network netip.Prefix  // of the client: a /24 or /48; the zero Prefix if it is unknown
}

// Share names the account or network whose turns the caller's checks take on a busy host. It is the account or, for a
// free key, its network, because anybody can open many free accounts. Callers without a key share the turns of one
// account, in which their networks take turns.
func (c Caller) Share() string {
	switch {
	case c.Plan.Cents > 0 || !c.Network.IsValid():
		return c.Account
	case c.Key == "":
		return c.Account + "|" + c.Network.String()
	}
	return "network " + c.Network.String()
}
