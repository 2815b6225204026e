package console

import (
	"errors"
	"time"

	"github.com/gofiber/fiber/v2"

	"assay/host/check"
	"assay/host/decision"
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
	work, cancel := pageContext()
	defer cancel()
	usage, err := c.cfg.Store.Usage(work, s.Account)
	if err != nil {
		return err
	}
	now := c.cfg.Now().UTC()
	first := now.Truncate(24*time.Hour).AddDate(0, 0, 1-chartDays)
	counts, err := c.cfg.Store.CountDays(work, s.holder(), first, now.Add(time.Minute)) // other hosts' clocks differ
	if err != nil {
		return err
	}
	days := decision.Days(counts, first, chartDays)
	recent, err := c.cfg.Store.SearchChecks(work, s.holder(), decision.Query{Limit: recentChecks})
	if err != nil {
		return err
	}
	sum := total(days)
	counted := max(usage.Used, sum.Allow+sum.Review+sum.Block)
	steps, err := c.firstSteps(work, s, counted, days)
	if err != nil {
		return err
	}
	return c.render(ctx, "overview", s, view{
		"Title": "Overview", "Usage": usage, "Days": days, "Total": sum, "Chart": chart(days),
		"Counted": counted, "Steps": steps,
		"Checks": recent.Checks, "Try": form, "Types": entity.Types(),
	})
}

// tryKeyed checks a value and counts it against the account's quota.
func (c *Console) tryKeyed(ctx *fiber.Ctx, s *session) error {
	form := &tryForm{Value: field(ctx, "value"), Type: entity.Type(field(ctx, "type"))}
	if form.Type == "" || form.Type == "auto" {
		form.Type = entity.Guess(form.Value)
	}
	work, cancel := pageContext()
	defer cancel()
	decision, err := c.cfg.Checker.Check(work, check.Request{
		Caller: s.caller(), Fields: []check.Field{{Type: form.Type, Value: form.Value}}, Country: field(ctx, "country"),
	})
	if errors.Is(err, check.ErrUnauthorized) {
		return errNoKey()
	}
	if err := form.finish(ctx, decision, err); err != nil {
		return err
	}
	return c.showOverview(ctx, s, form)
}
