package api

import (
	"context"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"assay/host/check"
	"assay/host/customer/decision"
	"assay/host/entity"
)

const (
	usagePath        = "/api/usage"
	exportChecksPath = checksPrefix + "export"
)

// showUsage serves GET /api/usage.
func (s *Server) showUsage(c *fiber.Ctx) error {
	month := func() (time.Time, error) {
		text, err := parameter(c.Context().QueryArgs(), "month")
		if err != nil || text == "" {
			now := s.cfg.Now().UTC()
			return time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC), err
		}
		month, err := time.Parse(decision.MonthFormat, text)
		if err != nil || month.Year() < 1 {
			return month, &entity.InvalidError{Field: "month", Reason: "must be a month such as 2026-01"}
		}
		return month, nil
	}
	return s.keyed(c, inSlot(s, c, month, s.cfg.Decisions.MonthlyUsage))
}

// exportChecks serves GET /api/checks/export. The body is sent page by page after this returns.
func (s *Server) exportChecks(c *fiber.Ctx) error {
	return s.keyed(c, func(work context.Context, caller check.Caller) error {
		format, q, err := s.exportQuery(c.Context().QueryArgs())
		if err != nil {
			return err
		}
		release, err := s.cfg.Downloads.Take(caller.Share()) // until the body is sent
		if err != nil {
			return err
		}
		conn := c.Context().Conn()
		export, header, err := decision.Download(work, s.cfg.Decisions, caller, q, format, func() {
			_ = conn.SetWriteDeadline(time.Now().Add(s.cfg.WriteTimeout)) // for each page, not for all of them
		}, release)
		if err != nil {
			return err
		}
		for name, value := range header {
			c.Set(name, value)
		}
		c.Context().Response.SetBodyStream(export, -1)
		return nil
	})
}

// exportQuery reads the parameters of an export. Without "until", it ends now, so that it does not grow while it is
// read. The error is an *entity.InvalidError.
func (s *Server) exportQuery(args *fasthttp.Args) (f decision.Format, q decision.Query, err error) {
	known := []string{"format", "verdict", "type", "key", "from", "until"}
	for name := range args.All() {
		if !slices.Contains(known, string(name)) {
			return f, q, unknownField(string(name), known) // a misspelt one would select more
		}
	}
	name, err := parameter(args, "format")
	if err == nil {
		f, err = decision.ParseFormat(name)
	}
	if err != nil {
		return f, q, err
	}
	var chosen selection
	for _, p := range []struct {
		name string
		to   *string
	}{
		{"verdict", &chosen.Verdict}, {"type", &chosen.Type}, {"key", &chosen.Key}, {"from", &chosen.From},
		{"until", &chosen.Until},
	} {
		if *p.to, err = parameter(args, p.name); err != nil {
			return f, q, err
		}
	}
	q, err = chosen.query()
	if q.Limit = decision.MaxPage; q.Until.IsZero() {
		q.Until = s.cfg.Now().UTC()
	}
	if err != nil {
		return f, q, err
	}
	return f, q, q.Validate()
}

// parameter returns a parameter of the query string, or "" if it is missing. The error is an *entity.InvalidError.
func parameter(args *fasthttp.Args, name string) (string, error) {
	values := args.PeekMulti(name)
	switch {
	case len(values) == 0:
		return "", nil
	case len(values) > 1:
		return "", &entity.InvalidError{Field: name, Reason: "must be given once at most"}
	case !utf8.Valid(values[0]):
		return "", &entity.InvalidError{Field: name, Reason: "must be UTF-8"}
	}
	return string(values[0]), nil
}
