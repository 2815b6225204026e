package api

import (
	"bytes"
	"context"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
)

const providerPath = "/api/billing/stripe"

// providerEvent serves POST /api/billing/stripe: what the payment provider tells. It is answered once what follows from
// it is durable, so that one that is lost on the way is sent again.
func (s *Server) providerEvent(c *fiber.Ctx) error {
	if s.cfg.ProviderEvent == nil {
		return errNotFound
	}
	return s.bounded(s.checks, func(work context.Context) error {
		signature := string(c.Request().Header.Peek("Stripe-Signature"))
		if err := s.cfg.ProviderEvent(work, bytes.Clone(c.Request().Body()), signature); err != nil {
			return err
		}
		s.answer(c.Context(), fasthttp.StatusOK, struct {
			Received bool `json:"received"`
		}{true})
		return nil
	})
}
