package console

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/gofiber/fiber/v2"

	"assay/host/access/apikey"
	"assay/host/customer/billing"
)

// overlaps are the times that a rotated key can keep working.
var overlaps = []struct {
	Value, Label string
	Default      bool
}{{"0s", "at once", false}, {"1h", "in 1 hour", false}, {"24h", "in 24 hours", true}, {"168h", "in 7 days", false}}

// listedKey is a row of the page.
type listedKey struct {
	apikey.Key
	Limited string // a description of the limits; empty: none
}

// keyForm holds what was entered in the form for a new key.
type keyForm struct {
	Name, Networks, Until string
	Scopes                []string
	Test                  bool
}

// Has reports whether a scope is ticked.
func (f keyForm) Has(scope apikey.Scope) bool { return slices.Contains(f.Scopes, string(scope)) }

func (c *Console) showKeys(ctx *fiber.Ctx, s *session, v view) error {
	p := c.panels(ctx)
	p.shown++ // the form for a new key
	rows := []listedKey{}
	for _, k := range paged(ctx, v, panel(p, "keys", s.Account, c.cfg.Store.Keys)) {
		rows = append(rows, listedKey{k, describeLimits(k.Limits)})
	}
	v["Keys"] = rows
	if v["Form"] == nil {
		form := keyForm{}
		for _, scope := range apikey.Scopes() {
			form.Scopes = append(form.Scopes, string(scope))
		}
		v["Form"] = form
	}
	v["Title"] = "Keys"
	v["Scopes"], v["Overlaps"], v["Today"] = apikey.Scopes(), overlaps, c.cfg.Now()
	return p.render("keys", s, v)
}

func describeLimits(l apikey.Limits) string {
	var limits []string
	if l.Test {
		limits = append(limits, "test key")
	}
	if l.Scopes != nil {
		limits = append(limits, "only "+apikey.JoinScopes(l.Scopes))
	}
	if l.Networks != nil {
		limits = append(limits, "only from "+strings.Trim(fmt.Sprint(l.Networks), "[]"))
	}
	return strings.Join(limits, "; ")
}

func readKeyForm(ctx *fiber.Ctx) keyForm {
	f := keyForm{Name: field(ctx, "name"), Networks: field(ctx, "networks"), Until: field(ctx, "until"),
		Test: field(ctx, "test") != ""}
	for _, scope := range ctx.Request().PostArgs().PeekMulti("scope") {
		f.Scopes = append(f.Scopes, printable(scope))
	}
	return f
}

// wanted returns the key that the form describes. Otherwise it returns the errors by field.
func (f keyForm) wanted(now time.Time) (w apikey.Wanted, wrong map[string]string) {
	wrong = map[string]string{}
	var err error
	if w.Name, err = apikey.ParseName(f.Name); err != nil {
		wrong["name"] = sentence(err)
	}
	if w.Limits.Scopes, err = apikey.ParseScopes(f.Scopes); err != nil {
		wrong["scope"] = sentence(err)
	} else if len(w.Limits.Scopes) == 0 {
		wrong["scope"] = "Choose what the key may be used for."
	} else if len(w.Limits.Scopes) == len(apikey.Scopes()) {
		w.Limits.Scopes = nil // includes the scopes of later releases
	}
	networks := strings.FieldsFunc(f.Networks, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
	if w.Limits.Networks, err = apikey.ParseNetworks(networks); err != nil {
		wrong["networks"] = sentence(err)
	}
	if f.Until != "" {
		day, err := time.Parse(time.DateOnly, f.Until)
		if err != nil {
			wrong["until"] = "The last day must be a date such as 2026-01-31."
		} else if w.Lifetime, err = apikey.LifetimeUntil(day.AddDate(0, 0, 1), now); err != nil { // the day is included
			wrong["until"] = "The last day must not be in the past."
		}
	}
	w.Limits.Test = f.Test
	return w, wrong
}

func (c *Console) createKey(ctx *fiber.Ctx, s *session) error {
	form := readKeyForm(ctx)
	wanted, wrong := form.wanted(c.cfg.Now())
	if len(wrong) > 0 {
		ctx.Status(fiber.StatusBadRequest)
		return c.showKeys(ctx, s, view{"Form": form, "Errors": wrong})
	}
	issued, err := c.cfg.Store.IssueKey(work(ctx), s.Account, wanted)
	if err != nil {
		return c.showKeyError(ctx, s, err, view{"Form": form})
	}
	return c.show(ctx, s, "/dashboard/keys", shownOnce{Key: issued.Secret})
}

func (c *Console) rotateKey(ctx *fiber.Ctx, s *session) error {
	overlap := 24 * time.Hour
	for _, o := range overlaps {
		if o.Value == field(ctx, "overlap") {
			overlap, _ = time.ParseDuration(o.Value)
		}
	}
	issued, err := c.cfg.Store.RotateKey(work(ctx), s.Account, ctx.Params("id"), overlap)
	if err != nil {
		return c.showKeyError(ctx, s, err, view{})
	}
	return c.show(ctx, s, "/dashboard/keys", shownOnce{Key: issued.Secret})
}

func (c *Console) revokeKey(ctx *fiber.Ctx, s *session) error {
	if err := c.cfg.Store.RevokeAccountKey(work(ctx), s.Account, ctx.Params("id")); err != nil {
		return c.showKeyError(ctx, s, err, view{})
	}
	return c.note(ctx, s, "/dashboard/keys", "The key is revoked. It stops working within a second.")
}

// showKeyError shows the reason why a key could not be changed. It returns errors that the customer cannot fix.
func (c *Console) showKeyError(ctx *fiber.Ctx, s *session, err error, v view) error {
	for _, reason := range []error{billing.ErrSubscriptionEnded, apikey.ErrTooMany, apikey.ErrLast} {
		if errors.Is(err, reason) {
			ctx.Status(fiber.StatusConflict)
			v["Error"] = sentence(reason)
			return c.showKeys(ctx, s, v)
		}
	}
	return err
}
