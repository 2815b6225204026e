package console

import (
	"context"
	"time"

	"github.com/gofiber/fiber/v2"
)

// panelTimeout bounds the work for one panel, so that a slow one leaves time for the others.
const panelTimeout = 5 * time.Second

// panels reads the data of a page's panels. A panel whose data cannot be read says so in its place, and the others are
// shown. The page fails if none can be read, or if the database is not available.
type panels struct {
	c      *Console
	ctx    *fiber.Ctx
	failed map[string]bool
	shown  int
	err    error // the last one
	outage bool
}

func (c *Console) panels(ctx *fiber.Ctx) *panels {
	return &panels{c: c, ctx: ctx, failed: map[string]bool{}}
}

// read reads a panel's data, and reports whether it could.
func (p *panels) read(name string, fn func(context.Context) error) bool {
	if p.outage {
		return false
	}
	work, cancel := context.WithTimeout(work(p.ctx), panelTimeout)
	defer cancel()
	err := fn(work)
	if err == nil {
		p.shown++
		return true
	}
	p.failed[name], p.err = true, err
	if p.outage = p.c.cfg.Outage != nil && p.c.cfg.Outage(err) && work.Err() == nil; !p.outage {
		p.c.cfg.Logger.Error("panel failed", "request_id", requestID(p.ctx), "route", p.ctx.Route().Path, "panel", name,
			"error", err)
	}
	return false
}

// panel reads an account's data for a panel.
func panel[T any](p *panels, name, account string, read func(context.Context, string) (T, error)) (data T) {
	p.read(name, func(work context.Context) (err error) {
		data, err = read(work, account)
		return err
	})
	return data
}

// render renders the page. Failed holds the names of the panels that failed.
func (p *panels) render(page string, s *session, v view) error {
	if p.outage || p.err != nil && p.shown == 0 {
		return p.err
	}
	v["Failed"], v["Request"] = p.failed, requestID(p.ctx)
	return p.c.render(p.ctx, page, s, v)
}
