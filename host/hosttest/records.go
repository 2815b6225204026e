package hosttest

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"assay/host/store/storetest"
	"assay/registry/expect"
)

// RecordedRefs returns the number of check records by reference.
func RecordedRefs(t *testing.T, database string) map[string]int {
	t.Helper()
	rows := expect.Value(storetest.Session(t, database).Query(t.Context(),
		"SELECT ref, count(*) FROM audit_records WHERE kind = 'check' GROUP BY ref"))(t)
	refs := map[string]int{}
	var ref string
	var n int
	_, err := pgx.ForEachRow(rows, []any{&ref, &n}, func() error { refs[ref] = n; return nil })
	expect.NoError(t, err)
	return refs
}
