package console

import (
	"errors"

	"github.com/gofiber/fiber/v2"

	"assay/host/billing"
	"assay/host/check"
	"assay/host/entity"
)

func (c *Console) landing(ctx *fiber.Ctx) error {
	s, err := c.current(ctx)
	if err != nil {
		return err
	}
	return c.render(ctx, "landing", s, view{"Title": "Fraud scores for domains, emails, phones and IBANs",
		"Offers": billing.Offers(), "Tried": view{}})
}

func (c *Console) docs(ctx *fiber.Ctx) error {
	s, err := c.current(ctx)
	if err != nil {
		return err
	}
	return c.render(ctx, "docs", s, view{"Title": "API documentation", "URL": c.url(ctx, ""),
		"Offers": billing.Offers(), "MaxBatch": check.MaxBatch})
}

// try checks a domain without a key, within the limit of the no-key endpoint.
func (c *Console) try(ctx *fiber.Ctx) error {
	tried := view{"Value": field(ctx, "domain")}
	w, cancel := work()
	defer cancel()
	resetAt, ok, err := c.cfg.Public.Take(w, c.cfg.Client(ctx.Context()))
	switch {
	case err != nil:
		return err
	case !ok:
		ctx.Status(fiber.StatusTooManyRequests)
		tried["Error"] = "You have used this hour's checks without a key. They start anew at " +
			resetAt.UTC().Format("15:04") + " UTC; a free key needs no card."
	default:
		d, err := c.cfg.Checker.Check(w, check.Request{
			Caller: c.cfg.Public.Caller(), Fields: []check.Field{{Type: entity.Domain, Value: field(ctx, "domain")}},
		})
		if err := c.judged(ctx, tried, d, err); err != nil {
			return err
		}
	}
	if partial(ctx, "tried") {
		return c.part(ctx, "tried", nil, tried)
	}
	s, err := c.current(ctx)
	if err != nil {
		return err
	}
	return c.render(ctx, "landing", s, view{"Title": "Fraud scores for domains, emails, phones and IBANs",
		"Offers": billing.Offers(), "Tried": tried})
}

// judged puts a decision into what is shown, or what is wrong with the request for it.
func (c *Console) judged(ctx *fiber.Ctx, tried view, d *check.Decision, err error) error {
	var (
		invalid *entity.InvalidError
		plan    *check.PlanError
		quota   *check.QuotaError
		none    check.NoFieldError
	)
	switch {
	case err == nil:
		tried["Decision"] = d
	case errors.As(err, &invalid):
		ctx.Status(fiber.StatusBadRequest)
		tried["Error"] = complaint(invalid)
	case errors.As(err, &none):
		ctx.Status(fiber.StatusBadRequest)
		tried["Error"] = "Enter a value to check."
	case errors.As(err, &plan):
		ctx.Status(fiber.StatusForbidden)
		tried["Error"] = "Sorry: " + plan.Error() + "."
	case errors.As(err, &quota):
		ctx.Status(fiber.StatusTooManyRequests)
		tried["Error"] = "Sorry: " + quota.Error() + "."
	case errors.Is(err, check.ErrOverloaded):
		ctx.Status(fiber.StatusServiceUnavailable)
		tried["Error"] = "We are busy. Try again in a second."
	default:
		return err
	}
	return nil
}

// fieldNames are what people call the fields that are not called by their own name.
var fieldNames = map[string]string{"iban": "IBAN", "region.country": "country", "ref": "check reference",
	"subject": "subject reference"}

// complaint says as a sentence what is wrong with a field.
func complaint(e *entity.InvalidError) string {
	name, ok := fieldNames[e.Field]
	if !ok {
		name = e.Field
	}
	return "The " + name + " " + e.Reason + "."
}
