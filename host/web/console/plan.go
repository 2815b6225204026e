package console

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/gofiber/fiber/v2"

	"assay/host/check"
	"assay/host/customer/billing"
	"assay/host/web/refusal"
)

// An account's limits in an hour: any change can end with a declined card, and all customers share the calls to the
// payment provider.
const maxPlanChanges, maxQuotes = 10, 60

// limited returns a page that an account may open limit times in an hour.
func (c *Console) limited(action string, limit int, page func(*fiber.Ctx, *session) error) func(*fiber.Ctx,
	*session) error {
	return func(ctx *fiber.Ctx, s *session) error {
		_, ok, err := c.cfg.Store.Take(work(ctx), action+s.Account, netip.Prefix{}, limit, time.Hour)
		if err == nil && !ok {
			err = refusal.Page(fiber.StatusTooManyRequests, "You have changed the plan too often. Wait an hour.")
		}
		if err != nil {
			return err
		}
		return page(ctx, s)
	}
}

func (c *Console) plan(ctx *fiber.Ctx, s *session) error {
	v := view{"Title": "Plan", "Offers": check.Plans(), "Note": notes[query(ctx, "note")],
		"Portal": c.cfg.Billing.HasPortal()}
	p := c.panels(ctx)
	p.read("subscription", func(work context.Context) error {
		sub, err := c.cfg.Store.Subscription(work, s.Account)
		if errors.Is(err, billing.ErrNotPaid) {
			return nil
		}
		v["Subscription"], v["Change"] = sub, sub.Status.Live()
		return err
	})
	v["Refunds"] = panel(p, "refunds", s.Account, c.cfg.Store.Refunds)
	v["Usage"] = panel(p, "usage", s.Account, c.cfg.Store.Usage)
	return p.render("plan", s, v)
}

// planChange shows what a change of plan costs and changes, before the customer confirms it.
func (c *Console) planChange(ctx *fiber.Ctx, s *session) error {
	return c.showQuote(ctx, s, query(ctx, "plan"), nil)
}

// showQuote shows the page that confirms a change of plan; unpaid is why that failed, or nil.
func (c *Console) showQuote(ctx *fiber.Ctx, s *session, plan string, unpaid *billing.UnpaidError) error {
	quote, err := c.cfg.Billing.Quote(work(ctx), s.Account, plan)
	if err != nil {
		return c.showPlanChange(ctx, "", err)
	}
	usage, err := c.cfg.Store.Usage(work(ctx), s.Account)
	if err != nil {
		return err
	}
	before, _ := billing.OfferOf(quote.Current.Plan)
	return c.render(ctx, "change", s, view{"Title": "Change plan", "Quote": quote, "Before": before, "Usage": usage,
		"Rows": []check.Plan{before, quote.Plan}, "Unpaid": unpaid, "Portal": c.cfg.Billing.HasPortal()})
}

// changePlan changes the plan as confirmed.
func (c *Console) changePlan(ctx *fiber.Ctx, s *session) error {
	plan := field(ctx, "plan")
	err := c.cfg.Billing.ChangePlan(work(ctx), s.Account, plan)
	if unpaid, ok := errors.AsType[*billing.UnpaidError](err); ok {
		ctx.Status(fiber.StatusPaymentRequired)
		return c.showQuote(ctx, s, plan, unpaid)
	}
	return c.showPlanChange(ctx, "changed", err)
}

func (c *Console) cancelPlan(ctx *fiber.Ctx, s *session) error {
	return c.showPlanChange(ctx, "cancelled", c.cfg.Billing.Cancel(work(ctx), s.Account))
}

// changePayment redirects to the provider's pages, where the customer changes the card: this host never sees the card's
// number.
func (c *Console) changePayment(ctx *fiber.Ctx, s *session) error {
	url, err := c.cfg.Billing.Portal(work(ctx), s.Account, c.url(ctx, "/dashboard/plan"))
	if err != nil {
		return c.showPlanChange(ctx, "", err)
	}
	return ctx.Redirect(url, fiber.StatusSeeOther)
}

// showPlanChange returns to the plan's page with a note, or shows the reason why the change failed.
func (c *Console) showPlanChange(ctx *fiber.Ctx, note string, err error) error {
	switch {
	case errors.Is(err, billing.ErrUnavailable):
		c.cfg.Logger.Error("subscription cannot be changed", "error", err)
		return refusal.Page(fiber.StatusServiceUnavailable, "Our payment provider did not respond. "+
			"If the change went through, it appears here within a minute; otherwise please try again.")
	case err != nil:
		return err
	}
	return ctx.Redirect("/dashboard/plan?note="+note, fiber.StatusSeeOther)
}
