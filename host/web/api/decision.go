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
		var b aboutCheck
		err := readObject(c.Request(), &b)
		if err == nil {
			err = privacy.ValidateRef("ref", b.Ref)
		}
		if err != nil {
			return err
		}
		value, err := b.entity()
		if err != nil {
			return err
		}
		if value == nil {
			return check.NoFieldError{}
		}
		explained, err := s.cfg.Explainer.Explain(work, caller, b.Ref, *value)
		return s.reply(c, explained, err)
	})
}

// askReview serves POST /gdpr/review.
func (s *Server) askReview(c *fiber.Ctx) error {
	return s.private(c, func(work context.Context, caller check.Caller) error {
		var b struct {
			aboutCheck

			Reason  string `json:"reason"`
			Contact string `json:"contact"`
		}
		err := readObject(c.Request(), &b)
		asking := decision.Asking{Reason: b.Reason, Contact: b.Contact}
		if err == nil {
			err = asking.Validate(b.Ref)
		}
		if err == nil {
			asking.Entity, err = b.entity()
		}
		if err != nil {
			return err
		}
		review, err := s.cfg.Decisions.AskReview(work, caller, b.Ref, asking)
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

// aboutCheck has the fields of a body about a recorded check. The reference may be invalid.
type aboutCheck struct {
	values

	Ref string `json:"ref"`
}

// readObject reads the body of a request into a struct.
func readObject[T any](r *fasthttp.Request, v *T) error {
	_, err := read(r, func(body []byte) (_ struct{}, err error) { return struct{}{}, decodeObject(body, v) })
	return err
}

// reply answers with v, unless err is an error.
func (s *Server) reply(c *fiber.Ctx, v any, err error) error {
	if err == nil {
		s.answer(c.Context(), fasthttp.StatusOK, v)
	}
	return err
}
