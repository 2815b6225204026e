package console

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"assay/host/access/signin"
)

// enterCode presents the sign-in code that was entered in the field "code". If it is refused, enterCode sets the status
// of the response and returns the reason.
func (c *Console) enterCode(ctx *fiber.Ctx, present func(context.Context) error) (problem string, err error) {
	if err := c.takeSignIn(ctx); err != nil {
		return "", err
	}
	err = present(work(ctx))
	switch {
	case err == nil:
		return "", nil
	case errors.Is(err, signin.ErrMistyped) && strings.HasPrefix(strings.TrimSpace(field(ctx, "code")), "assay_"):
		problem = "This is an API key, which does not sign in. Enter your sign-in code."
	case errors.Is(err, signin.ErrMistyped):
		ctx.Status(fiber.StatusBadRequest)
		return "A character is wrong, missing or too many. " +
			"A sign-in code has six groups of four letters and digits.", nil
	case errors.Is(err, signin.ErrUnknown):
		problem = "There is no such sign-in code. Was it replaced by a newer one?"
	default:
		return "", err
	}
	ctx.Status(fiber.StatusUnauthorized)
	return problem, nil
}

// proved wraps a form that changes what protects the account, or deletes something. If the session has not presented a
// code or link lately, a page asks for the code and sends the form again with it.
func (c *Console) proved(form func(*fiber.Ctx, *session) error) func(*fiber.Ctx, *session) error {
	return func(ctx *fiber.Ctx, s *session) error {
		if c.cfg.Now().Sub(s.ProvedAt) < signin.ProofLife {
			return form(ctx, s)
		}
		v := view{"Title": "Confirm that it is you", "Action": ctx.Path()}
		ctx.Status(fiber.StatusForbidden)
		if len(ctx.Request().PostArgs().Peek("code")) > 0 {
			problem, err := c.enterCode(ctx, func(work context.Context) error {
				return c.cfg.Store.ProveSession(work, s.Account, s.ID, field(ctx, "code"))
			})
			if err != nil {
				return err
			}
			if problem == "" {
				ctx.Status(fiber.StatusOK)
				return form(ctx, s)
			}
			v["Errors"] = map[string]string{"code": problem}
		}
		var fields [][2]string
		for name, value := range ctx.Request().PostArgs().All() {
			if n := printable(name); n != "csrf" && n != "code" {
				fields = append(fields, [2]string{n, printable(value)})
			}
		}
		v["Fields"] = fields
		if c.cfg.Mail != nil {
			var err error
			v["Address"], err = c.cfg.Store.OwnerAddress(work(ctx), s.Account)
			c.warn("reading the owner's address failed", err)
		}
		return c.render(ctx, "prove", s, v)
	}
}

// shownOnce is what the page after a form shows once: a note, or a secret that is kept only in a cookie.
type shownOnce struct {
	Session, Nonce    string
	Until             time.Time
	Note              string
	Code, Key, Secret string
	SwitchAt          *time.Time // when the secret begins to sign
}

const (
	shownContext = "console shown once"
	shownLife    = time.Minute
)

// show redirects to a page, which shows something once.
func (c *Console) show(ctx *fiber.Ctx, s *session, path string, once shownOnce) error {
	once.Session, once.Nonce, once.Until = s.ID, rand.Text(), c.cfg.Now().Add(shownLife)
	if err := c.sealCookie(ctx, "shown", shownContext, once, once.Until); err != nil {
		return err
	}
	return ctx.Redirect(path+"?shown="+once.Nonce, fiber.StatusSeeOther)
}

// note redirects to a page, which shows a note once.
func (c *Console) note(ctx *fiber.Ctx, s *session, path, text string) error {
	return c.show(ctx, s, path, shownOnce{Note: text})
}

// then returns the handler of a form that does something and redirects to a page with a note.
func (c *Console) then(path, note string, do func(*fiber.Ctx, *session) error) func(*fiber.Ctx, *session) error {
	return func(ctx *fiber.Ctx, s *session) error {
		if err := do(ctx, s); err != nil {
			return err
		}
		return c.note(ctx, s, path, note)
	}
}

// takeShown returns what the page is to show once. Other pages, such as one that refreshes itself in another tab, take
// nothing.
func (c *Console) takeShown(ctx *fiber.Ctx, s *session) (once shownOnce) {
	if ctx.Method() != fiber.MethodGet || query(ctx, "shown") == "" ||
		!c.cookie(ctx, "shown", shownContext, &once) || once.Session != s.ID || once.Nonce != query(ctx, "shown") ||
		c.cfg.Now().After(once.Until) {
		return shownOnce{}
	}
	c.dropCookie(ctx, "shown")
	return once
}
