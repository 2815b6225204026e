package api

import (
	_ "embed"
	"errors"
	"fmt"
	"strings"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/fasthttpadaptor"
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
	s.answer(c.Context(), fasthttp.StatusOK, struct {
		Status  string `json:"status"`
		Version string `json:"version"`
	}{"ok", s.cfg.Version})
	return nil
}

// ready reports whether the host should receive requests.
func (s *Server) ready(c *fiber.Ctx) error {
	if s.draining.Load() {
		return &notReady{parts: "shutting down"}
	}
	if problems := s.cfg.Ready(); len(problems) > 0 {
		parts, errs := make([]string, len(problems)), make([]error, len(problems))
		for i, p := range problems {
			parts[i] = p.Part
			if p.Reason != "" {
				parts[i] += " (" + p.Reason + ")"
			}
			if p.Err != nil {
				errs[i] = fmt.Errorf("checking the %s: %w", p.Part, p.Err)
			}
		}
		return &notReady{parts: strings.Join(parts, ", "), err: errors.Join(errs...)}
	}
	s.answer(c.Context(), fasthttp.StatusOK, struct {
		Status   string   `json:"status"`
		Degraded []string `json:"degraded,omitempty"`
	}{"ready", s.cfg.Degraded()})
	return nil
}

func (s *Server) metrics() fiber.Handler {
	if s.cfg.Metrics == nil {
		return func(*fiber.Ctx) error { return errNotFound }
	}
	serve := fasthttpadaptor.NewFastHTTPHandler(s.cfg.Metrics)
	return func(c *fiber.Ctx) error {
		serve(c.Context())
		return nil
	}
}
