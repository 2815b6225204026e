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
	"github.com/uptrace/bun"

	"assay/host/check"
	"assay/host/entity"
)

// Event is a webhook event and what has become of it.
type Event struct {
	bun.BaseModel `bun:"table:webhook_events,alias:e" json:"-"`

	Sequence      int64      `json:"sequence"` // among the account's events, from 1, without gaps
	Ref           string     `json:"ref"`      // of the check; "test_..." for a test event
	AccountID     string     `json:"account"`
	Event         string     `json:"event"`
	Type          string     `json:"type"`
	Score         int        `json:"score"`
	OccurredAt    time.Time  `json:"timestamp"`
	State         string     `json:"state"` // pending, delivered or failed
	Attempts      int        `json:"attempts"`
	NextAttemptAt *time.Time `json:"next_attempt_at"` // null: none will be made
	SettledAt     *time.Time `json:"settled_at"`      // when it was delivered or failed
	Held          bool       `bun:",scanonly" json:"payload_held"`

	SealedPayload []byte `json:"-"`
	// what is sent, byte for byte; EventsAfter alone opens it, and only while it is held
	Body json.RawMessage `bun:"-" json:"-"`
}

// Attempt is one attempt to deliver an event.
type Attempt struct {
	bun.BaseModel `bun:"table:webhook_attempts,alias:t" json:"-"`

	Number       int       `json:"number"`
	StartedAt    time.Time `json:"started_at"`
	TookMS       *int      `json:"took_ms"` // null: the host did not live to tell
	Status       int       `json:"status"`  // 0: no answer
	Error        string    `json:"error"`
	SealedAnswer []byte    `json:"-"`
	Answer       string    `bun:"-" json:"answer"` // its first KiB, in valid UTF-8
}

// How long events are kept. Their payloads go once delivered.
const (
	failedPayloads = 72 * time.Hour      // and what receivers answered, since it may echo them
	settledEvents  = 30 * 24 * time.Hour // as long as request logs (spec section 8)
	atOnce         = 10_000              // rows of them, so that one statement stays within its time
)

// Errors of events.
var (
	ErrNoEvent      = errors.New("there is no such webhook event")
	ErrEventPending = errors.New("the event is still being sent")
	ErrPayloadGone  = errors.New("the event's payload is no longer held: it is deleted once delivered, and 72 hours after it failed")
)

// EventsAfter lists up to limit events of an account behind a number of its sequence, in their order, with the bodies
// that are still held. What it has once passed over it will never show.
func (s *Store) EventsAfter(ctx context.Context, accountID string, after int64, limit int) ([]Event, error) {
	events := []Event{}
	err := s.events(&events).Column("e.sealed_payload").Where("account_id = ? AND sequence > ?", accountID,
		after).Order("sequence").Limit(int64(limit)).Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing webhook events: %w", err)
	}
	for i, e := range events {
		if !e.Held {
			continue
		}
		// One that was altered in the database must not end the list for good.
		if events[i].Body, err = s.keys.Open(e.SealedPayload, eventContext(e.Ref)); err != nil {
			s.log.Error("webhook event cannot be opened", "ref", e.Ref, "error", err)
		}
	}
	return events, nil
}

// RecentEvents lists up to limit events of an account, newest first: those in state, or all when it is "", and below a
// number of the sequence, or from the newest when it is 0.
func (s *Store) RecentEvents(ctx context.Context, accountID, state string, below int64, limit int) ([]Event, error) {
	events := []Event{}
	q := s.events(&events).Where("account_id = ?", accountID).Order("sequence DESC").Limit(int64(limit))
	if state != "" {
		q = q.Where("state = ?", state)
	}
	if below > 0 {
		q = q.Where("sequence < ?", below)
	}
	if err := q.Scan(ctx); err != nil {
		return nil, fmt.Errorf("listing webhook events: %w", err)
	}
	return events, nil
}

func (s *Store) events(into *[]Event) *bun.SelectQuery {
	return s.db.NewSelect().Model(into).ExcludeColumn("sealed_payload").
		ColumnExpr("e.sealed_payload IS NOT NULL AS held")
}

// Attempts lists the attempts that were made to deliver an account's event, oldest first. Error: ErrNoEvent.
func (s *Store) Attempts(ctx context.Context, accountID, ref string) ([]Attempt, error) {
	if _, err := s.eventState(ctx, s.db, accountID, ref); err != nil {
		return nil, fmt.Errorf("listing attempts: %w", err)
	}
	attempts := []Attempt{}
	if err := s.db.NewSelect().Model(&attempts).Where("ref = ?", ref).Order("number").Scan(ctx); err != nil {
		return nil, fmt.Errorf("listing attempts: %w", err)
	}
	for i, a := range attempts {
		if a.SealedAnswer == nil {
			continue
		}
		answer, err := s.keys.Open(a.SealedAnswer, answerContext(ref, a.Number))
		if err != nil {
			return nil, fmt.Errorf("listing attempts: %w", err)
		}
		attempts[i].Answer = strings.ToValidUTF8(string(answer), "\uFFFD")
	}
	return attempts, nil
}

// eventState reads an event's state, whether its payload is held included. An empty account stands for any. Error:
// ErrNoEvent.
func (s *Store) eventState(ctx context.Context, db bun.IDB, accountID, ref string) (Event, error) {
	var e Event
	q := db.NewSelect().Model(&e).Column("state",
		"account_id").ColumnExpr("sealed_payload IS NOT NULL AS held").Where("ref = ?", ref)
	if accountID != "" {
		q = q.Where("account_id = ?", accountID)
	}
	err := q.Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return e, fmt.Errorf("%w: %s", ErrNoEvent, ref)
	}
	return e, err
}

// resend sends failed events off anew, with a first attempt at once and the whole schedule behind it.
const resend = `UPDATE webhook_events SET state = 'pending', tries = 0, next_attempt_at = now(), settled_at = NULL
	WHERE state = 'failed' AND sealed_payload IS NOT NULL AND EXISTS (
		SELECT FROM webhook_endpoints AS w WHERE w.account_id = webhook_events.account_id AND w.disabled_at IS NULL) AND `

// ResendEvent sends a failed event again; an empty account stands for any. Errors: ErrNoEvent, ErrEventPending,
// ErrPayloadGone, ErrNoEndpoint, ErrEndpointDisabled.
func (s *Store) ResendEvent(ctx context.Context, accountID, ref string) error {
	result, err := s.db.NewRaw(resend+"ref = ? AND account_id = coalesce(nullif(?, ''), account_id)", ref,
		accountID).Exec(ctx)
	if err = oneRow(result, err, errNotResent); errors.Is(err, errNotResent) {
		var e Event
		switch e, err = s.eventState(ctx, s.db, accountID, ref); {
		case err != nil:
		case e.State == "pending":
			err = ErrEventPending
		case !e.Held:
			err = ErrPayloadGone
		default:
			if err = endpointExists(ctx, s.db, e.AccountID); err == nil {
				err = ErrEndpointDisabled
			}
		}
	}
	if err != nil {
		return fmt.Errorf("resending %s: %w", ref, err)
	}
	return nil
}

var errNotResent = errors.New("nothing was resent")

// ResendFailed sends all of an account's events again that failed since then, and says how many; gone are those whose
// payload is no longer held. Errors: ErrNoEndpoint, ErrEndpointDisabled; after any other, some may have been resent,
// and it can be called again.
func (s *Store) ResendFailed(ctx context.Context, accountID string, since time.Time) (resent, gone int, err error) {
	endpoints, err := s.Endpoints(ctx, accountID)
	if err == nil && (accountID == "" || len(endpoints) == 0) {
		err = ErrNoEndpoint
	} else if err == nil && endpoints[0].DisabledAt != nil {
		err = ErrEndpointDisabled
	}
	if err != nil {
		return 0, 0, fmt.Errorf("resending events: %w", err)
	}
	var begun time.Time // what fails again behind it is not resent twice
	err = s.db.NewRaw("SELECT count(*), now() FROM webhook_events WHERE account_id = ? AND state = 'failed' AND sealed_payload IS NULL AND settled_at >= ?",
		accountID, since).Scan(ctx, &gone, &begun)
	for n := 1; err == nil && n > 0; resent += n {
		n, err = s.resendSome(ctx, accountID, since, begun)
	}
	if err != nil {
		return resent, gone, fmt.Errorf("resending events: %w", err)
	}
	return resent, gone, nil
}

// resendSome sends the first of an account's events again that failed between two times, and says how many.
func (s *Store) resendSome(ctx context.Context, accountID string, since, until time.Time) (n int, err error) {
	err = s.inTx(ctx, func(ctx context.Context, tx bun.Tx) error {
		result, err := tx.NewRaw(resend+`ref IN (SELECT ref FROM webhook_events WHERE account_id = ? AND state = 'failed' AND sealed_payload IS NOT NULL
			AND settled_at BETWEEN ? AND ? ORDER BY sequence LIMIT ?)`, accountID, since, until, atOnce).Exec(ctx)
		if err != nil {
			return err
		}
		rows, err := result.RowsAffected()
		n = int(rows)
		return err
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

// SendTestEvent puts an event into the outbox that no check has made, and returns its reference. It is a check.review
// of a reserved name with the one signal host:test:event, so that a receiver needs to know nothing new; its reference
// begins with "test_" and is in no audit trail. It is sent to a disabled endpoint too, and does not enable it. Error:
// ErrNoEndpoint.
func (s *Store) SendTestEvent(ctx context.Context, accountID string) (ref string, err error) {
	d := &check.Decision{
		Fused: check.Fused{Score: 40, Lowest: 40, Highest: 40, Verdict: check.Review,
			Signals: []check.Signal{{Code: "host:test:event", Text: "A test event, sent by hand"}}},
		Ref: testPrefix + ulid.Make().String(), Type: entity.Domain, Query: "test.example",
		At: s.now().UTC().Truncate(time.Millisecond),
	}
	row, _, err := s.eventOf(accountID, d)
	if err != nil {
		return "", fmt.Errorf("sending test event: %w", err)
	}
	err = s.inTx(ctx, func(ctx context.Context, tx bun.Tx) error {
		if err := endpointExists(ctx, tx, accountID); err != nil {
			return err
		}
		_, err := insertEvents(tx, []eventRow{row}).Exec(ctx)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("sending test event: %w", err)
	}
	return d.Ref, nil
}

// PruneWebhooks deletes what is held of webhooks for no longer than needed: payloads of events that failed 72 hours ago
// and answers as old, events and their attempts 30 days after they were settled, payloads of events that lost their
// endpoint, and secrets that no longer sign. What still waits for an endpoint that was disabled fails.
func (s *Store) PruneWebhooks(ctx context.Context) error {
	err := s.inTx(ctx, func(ctx context.Context, tx bun.Tx) error {
		if err := failDisabled(ctx, tx); err != nil {
			return err
		}
		err := abandon(ctx, tx, "NOT EXISTS (SELECT FROM webhook_endpoints AS w WHERE w.account_id = e.account_id)")
		if err != nil {
			return err
		}
		_, err = tx.NewRaw("DELETE FROM webhook_old_secrets WHERE ends_at <= now()").Exec(ctx)
		return err
	})
	if err != nil {
		return fmt.Errorf("pruning webhooks: %w", err)
	}
	for _, old := range []struct {
		sql string
		age time.Duration
	}{
		{`WITH old AS (SELECT ref FROM webhook_events WHERE state = 'failed' AND sealed_payload IS NOT NULL AND settled_at <= now() - ? * interval '1 second'
			ORDER BY settled_at DESC LIMIT ? FOR UPDATE SKIP LOCKED)
			UPDATE webhook_events AS e SET sealed_payload = NULL FROM old WHERE old.ref = e.ref`, failedPayloads},
		{`WITH old AS (SELECT ref, number FROM webhook_attempts WHERE sealed_answer IS NOT NULL AND started_at <= now() - ? * interval '1 second'
			LIMIT ? FOR UPDATE SKIP LOCKED)
			UPDATE webhook_attempts AS t SET sealed_answer = NULL FROM old WHERE old.ref = t.ref AND old.number = t.number`, failedPayloads},
		{`WITH old AS (SELECT ref FROM webhook_events WHERE settled_at <= now() - ? * interval '1 second' LIMIT ? FOR UPDATE SKIP LOCKED)
			DELETE FROM webhook_events AS e USING old WHERE old.ref = e.ref`, settledEvents},
	} {
		for n := int64(atOnce); n == atOnce; {
			result, err := s.db.NewRaw(old.sql, int(old.age.Seconds()), atOnce).Exec(ctx)
			if err == nil {
				n, err = result.RowsAffected()
			}
			if err != nil {
				return fmt.Errorf("pruning webhooks: %w", err)
			}
		}
	}
	return nil
}
