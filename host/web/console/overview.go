package console

import (
	"context"
	"errors"
	"time"

	"github.com/gofiber/fiber/v2"

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
