package store

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"assay/host/store/postgres/postgrestest"
)

func TestSettleUses(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	a, b := open(t, url, nil), open(t, url, nil)
	settle := func(s *Store, accepted, want map[string]int64) {
		t.Helper()
		if got := must(s.SettleUses(t.Context(), accepted))(t); !maps.Equal(got, want) {
			t.Errorf("after %v: %v, want %v", accepted, got, want)
		}
	}
	type uses = map[string]int64
	settle(a, uses{"key 1": 3, "key 2": 0}, uses{"key 1": 3})
	settle(b, uses{"key 1": 4, "network 192.0.2.0/24": 1}, uses{"key 1": 7, "network 192.0.2.0/24": 1})
	settle(a, uses{"key 1": 0, "network 192.0.2.0/24": 2}, uses{"key 1": 7, "network 192.0.2.0/24": 3})
	expect(t, "names that are hashes", one[int](t, a, "SELECT count(*) FROM rate_uses WHERE name ~ '^[0-9a-f]{32}$'"),
		2)
	expect(t, "rows", one[int](t, a, "SELECT count(*) FROM rate_uses"), 2)
	_, err := a.db.Exec("UPDATE rate_uses SET used_at = now() - interval '61 s'")
	noError(t, err)
	settle(b, uses{"key 1": 1}, uses{"key 1": 1})
	noError(t, a.PruneRates(t.Context()))
	expect(t, "rows", one[int](t, a, "SELECT count(*) FROM rate_uses"), 1)

	// Two hosts that write the same names in any order do not block each other.
	many := uses{}
	for i := range 500 {
		many["key "+strings.Repeat("x", i)] = 1
	}
	noError(t, errors.Join(concurrently(8, func(i int) error {
		_, err := []*Store{a, b}[i%2].SettleUses(t.Context(), many)
		return err
	})...))
	expect(t, "uses", one[int](t, a, "SELECT max(used) FROM rate_uses"), 8)
}
