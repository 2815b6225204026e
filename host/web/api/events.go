package api

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"assay/host/check"
	"assay/host/customer/webhook"
	"assay/host/entity"
)

// Events lists the webhook events of accounts.
type Events interface {
	// EventsAfter returns up to limit events of an account whose sequence numbers are above after, in order. Events
	// become visible in order, so a number that was skipped once never appears later.
	EventsAfter(ctx context.Context, account string, after int64, limit int) ([]webhook.Event, error)
}

// The number of events in one response.
const (
	defaultEvents = 50
	maxEvents     = 100
)

// listedEvents is the body of a successful call.
type listedEvents struct {
	Events []listedEvent `json:"events"`
	Next   int64         `json:"next"` // the value of after for the next call
	More   bool          `json:"more"` // whether there are later events
}

// listedEvent is a webhook event (contract section 2.3) with its delivery state.
type listedEvent struct {
	Sequence  int64           `json:"sequence"`
	State     string          `json:"state"`
	Attempts  int             `json:"attempts"`
	Event     string          `json:"event"`
	Timestamp string          `json:"timestamp"`
	Data      json.RawMessage `json:"data"`
}

// keptData is the part of an event's data that outlives its payload. It does not identify the entity.
type keptData struct {
	Type    string `json:"type"`
	Verdict string `json:"verdict"`
	Score   int    `json:"score"`
	Ref     string `json:"ref"`
}

func newListedEvent(e webhook.Event) (listedEvent, error) {
	l := listedEvent{Sequence: e.Sequence, State: e.State, Attempts: e.Attempts, Event: e.Name,
		Timestamp: stamp(e.OccurredAt)}
	if e.Body != nil {
		return l, json.Unmarshal(e.Body, &struct {
			Data *json.RawMessage `json:"data"`
		}{&l.Data})
	}
	verdict := "REVIEW"
	if e.Name == "check.blocked" {
		verdict = "BLOCK"
	}
	data, err := json.Marshal(keptData{Type: e.Type, Verdict: verdict, Score: e.Score, Ref: e.Ref})
	l.Data = data
	return l, err
}

// listEvents serves GET /api/events, with which a receiver catches up after a gap in X-Service-Sequence.
func (s *Server) listEvents(c *fiber.Ctx) error {
	return s.keyed(c, func(work context.Context, caller check.Caller) error {
		return s.shared(s.events, caller, func() error { return s.answerEvents(work, c, caller) })
	})
}

func (s *Server) answerEvents(work context.Context, c *fiber.Ctx, caller check.Caller) error {
	args := c.Context().QueryArgs()
	after, err := number(args, "after", 0, maxExactInt, 0)
	if err != nil {
		return err
	}
	limit, err := number(args, "limit", 1, maxEvents, defaultEvents)
	if err != nil {
		return err
	}
	if err := s.confirm(work, caller); err != nil {
		return err
	}
	found, err := s.cfg.Events.EventsAfter(work, caller.Account, after, int(limit)+1)
	if err != nil {
		return err
	}
	list := listedEvents{Events: []listedEvent{}, Next: after, More: len(found) > int(limit)}
	for _, e := range found[:min(len(found), int(limit))] {
		l, err := newListedEvent(e)
		if err != nil {
			return err
		}
		list.Events = append(list.Events, l)
		list.Next = l.Sequence
	}
	return s.reply(c, list, nil)
}

// maxExactInt is the largest integer that every JSON reader represents exactly (RFC 8259 section 6).
const maxExactInt = 1<<53 - 1

// number parses a whole number in the query string, or returns fallback if it is missing.
func number(args *fasthttp.Args, name string, low, high, fallback int64) (int64, error) {
	values := args.PeekMulti(name)
	if len(values) == 0 {
		return fallback, nil
	}
	n, err := strconv.ParseUint(string(values[0]), 10, 63)
	if err != nil || len(values) > 1 || int64(n) < low || int64(n) > high {
		return 0, &entity.InvalidError{Field: name,
			Reason: fmt.Sprintf("must be given once, as a whole number from %d to %d", low, high)}
	}
	return int64(n), nil
}
