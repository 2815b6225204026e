package console

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"assay/host/check"
	"assay/host/customer/decision"
	"assay/host/entity"
)

// maxPreviews is how many values an account may have explained in an hour, so that the playground cannot replace paid
// checks.
const maxPreviews = 30

// playgroundForm is what was entered in the playground, and its outcome.
type playgroundForm struct {
	Value, Country, Error string
	Type                  entity.Type
	Scoring               *decision.Scoring
	Bars                  []bar
}

func (c *Console) playground(ctx *fiber.Ctx, s *session) error {
	return c.showPlayground(ctx, s, &playgroundForm{})
}

func (c *Console) showPlayground(ctx *fiber.Ctx, s *session, form *playgroundForm) error {
	return c.render(ctx, "playground", s, view{"Title": "Playground", "Form": form, "Types": entity.Types(),
		"Limit": maxPreviews, "Errors": map[string]string{"value": form.Error}})
}

// preview shows what speaks for and against a value.
func (c *Console) preview(ctx *fiber.Ctx, s *session) error {
	form := &playgroundForm{Value: strings.TrimSpace(field(ctx, "value")), Country: field(ctx, "country"),
		Type: entity.Type(field(ctx, "type"))}
	work, cancel := pageContext()
	defer cancel()
	country, err := entity.Country(form.Country)
	var e entity.Entity
	if err == nil {
		e, err = entity.Parse(cmp.Or(form.Type, entity.Auto), form.Value, country)
	}
	if err == nil && !s.Plan.Covers(e.Type) {
		err = &check.PlanError{Plan: s.Plan.Name, Type: e.Type}
	}
	if err == nil {
		form.Scoring, err = c.limitedPreview(work, s, e)
	}
	var limited *pageError
	if errors.As(err, &limited) {
		ctx.Status(limited.status)
		form.Error = limited.text
	} else if form.Error, err = refusal(ctx, err); err != nil {
		return err
	}
	form.Bars = bars(form.Scoring)
	return c.showPlayground(ctx, s, form)
}

func (c *Console) limitedPreview(ctx context.Context, s *session, e entity.Entity) (*decision.Scoring, error) {
	resetAt, ok, err := c.cfg.Store.Take(ctx, "playground "+s.Account, netip.Prefix{}, maxPreviews, time.Hour)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, &pageError{fiber.StatusTooManyRequests, "You have used the playground " + count(maxPreviews) +
			" times within an hour. The next value is possible at " + resetAt.UTC().Format("15:04") + " UTC."}
	}
	return c.cfg.Explainer.Preview(ctx, s.Account, e)
}
