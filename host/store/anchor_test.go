package store

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"assay/host/audit"
)

// Verification detects a cut that no host has signed.
func TestForgedCutsAreDetected(t *testing.T) {
	t.Parallel()
	other := audit.NewSigner("test", make([]byte, 32))
	insert := func(t *testing.T, conn *pgx.Conn, seq int64, sign func(audit.Anchor) (string, error)) {
		t.Helper()
		a := audit.Anchor{Head: audit.Head{Seq: seq,
			Hash: audit.Hash(value[[]byte](t, conn, "SELECT hash FROM audit_records WHERE seq = $1", seq))},
			Before: day(2021, time.May, 1)}
		note := must(sign(a))(t)
		must(conn.Exec(t.Context(), "INSERT INTO audit_anchors VALUES (0, $1, $2)", seq, note))(t)
		exec(t, conn, fmt.Sprintf("DELETE FROM audit_records WHERE seq <= %d", seq))
	}
	for name, test := range map[string]struct {
		tamper func(t *testing.T, conn *pgx.Conn)
		reason string
	}{
		"the anchor is deleted": {func(t *testing.T, conn *pgx.Conn) { exec(t, conn, "DELETE FROM audit_anchors") },
			"the first stored record is number 7"},
		"more is deleted": {func(t *testing.T, conn *pgx.Conn) {
			exec(t, conn, "DELETE FROM audit_records WHERE seq < 9")
		}, "the first stored record is number 9"},
		"all is deleted": {func(t *testing.T, conn *pgx.Conn) { exec(t, conn, "DELETE FROM audit_records") },
			"the records end here"},
		"an anchor is forged": {func(t *testing.T, conn *pgx.Conn) { insert(t, conn, 9, other.Anchor) },
			"not signed by this host's key"},
		"a checkpoint serves as an anchor": {func(t *testing.T, conn *pgx.Conn) {
			insert(t, conn, 9, func(a audit.Anchor) (string, error) { return testSigner().Checkpoint(a.Head) })
		}, "not signed by this host's key"},
		"a signed anchor without a pruning record": {func(t *testing.T, conn *pgx.Conn) {
			insert(t, conn, 9, testSigner().Anchor)
		}, "no record after the anchor"},
		"an anchor is moved": {func(t *testing.T, conn *pgx.Conn) {
			exec(t, conn, "UPDATE audit_anchors SET seq = 9")
		}, "not signed by this host's key"},
		"the pruning record is blanked": {func(t *testing.T, conn *pgx.Conn) {
			exec(t, conn, `UPDATE audit_records SET nonce = NULL, kind = 'erased', at = NULL, ref = NULL, revision = 0,
				digest = NULL WHERE kind = 'pruning'`)
		}, "no record after the anchor"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := day(2021, time.January, 5)
			s, l, caller := newLedger(t, func() time.Time { return now }, LedgerConfig{})
			for i := range 12 { // six of them are due
				appendOne(t, l, recordAt(t, caller, "example.org", day(2021, time.Month(1+i/3), 20+i)))
			}
			now = day(2022, time.March, 10)
			prune(t, s)
			verifyLedger(t, s)
			test.tamper(t, session(t, s.url))
			wantErrorText(t, "verifying", verifyAuditLog(t, s), test.reason)
		})
	}
}

// An anchor must match the chain when it is kept. Keeping it again has no effect.
func TestKeepAnchor(t *testing.T) {
	t.Parallel()
	now := day(2021, time.January, 5)
	s, l, caller := newLedger(t, func() time.Time { return now }, LedgerConfig{})
	appendOne(t, l, recordAt(t, caller, "example.org", now))
	now = day(2022, time.March, 10)
	due := must(s.AuditDue(t.Context()))(t)
	due[0].Hash[0]++
	if err := s.KeepAnchor(t.Context(), due[0], "a note"); err == nil {
		t.Error("an anchor with a wrong hash was kept")
	}
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
	if prune(t, s) != 0 {
		t.Error("the same records are due again")
	}
	verifyLedger(t, s)
}
