package console

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"assay/host/check"
	"assay/host/customer/webhook"
	"assay/host/web/refusal"
)

const (
	webhooksPath  = "/dashboard/webhooks"
	eventsPerPage = 50
)

// warnAfter is how long a webhook must have failed before the page warns: about as long as the attempts of one event
// take.
const warnAfter = time.Minute

func (c *Console) routeWebhooks() {
	post := func(path string, form func(*fiber.Ctx, *session) error) {
		c.signedIn(fiber.MethodPost, webhooksPath+path, form)
	}
	c.signedIn(fiber.MethodGet, webhooksPath, plain(c.showWebhooks))
	post("", c.setEndpoint)
	post("/remove", c.proved(c.then(webhooksPath, "The webhook is removed. New checks create no events.",
		func(ctx *fiber.Ctx, s *session) error {
			err := c.cfg.Store.RemoveEndpoint(work(ctx), s.Account)
			if errors.Is(err, webhook.ErrNoEndpoint) {
				return nil
			}
			return err
		})))
	post("/secret", c.proved(c.rotateSecret))
	post("/secret/switch", c.proved(c.then(webhooksPath,
		"The new secret signs from now on, and the old one no longer does.",
		func(ctx *fiber.Ctx, s *session) error { return c.cfg.Store.SwitchSecret(work(ctx), s.Account) })))
	post("/test", c.sendTestEvent)
	post("/enable", c.then(webhooksPath,
		"The webhook is enabled. You can now resend events that failed, as long as their content is kept.",
		func(ctx *fiber.Ctx, s *session) error { return c.cfg.Store.EnableEndpoint(work(ctx), s.Account) }))
	post("/resend", c.resendFailed)
	c.signedIn(fiber.MethodGet, webhooksPath+"/:ref", c.event)
	post("/:ref/resend", c.then(webhooksPath, "The event is on its way again.",
		func(ctx *fiber.Ctx, s *session) error {
			return c.cfg.Store.ResendEvent(work(ctx), s.Account, ctx.Params("ref"))
		}))
}

func (c *Console) showWebhooks(ctx *fiber.Ctx, s *session, v view) error {
	p := c.panels(ctx)
	endpoints := panel(p, "endpoint", s.Account, c.cfg.Store.Endpoints)
	below, _ := strconv.ParseInt(query(ctx, "below"), 10, 64)
	state := query(ctx, "state")
	if state != "pending" && state != "delivered" && state != "failed" {
		state = ""
	}
	var events []webhook.Event
	p.read("events", func(work context.Context) (err error) {
		events, err = c.cfg.Store.RecentEvents(work, s.Account, state, below, eventsPerPage)
		return err
	})
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
	if len(events) == eventsPerPage {
		v["Next"] = events[len(events)-1].Sequence
	}
	return p.render("webhooks", s, v)
}

// setEndpoint sets the webhook's URL. The first time it also creates the secret and shows it.
func (c *Console) setEndpoint(ctx *fiber.Ctx, s *session) error {
	entered := field(ctx, "url")
	url, err := c.cfg.Webhook(entered)
	if err != nil {
		ctx.Status(fiber.StatusBadRequest)
		return c.showWebhooks(ctx, s, view{
			"Errors":     map[string]string{"url": "Webhook URL: " + strings.TrimPrefix(err.Error(), "url: ")},
			"EnteredURL": entered,
		})
	}
	err = c.cfg.Store.MoveEndpoint(work(ctx), s.Account, url)
	if err == nil {
		return c.note(ctx, s, webhooksPath, "The webhook's URL has changed. Its secret stays the same.")
	}
	if !errors.Is(err, webhook.ErrNoEndpoint) {
		return err
	}
	secret, err := c.cfg.Store.SetEndpoint(work(ctx), s.Account, url)
	if errors.Is(err, webhook.ErrPlanWithoutWebhooks) {
		return refusal.Page(fiber.StatusForbidden, "Webhooks are included in the "+plansWithWebhooks()+".")
	}
	if err != nil {
		return err
	}
	return c.show(ctx, s, webhooksPath, shownOnce{Secret: secret})
}

// rotateSecret creates a new secret, which begins to sign in a day, or now if the owner wants that.
func (c *Console) rotateSecret(ctx *fiber.Ctx, s *session) error {
	once := shownOnce{}
	switchIn := webhook.SecretOverlap
	if field(ctx, "switch") == "now" {
		switchIn = 0
	} else {
		once.SwitchAt = new(c.cfg.Now().Add(switchIn))
	}
	var err error
	if once.Secret, err = c.cfg.Store.RotateSecret(work(ctx), s.Account, switchIn); err != nil {
		return err
	}
	return c.show(ctx, s, webhooksPath, once)
}

func (c *Console) sendTestEvent(ctx *fiber.Ctx, s *session) error {
	verdict := check.Verdict(cmp.Or(field(ctx, "verdict"), string(check.Review)))
	_, err := c.cfg.Store.SendTestEvent(work(ctx), s.Account, verdict)
	if errors.Is(err, webhook.ErrTestVerdict) {
		ctx.Status(fiber.StatusBadRequest)
		return c.showWebhooks(ctx, s, view{"Errors": map[string]string{"verdict": sentence(err)}})
	}
	if err != nil {
		return err
	}
	return c.note(ctx, s, webhooksPath, "A test event is on its way.")
}

func (c *Console) resendFailed(ctx *fiber.Ctx, s *session) error {
	since, err := time.Parse(time.DateOnly, field(ctx, "since"))
	if field(ctx, "since") == "" { // all that are kept
		since, err = time.Time{}, nil
	}
	if err != nil || since.Year() < 1 { // which the database cannot compare
		ctx.Status(fiber.StatusBadRequest)
		return c.showWebhooks(ctx, s,
			view{"Errors": map[string]string{"since": "The day must be a date such as 2026-01-31."}})
	}
	if _, _, err := c.cfg.Store.ResendFailed(work(ctx), s.Account, since); err != nil {
		return err
	}
	return c.note(ctx, s, webhooksPath,
		"The failed events are on their way again, except those whose content was already deleted.")
}

func (c *Console) event(ctx *fiber.Ctx, s *session) error {
	attempts, err := c.cfg.Store.Attempts(work(ctx), s.Account, ctx.Params("ref"))
	if err != nil {
		return err
	}
	v := view{"Title": "Webhook event", "Ref": ctx.Params("ref"), "Attempts": attempts}
	for _, a := range attempts {
		if a.Request.Body != "" {
			v["Payload"] = indented(a.Request.Body)
		}
	}
	return c.render(ctx, "event", s, v)
}

// indented returns JSON on several lines. Other texts are returned as they are.
func indented(text string) string {
	var b bytes.Buffer
	if err := json.Indent(&b, []byte(text), "", "  "); err != nil {
		return text
	}
	return b.String()
}

func plansWithWebhooks() string {
	return plansWith(check.Plans(), func(p check.Plan) bool { return p.Webhooks })
}

// plansWith names the plans that include something, such as "Starter and Pro plans".
func plansWith(plans []check.Plan, included func(check.Plan) bool) string {
	var names []string
	for _, p := range plans {
		if included(p) {
			names = append(names, capitalize(p.Name))
		}
	}
	text := strings.Join(names, ", ")
	if last := strings.LastIndex(text, ", "); last >= 0 {
		text = text[:last] + " and " + text[last+2:]
	}
	return text + " " + plural(len(names), "plan")
}
