package store

import (
	"testing"
	"time"

	"assay/host/check"
	"assay/host/entity"
)

func TestBacklogs(t *testing.T) {
	t.Parallel()
	s, l, caller := newLedger(t, nil, LedgerConfig{})
	conn := session(t, s.url)
	expect(t, "empty backlog", must(s.WebhookBacklog(t.Context()))(t), WebhookBacklog{})
	expect(t, "empty backlog of the graph", must(s.GraphBacklog(t.Context()))(t), GraphBacklog{})
	must(s.SetEndpoint(t.Context(), caller.Account, "https://receiver.example/hook"))(t)
	blocked(t, l, caller, 3)
	// One was tried without success and waits, another has been due for a minute, and a third one is delivered.
	exec(t, conn,
		"UPDATE webhook_events SET next_attempt_at = now() + interval '1 hour', attempts = 1 WHERE sequence = 1",
		`UPDATE webhook_events SET next_attempt_at = now() - interval '1 minute' WHERE sequence = 2`,
		`UPDATE webhook_events SET state = 'delivered', sealed_payload = NULL, next_attempt_at = NULL,
			settled_at = now() WHERE sequence = 3`,
		`UPDATE webhook_endpoints SET failing_since = now(), failed_at = now()`,
		"UPDATE graph_contributions SET added_at = added_at - interval '1 minute'")
	got := must(s.WebhookBacklog(t.Context()))(t)
	if got.Late < time.Minute || got.Late > time.Hour {
		t.Errorf("the oldest event is late by %v, want about a minute", got.Late)
	}
	got.Late = 0
	expect(t, "backlog", got, WebhookBacklog{Pending: 2, Due: 1, Retried: 1, Failing: 1})
	graph := must(s.GraphBacklog(t.Context()))(t)
	if graph.Checks != 3 || graph.Oldest < time.Minute || graph.Clipped {
		t.Errorf("the backlog is %+v, want 3 checks that have waited for a minute", graph)
	}
	noError(t, s.CatchUp(t.Context()))
	expect(t, "applied backlog", must(s.GraphBacklog(t.Context()))(t), GraphBacklog{})
}

func TestChainStates(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ change, damage string }{
		"whole":            {"SELECT 1", ""},
		"another hash":     {`UPDATE audit_heads SET hash = sha256('other')`, "its head differs from its last record"},
		"a short hash":     {`UPDATE audit_heads SET hash = '\x00'`, "its head's hash is not 32 bytes long"},
		"a missing record": {`DELETE FROM audit_records`, "its last record is missing"},
		"more than one end": {`INSERT INTO audit_heads SELECT chain, seq + 1, hash FROM audit_heads`,
			"it has more than one head"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, l, caller := newLedger(t, nil, LedgerConfig{})
			before := must(s.ChainStates(t.Context()))(t)
			noError(t, l.Append(t.Context(), decided(caller, parse(t, entity.Domain, "example.org"), check.Allow)))
			if _, err := s.db.ExecContext(t.Context(), test.change); err != nil {
				t.Fatal(err)
			}
			after := must(s.ChainStates(t.Context()))(t)
			if len(before) != 2 || len(after) != 2 || after[0].Records <= before[0].Records ||
				after[0].Damage != test.damage {
				t.Errorf("before the check %+v, after it %+v, want the damage %q", before, after, test.damage)
			}
			if test.damage == "" && after[0].At.IsZero() {
				t.Error("the time of the last record is missing")
			}
		})
	}
}
