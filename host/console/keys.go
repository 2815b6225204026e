package console

import (
	"errors"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gofiber/fiber/v2"

	"assay/host/apikey"
	"assay/host/billing"
)

const (
	keyOverlap = 24 * time.Hour // how long a rotated key keeps working
	maxKeyName = 60             // characters
)

func (c *Console) keys(ctx *fiber.Ctx, s *session) error { return c.showKeys(ctx, s, view{}) }

func (c *Console) showKeys(ctx *fiber.Ctx, s *session, v view) error {
	work, cancel := pageContext()
	defer cancel()
	list, err := c.cfg.Store.Keys(work, s.Account)
	if err != nil {
		return err
	}
	v["Title"], v["Keys"], v["Note"] = "Keys", list, notes[query(ctx, "note")]
	return c.render(ctx, "keys", s, v)
}

// parseKeyName trims the name of a key. Names appear in lists and terminals, so control characters and marks that
// change the direction of text are rejected.
func parseKeyName(text string) (name string, ok bool) {
	name = strings.TrimSpace(text)
	printable := !strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) })
	return name, name != "" && printable && utf8.RuneCountInString(name) <= maxKeyName
}

func (c *Console) createKey(ctx *fiber.Ctx, s *session) error {
	name, ok := parseKeyName(field(ctx, "name"))
	if !ok {
		ctx.Status(fiber.StatusBadRequest)
		return c.showKeys(ctx, s, view{
			"Error": "The name must have 1 to 60 visible characters, such as “production”.", "Name": name,
		})
	}
	work, cancel := pageContext()
	defer cancel()
	issued, err := c.cfg.Store.CreateKey(work, s.Account, name)
	if err != nil {
		return c.showKeyError(ctx, s, err, name)
	}
	return c.showKeys(ctx, s, view{"Issued": issued})
}

func (c *Console) rotateKey(ctx *fiber.Ctx, s *session) error {
	work, cancel := pageContext()
	defer cancel()
	issued, err := c.cfg.Store.RotateKey(work, s.Account, ctx.Params("id"), keyOverlap)
	if err != nil {
		return c.showKeyError(ctx, s, err, "")
	}
	return c.showKeys(ctx, s, view{"Issued": issued})
}

func (c *Console) revokeKey(ctx *fiber.Ctx, s *session) error {
	work, cancel := pageContext()
	defer cancel()
	if err := c.cfg.Store.RevokeAccountKey(work, s.Account, ctx.Params("id")); err != nil {
		return c.showKeyError(ctx, s, err, "")
	}
	if ctx.Params("id") == s.Key {
		c.dropCookie(ctx, "session")
		return ctx.Redirect("/signin", fiber.StatusSeeOther)
	}
	return ctx.Redirect("/dashboard/keys?note=revoked", fiber.StatusSeeOther)
}

// showKeyError shows the reason why a key could not be changed. It returns errors that are not the customer's to fix.
func (c *Console) showKeyError(ctx *fiber.Ctx, s *session, err error, name string) error {
	for _, reason := range []error{billing.ErrSubscriptionEnded, apikey.ErrTooMany, apikey.ErrLast} {
		if errors.Is(err, reason) {
			ctx.Status(fiber.StatusConflict)
			return c.showKeys(ctx, s, view{"Error": sentence(reason), "Name": name})
		}
	}
	return err
}
