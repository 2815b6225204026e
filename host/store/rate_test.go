package store

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"assay/host/access/admission"
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

// TestRatesAcrossHosts floods two hosts with one key for two minutes of a fake clock. In no minute may they accept more
// than 1.2 times its rate.
func TestRatesAcrossHosts(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	now := noon
	clock := func() time.Time { return now }
	stores := []*Store{open(t, url, nil), open(t, url, nil)}
	hosts := []*admission.Limiter{admission.NewLimiter(clock), admission.NewLimiter(clock)}
	rate := admission.Rate{Name: "pro", PerMinute: 1200}
	var accepted [1200]int // in each tenth of a second
	for n := range accepted {
		for i, h := range hosts {
			for range 20 {
				if h.Take("key_1", rate) == nil {
					accepted[n]++
				}
			}
			if n%10 == 5*i {
				noError(t, h.Settle(t.Context(), stores[i]))
			}
		}
		now = now.Add(100 * time.Millisecond)
	}
	window, most := 0, 0
	for n, k := range accepted {
		window += k
		if n >= 600 {
			window -= accepted[n-600]
		}
		most = max(most, window)
	}
	t.Logf("at most %d of %d in a minute, %d in the last", most, rate.PerMinute, window)
	if most > rate.PerMinute*12/10 || window < rate.PerMinute*9/10 {
		t.Errorf("two hosts accepted %d in a minute, and %d in the last; the rate is %d", most, window, rate.PerMinute)
	}
}
