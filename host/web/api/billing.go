package api

import (
	"bytes"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
)

const providerPath = "/api/billing/stripe"

// providerEvent serves POST /api/billing/stripe, the payment provider's webhook. It responds once the event's effects
// are durable, so that the provider resends an event that was lost.
func (s *Server) providerEvent(c *fiber.Ctx) error {
	if s.cfg.ProviderEvent == nil {
		return errNotFound
	}
	release, err := s.lookups.Take(s.Client(c.Context()).String())
	if err != nil {
		return err
	}
	defer release()
	work, cancel := s.work()
	defer cancel()
	signature := string(c.Request().Header.Peek("Stripe-Signature"))
	if err := s.cfg.ProviderEvent(work, bytes.Clone(c.Request().Body()), signature); err != nil {
		return err
	}
	s.answer(c.Context(), fasthttp.StatusOK, struct {
		Received bool `json:"received"`
	}{true})
	return nil
}
