package store

import (
	"context"
	"time"

	"assay/host/check"
)

// eventRow is the row that a check or a test event adds to webhook_events.
type eventRow struct {
	Ref           string
	AccountID     string
	Event         string
	Type          string
	Score         int
	OccurredAt    time.Time
	SealedPayload []byte
}

// eventOf returns the outbox row of a check. ok is false if the verdict triggers no event.
func (s *Store) eventOf(accountID string, d *check.Decision) (row eventRow, ok bool, err error) {
	name, body, err := d.Event()
	if err != nil || name == "" {
		return eventRow{}, false, err
	}
	return eventRow{
		Ref: d.Ref, AccountID: accountID, Event: name, Type: string(d.Type), Score: d.Score, OccurredAt: d.At,
		SealedPayload: s.keys.Seal(body, eventContext(d.Ref)),
	}, true, nil
}

func eventContext(ref string) string          { return "event " + ref }
func endpointContext(accountID string) string { return "endpoint " + accountID }

// testPrefix begins the references of test events, which are also sent to disabled endpoints.
const testPrefix = "test_"

// addEvent adds a test event to the outbox and numbers it in its account's sequence. It is one statement, because
// checks of the account wait for the row of its sequence. The row stays locked until the commit, so numbers become
// visible in order: a reader that has seen number n will never find a lower number later.
func (s *Store) addEvent(ctx context.Context, chain int, e eventRow) error {
	_, err := query(s.db, "insert_event", named{"chain": chain, "ref": e.Ref, "account": e.AccountID, "event": e.Event,
		"type": e.Type, "score": e.Score, "at": e.OccurredAt, "payload": e.SealedPayload}).Exec(ctx)
	return err
}
