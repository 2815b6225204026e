package console

import (
	"context"
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
	var days []decision.Span
	hasDays := p.read("chart", func(work context.Context) (err error) {
		var drawn []decision.Span
		days, drawn, err = c.activity(work, s)
		if err == nil {
			v["Spans"], v["Total"], v["Chart"] = drawn, total(drawn), chart(drawn)
		}
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
		counted := max(used, sum.Checks())
		v["Counted"] = counted
		p.read("steps", func(work context.Context) (err error) {
			v["Steps"], err = c.firstSteps(work, s, counted, days)
			return err
		})
	}
	return p.render("overview", s, v)
}

// activity returns an account's checks on the last days, and the spans to draw: hours if all checks are from today and
// yesterday, because one or two bars say little.
func (c *Console) activity(work context.Context, s *session) (days, drawn []decision.Span, err error) {
	now := c.cfg.Now().UTC()
	today, until := now.Truncate(24*time.Hour), now.Add(time.Minute) // other hosts' clocks differ
	first, yesterday := today.AddDate(0, 0, 1-chartDays), today.AddDate(0, 0, -1)
	counts, err := c.cfg.Store.CountDays(work, s.holder(), first, until)
	if err != nil {
		return nil, nil, err
	}
	days = decision.Spans(counts, first, decision.Daily, chartDays)
	if total(days[:chartDays-2]).Checks() > 0 {
		return days, days, nil
	}
	counts, err = c.cfg.Store.CountHours(work, s.holder(), yesterday, until)
	return days, decision.Spans(counts, yesterday, decision.Hourly, 25+now.Hour()), err
}

// tryKeyed checks a value, counts it against the account's quota, and explains the score.
func (c *Console) tryKeyed(ctx *fiber.Ctx, s *session) error {
	form := &tryForm{Value: field(ctx, "value"), Type: entity.Type(field(ctx, "type"))}
	if form.Type == "" || form.Type == "auto" {
		form.Type = entity.Guess(form.Value)
	}
	if s.key == "" { // a checker treats callers without a key as the public endpoint's
		return check.ErrUnauthorized
	}
	decision, err := c.cfg.Checker.Check(work(ctx), check.Request{
		Caller: s.caller(), Fields: []check.Field{{Type: form.Type, Value: form.Value}}, Country: field(ctx, "country"),
	})
	if err := form.finish(ctx, decision, err); err != nil {
		return err
	}
	if decision != nil {
		e, err := entity.Parse(form.Type, form.Value, field(ctx, "country"))
		if err == nil {
			form.Explanation, err = c.cfg.Explainer.Explain(work(ctx), s.holder(), decision.Ref, e)
		}
		c.warn("a check is not explained", err)
	}
	return c.showOverview(ctx, s, form)
}
