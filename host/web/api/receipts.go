package api

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"assay/host/check"
	"assay/host/customer/privacy"
)

const receiptsPrefix = "/api/receipts/"

// Receipts issues receipts of recorded checks. Errors: feedback.ErrUnknownCheck, check.ErrUnauthorized and
// *check.UnavailableError.
type Receipts interface {
	// Receipt returns a check's receipt. Without prove it has no proof, and is the same each time. proved reports
	// whether it has a proof.
	Receipt(ctx context.Context, c check.Caller, ref string, prove bool) (
		receipt json.RawMessage, proved bool, err error)
}

// proofWait is how long after a check its proof is available, in seconds.
const proofWait = "2"

// showReceipt serves GET /api/receipts/{ref}.
func (s *Server) showReceipt(c *fiber.Ctx) error {
	return s.keyed(c, func(work context.Context, caller check.Caller) error {
		ref := strings.TrimPrefix(string(c.Context().URI().PathOriginal()), receiptsPrefix)
		if err := privacy.ValidateRef("ref", ref); err != nil {
			return err
		}
		return s.shared(s.events, caller, func() error {
			receipt, proved, err := s.cfg.Receipts.Receipt(work, caller, ref, true)
			if err != nil {
				return err
			}
			write(c.Context(), fasthttp.StatusOK, receipt)
			if !proved {
				c.Context().Response.Header.Set(fasthttp.HeaderRetryAfter, proofWait)
			}
			return nil
		})
	})
}

// attachReceipt adds the receipt of a check to its result. A receipt changes when its signing key does, so it is kept
// with the answer of a request that can be repeated; if it cannot be read now, that request is refused until it can.
// Other requests are answered with null, because their check is recorded.
func (s *Server) attachReceipt(work context.Context, ctx *fasthttp.RequestCtx, caller check.Caller, once *check.Once,
) error {
	var r result
	if err := json.Unmarshal(ctx.Response.Body(), &r); err != nil || r.Receipt != nil {
		return err
	}
	r.Receipt = json.RawMessage("null")
	if !caller.Limits.Test { // checks of test keys are not recorded
		found, _, err := s.cfg.Receipts.Receipt(work, caller, r.Ref, false)
		if err == nil {
			r.Receipt = found
		}
		if err == nil && once != nil {
			once.Answer = encode(r)
			err = s.cfg.Answers.Complete(work, caller.Account, once)
		}
		if err != nil {
			s.cfg.Logger.Warn("a check was answered without its receipt", "ref", r.Ref, "error", err)
		}
		if err != nil && once != nil {
			return errReceipt
		}
	}
	write(ctx, fasthttp.StatusOK, encode(r))
	return nil
}
