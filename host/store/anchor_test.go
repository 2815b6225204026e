package store

import (
	"testing"
	"time"
)

// An anchor must match the chain when it is kept. Keeping it again has no effect.
func TestKeepAnchor(t *testing.T) {
	t.Parallel()
	now := day(2021, time.January, 5)
	s, l, caller := newLedger(t, func() time.Time { return now }, LedgerConfig{})
	appendOne(t, l, recordAt(t, caller, "example.org", now))
	now = day(2022, time.March, 10)
	due := must(s.AuditDue(t.Context()))(t)
	due[0].Hash[0]++
	wantFailure(t, s.KeepAnchor(t.Context(), due[0], "a note"), "an anchor with a wrong hash was kept")
	expect(t, "anchors", one[int](t, s, "SELECT count(*) FROM audit_anchors"), 0)
	due[0].Hash[0]--
	for range 2 { // the second time as if another host had kept it
		note, err := testSigner().Anchor(due[0])
		if err == nil {
			err = s.KeepAnchor(t.Context(), due[0], note)
		}
		if err != nil {
			t.Error(err)
		}
	}
	expect(t, "pruning records", one[int](t, s, "SELECT count(*) FROM audit_records WHERE kind = 'pruning'"), 1)
	expect(t, "anchors of another run", prune(t, s), 0)
	verifyLedger(t, s)
	exec(t, session(t, s.url), "UPDATE audit_anchors SET seq = seq + 1")
	wantErrorText(t, "a moved anchor", verifyAuditLog(t, s), "not signed by this host's key")
}
