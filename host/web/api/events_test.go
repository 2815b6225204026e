package api

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/registry/expect"
)

// eventLog has 5 events of the account goodKey. The odd ones are delivered, so their payload is deleted.
type eventLog struct{}

func (eventLog) After(_ context.Context, account string, after int64, limit int) ([]Event, error) {
	if account == failKey {
		return nil, errors.New(secret)
	}
	var events []Event
	for n := after + 1; account == goodKey && n <= 5 && len(events) < limit; n++ {
		e := Event{Sequence: n, State: "delivered", Attempts: 1, Name: "check.blocked", At: atCheck, Type: "domain",
			Score: 94, Ref: fmt.Sprint("chk_", n)}
		if n%2 == 0 {
			e.State, e.Attempts, e.Name = "failed", 4, "check.review"
			e.Body = fmt.Appendf(nil, `{"event":"check.review","timestamp":"x","data":{"query":"<é>",`+
				`"type":"domain","verdict":"REVIEW","score":94,"signals":[],"ref":"chk_%d"}}`, n)
		}
		events = append(events, e)
	}
	return events, nil
}

func TestEvents(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	one := func(n int) string {
		if n%2 == 0 {
			return fmt.Sprintf(`{"sequence":%d,"state":"failed","attempts":4,"event":"check.review",`+
				`"timestamp":"2026-01-15T10:30:00.123Z","data":{"query":"\u003cé\u003e","type":"domain",`+
				`"verdict":"REVIEW","score":94,"signals":[],"ref":"chk_%d"}}`, n, n)
		}
		return fmt.Sprintf(`{"sequence":%d,"state":"delivered","attempts":1,"event":"check.blocked",`+
			`"timestamp":"2026-01-15T10:30:00.123Z",`+
			`"data":{"type":"domain","verdict":"BLOCK","score":94,"ref":"chk_%d"}}`, n, n)
	}
	for query, want := range map[string]string{
		"": `{"events":[` + one(1) + "," + one(2) + "," + one(3) + "," + one(4) + "," + one(5) +
			`],"next":5,"more":false}`,
		"?after=1&limit=2":        `{"events":[` + one(2) + "," + one(3) + `],"next":3,"more":true}`,
		"?after=3&limit=2":        `{"events":[` + one(4) + "," + one(5) + `],"next":5,"more":false}`,
		"?after=5":                `{"events":[],"next":5,"more":false}`,
		"?after=9007199254740991": `{"events":[],"next":9007199254740991,"more":false}`,
	} {
		r := s.ask(t, goodKey, "GET /api/events"+query, "")
		diff := cmp.Diff(want, r.body)
		expect.That(t, r.status == 200 && diff == "", "%s: %d (-want +got):\n%s", query, r.status, diff)
	}
	r := s.ask(t, freeKey, "GET /api/events", "")
	expect.That(t, r.body == `{"events":[],"next":0,"more":false}`, "another account: %s", r.body)
}
