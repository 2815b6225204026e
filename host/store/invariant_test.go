package store

import (
	"context"
	"testing"

	"github.com/uptrace/bun"

	"assay/host/audit"
)

// verifyLedger checks the invariants of a database. Each chain verifies from its beginning or newest anchor to its
// head, and contains every record once. Each account's counts add up to its number of checks, unless some were
// erased or pruned. Which month a check counts for is the database's time, not the check's.
func verifyLedger(t *testing.T, s *Store) {
	t.Helper()
	noError(t, verifyAuditLog(t, s))
	records := one[int64](t, s, `SELECT
		sum(seq - (SELECT coalesce(max(seq), 0) FROM audit_anchors AS a WHERE a.chain = h.chain))
		FROM audit_heads AS h`)
	expect(t, "all audit records", one[int64](t, s, "SELECT count(*) FROM audit_records"), records)
	expect(t, "distinct references in the audit log", one[int64](t, s, `
		SELECT count(DISTINCT ref) + count(*) FILTER (WHERE kind = 'erased' AND ref IS NULL)
		FROM audit_records`), records)
	// In queries of their own: as subqueries they make Citus count some accounts once for each shard.
	var erased []string
	noError(t, s.db.NewRaw("SELECT DISTINCT account_id FROM audit_records WHERE kind = 'erasure'").
		Scan(t.Context(), &erased))
	pruned := one[bool](t, s, "SELECT count(*) > 0 FROM audit_anchors")
	wrong := one[int](t, s, `SELECT count(*) FROM
		(SELECT account_id, chain, sum(used) AS used FROM quota_usage GROUP BY 1, 2) AS u
		FULL JOIN
			(SELECT account_id, chain, count(*) AS used
			FROM audit_records WHERE kind = 'check' AND account_id <> ? GROUP BY 1, 2) AS r USING (account_id, chain)
		WHERE u.used IS DISTINCT FROM r.used
			AND account_id NOT IN (?)`, publicAccount, bun.List(append(erased, "")))
	if wrong != 0 && !pruned {
		t.Errorf("the counts of %d accounts differ from their numbers of checks", wrong)
	}
	if n := one[int](t, s, `SELECT count(*) FROM audit_records
		WHERE date_trunc('milliseconds', recorded_at) <> at::timestamptz`); n != 0 {
		t.Errorf("recorded_at differs from the timestamp of %d records", n)
	}
}

// recorded returns the number of audit records with a reference.
func recorded(t *testing.T, s *Store, ref string) int {
	t.Helper()
	return one[int](t, s, "SELECT count(*) FROM audit_records WHERE ref = ?", ref)
}

// testSigner returns the signer of checkpoints and anchors.
func testSigner() *audit.Signer { return audit.NewSigner("test", testRing.SignSeed) }

// verifyAuditLog verifies each chain in one snapshot.
func verifyAuditLog(t *testing.T, s *Store) error {
	t.Helper()
	return s.ReadAuditLog(t.Context(), verifyChains)
}

func verifyChains(ctx context.Context, log AuditLog) error {
	heads, err := log.Heads(ctx)
	if err != nil {
		return err
	}
	for _, head := range heads {
		anchors, err := log.Anchors(ctx, head.Chain, testSigner().Public)
		if err != nil {
			return err
		}
		start := audit.Genesis(head.Chain)
		if n := len(anchors); n > 0 {
			start = anchors[n-1].Head
		}
		v := audit.NewVerifier(start, testSigner().Public, nil)
		// There is no upper bound, because a record after the head would be an error as well.
		for row, err := range log.Rows(ctx, head.Chain, start.Seq, 1<<62) {
			if err == nil {
				err = v.Add(row)
			}
			if err != nil {
				return err
			}
		}
		if err := v.Close(head); err != nil {
			return err
		}
	}
	return nil
}
