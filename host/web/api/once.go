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
	// Complete replaces the kept answer to a request, if there is one.
	Complete(ctx context.Context, account string, once *check.Once) error
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

// answerOnce answers a request with the answer kept for its Idempotency-Key, or otherwise with the result of score. It
// returns the request's check.Once, or nil if the answer is not kept.
func (s *Server) answerOnce(
	work context.Context, ctx *fasthttp.RequestCtx, caller check.Caller, render func([]check.Answer) []byte,
	score func(*check.Once) ([]check.Answer, error),
) (*check.Once, error) {
	once, err := s.readOnce(ctx, render)
	if err != nil {
		return nil, err
	}
	if caller.Limits.Test { // records nothing, so nothing is kept
		once = nil
		confirm := func() error { return s.confirm(work, caller) }
		if err := s.shared(s.keptLookups, caller, confirm); err != nil {
			return nil, err
		}
	}
	defer current(ctx).part("check")()
	const maxAttempts = 3
	for attempt := 1; ; attempt++ {
		if replayed, err := s.replay(work, ctx, caller, once); replayed || err != nil {
			return once, err
		}
		answers, err := score(once)
		switch {
		case errors.Is(err, check.ErrAnswered) && attempt < maxAttempts:
			continue // the answer was recorded meanwhile; if it is gone again, the request is a new one
		case errors.Is(err, check.ErrAnswered):
			return nil, &check.UnavailableError{Part: "ledger", Err: err}
		case errors.As(err, new(*check.QuotaError)): // the same request may have used the last check meanwhile
			replayed, failed := s.replay(work, ctx, caller, once)
			if !replayed && failed == nil {
				failed = err
			}
			return once, failed
		case err != nil:
			return nil, err
		}
		if once != nil && once.Answer != nil {
			write(ctx, fasthttp.StatusOK, once.Answer)
		} else {
			write(ctx, fasthttp.StatusOK, render(answers))
		}
		return once, nil
	}
}

// replay answers with the answer that was kept, and reports whether there was one.
func (s *Server) replay(work context.Context, ctx *fasthttp.RequestCtx, caller check.Caller, once *check.Once) (
	replayed bool, err error) {
	if once == nil {
		return false, nil
	}
	var answer []byte
	err = s.shared(s.keptLookups, caller, func() (err error) {
		if answer, err = s.cfg.Answers.Kept(work, caller.Account, once); answer != nil && err == nil {
			err = s.confirm(work, caller)
		}
		return err
	})
	if err != nil || answer == nil {
		return false, err
	}
	current(ctx).replayed = true
	s.cfg.Used(caller) // the ledger does not record this use
	ctx.Response.Header.Set(replayedHeader, "true")
	write(ctx, fasthttp.StatusOK, answer)
	return true, nil
}
