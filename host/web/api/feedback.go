package api

import (
	"context"

	"github.com/gofiber/fiber/v2"

	"assay/host/check"
	"assay/host/customer/feedback"
)

const feedbackPath = "/api/feedback"

// Feedback takes customers' feedback on their checks; *feedback.Desk implements it.
type Feedback interface {
	Give(ctx context.Context, c check.Caller, r feedback.Report) (*feedback.Kept, error)
	Revoke(ctx context.Context, c check.Caller, ref string) error
}

// giveFeedback serves POST /api/feedback.
func (s *Server) giveFeedback(c *fiber.Ctx) error {
	report := func() (feedback.Report, error) { return read(c.Request(), decodeReport) }
	return s.admitted(c, s.cfg.Timeout, inSlot(s, c, report, s.cfg.Feedback.Give))
}

// revokeFeedback serves DELETE /api/feedback?ref=chk_...
func (s *Server) revokeFeedback(c *fiber.Ctx) error {
	ref := func() (string, error) { return once(c.Context().QueryArgs(), "ref", nil) }
	revoke := func(work context.Context, caller check.Caller, ref string) (map[string]any, error) {
		return map[string]any{"ref": ref, "revoked": true}, s.cfg.Feedback.Revoke(work, caller, ref)
	}
	return s.keyed(c, inSlot(s, c, ref, revoke))
}

// decodeReport reads a report. At most one value may be given. Errors are of type invalidBody or *entity.InvalidError.
func decodeReport(body []byte) (r feedback.Report, err error) {
	var b struct {
		aboutCheck

		Label string `json:"label"`
		Note  string `json:"note"`
	}
	if err := decodeObject(body, &b); err != nil {
		return r, err
	}
	r = feedback.Report{Ref: b.Ref, Label: feedback.Label(b.Label), Note: b.Note}
	if err := r.Validate(); err != nil {
		return r, err
	}
	r.Entity, err = b.entity()
	return r, err
}
