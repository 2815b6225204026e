package store

import (
	"context"
	"fmt"
	"testing"

	"assay/host/audit"
)

// verifyLedger holds a database to what must be true of it whatever happened: each chain verifies from its beginning or
// newest anchor to its head, every record stands in it once, and each account's count of each month is the number of
// its checks of that month, unless some were erased or pruned.
func verifyLedger(t *testing.T, s *Store) {
	t.Helper()
	if err := verifyAuditLog(t, s); err != nil {
		t.Fatal(err)
	}
	records := one[int64](t, s, "SELECT sum(seq - (SELECT coalesce(max(seq), 0) FROM audit_anchors AS a WHERE a.chain = h.chain)) FROM audit_heads AS h")
	if n := one[int64](t, s, "SELECT count(*) FROM audit_records"); n != records {
		t.Errorf("%d audit records, but %d of them in the chains", n, records)
	}
	if n := one[int64](t, s, "SELECT count(DISTINCT ref) + count(*) FILTER (WHERE kind = 'erased' AND ref IS NULL) FROM audit_records"); n != records {
		t.Errorf("%d refs in %d audit records", n, records)
	}
	wrong := one[int](t, s, `SELECT count(*) FROM
		(SELECT account_id, period, used FROM quota_usage) AS u
		FULL JOIN (SELECT account_id, date_trunc('month', at::timestamptz AT TIME ZONE 'UTC')::date AS period, count(*) AS used
			FROM audit_records WHERE kind = 'check' AND account_id <> ? GROUP BY 1, 2) AS r USING (account_id, period)
		WHERE u.used IS DISTINCT FROM r.used AND account_id NOT IN (SELECT account_id FROM audit_records WHERE kind = 'erasure')
			AND NOT EXISTS (SELECT FROM audit_anchors)`, publicAccount)
	if wrong != 0 {
		t.Errorf("the count of %d months of accounts is not the number of their checks", wrong)
	}
	if n := one[int](t, s, "SELECT count(*) FROM audit_records WHERE date_trunc('milliseconds', recorded_at) <> at::timestamptz"); n != 0 {
		t.Errorf("%d records were filed under another time than they name", n)
	}
}

// recorded says how often a ref stands in the audit trail.
func recorded(t *testing.T, s *Store, ref string) int {
	t.Helper()
	return one[int](t, s, "SELECT count(*) FROM audit_records WHERE ref = ?", ref)
}

// testSigner signs what hosts sign.
func testSigner() *audit.Signer { return audit.NewSigner("test", testRing.SignSeed) }

// verifyAuditLog walks each chain as it stands at one moment.
func verifyAuditLog(t *testing.T, s *Store) error {
	t.Helper()
	return s.ReadAuditLog(t.Context(), verifyChains)
}

func verifyChains(ctx context.Context, trail AuditLog) error {
	heads, err := trail.Heads(ctx)
	if err != nil {
		return err
	}
	if len(heads) != chains {
		return fmt.Errorf("%d heads, want %d", len(heads), chains)
	}
	for _, head := range heads {
		anchors, err := trail.Anchors(ctx, head.Chain, testSigner().VerifierKey())
		if err != nil {
			return err
		}
		start := audit.Genesis(head.Chain)
		if n := len(anchors); n > 0 {
			start = anchors[n-1].Head
		}
		v := audit.NewVerifier(start, testSigner().PublicKey(), nil)
		// Without an upper bound: a record behind the head would be a loss as well.
		for row, err := range trail.Rows(ctx, head.Chain, start.Seq, 1<<62) {
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
