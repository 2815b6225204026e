package store

import (
	"testing"
	"time"

	"assay/host/webhook"
)

func TestQueues(t *testing.T) {
	t.Parallel()
	s, clock := openWithClock(t)
	l := ledgerOn(t, s, LedgerConfig{})
	noDiff(t, "an empty database", Queues{}, must(s.Queues(t.Context()))(t))
	caller, other := subscriber(t, s), subscriber(t, s)
	blocked(t, l, caller, 2)
	blocked(t, l, other, 1)
	clock.advance(t, time.Minute)
	noDiff(t, "three checks", Queues{EventsDue: 3, OldestDue: time.Minute, Graph: 3}, must(s.Queues(t.Context()))(t))

	// What is being delivered, applied or disabled does not wait.
	o := outboxOf(t, s)
	if claimed := claim(t, o, webhook.ClaimOptions{MaxEvents: 1, MaxPerAccount: 1}); len(claimed) != 1 {
		t.Fatalf("claimed %d events", len(claimed))
	}
	_, _, err := s.applyContributions(t.Context(), func(int, time.Duration) {})
	noError(t, err)
	noDiff(t, "one claimed", Queues{EventsDue: 2, OldestDue: time.Minute}, must(s.Queues(t.Context()))(t))
	exec(t, clock.conn, "UPDATE webhook_endpoints SET disabled_at = now(), disabled_reason = 'failing' "+
		"WHERE account_id = '"+caller.Account+"'")
	if q := must(s.Queues(t.Context()))(t); q.EventsDue > 1 {
		t.Errorf("with an endpoint disabled: %+v", q)
	}
}
