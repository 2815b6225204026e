package api

import (
	"context"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"assay/host/check"
	"assay/host/customer/decision"
	"assay/host/customer/privacy"
	"assay/host/entity"
)

const (
	explainPath = "/gdpr/explain"
	reviewPath  = "/gdpr/review"
)

// Explainer explains recorded checks; *decision.Explainer implements it.
type Explainer interface {
	Explain(ctx context.Context, c check.Caller, ref string, e entity.Entity) (*decision.Explanation, error)
}

// explain serves POST /gdpr/explain.
func (s *Server) explain(c *fiber.Ctx) error {
	return s.private(c, func(work context.Context, caller check.Caller) error {
		members, ref, err := readRef(c.Request())
		if err == nil {
			err = privacy.ValidateRef("ref", ref)
		}
		if err != nil {
			return err
		}
		value, err := members.value()
		if err != nil {
			return err
		}
		if value == nil {
			return check.NoFieldError{}
		}
		explained, err := s.cfg.Explainer.Explain(work, caller, ref, *value)
		return s.reply(c, explained, err)
	})
}

// askReview serves POST /gdpr/review.
func (s *Server) askReview(c *fiber.Ctx) error {
	return s.private(c, func(work context.Context, caller check.Caller) error {
		members, ref, err := readRef(c.Request())
		if err != nil {
			return err
		}
		var asking decision.Asking
		if asking.Reason, err = members.text("reason"); err == nil {
			asking.Contact, err = members.text("contact")
		}
		if err == nil {
			err = asking.Validate(ref)
		}
		if err == nil {
			asking.Entity, err = members.value()
		}
		if err != nil {
			return err
		}
		review, err := s.cfg.Decisions.AskReview(work, caller, ref, asking)
		return s.reply(c, review, err)
	})
}

// showReview serves GET /gdpr/review?ref=chk_...
func (s *Server) showReview(c *fiber.Ctx) error {
	return s.private(c, func(work context.Context, caller check.Caller) error {
		ref, err := once(c.Context().QueryArgs(), "ref", privacy.ValidateRef)
		if err != nil {
			return err
		}
		review, err := s.cfg.Decisions.Review(work, caller, ref)
		return s.reply(c, review, err)
	})
}

// readRef reads a body with the reference of a check, which may be invalid.
func readRef(r *fasthttp.Request) (members object, ref string, err error) {
	members, err = read(r, func(body []byte) (object, error) { return decodeObject(body, "") })
	if err == nil {
		ref, err = members.text("ref")
	}
	return members, ref, err
}

// reply answers with v, unless err is an error.
func (s *Server) reply(c *fiber.Ctx, v any, err error) error {
	if err == nil {
		s.answer(c.Context(), fasthttp.StatusOK, v)
	}
	return err
}
