package store

import (
	"testing"

	"assay/host/audit"
)

// verifyLedger holds a database to what must be true of it whatever happened: each chain verifies from its beginning to its
// head, every record stands in it once, and each account's count of each month is the number of its checks of that month.
func verifyLedger(t *testing.T, s *Store) {
	t.Helper()
	heads, err := s.Heads(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(heads) != chains {
		t.Fatalf("%d heads, want %d", len(heads), chains)
	}
	var records int64
	for _, head := range heads {
		v := audit.NewVerifier(audit.Genesis(head.Chain), nil)
		// Without an upper bound: a record behind the head would be a loss as well.
		for row, err := range s.AuditRows(t.Context(), head.Chain, 0, 1<<62) {
			if err != nil {
				t.Fatal(err)
			}
			if err := v.Add(row); err != nil {
				t.Fatal(err)
			}
			records++
		}
		if err := v.Close(head); err != nil {
			t.Fatal(err)
		}
	}
	if n := one[int64](t, s, "SELECT count(*) FROM audit_records"); n != records {
		t.Errorf("%d audit records, but %d of them in the chains", n, records)
	}
	if n := one[int64](t, s, "SELECT count(DISTINCT ref) FROM audit_records"); n != records {
		t.Errorf("%d refs in %d audit records", n, records)
	}
	wrong := one[int](t, s, `SELECT count(*) FROM
		(SELECT account_id, period, used FROM quota_usage) AS u
		FULL JOIN (SELECT account_id, date_trunc('month', at::timestamptz AT TIME ZONE 'UTC')::date AS period, count(*) AS used
			FROM audit_records WHERE kind = 'check' AND account_id <> ? GROUP BY 1, 2) AS r USING (account_id, period)
		WHERE u.used IS DISTINCT FROM r.used`, publicAccount)
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
