package console

import (
	"errors"
	"strconv"
	"time"

	"github.com/gofiber/fiber/v2"

	"assay/host/webhook"
)

// warnAfter is how long a webhook has failed when its customer is warned: as long as an event's attempts take.
const warnAfter = time.Minute

func (c *Console) webhooks(ctx *fiber.Ctx, s *session) error { return c.showWebhooks(ctx, s, view{}) }

func (c *Console) showWebhooks(ctx *fiber.Ctx, s *session, v view) error {
	w, cancel := work()
	defer cancel()
	endpoints, err := c.cfg.Store.Endpoints(w, s.Account)
	if err != nil {
		return err
	}
	below, _ := strconv.ParseInt(query(ctx, "below"), 10, 64)
	state := query(ctx, "state")
	if state != "pending" && state != "delivered" && state != "failed" {
		state = ""
	}
	events, err := c.cfg.Store.RecentEvents(w, s.Account, state, below, listedEvents)
	if err != nil {
		return err
	}
	v["Title"], v["Events"], v["State"] = "Webhooks", events, state
	if below > 0 {
		v["Below"] = below
	}
	if len(endpoints) > 0 {
		e := endpoints[0]
		v["Endpoint"], v["Disabled"] = e, e.DisabledAt != nil
		if e.FailingSince != nil && c.cfg.Now().Sub(*e.FailingSince) >= warnAfter {
			v["DisabledFrom"] = e.FailingSince.Add(webhook.DisableAfter)
		}
	}
	if len(events) == listedEvents {
		v["Next"] = events[len(events)-1].Sequence
	}
	if v["Note"] == nil {
		v["Note"] = notes[query(ctx, "note")]
	}
	if partial(ctx, "events") {
		return c.part(ctx, "events", s, v)
	}
	return c.render(ctx, "webhooks", s, v)
}

// setEndpoint sets where events go. The first time, and only then, a secret is shown; later only the address moves.
func (c *Console) setEndpoint(ctx *fiber.Ctx, s *session) error {
	typed := field(ctx, "url")
	url, err := c.cfg.Webhook(typed)
	if err != nil {
		ctx.Status(fiber.StatusBadRequest)
		return c.showWebhooks(ctx, s, view{"Error": err.Error(), "Typed": typed})
	}
	w, cancel := work()
	defer cancel()
	err = c.cfg.Store.MoveEndpoint(w, s.Account, url)
	if err == nil {
		return ctx.Redirect("/dashboard/webhooks?note=moved", fiber.StatusSeeOther)
	}
	if !errors.Is(err, webhook.ErrNoEndpoint) {
		return err
	}
	secret, err := c.cfg.Store.SetEndpoint(w, s.Account, url)
	if errors.Is(err, webhook.ErrPlanWithoutWebhooks) {
		return &pageError{fiber.StatusForbidden, "Webhooks come with the Starter and Pro plans."}
	}
	if err != nil {
		return err
	}
	return c.showWebhooks(ctx, s, view{"Secret": secret})
}

func (c *Console) removeEndpoint(ctx *fiber.Ctx, s *session) error {
	w, cancel := work()
	defer cancel()
	if err := c.cfg.Store.RemoveEndpoint(w, s.Account); err != nil && !errors.Is(err, webhook.ErrNoEndpoint) {
		return err
	}
	return ctx.Redirect("/dashboard/webhooks?note=removed", fiber.StatusSeeOther)
}

func (c *Console) rotateSecret(ctx *fiber.Ctx, s *session) error {
	w, cancel := work()
	defer cancel()
	secret, err := c.cfg.Store.RotateSecret(w, s.Account, webhook.SecretOverlap)
	if errors.Is(err, webhook.ErrNoEndpoint) {
		return noEndpoint()
	}
	if err != nil {
		return err
	}
	return c.showWebhooks(ctx, s, view{"Secret": secret, "Rotated": true})
}

// enableEndpoint lets a webhook that failed for days get events again.
func (c *Console) enableEndpoint(ctx *fiber.Ctx, s *session) error {
	w, cancel := work()
	defer cancel()
	err := c.cfg.Store.EnableEndpoint(w, s.Account)
	if errors.Is(err, webhook.ErrNoEndpoint) {
		return noEndpoint()
	}
	if err != nil {
		return err
	}
	return ctx.Redirect("/dashboard/webhooks?note=enabled", fiber.StatusSeeOther)
}

func noEndpoint() error {
	return &pageError{fiber.StatusConflict, "There is no webhook: set its address first."}
}

func (c *Console) testEvent(ctx *fiber.Ctx, s *session) error {
	w, cancel := work()
	defer cancel()
	_, err := c.cfg.Store.SendTestEvent(w, s.Account)
	if errors.Is(err, webhook.ErrNoEndpoint) {
		return noEndpoint()
	}
	if err != nil {
		return err
	}
	return ctx.Redirect("/dashboard/webhooks?note=sent", fiber.StatusSeeOther)
}

func (c *Console) resendFailed(ctx *fiber.Ctx, s *session) error {
	since, err := time.Parse(time.DateOnly, field(ctx, "since"))
	if err != nil {
		ctx.Status(fiber.StatusBadRequest)
		return c.showWebhooks(ctx, s, view{"Error": "Since when? Give a date such as 2026-01-31."})
	}
	w, cancel := work()
	defer cancel()
	if _, _, err := c.cfg.Store.ResendFailed(w, s.Account, since); errors.Is(err, webhook.ErrNoEndpoint) {
		return noEndpoint()
	} else if errors.Is(err, webhook.ErrEndpointDisabled) {
		return &pageError{fiber.StatusConflict, sentence(webhook.ErrEndpointDisabled)}
	} else if err != nil {
		return err
	}
	return ctx.Redirect("/dashboard/webhooks?note=resentall", fiber.StatusSeeOther)
}

func (c *Console) event(ctx *fiber.Ctx, s *session) error {
	w, cancel := work()
	defer cancel()
	attempts, err := c.cfg.Store.Attempts(w, s.Account, ctx.Params("ref"))
	if err != nil {
		return err
	}
	return c.render(ctx, "event", s, view{"Title": "Webhook event", "Ref": ctx.Params("ref"), "Attempts": attempts})
}

func (c *Console) resend(ctx *fiber.Ctx, s *session) error {
	w, cancel := work()
	defer cancel()
	err := c.cfg.Store.ResendEvent(w, s.Account, ctx.Params("ref"))
	for _, reason := range []error{webhook.ErrPayloadGone, webhook.ErrEventPending, webhook.ErrEndpointDisabled} {
		if errors.Is(err, reason) {
			return &pageError{fiber.StatusConflict, sentence(reason)}
		}
	}
	if errors.Is(err, webhook.ErrNoEndpoint) {
		return noEndpoint()
	}
	if err != nil {
		return err
	}
	return ctx.Redirect("/dashboard/webhooks?note=resent", fiber.StatusSeeOther)
}
