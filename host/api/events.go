package api

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"assay/host/entity"
)

// Events knows the webhook events of accounts.
type Events interface {
	// After lists up to limit events of an account behind a number of its sequence, in their order. Numbers are without
	// gaps and become visible in their order, so what has once been passed over never comes.
	After(ctx context.Context, account string, after int64, limit int) ([]Event, error)
}

// Event is a webhook event and what has become of it.
type Event struct {
	Sequence int64 // among the account's events, from 1
	State    string
	Attempts int
	Name     string // check.blocked or check.review
	At       time.Time
	Type     string
	Score    int
	Ref      string
	Body     []byte // the webhook's body; nil once it is deleted
}

// How many events one call lists.
const (
	defaultEvents = 50
	maxEvents     = 100
)

// listedEvents is the body of a successful call.
type listedEvents struct {
	Events []listedEvent `json:"events"`
	Next   int64         `json:"next"` // the after of the next call
	More   bool          `json:"more"` // events are behind these already
}

// listedEvent is a webhook's body (spec section 2.3) with what has become of it.
type listedEvent struct {
	Sequence  int64           `json:"sequence"`
	State     string          `json:"state"`
	Attempts  int             `json:"attempts"`
	Event     string          `json:"event"`
	Timestamp string          `json:"timestamp"`
	Data      json.RawMessage `json:"data"`
}

// keptData is what is left of an event's data when its payload is deleted: nothing of the entity.
type keptData struct {
	Type    string `json:"type"`
	Verdict string `json:"verdict"`
	Score   int    `json:"score"`
	Ref     string `json:"ref"`
}

func newListedEvent(e Event) (listedEvent, error) {
	l := listedEvent{Sequence: e.Sequence, State: e.State, Attempts: e.Attempts, Event: e.Name, Timestamp: stamp(e.At)}
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

// events serves GET /api/events: with it a receiver that has seen a gap in X-Service-Sequence catches up. It counts
// against no quota.
func (s *Server) events(c *fiber.Ctx) error {
	if s.cfg.Events == nil {
		return errNotFound
	}
	return s.bounded(s.checks, func(work context.Context) error {
		caller, err := s.authenticate(work, &c.Request().Header)
		if err != nil {
			return err
		}
		current(c.Context()).account = strings.Clone(caller.Account)
		args := c.Context().QueryArgs()
		// as far as every JSON reader counts exactly (RFC 8259 section 6)
		after, err := number(args, "after", 0, 1<<53-1, 0)
		if err != nil {
			return err
		}
		limit, err := number(args, "limit", 1, maxEvents, defaultEvents)
		if err != nil {
			return err
		}
		found, err := s.cfg.Events.After(work, caller.Account, after, int(limit)+1)
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
		s.answer(c.Context(), fasthttp.StatusOK, list)
		return nil
	})
}

// number reads a whole number of the query string.
func number(args *fasthttp.Args, name string, least, most, preset int64) (int64, error) {
	values := args.PeekMulti(name)
	if len(values) == 0 {
		return preset, nil
	}
	n, err := strconv.ParseUint(string(values[0]), 10, 63)
	if err != nil || len(values) > 1 || int64(n) < least || int64(n) > most {
		return 0, &entity.InvalidError{Field: name, Reason: "must be given once, as a whole number from " +
			strconv.FormatInt(least, 10) + " to " + strconv.FormatInt(most, 10)}
	}
	return int64(n), nil
}
