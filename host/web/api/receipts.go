package api

import (
	"context"
	"encoding/json"
	"fmt"
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
	// whether it has one.
	Receipt(ctx context.Context, c check.Caller, ref string, prove bool) (
		receipt json.RawMessage, proved bool, err error)
}

// proofWait is how long after a check its proof is there, in seconds.
const proofWait = "2"

// showReceipt serves GET /api/receipts/{ref}.
func (s *Server) showReceipt(c *fiber.Ctx) error {
	if s.cfg.Receipts == nil {
		return errNotFound
	}
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

// attachReceipt adds the receipt of a check to its result, or null: what was recorded is answered even if its receipt
// cannot be read now.
func (s *Server) attachReceipt(work context.Context, ctx *fasthttp.RequestCtx, caller check.Caller) {
	var whole struct {
		result
		Receipt json.RawMessage `json:"receipt"`
	}
	if err := json.Unmarshal(ctx.Response.Body(), &whole); err != nil {
		panic(fmt.Sprintf("decoding a result: %v", err)) // impossible: it was encoded here
	}
	if s.cfg.Receipts != nil && !caller.Limits.Test { // checks of test keys are not recorded
		found, _, err := s.cfg.Receipts.Receipt(work, caller, whole.Ref, false)
		if err == nil {
			whole.Receipt = found
		} else {
			s.cfg.Logger.Warn("a check was answered without its receipt", "ref", whole.Ref, "error", err)
		}
	}
	write(ctx, fasthttp.StatusOK, encode(whole))
}
