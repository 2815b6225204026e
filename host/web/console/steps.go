package console

import (
	"context"
	"fmt"
	"time"

	"assay/host/access/apikey"
	"assay/host/customer/decision"
)

// firstDays is how long a new account sees its first steps. After its first check they end earlier, once all are done.
const firstDays = 7 * 24 * time.Hour

// step is one of the things to do with a new account.
type step struct {
	Name, URL string
	Done      bool
	State     string // what is stored about it
}

// firstSteps returns the steps from a new account to a live one, or nothing once they are done or the account is no
// longer new. counted is the number of the account's checks, and days are the last ones. A key's last use does not show
// that a program used it, because the dashboard acts with the key too: checks on several days do.
func (c *Console) firstSteps(ctx context.Context, s *session, counted int, days []decision.Day) (
	[]step, error) {
	keys, err := c.cfg.Store.Keys(ctx, s.Account)
	if err != nil {
		return nil, err
	}
	endpoints, err := c.cfg.Store.Endpoints(ctx, s.Account)
	if err != nil {
		return nil, err
	}
	key := step{Name: "Get a key", URL: "/dashboard/keys", State: "This account has no working key. Create one."}
	live := step{Name: "Go live", URL: "/docs", State: "Send checks from your program. This step is done " +
		"once checks are counted on two days."}
	isNew := true
	for _, k := range keys {
		isNew = isNew && c.cfg.Now().Sub(k.CreatedAt) < firstDays
		if k.State == apikey.Valid && !k.Test && !key.Done {
			key.Done, key.State = true, k.Hint+" works. Your program sends it with each request."
		}
	}
	busy := 0
	for _, d := range days {
		busy += min(1, d.Allow+d.Review+d.Block)
	}
	if busy >= 2 {
		live.Done, live.State = true, fmt.Sprintf("Checks were counted on %d of the last %d days.", busy, len(days))
	}
	first := step{Name: "Make the first check", URL: "#value", Done: counted > 0,
		State: "No checks yet. Try one on this page, or send one with curl."}
	if first.Done {
		first.State = fmt.Sprintf("%s %s counted.", count(counted), plural(counted, "check"))
	}
	hook := step{Name: "Receive webhooks", URL: "/dashboard/webhooks", Done: len(endpoints) > 0,
		State: "No URL is set yet. Every review and block will be posted to it."}
	switch {
	case hook.Done && endpoints[0].Delivered == 0:
		hook.State = "A URL is set, but nothing has been delivered yet. Send a test event."
	case hook.Done:
		hook.State = fmt.Sprintf("%s %s delivered.", count(endpoints[0].Delivered),
			plural(endpoints[0].Delivered, "event"))
	case !s.Plan.Webhooks:
		hook.URL, hook.State = "/dashboard/plan", "Optional: included in the "+plansWithWebhooks()+"."
	}
	done := key.Done && first.Done && live.Done && (hook.Done || !s.Plan.Webhooks)
	if done || first.Done && !isNew {
		return nil, nil
	}
	return []step{key, first, hook, live}, nil
}
