package console

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/gofiber/fiber/v2"

	"assay/host/access/admission"
	"assay/host/check"
	"assay/host/customer/decision"
	"assay/host/entity"
	"assay/host/internal/internet"
	"assay/host/web/refusal"
)

func (c *Console) landing(ctx *fiber.Ctx) error { return c.showLanding(ctx, &tryForm{}) }

func (c *Console) showLanding(ctx *fiber.Ctx, form *tryForm) error {
	return c.renderFor(ctx, "landing", view{"Title": "Fraud scores for domains, emails, phones and IBANs",
		"Offers": check.Plans(), "Try": form, "URL": c.url(ctx, "")})
}

// try checks a domain without a key, within the limit of the endpoint without a key.
func (c *Console) try(ctx *fiber.Ctx) error {
	form := &tryForm{Value: field(ctx, "domain"), Type: entity.Domain}
	request := check.Request{Caller: c.cfg.Public.Caller(),
		Fields: []check.Field{{Type: form.Type, Value: form.Value}}}
	request.Caller.Network = internet.Network(c.cfg.Client(ctx.Context()))
	if invalid := request.Validate(); invalid != nil { // which uses up nothing
		if err := form.finish(ctx, nil, invalid); err != nil {
			return err
		}
		return c.showLanding(ctx, form)
	}
	resetAt, ok, err := c.cfg.Public.Take(work(ctx), c.cfg.Client(ctx.Context()))
	switch {
	case errors.As(err, new(*admission.RateError)):
		form.Error = "Too many visitors are trying checks at the moment. Try again in a minute. " +
			"A free key needs no card."
	case err != nil:
		return err
	case !ok:
		form.Error = "You have used all of this hour's checks without a key. The next one is possible at " +
			resetAt.UTC().Format("15:04") + " UTC. A free key needs no card."
	}
	if form.Error != "" {
		ctx.Status(fiber.StatusTooManyRequests)
		return c.showLanding(ctx, form)
	}
	decision, err := c.cfg.Checker.Check(work(ctx), request)
	if refusal.Of(err).Retry() {
		if failed := c.cfg.Public.GiveBack(work(ctx), c.cfg.Client(ctx.Context())); failed != nil {
			c.cfg.Logger.Warn("a check was refused, and its use without a key stays counted", "error", failed)
		}
	}
	if err := form.finish(ctx, decision, err); err != nil {
		return err
	}
	return c.showLanding(ctx, form)
}

// tryForm is a form to try a check, as submitted, and its outcome.
type tryForm struct {
	Value                 string
	Type                  entity.Type
	Decision              *check.Decision // nil: nothing was checked
	Error                 string          // shown to the customer
	*decision.Explanation                 // nil: it is not explained
}

// finish sets the outcome of the check and the status of the response. It returns unexpected errors.
func (f *tryForm) finish(ctx *fiber.Ctx, d *check.Decision, err error) error {
	if err == nil {
		f.Decision = d
	}
	f.Error, err = refused(ctx, err)
	return err
}

// refused sets the status of the response for an error that the customer can act on, and returns the sentence that
// explains it. It returns other errors.
func refused(ctx *fiber.Ctx, err error) (text string, unexpected error) {
	if err == nil {
		return "", nil
	}
	r := refusal.Of(err)
	if r == nil || r.Status == fiber.StatusNotFound || r.Status == fiber.StatusUnauthorized {
		return "", err
	}
	ctx.Status(r.Status)
	return textOf(err), nil
}

// textOf returns the sentence about an error that is a refusal.
func textOf(err error) string {
	var invalid *entity.InvalidError
	var fast *admission.RateError
	r := refusal.Of(err)
	switch {
	case errors.As(err, &fast):
		return fmt.Sprintf("Your account sends forms faster than %d a minute. Nothing was changed. Try again in %d s.",
			fast.Rate.PerMinute, 1+time.Until(fast.Until)/time.Second)
	case errors.As(err, &invalid):
		return describe(invalid)
	case r.Code == refusal.NoField:
		return "The value is empty. Enter a value to check."
	case r.Retry():
		return "The server is busy. Try again in a second."
	}
	return sentence(r)
}

// fieldNames are the names on the pages of fields whose API name differs.
var fieldNames = map[string]string{
	"iban": "IBAN", "region.country": "country", "ref": "check reference", "subject": "subject reference",
	"registrable_domain": "registrable domain", "number_range": "number range", "expires_at": "last day",
	"from": "first day", "until": "last day", "after": "page",
}

// describe returns the sentence that explains an invalid field.
func describe(e *entity.InvalidError) string {
	return "The " + cmp.Or(fieldNames[e.Field], e.Field) + " " + e.Reason + "."
}
