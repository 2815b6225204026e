package console

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/gofiber/fiber/v2"

	"assay/host/check"
	"assay/host/entity"
	"assay/host/privacy"
)

// allChecks is how many checks a downloaded export lists: more than an account can have of one subject on any plan.
const allChecks = 100_000

func (c *Console) privacy(ctx *fiber.Ctx, s *session) error { return c.showPrivacy(ctx, s, view{}) }

func (c *Console) showPrivacy(ctx *fiber.Ctx, s *session, v view) error {
	v["Title"], v["Types"] = "Privacy", entity.Types()
	return c.render(ctx, "privacy", s, v)
}

// wanted reads whom a form is about: a value, a subject reference or the reference of a check. Values come in forms
// only, never in addresses, which logs keep.
func wanted(ctx *fiber.Ctx) (whose privacy.Selector, v view, err error) {
	who, kind := strings.TrimSpace(field(ctx, "who")), entity.Type(field(ctx, "type"))
	v = view{"Who": who, "Kind": string(kind)}
	switch {
	case kind == "" && strings.HasPrefix(who, "sub_"):
		whose.Subject = who
		_, err = privacy.ParseReference(who)
	case kind == "" && strings.HasPrefix(who, "chk_"):
		whose.Ref = who
		err = privacy.ValidateRef("ref", who)
	default:
		if kind == "" {
			kind = entity.Guess(who)
		}
		var e entity.Entity
		e, err = entity.Parse(kind, who, "")
		whose.Entity = &e
	}
	return whose, v, err
}

func (s *session) caller() check.Caller {
	return check.Caller{Account: s.Account, Key: s.Key, Plan: s.Plan}
}

// findSubject shows what is held of a subject.
func (c *Console) findSubject(ctx *fiber.Ctx, s *session) error {
	held, v, err := c.held(ctx, s, listedChecks)
	if err != nil {
		return c.unheld(ctx, s, v, err)
	}
	v["Held"] = held
	return c.showPrivacy(ctx, s, v)
}

func (c *Console) held(ctx *fiber.Ctx, s *session, limit int) (*privacy.Export, view, error) {
	whose, v, err := wanted(ctx)
	if err != nil {
		return nil, v, err
	}
	w, cancel := work()
	defer cancel()
	held, err := c.cfg.Store.Export(w, s.caller(), whose, privacy.Page{Limit: limit})
	return held, v, err
}

// unheld says why nothing can be shown.
func (c *Console) unheld(ctx *fiber.Ctx, s *session, v view, err error) error {
	var invalid *entity.InvalidError
	switch {
	case errors.As(err, &invalid):
		ctx.Status(fiber.StatusBadRequest)
		v["Error"] = complaint(invalid)
	case errors.Is(err, privacy.ErrUnknownSubject):
		ctx.Status(fiber.StatusNotFound)
		v["Error"] = "Your account holds nothing of it."
	case errors.Is(err, check.ErrUnauthorized):
		return &pageError{fiber.StatusForbidden, "The key that you signed in with has ended."}
	default:
		return err
	}
	return c.showPrivacy(ctx, s, v)
}

// exportSubject sends all that is held as a file.
func (c *Console) exportSubject(ctx *fiber.Ctx, s *session) error {
	held, v, err := c.held(ctx, s, allChecks)
	if err != nil {
		return c.unheld(ctx, s, v, err)
	}
	file, err := json.MarshalIndent(held, "", "  ")
	if err != nil {
		return err
	}
	ctx.Attachment("subject.json") // sets the type as well
	return ctx.Send(append(file, '\n'))
}

// eraseSubject asks whether the person is sure, and erases once they are.
func (c *Console) eraseSubject(ctx *fiber.Ctx, s *session) error {
	if field(ctx, "sure") != "yes" {
		held, v, err := c.held(ctx, s, 1)
		if err != nil {
			return c.unheld(ctx, s, v, err)
		}
		v["Confirm"] = held
		return c.showPrivacy(ctx, s, v)
	}
	whose, v, err := wanted(ctx)
	if err != nil {
		return c.unheld(ctx, s, v, err)
	}
	w, cancel := work()
	defer cancel()
	erased, err := c.cfg.Store.Erase(w, s.caller(), whose)
	if err != nil {
		return c.unheld(ctx, s, v, err)
	}
	return c.showPrivacy(ctx, s, view{"Erased": erased})
}
