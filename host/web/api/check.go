package api

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"assay/host/access/admission"
	"assay/host/access/apikey"
	"assay/host/check"
	"assay/host/entity"
	"assay/host/internal/internet"
	"assay/host/web/refusal"
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

	Warnings []check.Warning `json:"warnings,omitempty"`
	Receipt  json.RawMessage `json:"receipt,omitempty"` // on request
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
		Warnings:  d.Warnings,
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
	return paced(s.admitted(c, s.cfg.CheckTimeout, func(work context.Context, caller check.Caller) error {
		q, err := read(c.Request(), decode)
		if err != nil {
			return err
		}
		if len(q.fields) == 0 {
			return q.noField()
		}
		req := check.Request{Caller: caller, Fields: q.fields, Country: q.country, Warnings: q.warnings}
		score := func(once *check.Once) ([]check.Answer, error) {
			req.Once = once
			return s.scoreCheck(work, c.Context(), req)
		}
		once, err := s.answerOnce(work, c.Context(), caller, renderCheck, score)
		if err == nil && q.receipt {
			err = s.attachReceipt(work, c.Context(), caller, once)
		}
		return err
	}))
}

// checkPublic serves POST /api/check-public. Every check counts against the hourly limit; an invalid request does not.
// An Authorization header is ignored. All callers without a key are one account, which shares the host with other
// accounts.
func (s *Server) checkPublic(c *fiber.Ctx) error {
	caller := s.cfg.Public.Caller()
	caller.Network = internet.Network(s.Client(c.Context()))
	if err := s.cfg.Door.Admits(caller.Share(), 1); err != nil {
		return err
	}
	work, cancel := context.WithTimeout(s.all, s.cfg.CheckTimeout)
	defer cancel()
	q, err := read(c.Request(), decode)
	if err != nil {
		return err
	}
	if len(q.fields) == 0 || q.fields[0].Type != entity.Domain {
		return &entity.InvalidError{Field: "domain", Reason: "is required; without a key, only domains can be checked"}
	}
	request := check.Request{Caller: caller, Fields: q.fields[:1], Country: q.country, Warnings: q.warnings}
	if err := request.Validate(); err != nil {
		return err
	}
	end := current(c.Context()).part("limit")
	err = s.countPublic(work, c.Context())
	end()
	if err != nil {
		return paced(err)
	}
	end = current(c.Context()).part("check")
	answers, err := s.scoreCheck(work, c.Context(), request)
	end()
	if err != nil {
		return s.uncount(c.Context(), err)
	}
	write(c.Context(), fasthttp.StatusOK, renderCheck(answers))
	return nil
}

// uncount gives back the use of a check that ended with err if the client should send the check again. It returns err.
func (s *Server) uncount(ctx *fasthttp.RequestCtx, err error) error {
	if !refusal.Of(err).Retry() {
		return err
	}
	work, cancel := context.WithTimeout(s.all, lookupTimeout)
	defer cancel()
	if failed := s.cfg.Public.GiveBack(work, s.Client(ctx)); failed != nil {
		s.cfg.Logger.Warn("a check was refused, and its use without a key stays counted", "error", failed)
	}
	return err
}

// countPublic counts a use without a key.
func (s *Server) countPublic(work context.Context, ctx *fasthttp.RequestCtx) error {
	client := s.Client(ctx)
	return s.lookUp(work, internet.Network(client).String(), func(work context.Context) error {
		resetAt, ok, err := s.cfg.Public.Take(work, client)
		if err == nil && !ok {
			err = &hourlyError{resetAt: resetAt, shared: s.Shared(ctx)}
		}
		return err
	})
}

// admitted calls f with a timeout and the request's caller, unless the host cannot accept more checks of the caller.
// While the host accepts no checks at all, it refuses requests before it looks up the key.
func (s *Server) admitted(c *fiber.Ctx, timeout time.Duration, f func(context.Context, check.Caller) error) error {
	if err := s.cfg.Door.Admits("", 1); err != nil {
		return err
	}
	return s.keyedWithin(c, timeout, func(work context.Context, caller check.Caller) error {
		if err := s.cfg.Door.Admits(caller.Share(), 1); err != nil {
			return err
		}
		return f(work, caller)
	})
}

// paced returns the error of a check. It turns a rate limit's refusal into a tooFast.
func paced(err error) error {
	if rate, ok := errors.AsType[*admission.RateError](err); ok {
		return tooFast{rate}
	}
	return err
}

// keyed calls f with a context that ends at the request's deadline, and with the caller.
func (s *Server) keyed(c *fiber.Ctx, f func(context.Context, check.Caller) error) error {
	return s.keyedWithin(c, s.cfg.Timeout, f)
}

func (s *Server) keyedWithin(c *fiber.Ctx, timeout time.Duration, f func(context.Context, check.Caller) error) error {
	work, cancel := context.WithTimeout(s.all, timeout)
	defer cancel()
	x := current(c.Context())
	end := x.part("auth")
	caller, err := s.authenticate(work, c.Context())
	end()
	if err != nil {
		return err
	}
	caller.Network = internet.Network(s.Client(c.Context()))
	x.account, x.test = caller.Account, caller.Limits.Test
	// Checked first, so that a key that is used elsewhere does not use up the rate of the account.
	if err := s.permit(c.Context(), caller.Limits); err != nil {
		return err
	}
	if err := s.pace(c.Context(), caller); err != nil {
		return err
	}
	if recorded := x.scope == apikey.ScopeCheck || x.scope == apikey.ScopeBatch; !recorded || x.test {
		s.cfg.Used(caller)
	}
	return f(work, caller)
}

// pace counts a request with a key. It fails if requests come too fast, or if it is a check and the quota is used up.
func (s *Server) pace(ctx *fasthttp.RequestCtx, caller check.Caller) error {
	if current(ctx).scope != apikey.ScopeCheck {
		return s.cfg.Rates.TakeKey(caller)
	}
	if len(ctx.Request.Header.Peek(onceHeader)) == 0 { // otherwise the answer may have been kept
		if err := s.cfg.Checker.Spent(caller); err != nil {
			return err
		}
	}
	return s.cfg.Rates.TakeCheck(caller)
}

// shared calls f in one of the caller's slots.
func (s *Server) shared(slots *admission.Shares, caller check.Caller, f func() error) error {
	release, err := slots.Take(caller.Share())
	if err != nil {
		return err
	}
	defer release()
	return f()
}

// inSlot returns a function that serves a caller's request. It calls ask to read the request, and answer, in one of the
// caller's slots, to get the response.
func inSlot[Q, A any](s *Server, c *fiber.Ctx, ask func() (Q, error),
	answer func(context.Context, check.Caller, Q) (A, error),
) func(context.Context, check.Caller) error {
	return func(work context.Context, caller check.Caller) error {
		asked, err := ask()
		if err != nil {
			return err
		}
		return s.shared(s.events, caller, func() error {
			a, err := answer(work, caller, asked)
			return s.reply(c, a, err)
		})
	}
}

// lookupTimeout bounds a look-up of a key or of a limit, so that a database that hangs does not delay the refusal.
const lookupTimeout = 500 * time.Millisecond

// lookUp calls f, which queries the database for a caller, in one of holder's slots.
func (s *Server) lookUp(work context.Context, holder string, f func(context.Context) error) error {
	release, err := s.lookups.Take(holder)
	if err != nil {
		return err
	}
	defer release()
	work, cancel := context.WithTimeout(work, lookupTimeout)
	defer cancel()
	return f(work)
}

// scoreCheck scores a single check.
func (s *Server) scoreCheck(work context.Context, ctx *fasthttp.RequestCtx, req check.Request) ([]check.Answer, error) {
	d, err := s.cfg.Checker.Check(work, req)
	if err != nil {
		return nil, err
	}
	current(ctx).ref = d.Ref
	return []check.Answer{{Decision: d}}, nil
}

// renderCheck returns the body that answers a single check.
func renderCheck(answers []check.Answer) []byte { return encode(newResult(answers[0].Decision)) }

// read reads a body. It does not use fiber's Body method, which decompresses without limit.
func read[T any](r *fasthttp.Request, decode func(body []byte) (T, error)) (v T, err error) {
	if err := vetContent(&r.Header); err != nil {
		return v, err
	}
	return decode(r.Body())
}

// authenticate reads the key from the single Authorization header, and nowhere else (RFC 6750 section 2.1). The scheme
// is case-insensitive (RFC 9110 section 11.1).
func (s *Server) authenticate(work context.Context, ctx *fasthttp.RequestCtx) (caller check.Caller, err error) {
	lines := ctx.Request.Header.PeekAll(fasthttp.HeaderAuthorization)
	if len(lines) != 1 {
		return caller, check.ErrUnauthorized
	}
	scheme, key, _ := strings.Cut(string(lines[0]), " ")
	key = strings.Trim(key, " ")
	if !strings.EqualFold(scheme, "Bearer") || !isPlausibleKey(key) {
		return caller, check.ErrUnauthorized
	}
	var before check.Caller
	if s.recall != nil {
		var known bool
		if before, known, err = s.recall.Recall(key); known {
			return before, err
		}
	}
	// Requests that wait for the same key share one look-up, and the slot of the first. A client with many connections
	// would otherwise be refused whenever its key is not cached.
	found, err, _ := s.presents.Do(key, func() (any, error) {
		var caller check.Caller
		client := s.Client(ctx)
		holder := internet.Network(client).String()
		if before.Account != "" { // not a guess, so guesses from its network must not delay it
			holder = before.Share()
		} else if err := s.cfg.Rates.TakeNetwork(client); err != nil {
			return caller, err
		}
		err := s.lookUp(work, holder, func(work context.Context) (err error) {
			caller, err = s.cfg.Keys.Authenticate(work, key)
			return err
		})
		return caller, err
	})
	return found.(check.Caller), err
}

// confirm fails if the caller's key ended while it was remembered. Handlers that do not check the key in another
// statement call it, so that a revoked key gets no answer.
func (s *Server) confirm(work context.Context, caller check.Caller) error {
	if s.recall == nil {
		return nil
	}
	return s.recall.Confirm(work, caller)
}

// isPlausibleKey reports whether key is short, printable ASCII, so that later steps need not handle anything else.
func isPlausibleKey(key string) bool {
	const maxBytes = 256
	unprintable := func(r rune) bool { return r <= ' ' || r >= 0x7f }
	return key != "" && len(key) <= maxBytes && !strings.ContainsFunc(key, unprintable)
}
