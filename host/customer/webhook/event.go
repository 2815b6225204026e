package webhook

import (
	"encoding/json"
	"errors"
	"time"
)

// Event is a webhook event and its delivery state.
type Event struct {
	Sequence      int64      `json:"sequence"` // among the account's events, from 1, without gaps
	Ref           string     `json:"ref"`      // of the check; "test_..." for a test event
	AccountID     string     `json:"account"`
	Name          string     `json:"event"` // such as check.blocked
	Type          string     `json:"type"`  // of the checked entity
	Score         int        `json:"score"`
	OccurredAt    time.Time  `json:"timestamp"`
	State         string     `json:"state"`           // pending, delivered or failed
	Attempts      int        `json:"attempts"`        // that have begun
	NextAttemptAt *time.Time `json:"next_attempt_at"` // null: no attempt is due
	SettledAt     *time.Time `json:"settled_at"`      // when it was delivered or failed; null: it is pending
	PayloadHeld   bool       `json:"payload_held"`

	Body json.RawMessage `json:"-"` // exactly the bytes that are sent; nil in listings without bodies and once deleted
}

// Attempt is one attempt to deliver an event.
type Attempt struct {
	Number       int       `json:"number"`
	StartedAt    time.Time `json:"started_at"`
	TookMS       *int      `json:"took_ms"` // null: the host stopped before the outcome was known
	Status       int       `json:"status"`  // 0: there was no response
	Error        string    `json:"error"`
	ResponseBody string    `json:"answer"` // the first KiB, with invalid UTF-8 replaced

	// The dashboard shows these fields for ExchangeRetention. The request contains the checked value.
	Request        Request `json:"-"`
	ResponseHeader string  `json:"-"`
}

// Request is a request as the receiver got it, without secrets. Signatures are shortened.
type Request struct {
	Header string `json:"header"` // from the request line on; "": nothing was sent
	Body   string `json:"body"`
}

// ExchangeRetention is how long the requests and responses of attempts are kept.
const ExchangeRetention = 72 * time.Hour

// Errors of events.
var (
	ErrNoEvent      = errors.New("there is no such webhook event")
	ErrTestVerdict  = errors.New("the verdict of a test event is review or block")
	ErrEventPending = errors.New("the event is still being sent")
	ErrPayloadGone  = errors.New("the event's payload is no longer held: " +
		"it is deleted on delivery, or 72 hours after the check of an event that failed")
)
