package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"assay/host/check"
	"assay/host/customer/webhook"
	"assay/host/entity"
)

const rowsPerStatement = 1_000 // limits how long one statement takes

// EventsAfter lists up to limit events of an account with a sequence number above after, in ascending order, with the
// bodies that are still stored. Numbers become visible in order, so a reader that continues from the last one misses
// none.
func (s *Store) EventsAfter(ctx context.Context, accountID string, after int64, limit int) ([]webhook.Event, error) {
	var rows []struct {
		webhook.Event
		SealedPayload []byte
	}
	err := query(s.db, "events_after", named{"account": accountID, "after": after, "limit": limit}).Scan(ctx, &rows)
	if err != nil {
		return nil, withOutage(fmt.Errorf("listing webhook events: %w", err))
	}
	events := make([]webhook.Event, len(rows))
	for i, r := range rows {
		events[i] = r.Event
		if !r.PayloadHeld {
			continue
		}
		// A payload altered in the database must not make every later call fail.
		if events[i].Body, err = s.keys.Open(r.SealedPayload, eventContext(r.Ref)); err != nil {
			s.log.Error("webhook event cannot be opened", "ref", r.Ref, "error", err)
		}
	}
	return events, nil
}

// RecentEvents lists up to limit events of an account, newest first and without bodies. An empty state selects all
// states. If below is positive, only events with a lower sequence number are listed.
func (s *Store) RecentEvents(ctx context.Context, accountID, state string, below int64, limit int) ([]webhook.Event,
	error) {
	events := []webhook.Event{}
	err := query(s.db, "recent_events", named{"account": accountID, "state": state, "below": below, "limit": limit}).
		Scan(ctx, &events)
	return events, wrap(err, "listing webhook events")
}

// Attempts lists the attempts to deliver an account's event, oldest first. It fails with webhook.ErrNoEvent.
func (s *Store) Attempts(ctx context.Context, accountID, ref string) ([]webhook.Attempt, error) {
	type row struct {
		webhook.Attempt
		SealedAnswer, SealedExchange []byte
	}
	var rows []row
	_, err := s.eventState(ctx, accountID, ref)
	if err == nil {
		err = s.db.NewRaw(`SELECT number, started_at, took_ms, status, error, sealed_answer, sealed_exchange
			FROM webhook_attempts WHERE ref = ? ORDER BY number`, ref).Scan(ctx, &rows)
	}
	attempts, err := convert(rows, err, func(r row) (webhook.Attempt, error) {
		err := s.openExchange(ref, &r.Attempt, r.SealedAnswer, r.SealedExchange)
		return r.Attempt, err
	})
	return attempts, wrap(err, "listing attempts")
}

// exchange is the stored part of an attempt's request and response, except for the response's body.
type exchange struct {
	Request        webhook.Request `json:"request"`
	ResponseHeader string          `json:"answer_header"`
}

// openExchange adds the stored part of an attempt's request and response.
func (s *Store) openExchange(ref string, a *webhook.Attempt, sealedAnswer, sealedExchange []byte) error {
	if sealedAnswer != nil {
		body, err := s.keys.Open(sealedAnswer, responseContext(ref, a.Number))
		if err != nil {
			return err
		}
		a.ResponseBody = strings.ToValidUTF8(string(body), "\uFFFD")
	}
	if sealedExchange == nil {
		return nil
	}
	text, err := s.keys.Open(sealedExchange, exchangeContext(ref, a.Number))
	if err != nil {
		return err
	}
	var kept exchange
	if err := json.Unmarshal(text, &kept); err != nil {
		return err
	}
	a.Request, a.ResponseHeader = kept.Request, kept.ResponseHeader
	return nil
}

// eventState returns the account, the state and PayloadHeld of an event. An empty accountID matches any account. It
// fails with webhook.ErrNoEvent.
func (s *Store) eventState(ctx context.Context, accountID, ref string) (e webhook.Event, err error) {
	err = s.db.NewRaw(`SELECT account_id, state, sealed_payload IS NOT NULL AS payload_held FROM webhook_events
		WHERE ref = ?ref AND (?account = '' OR account_id = ?account)`, named{"ref": ref, "account": accountID}).
		Scan(ctx, &e)
	if errors.Is(err, sql.ErrNoRows) {
		return e, fmt.Errorf("%w: %s", webhook.ErrNoEvent, ref)
	}
	return e, err
}

// ResendEvent makes a failed event pending again, with a first attempt at once and the full retry schedule. An empty
// accountID matches any account. It fails with webhook.ErrNoEvent, ErrEventPending, ErrPayloadGone, ErrNoEndpoint or
// ErrEndpointDisabled.
func (s *Store) ResendEvent(ctx context.Context, accountID, ref string) error {
	result, err := query(s.db, "resend_event", named{"ref": ref, "account": accountID}).Exec(ctx)
	if err = oneRow(result, err, errNotResent); errors.Is(err, errNotResent) {
		var e webhook.Event
		switch e, err = s.eventState(ctx, accountID, ref); {
		case err != nil:
		case e.State == "pending":
			err = webhook.ErrEventPending
		case !e.PayloadHeld:
			err = webhook.ErrPayloadGone
		default:
			if err = endpointExists(ctx, s.db, e.AccountID); err == nil {
				err = webhook.ErrEndpointDisabled
			}
		}
	}
	return wrap(err, "resending %s", ref)
}

var errNotResent = errors.New("nothing was resent")

// ResendFailed resends all events of an account that failed at or after since. It returns how many were resent, and how
// many cannot be resent because their payload was deleted. It fails with webhook.ErrNoEndpoint or ErrEndpointDisabled.
// After any other error some events may have been resent, and the call can be repeated.
func (s *Store) ResendFailed(ctx context.Context, accountID string, since time.Time) (resent, gone int, err error) {
	var enabled bool
	err = s.db.NewRaw("SELECT disabled_at IS NULL FROM webhook_endpoints WHERE account_id = ?", accountID).
		Scan(ctx, &enabled)
	if errors.Is(err, sql.ErrNoRows) {
		err = webhook.ErrNoEndpoint
	} else if err == nil && !enabled {
		err = webhook.ErrEndpointDisabled
	}
	if err != nil {
		return 0, 0, fmt.Errorf("resending events: %w", err)
	}
	var began time.Time // events that fail again after this are not resent twice
	err = s.db.NewRaw(`SELECT count(*), now() FROM webhook_events
		WHERE account_id = ? AND state = 'failed' AND sealed_payload IS NULL AND settled_at >= ?`, accountID, since).
		Scan(ctx, &gone, &began)
	for n := 1; err == nil && n > 0; resent += n {
		n, err = s.resendBatch(ctx, accountID, since, began)
	}
	return resent, gone, wrap(err, "resending events")
}

// resendBatch resends up to rowsPerStatement events of an account that failed between since and until, and returns how
// many.
func (s *Store) resendBatch(ctx context.Context, accountID string, since, until time.Time) (n int, err error) {
	err = again(func() error { // a separate statement, because erasures wait for the events
		result, err := query(s.db, "resend_failed_events", named{"account": accountID, "since": since, "until": until,
			"limit": rowsPerStatement}).Exec(ctx)
		if err != nil {
			return err
		}
		rows, err := result.RowsAffected()
		n = int(rows)
		return err
	})
	return n, err
}

// testScores are the scores of test events, the lowest with each verdict.
var testScores = map[check.Verdict]int{check.Review: 40, check.Block: 70}

// SendTestEvent adds a test event to the outbox and returns its reference, which begins with "test_". The event is one
// of a review or a block of a reserved domain with the single signal host:test:event, so receivers need no special
// handling. It is not in the audit log. It is also sent to a disabled endpoint, without enabling it. It fails with
// webhook.ErrNoEndpoint, or with webhook.ErrTestVerdict.
func (s *Store) SendTestEvent(ctx context.Context, accountID string, verdict check.Verdict) (ref string, err error) {
	score, ok := testScores[verdict]
	if !ok {
		return "", webhook.ErrTestVerdict
	}
	d := &check.Decision{
		Fused: check.Fused{Score: score, Lowest: score, Highest: score, Verdict: verdict,
			Signals: []check.Signal{{Code: "host:test:event", Text: "A test event, sent by hand"}}},
		Ref: testPrefix + ulid.Make().String(), Type: entity.Domain, Query: "test.example",
		At: s.now().UTC().Truncate(time.Millisecond),
	}
	name, payload, err := s.eventOf(d)
	if err != nil {
		return "", fmt.Errorf("sending test event: %w", err)
	}
	var chain int
	err = s.db.NewRaw(`SELECT a.chain FROM webhook_endpoints AS w JOIN accounts AS a ON a.id = w.account_id
		WHERE w.account_id = ?`, accountID).Scan(ctx, &chain)
	if errors.Is(err, sql.ErrNoRows) {
		err = webhook.ErrNoEndpoint
	} else if err == nil {
		// One statement, because checks of the account wait for the row of its sequence. The row stays locked until the
		// commit, so numbers become visible in order: a reader that has seen number n will never find a lower number
		// later.
		_, err = query(s.db, "insert_event", named{"chain": chain, "ref": d.Ref, "account": accountID, "event": name,
			"type": d.Type, "score": score, "at": d.At, "payload": payload}).Exec(ctx)
	}
	return d.Ref, wrap(err, "sending test event")
}
