package api

import (
	"context"
	"errors"
	"strings"

	"github.com/valyala/fasthttp"

	"assay/host/check"
	"assay/host/entity"
)

// Answers finds the answers that were kept for idempotency keys.
type Answers interface {
	// Kept returns the answer to the account's request with the same key, or nil if none is kept. It returns
	// check.ErrOtherRequest if the key belongs to another request.
	Kept(ctx context.Context, account string, once *check.Once) ([]byte, error)
}

const (
	onceHeader     = "Idempotency-Key"
	replayedHeader = "Idempotent-Replayed"
	maxOnceKey     = 255 // bytes
	maxKeptLookups = 512 // look-ups of kept answers in progress, shared by accounts
)

// readOnce returns the check.Once of a request's Idempotency-Key, or nil without one. The request is identified by its
// path and its body, byte for byte.
func (s *Server) readOnce(ctx *fasthttp.RequestCtx, render func([]check.Answer) []byte) (*check.Once, error) {
	lines := ctx.Request.Header.PeekAll(onceHeader)
	if len(lines) == 0 || s.cfg.Answers == nil {
		return nil, nil
	}
	key := string(lines[0])
	unprintable := func(r rune) bool { return r < ' ' || r > '~' }
	switch {
	case len(lines) > 1:
		return nil, &entity.InvalidError{Field: onceHeader, Reason: "must not occur more than once"}
	case key == "" || len(key) > maxOnceKey || strings.ContainsFunc(key, unprintable):
		return nil, &entity.InvalidError{Field: onceHeader, Reason: "must have 1 to 255 printable ASCII characters"}
	}
	request := append([]byte(s.knownPath(ctx)+"\n"), ctx.Request.Body()...)
	return &check.Once{Key: key, Request: request, Render: render}, nil
}

// answerOnce answers a request with the answer kept for its Idempotency-Key, or otherwise with the result of score.
func (s *Server) answerOnce(
	work context.Context, ctx *fasthttp.RequestCtx, caller check.Caller, render func([]check.Answer) []byte,
	score func(*check.Once) ([]check.Answer, error),
) error {
	once, err := s.readOnce(ctx, render)
	if err != nil {
		return err
	}
	if caller.Limits.Test { // records nothing, so nothing is kept
		once = nil
	}
	defer current(ctx).part("check")()
	const maxAttempts = 3
	for attempt := 1; ; attempt++ {
		if kept, err := s.kept(work, caller, once); err != nil {
			return err
		} else if kept != nil {
			current(ctx).replayed = true
			s.cfg.Used(caller) // the ledger notes nothing
			ctx.Response.Header.Set(replayedHeader, "true")
			write(ctx, fasthttp.StatusOK, kept)
			return nil
		}
		answers, err := score(once)
		switch {
		case errors.Is(err, check.ErrAnswered) && attempt < maxAttempts:
			continue // the answer was recorded meanwhile; if it is gone again, the request is a new one
		case errors.Is(err, check.ErrAnswered):
			return &check.UnavailableError{Part: "ledger", Err: err}
		case err != nil:
			return err
		}
		var body []byte
		if once != nil {
			body = once.Answer
		}
		if body == nil {
			body = render(answers)
		}
		write(ctx, fasthttp.StatusOK, body)
		return nil
	}
}

// kept returns the answer that was kept, or nil.
func (s *Server) kept(work context.Context, caller check.Caller, once *check.Once) (answer []byte, err error) {
	if once == nil {
		return nil, nil
	}
	err = s.shared(s.keptLookups, caller, func() error {
		answer, err = s.cfg.Answers.Kept(work, caller.Account, once)
		return err
	})
	return answer, err
}
