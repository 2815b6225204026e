package console

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/gofiber/fiber/v2"

	"assay/host/access/apikey"
	"assay/host/check"
	"assay/host/customer/decision"
	"assay/host/entity"
)

// Lengths of the dashboard's lists.
const (
	chartDays     = 30
	recentChecks  = 10
	checksPerPage = 25
)

func (c *Console) overview(ctx *fiber.Ctx, s *session) error {
	return c.showOverview(ctx, s, &tryForm{})
}

func (c *Console) showOverview(ctx *fiber.Ctx, s *session, form *tryForm) error {
	p, v := c.panels(ctx), view{"Title": "Overview", "Try": form, "Types": entity.Types()}
	used := 0
	hasUsage := p.read("usage", func(work context.Context) error {
		usage, err := c.cfg.Store.Usage(work, s.Account)
		v["Usage"], used = usage, usage.Used
		return err
	})
	var days []decision.Day
	hasDays := p.read("chart", func(work context.Context) error {
		now := c.cfg.Now().UTC()
		first := now.Truncate(24*time.Hour).AddDate(0, 0, 1-chartDays)
		until := now.Add(time.Minute) // other hosts' clocks differ
		counts, err := c.cfg.Store.CountDays(work, s.holder(), first, until)
		days = decision.Days(counts, first, chartDays)
		v["Days"], v["Total"], v["Chart"] = days, total(days), chart(days)
		return err
	})
	p.read("recent", func(work context.Context) error {
		recent, err := c.cfg.Store.SearchChecks(work, s.holder(), decision.Query{Limit: recentChecks})
		if err == nil {
			v["Checks"] = recent.Checks
		}
		return err
	})
	if endpoints := panel(p, "endpoint", s.Account, c.cfg.Store.Endpoints); len(endpoints) > 0 {
		v["Endpoint"] = endpoints[0]
	}
	if sum := total(days); hasUsage && hasDays {
		counted := max(used, sum.Allow+sum.Review+sum.Block)
		v["Counted"] = counted
		p.read("steps", func(work context.Context) (err error) {
			v["Steps"], err = c.firstSteps(work, s, counted, days)
			return err
		})
	}
	return p.render("overview", s, v)
}

// tryKeyed checks a value, counts it against the account's quota, and explains the score.
func (c *Console) tryKeyed(ctx *fiber.Ctx, s *session) error {
	form := &tryForm{Value: field(ctx, "value"), Type: entity.Type(field(ctx, "type"))}
	if form.Type == "" || form.Type == "auto" {
		form.Type = entity.Guess(form.Value)
	}
	decision, err := c.cfg.Checker.Check(work(ctx), check.Request{
		Caller: s.caller(), Fields: []check.Field{{Type: form.Type, Value: form.Value}}, Country: field(ctx, "country"),
	})
	if errors.Is(err, check.ErrUnauthorized) {
		return errNoKey
	}
	if err := form.finish(ctx, decision, err); err != nil {
		return err
	}
	if decision != nil {
		country, _ := entity.Country(field(ctx, "country"))
		e, err := entity.Parse(form.Type, form.Value, country)
		if err == nil {
			form.Explanation, err = c.cfg.Explainer.Explain(work(ctx), s.holder(), decision.Ref, e)
		}
		c.warn("a check is not explained", err)
	}
	return c.showOverview(ctx, s, form)
}

// firstDays is how long a new account sees its first steps, and without a check even longer.
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
	hasKey, isNew := false, true
	for _, k := range keys {
		isNew = isNew && c.cfg.Now().Sub(k.CreatedAt) < firstDays
		hasKey = hasKey || k.State == apikey.Valid && !k.Test
	}
	busy := 0
	for _, d := range days {
		busy += min(1, d.Allow+d.Review+d.Block)
	}
	hook := step{"Receive webhooks", webhooksPath, len(endpoints) > 0 && endpoints[0].Delivered > 0,
		"No URL is set yet. Every review and block will be posted to it."}
	if len(endpoints) > 0 {
		hook.State = "A URL is set, but nothing has been delivered yet. Send a test event."
	} else if !s.Plan.Webhooks {
		hook.URL, hook.State = "/dashboard/plan", "Optional: included in the "+plansWithWebhooks()+"."
	}
	open := slices.DeleteFunc([]step{
		{"Get a key", "/dashboard/keys", hasKey, "This account has no working key. Create one."},
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
