package store

import (
	_ "embed"
	"time"

	"github.com/uptrace/bun"

	"assay/host/check"
)

// eventRow is a row to insert into webhook_events. Its fields are the columns of "new" in insert_events.sql.
type eventRow struct {
	Ref           string
	AccountID     string
	Event         string
	Type          string
	Score         int
	OccurredAt    time.Time
	SealedPayload []byte
	Later         int64 // number of events of the same account that follow in the same insert
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

//go:embed sql/insert_events.sql
var insertEvents string

// addEvents returns the query that adds events to the outbox and numbers each in its account's sequence. The
// sequence's row stays locked until the commit, so numbers become visible in order: a reader that has seen number n
// will never find a lower number later. Events of a disabled endpoint fail without an attempt. They are kept as long as
// other failed events and can be resent.
func addEvents(tx bun.IDB, events []eventRow) *bun.RawQuery {
	later := map[string]int64{}
	for i := len(events) - 1; i >= 0; i-- {
		events[i].Later = later[events[i].AccountID]
		later[events[i].AccountID]++
	}
	return tx.NewRaw(insertEvents, named{"events": tx.NewValues(&events), "test_prefix": testPrefix})
}
