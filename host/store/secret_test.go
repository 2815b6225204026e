package store

import (
	"slices"
	"testing"
)

// TestSealedColumns checks that SealedWith counts the values of every column that is named as encrypted ones are.
func TestSealedColumns(t *testing.T) {
	t.Parallel()
	s, _, _ := newLedger(t, nil, LedgerConfig{})
	var named []struct{ Table, Column string }
	err := s.db.NewRaw(`SELECT c.relname AS table, a.attname AS column FROM pg_class AS c
		JOIN pg_attribute AS a ON a.attrelid = c.oid
		WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
			AND a.attname LIKE 'sealed%' AND NOT a.attisdropped`).Scan(t.Context(), &named)
	if err != nil || len(named) < 10 {
		t.Fatal(named, err)
	}
	for _, n := range named {
		found := false
		for _, c := range sealedColumns {
			found = found || c.table == n.Table && c.column == n.Column
		}
		if !found {
			t.Errorf("%s.%s is not counted", n.Table, n.Column)
		}
	}
	if counts, err := s.SealedWith(t.Context(), []byte{1, 2, 3, 4}); err != nil || len(counts) != 0 {
		t.Errorf("%v, %v", counts, err)
	}
	if slices.ContainsFunc(sealedColumns, func(c sealedColumn) bool { return (c.context == nil) != (c.key == "") }) {
		t.Error("a column has a key without a context, or the other way round")
	}
}
