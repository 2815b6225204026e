package console

import (
	"encoding/json"
	"errors"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gofiber/fiber/v2"

	"assay/host/apikey"
	"assay/host/billing"
	"assay/host/check"
	"assay/host/entity"
)

// How much the dashboard's lists show.
const (
	plottedDays  = 30
	listedChecks = 25
	listedEvents = 50
)

// notes are what a page may say after something was done, by the name in its address: text from an address is never
// shown.
var notes = map[string]string{
	"revoked":   "The key is revoked. Within a second no host takes it any more.",
	"removed":   "The webhook is removed. Events are no longer kept.",
	"sent":      "A test event is on its way.",
	"resent":    "The event is on its way again.",
	"resentall": "The failed events are on their way again, as far as they are still held.",
	"changed":   "Your plan has changed. Your keys stay as they are.",
	"cancelled": "Your subscription ends with what is paid for. Until then everything works on.",
	"resumed":   "Your subscription goes on.",
	"moved":     "The webhook's address is changed. Its secret stays.",
	"enabled":   "The webhook is enabled. Resend what failed meanwhile, as far as it is still held.",
}

func (c *Console) overview(ctx *fiber.Ctx, s *session) error {
	return c.showOverview(ctx, s, view{"CSRF": s.CSRF, "Types": entity.Types()})
}

func (c *Console) showOverview(ctx *fiber.Ctx, s *session, tried view) error {
	w, cancel := work()
	defer cancel()
	usage, err := c.cfg.Store.Usage(w, s.Account)
	if err != nil {
		return err
	}
	days, err := c.cfg.Store.DailyChecks(w, s.Account, plottedDays)
	if err != nil {
		return err
	}
	recent, err := c.cfg.Store.RecentChecks(w, s.Account, "", 10)
	if err != nil {
		return err
	}
	plot, err := json.Marshal(series(days))
	if err != nil {
		return err
	}
	v := view{"Title": "Overview", "Usage": usage, "Days": days, "Plot": string(plot), "Checks": recent, "Tried": tried}
	if partial(ctx, "tried") {
		v["Beside"] = true
		return c.part(ctx, "overview", s, v)
	}
	return c.render(ctx, "overview", s, v)
}

// series are the columns of a plot: days as Unix seconds, then counts by verdict.
func series(days []billing.DailyChecks) [4][]int64 {
	var s [4][]int64
	for _, d := range days {
		for i, n := range []int64{d.Date.Unix(), int64(d.Allow), int64(d.Review), int64(d.Block)} {
			s[i] = append(s[i], n)
		}
	}
	return s
}

// tryKeyed checks a value on the account's quota.
func (c *Console) tryKeyed(ctx *fiber.Ctx, s *session) error {
	kind, value := entity.Type(field(ctx, "type")), field(ctx, "value")
	if kind == "" || kind == "auto" {
		kind = entity.Guess(value)
	}
	tried := view{"Value": value, "Type": string(kind), "CSRF": s.CSRF, "Types": entity.Types()}
	w, cancel := work()
	defer cancel()
	d, err := c.cfg.Checker.Check(w, check.Request{
		Caller: check.Caller{Account: s.Account, Key: s.Key, Plan: s.Plan},
		Fields: []check.Field{{Type: kind, Value: value}}, Country: field(ctx, "country"),
	})
	if errors.Is(err, check.ErrUnauthorized) {
		return &pageError{fiber.StatusForbidden, "The key that you signed in with has ended."}
	}
	if err := c.judged(ctx, tried, d, err); err != nil {
		return err
	}
	return c.showOverview(ctx, s, tried)
}

func (c *Console) checks(ctx *fiber.Ctx, s *session) error {
	w, cancel := work()
	defer cancel()
	list, err := c.cfg.Store.RecentChecks(w, s.Account, query(ctx, "before"), listedChecks)
	if err != nil {
		return err
	}
	v := view{"Title": "Checks", "Checks": list, "Before": query(ctx, "before")}
	if len(list) == listedChecks {
		v["Next"] = list[len(list)-1].Ref
	}
	return c.render(ctx, "checks", s, v)
}

func (c *Console) keys(ctx *fiber.Ctx, s *session) error { return c.showKeys(ctx, s, view{}) }

func (c *Console) showKeys(ctx *fiber.Ctx, s *session, v view) error {
	w, cancel := work()
	defer cancel()
	list, err := c.cfg.Store.Keys(w, s.Account)
	if err != nil {
		return err
	}
	v["Title"], v["Keys"], v["Note"] = "Keys", list, notes[query(ctx, "note")]
	return c.render(ctx, "keys", s, v)
}

// What a customer may do with keys.
const (
	keyOverlap  = 24 * time.Hour // a rotated key works on
	longestName = 60             // characters
)

// keyName vets the name of a key. It is shown in lists and terminals, so it has no characters that act instead of being
// seen: controls, and marks that turn the direction of text.
func keyName(text string) (name string, ok bool) {
	name = strings.TrimSpace(text)
	seen := !strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) })
	return name, name != "" && seen && utf8.RuneCountInString(name) <= longestName
}

func (c *Console) createKey(ctx *fiber.Ctx, s *session) error {
	name, ok := keyName(field(ctx, "name"))
	if !ok {
		ctx.Status(fiber.StatusBadRequest)
		return c.showKeys(ctx, s, view{"Error": "name: it must have 1 to 60 visible characters, such as “production”.",
			"Typed": name})
	}
	w, cancel := work()
	defer cancel()
	issued, err := c.cfg.Store.CreateKey(w, s.Account, name)
	return c.keyed(ctx, s, err, view{"Issued": issued, "Typed": name})
}

func (c *Console) rotateKey(ctx *fiber.Ctx, s *session) error {
	w, cancel := work()
	defer cancel()
	issued, err := c.cfg.Store.RotateKey(w, s.Account, ctx.Params("id"), keyOverlap)
	return c.keyed(ctx, s, err, view{"Issued": issued})
}

// keyed shows a key that was issued, or why none was.
func (c *Console) keyed(ctx *fiber.Ctx, s *session, err error, v view) error {
	for _, reason := range []error{billing.ErrSubscriptionEnded, apikey.ErrTooMany, apikey.ErrLast} {
		if errors.Is(err, reason) {
			ctx.Status(fiber.StatusConflict)
			return c.showKeys(ctx, s, view{"Error": sentence(reason), "Typed": v["Typed"]})
		}
	}
	if err != nil {
		return err
	}
	delete(v, "Typed")
	return c.showKeys(ctx, s, v)
}

func (c *Console) revokeKey(ctx *fiber.Ctx, s *session) error {
	w, cancel := work()
	defer cancel()
	if err := c.cfg.Store.RevokeAccountKey(w, s.Account, ctx.Params("id")); err != nil {
		return c.keyed(ctx, s, err, view{})
	}
	if ctx.Params("id") == s.Key {
		c.dropCookie(ctx, "session")
		return ctx.Redirect("/signin", fiber.StatusSeeOther)
	}
	return ctx.Redirect("/dashboard/keys?note=revoked", fiber.StatusSeeOther)
}

func (c *Console) plan(ctx *fiber.Ctx, s *session) error {
	w, cancel := work()
	defer cancel()
	v := view{"Title": "Plan", "Offers": billing.Offers(), "Note": notes[query(ctx, "note")],
		"Portal": c.cfg.Billing.HasPortal()}
	sub, err := c.cfg.Store.Subscription(w, s.Account)
	if err != nil && !errors.Is(err, billing.ErrNotPaid) {
		return err
	}
	if err == nil {
		v["Subscription"] = sub
	}
	if v["Usage"], err = c.cfg.Store.Usage(w, s.Account); err != nil {
		return err
	}
	return c.render(ctx, "plan", s, v)
}

func (c *Console) changePlan(ctx *fiber.Ctx, s *session) error {
	w, cancel := work()
	defer cancel()
	return c.billed(ctx, "changed", c.cfg.Billing.ChangePlan(w, s.Account, field(ctx, "plan")))
}

func (c *Console) cancelPlan(ctx *fiber.Ctx, s *session) error {
	w, cancel := work()
	defer cancel()
	return c.billed(ctx, "cancelled", c.cfg.Billing.Cancel(w, s.Account))
}

func (c *Console) resumePlan(ctx *fiber.Ctx, s *session) error {
	w, cancel := work()
	defer cancel()
	return c.billed(ctx, "resumed", c.cfg.Billing.Resume(w, s.Account))
}

// changePayment leads to the provider's pages, where the card is changed: none is typed here.
func (c *Console) changePayment(ctx *fiber.Ctx, s *session) error {
	w, cancel := work()
	defer cancel()
	url, err := c.cfg.Billing.Portal(w, s.Account, c.url(ctx, "/dashboard/plan"))
	if err != nil {
		return c.billed(ctx, "", err)
	}
	return ctx.Redirect(url, fiber.StatusSeeOther)
}

// billed goes back to the plan's page, or says why a change could not be made.
func (c *Console) billed(ctx *fiber.Ctx, note string, err error) error {
	switch {
	case errors.Is(err, billing.ErrNoPlan):
		return &pageError{fiber.StatusBadRequest, "There is no such plan to change to."}
	case errors.Is(err, billing.ErrNotPaid):
		return &pageError{fiber.StatusConflict, "There is no subscription to change: choose a plan first."}
	case errors.Is(err, billing.ErrUnavailable):
		c.cfg.Logger.Error("subscription cannot be changed", "error", err)
		return &pageError{fiber.StatusServiceUnavailable,
			"Our payment provider did not answer. If the change went through, it shows here in a minute; otherwise please try again."}
	case err != nil:
		return err
	}
	return ctx.Redirect("/dashboard/plan?note="+note, fiber.StatusSeeOther)
}
