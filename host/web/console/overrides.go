package console

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"assay/host/check"
	"assay/host/customer/override"
	"assay/host/entity"
)

// overrideKinds are the kinds of overrides in the order of the form, as its labels.
var overrideKinds = []struct {
	Kind        override.Kind
	Label, Hint string
}{
	{override.Domain, "Domain", "this name only"},
	{override.Registrable, "Registrable domain", "with all names and mailboxes under it"},
	{override.Email, "Email address", "with any tag"},
	{override.Phone, "Phone number", "such as +49 30 1234567"},
	{override.Range, "Number range", "first digits, such as +49 30 1234"},
	{override.IBAN, "IBAN", "one account"},
	{override.Bank, "Bank", "country and bank code, such as DE37040044"},
}

// listedOverride is a row of the page.
type listedOverride struct {
	override.Listed
	Label string // of the kind
	By    string // the author, with the name of a key instead of its id
}

func (c *Console) showOverrides(ctx *fiber.Ctx, s *session, v view) error {
	p := c.panels(ctx)
	p.shown++ // the form for a new override
	list := panel(p, "overrides", s.Account, c.cfg.Store.Overrides)
	names := map[string]string{}
	for _, k := range panel(p, "keys", s.Account, c.cfg.Store.Keys) { // without them, ids are shown
		names[k.ID] = k.Name
	}
	rows := make([]listedOverride, 0, len(list))
	find := strings.ToLower(strings.TrimSpace(query(ctx, "find")))
	for _, o := range list {
		row := listedOverride{o, string(o.Kind), o.Author}
		if name, ok := names[o.Author]; ok {
			row.By = "key “" + name + "”"
		}
		for _, k := range overrideKinds {
			if k.Kind == o.Kind {
				row.Label = k.Label
			}
		}
		if o.ID == cmp.Or(query(ctx, "edit"), field(ctx, "edit")) {
			if v["Edit"] = row; v["Errors"] == nil {
				v["Action"], v["Reason"] = string(o.Action), o.Reason
				v["Until"] = o.ExpiresAt.Add(-time.Second).Format(time.DateOnly)
			}
		}
		text := strings.ToLower(strings.Join([]string{o.ID, o.Target, row.Label, row.By, o.Reason}, "\n"))
		if strings.Contains(text, find) {
			rows = append(rows, row)
		}
	}
	if find == "" {
		rows = paged(ctx, v, rows)
	}
	now := c.cfg.Now().UTC()
	v["Title"], v["Overrides"], v["Kinds"] = "Overrides", rows, overrideKinds
	v["Find"] = query(ctx, "find")
	v["First"], v["Last"] = now, now.Add(override.MaxAge-24*time.Hour)
	return p.render("overrides", s, v)
}

// addOverride adds an override. If the input is invalid, it shows the form again with the input.
func (c *Console) addOverride(ctx *fiber.Ctx, s *session) error {
	entered := view{"Action": field(ctx, "action"), "Kind": field(ctx, "kind"), "Value": field(ctx, "value"),
		"Reason": field(ctx, "reason"), "Until": field(ctx, "until"), "Author": field(ctx, "author")}
	wanted, err := readOverride(ctx)
	if err != nil {
		return c.showOverrideError(ctx, s, entered, err)
	}
	added, err := c.cfg.Store.AddOverride(work(ctx), s.caller(), wanted)
	if err != nil {
		return c.showOverrideError(ctx, s, entered, err)
	}
	if added.Replaced != "" {
		return c.note(ctx, s, "/dashboard/overrides",
			"The override is saved in place of the earlier one for the same value.")
	}
	return c.note(ctx, s, "/dashboard/overrides", "The override is saved. It takes effect within a second.")
}

func readOverride(ctx *fiber.Ctx) (w override.Wanted, err error) {
	kind := override.Kind(field(ctx, "kind"))
	w.Author = cmp.Or(strings.TrimSpace(field(ctx, "author")), "dashboard")
	if w.Edits = field(ctx, "edit"); w.Edits == "" && !slices.Contains(override.Kinds(), kind) {
		return w, &entity.InvalidError{Field: "kind", Reason: "is unknown"}
	}
	w.Action, w.Reason = check.Verdict(field(ctx, "action")), field(ctx, "reason")
	day, err := time.Parse(time.DateOnly, field(ctx, "until"))
	if err != nil {
		return w, &entity.InvalidError{Field: "expires_at", Reason: "must be a day such as 2026-01-31"}
	}
	w.ExpiresAt = day.AddDate(0, 0, 1) // the day is included
	if w.Edits == "" {
		w.Target, err = override.ParseTarget(kind, field(ctx, "value"), "")
	}
	return w, err
}

// showOverrideError shows the reason why an override could not be changed. It returns unexpected errors.
func (c *Console) showOverrideError(ctx *fiber.Ctx, s *session, v view, err error) error {
	var invalid *entity.InvalidError
	var tooMany override.TooManyError
	switch {
	case errors.As(err, &invalid):
		ctx.Status(fiber.StatusBadRequest)
		field := map[string]string{"kind": "kind", "action": "action", "reason": "reason", "author": "author",
			"expires_at": "until"}[invalid.Field] // else the error names the kind of value
		v["Errors"] = map[string]string{cmp.Or(field, "value"): describe(invalid)}
	case errors.As(err, &tooMany):
		ctx.Status(fiber.StatusConflict)
		v["Error"] = sentence(tooMany)
	case errors.Is(err, override.ErrUnknown):
		ctx.Status(fiber.StatusNotFound)
		v["Error"] = "The override was already removed."
	default:
		return err
	}
	return c.showOverrides(ctx, s, v)
}

func (c *Console) removeOverride(ctx *fiber.Ctx, s *session) error {
	if err := c.cfg.Store.RemoveOverride(work(ctx), s.caller(), ctx.Params("id")); err != nil {
		return c.showOverrideError(ctx, s, view{}, err)
	}
	return c.note(ctx, s, "/dashboard/overrides", "The override is removed. The layers decide again within a second.")
}
