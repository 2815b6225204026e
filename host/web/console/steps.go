package console

import (
	"context"
	"slices"
	"time"

	"assay/host/access/apikey"
	"assay/host/customer/decision"
)

// firstDays is how long a new account sees its first steps. An account without checks sees them longer.
const firstDays = 7 * 24 * time.Hour

// step is one of the things to do with a new account.
type step struct {
	Name, URL string
	Done      bool
	State     string // what is missing
}

// firstSteps returns the steps from a new account to a live one that are not done yet, or nothing once the account is
// no longer new. counted is the number of the account's checks, and days are the last ones. A key's last use does not
// show that a program used it, because the dashboard acts with the key too: checks on several days do.
func (c *Console) firstSteps(ctx context.Context, s *session, counted int, days []decision.Span) (
	[]step, error) {
	keys, err := c.cfg.Store.Keys(ctx, s.Account)
	if err != nil {
		return nil, err
	}
	endpoints, err := c.cfg.Store.Endpoints(ctx, s.Account)
	if err != nil {
		return nil, err
	}
	hasKey, isNew := false, true
	for _, k := range keys {
		isNew = isNew && c.cfg.Now().Sub(k.CreatedAt) < firstDays
		hasKey = hasKey || k.State == apikey.Valid && !k.Test
	}
	busy := 0
	for _, d := range days {
		busy += min(1, d.Checks())
	}
	hook := step{"Receive webhooks", webhooksPath, len(endpoints) > 0 && endpoints[0].Delivered > 0,
		"No URL is set yet. Every review and block will be posted to it."}
	if len(endpoints) > 0 {
		hook.State = "A URL is set, but nothing has been delivered yet. Send a test event."
	} else if !s.Plan.Webhooks {
		hook.URL, hook.State = "/dashboard/plan", "Optional: included in the "+plansWithWebhooks()+"."
	}
	open := slices.DeleteFunc([]step{
		{"Get a key", "/dashboard/keys", hasKey, noKeyText(keys)},
		{"Make the first check", "#value", counted > 0, "No checks yet. Try one on this page, or send one with curl."},
		hook,
		{"Go live", "/docs", busy >= 2,
			"Send checks from your program. This step is done once checks are counted on two days."},
	}, func(s step) bool { return s.Done })
	if counted > 0 && !isNew || len(open) == 1 && !s.Plan.Webhooks && !hook.Done {
		return nil, nil
	}
	return open, nil
}
