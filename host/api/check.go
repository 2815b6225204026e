package api

import (
	"context"
	"strings"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"assay/host/check"
	"assay/host/entity"
)

// result is the body of a successful check (contract section 2.2).
type result struct {
	Score     int      `json:"score"`
	Verdict   string   `json:"verdict"`
	Signals   []string `json:"signals"`
	Threat    *string  `json:"dominant_threat"`
	Type      string   `json:"type"`
	Query     string   `json:"query"`
	Timestamp string   `json:"timestamp"`
	Ref       string   `json:"ref"`
}

func newResult(d *check.Decision) result {
	r := result{
		Score:     d.Score,
		Verdict:   string(d.Verdict),
		Signals:   make([]string, len(d.Signals)),
		Type:      string(d.Type),
		Query:     d.Query,
		Timestamp: stamp(d.At),
		Ref:       d.Ref,
	}
	for i, s := range d.Signals {
		r.Signals[i] = s.Text
	}
	if d.Threat != "" {
		r.Threat = &d.Threat
	}
	return r
}

// check serves POST /api/check. It authenticates the caller before it reads the body.
func (s *Server) check(c *fiber.Ctx) error {
	return s.bounded(s.checks, func(work context.Context) error {
		caller, err := s.authenticate(work, &c.Request().Header)
		if err != nil {
			return err
		}
		current(c.Context()).account = strings.Clone(caller.Account)
		q, err := readQuery(c.Request())
		if err != nil {
			return err
		}
		if len(q.fields) == 0 {
			return check.NoFieldError{}
		}
		return s.answerCheck(work, c.Context(), check.Request{Caller: caller, Fields: q.fields, Country: q.country})
	})
}

// checkPublic serves POST /api/check-public. Every call counts against the hourly limit, errors included. An
// Authorization header is ignored.
func (s *Server) checkPublic(c *fiber.Ctx) error {
	return s.bounded(s.checks, func(work context.Context) error {
		resetAt, ok, err := s.cfg.Public.Take(work, s.Client(c.Context()))
		if err != nil {
			return err
		}
		if !ok {
			return &hourlyError{resetAt: resetAt}
		}
		q, err := readQuery(c.Request())
		if err != nil {
			return err
		}
		if len(q.fields) == 0 || q.fields[0].Type != entity.Domain {
			return &entity.InvalidError{Field: "domain",
				Reason: "is required; without a key, only domains can be checked"}
		}
		return s.answerCheck(work, c.Context(), check.Request{
			Caller:  s.cfg.Public.Caller(),
			Fields:  q.fields[:1],
			Country: q.country,
		})
	})
}

// bounded calls f with the deadline of a request's work. It returns check.ErrOverloaded if all slots are taken.
func (s *Server) bounded(slots chan struct{}, f func(context.Context) error) error {
	select {
	case slots <- struct{}{}:
		defer func() { <-slots }()
	default:
		return check.ErrOverloaded
	}
	work, cancel := s.work()
	defer cancel()
	return f(work)
}

func (s *Server) answerCheck(work context.Context, ctx *fasthttp.RequestCtx, req check.Request) error {
	d, err := s.cfg.Checker.Check(work, req)
	if err != nil {
		return err
	}
	current(ctx).ref = d.Ref
	s.answer(ctx, fasthttp.StatusOK, newResult(d))
	return nil
}

// readQuery reads a check request. It does not use fiber's Body method, which decompresses without limit.
func readQuery(r *fasthttp.Request) (query, error) {
	if err := vetContent(&r.Header); err != nil {
		return query{}, err
	}
	return decode(r.Body())
}

// authenticate reads the key from the single Authorization header, and nowhere else (RFC 6750 section 2.1). The scheme
// is case-insensitive (RFC 9110 section 11.1).
func (s *Server) authenticate(work context.Context, h *fasthttp.RequestHeader) (check.Caller, error) {
	lines := h.PeekAll(fasthttp.HeaderAuthorization)
	if len(lines) != 1 {
		return check.Caller{}, check.ErrUnauthorized
	}
	scheme, key, _ := strings.Cut(string(lines[0]), " ")
	key = strings.Trim(key, " ")
	if !strings.EqualFold(scheme, "Bearer") || !isPlausibleKey(key) {
		return check.Caller{}, check.ErrUnauthorized
	}
	return s.cfg.Keys.Authenticate(work, key)
}

// isPlausibleKey reports whether key is short, printable ASCII, so that later steps need not handle anything else.
func isPlausibleKey(key string) bool {
	const maxBytes = 256
	unprintable := func(r rune) bool { return r <= ' ' || r >= 0x7f }
	return key != "" && len(key) <= maxBytes && !strings.ContainsFunc(key, unprintable)
}
