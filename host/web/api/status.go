package api

import (
	"bytes"
	_ "embed"
	"errors"

	"assay/host/internal/internet"

	"github.com/gofiber/fiber/v2"
)

// document is the OpenAPI description of every endpoint. Tests validate requests and responses against it.
//
//go:embed openapi.json
var document []byte

func (s *Server) openAPI(c *fiber.Ctx) error {
	c.Context().SetContentType("application/json")
	c.Context().Response.Header.Set("Cache-Control", "no-cache")
	c.Context().Response.SetBodyRaw(document)
	return nil
}

// health reports that the process responds. It checks nothing else, so that a database outage does not restart hosts.
func (s *Server) health(c *fiber.Ctx) error {
	return s.reply(c, map[string]string{"status": "ok", "version": s.cfg.Version}, nil)
}

var errDraining = errors.New("shutting down")

// ready reports whether the host should receive requests. Only operators see the reasons (package admin).
func (s *Server) ready(c *fiber.Ctx) error {
	if s.draining.Load() {
		return &notReady{errDraining}
	}
	if err := s.cfg.Ready(); err != nil {
		return &notReady{err}
	}
	return s.reply(c, map[string]string{"status": "ready"}, nil)
}

const providerPath = "/api/billing/stripe"

// providerEvent serves POST /api/billing/stripe, the payment provider's webhook. It responds once the event's effects
// are durable, so that the provider resends an event that was lost.
func (s *Server) providerEvent(c *fiber.Ctx) error {
	if s.cfg.ProviderEvent == nil {
		return errNotFound
	}
	release, err := s.lookups.Take(internet.Network(s.Client(c.Context())).String())
	if err != nil {
		return err
	}
	defer release()
	work, cancel := s.work()
	defer cancel()
	signature := string(c.Request().Header.Peek("Stripe-Signature"))
	err = s.cfg.ProviderEvent(work, bytes.Clone(c.Request().Body()), signature)
	return s.reply(c, map[string]bool{"received": true}, err)
}
