package store

import (
	"time"

	"github.com/uptrace/bun"

	"assay/host/check"
)

// eventRow is an event on its way into the outbox.
type eventRow struct {
	Ref           string
	AccountID     string
	Event         string
	Type          string
	Score         int
	OccurredAt    time.Time
	SealedPayload []byte
	Later         int64 // events of the same account behind it in the same insert
}

// event is the outbox row of a check, if its account has an endpoint and the verdict makes one. Without an endpoint
// nothing is kept: the payload holds the raw entity.
func (s *Store) event(c caller, r check.Record) (row eventRow, ok bool, err error) {
	if !c.Endpoint || !r.Caller.Plan.Webhooks {
		return eventRow{}, false, nil
	}
	return s.eventOf(c.AccountID, r.Decision)
}

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

// testPrefix begins the references of test events. They are sent to disabled endpoints too.
const testPrefix = "test_"

// insertEvents puts events into the outbox and numbers each in its account's sequence. The number's row stays locked
// until the commit, so numbers become visible in their order: who has read up to n will never be shown a lower one
// later. Those of a disabled endpoint have failed without an attempt: they are kept as long as others that failed, and
// can be resent.
func insertEvents(tx bun.IDB, events []eventRow) *bun.RawQuery {
	later := map[string]int64{}
	for i := len(events) - 1; i >= 0; i-- {
		events[i].Later = later[events[i].AccountID]
		later[events[i].AccountID]++
	}
	return tx.NewRaw(`
		WITH new (ref, account_id, event, type, score, occurred_at, sealed_payload, later) AS (?),
		numbered AS (
			INSERT INTO webhook_sequences AS s (account_id, last)
			SELECT account_id, count(*) FROM new GROUP BY account_id ORDER BY account_id
			ON CONFLICT (account_id) DO UPDATE SET last = s.last + EXCLUDED.last
			RETURNING account_id, last)
		INSERT INTO webhook_events (ref, account_id, event, type, score, occurred_at, sealed_payload, sequence, state, next_attempt_at, settled_at)
		SELECT ref, account_id, event, type, score, occurred_at, sealed_payload, last - later, CASE WHEN kept THEN 'failed' ELSE 'pending' END,
			CASE WHEN NOT kept THEN now() END, CASE WHEN kept THEN now() END
		FROM new JOIN numbered USING (account_id) CROSS JOIN LATERAL (SELECT NOT starts_with(new.ref, ?) AND EXISTS (
			SELECT FROM webhook_endpoints AS w WHERE w.account_id = new.account_id AND w.disabled_at IS NOT NULL)) AS is_disabled (kept)`,
		tx.NewValues(&events), testPrefix)
}
