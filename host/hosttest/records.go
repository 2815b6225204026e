package hosttest

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"assay/host/store/storetest"
	"assay/registry/expect"
)

// RecordedRefs returns the number of check records by reference, and the number of checks that quotas counted.
func RecordedRefs(t *testing.T, database string) (refs map[string]int, used int) {
	t.Helper()
	conn := storetest.Session(t, database)
	rows := expect.Value(conn.Query(t.Context(),
		"SELECT ref, count(*) FROM audit_records WHERE kind = 'check' GROUP BY ref"))(t)
	refs = map[string]int{}
	var ref string
	var n int
	_, err := pgx.ForEachRow(rows, []any{&ref, &n}, func() error { refs[ref] = n; return nil })
	expect.NoError(t, err)
	// In all months: one may have ended.
	return refs, storetest.Value[int](t, conn, "SELECT coalesce(sum(used), 0)::bigint FROM quota_usage")
}
