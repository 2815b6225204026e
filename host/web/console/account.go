package console

import (
	"context"
	"time"

	"github.com/gofiber/fiber/v2"
)

// LinkPath is the path of sign-in links. A link's token follows.
const LinkPath = "/signin/link/"

const (
	accountPath = "/dashboard/account"
	confirmPath = accountPath + "/confirm/" // a link's token follows
	recoverPath = "/recover/"               // a link's token follows
)

func (c *Console) routeAccount() {
	post := func(path string, form func(*fiber.Ctx, *session) error) {
		c.signedIn(fiber.MethodPost, accountPath+path, form)
	}
	c.signedIn(fiber.MethodGet, accountPath, plain(c.showAccount))
	post("/code", c.proved(c.replaceCode))
	post("/sessions/end", c.then(accountPath, "All other sessions are ended.",
		func(ctx *fiber.Ctx, s *session) error {
			return c.cfg.Store.EndOtherSessions(work(ctx), s.Account, s.ID)
		}))
	post("/sessions/:id/end", c.endOneSession)
	if c.cfg.Mail == nil {
		return
	}
	c.app.Post("/signin/mail", c.mailLink)
	c.app.Get(recoverPath+":token", c.recoverForm)
	c.app.Post(recoverPath, c.recoverAccount)
	post("/address", c.proved(c.setAddress))
	post("/address/remove", c.proved(c.removeAddress))
	post("/address/confirm", c.confirmAddress)
	c.signedIn(fiber.MethodGet, confirmPath+":token", c.confirmForm)
}

func (c *Console) showAccount(ctx *fiber.Ctx, s *session, v view) error {
	p := c.panels(ctx)
	sessions := panel(p, "sessions", s.Account, c.cfg.Store.Sessions)
	v["Sessions"], v["Others"] = paged(ctx, v, sessions), len(sessions) > 1
	if issued := panel(p, "code", s.Account, c.cfg.Store.CodeIssuedAt); !issued.IsZero() {
		v["IssuedAt"] = issued
	}
	if c.cfg.Mail != nil {
		p.read("address", func(work context.Context) (err error) {
			var usableAt time.Time
			if v["Address"], err = c.cfg.Store.OwnerAddress(work, s.Account); err == nil {
				v["Recovery"], usableAt, err = c.cfg.Store.RecoveryAddress(work, s.Account)
				v["RecoversAt"], v["Recovers"] = usableAt, !c.cfg.Now().Before(usableAt)
			}
			return err
		})
	}
	v["Title"] = "Account"
	return p.render("account", s, v)
}

func (c *Console) replaceCode(ctx *fiber.Ctx, s *session) error {
	code, err := c.cfg.Store.ReplaceCode(work(ctx), s.Account, s.ID)
	if err != nil {
		return err
	}
	owner, err := c.cfg.Store.OwnerAddress(work(ctx), s.Account)
	c.warn("the owner is not told of the new code", err)
	c.tellOwner(s.Account, owner, "Its sign-in code was replaced.")
	return c.show(ctx, s, accountPath, shownOnce{Code: code})
}

func (c *Console) endOneSession(ctx *fiber.Ctx, s *session) error {
	if err := c.endSession(work(ctx), s.Account, ctx.Params("id")); err != nil {
		return err
	}
	if ctx.Params("id") == s.ID {
		c.dropCookie(ctx, "session")
		return ctx.Redirect("/signin", fiber.StatusSeeOther)
	}
	return c.note(ctx, s, accountPath, "The session is ended.")
}
