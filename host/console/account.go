package console

import "github.com/gofiber/fiber/v2"

// LinkPath is the path of sign-in links. A link's token follows.
const LinkPath = "/signin/link/"

const (
	accountPath = "/dashboard/account"
	confirmPath = accountPath + "/confirm/" // a link's token follows
)

func (c *Console) account(ctx *fiber.Ctx, s *session) error { return c.showAccount(ctx, s, view{}) }

func (c *Console) showAccount(ctx *fiber.Ctx, s *session, v view) error {
	work, cancel := pageContext()
	defer cancel()
	sessions, err := c.cfg.Store.Sessions(work, s.Account)
	if err != nil {
		return err
	}
	issued, err := c.cfg.Store.CodeIssuedAt(work, s.Account)
	if err != nil {
		return err
	}
	if c.cfg.Mail != nil {
		if v["Address"], err = c.cfg.Store.OwnerAddress(work, s.Account); err != nil {
			return err
		}
	}
	v["Title"], v["Sessions"], v["Note"] = "Account", paged(ctx, v, sessions), notes[query(ctx, "note")]
	v["Others"] = len(sessions) > 1
	if !issued.IsZero() {
		v["IssuedAt"] = issued
	}
	return c.render(ctx, "account", s, v)
}

func (c *Console) replaceCode(ctx *fiber.Ctx, s *session) error {
	work, cancel := pageContext()
	defer cancel()
	code, err := c.cfg.Store.ReplaceCode(work, s.Account)
	if err != nil {
		return err
	}
	return c.showAccount(ctx, s, view{"Code": code})
}

func (c *Console) endOneSession(ctx *fiber.Ctx, s *session) error {
	work, cancel := pageContext()
	defer cancel()
	if err := c.endSession(work, s.Account, ctx.Params("id")); err != nil {
		return err
	}
	if ctx.Params("id") == s.ID {
		c.dropCookie(ctx, "session")
		return ctx.Redirect("/signin", fiber.StatusSeeOther)
	}
	return ctx.Redirect(accountPath+"?note=ended", fiber.StatusSeeOther)
}

func (c *Console) endOtherSessions(ctx *fiber.Ctx, s *session) error {
	work, cancel := pageContext()
	defer cancel()
	if err := c.cfg.Store.EndOtherSessions(work, s.Account, s.ID); err != nil {
		return err
	}
	return ctx.Redirect(accountPath+"?note=endedothers", fiber.StatusSeeOther)
}
