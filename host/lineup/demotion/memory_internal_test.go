package demotion

import (
	"fmt"
	"testing"

	"assay/host/check"
	"assay/registry/expect"
)

// Too many accounts or lineups begin the counts again.
func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	w := NewWatch()
	remember := func(account string, terms *check.Terms) {
		w.Remember([]check.Record{{Caller: check.Caller{Account: account}, Decision: &check.Decision{Terms: terms}}})
	}
	terms, most := &check.Terms{}, 0
	for i := range 3 * maxAccounts {
		remember(fmt.Sprint(i), terms)
		most = max(most, len(w.lineups[terms].accounts))
	}
	expect.Equal(t, "accounts were remembered", most, maxAccounts)
	most = 0
	for range 3 * maxLineups {
		remember("", &check.Terms{})
		most = max(most, len(w.lineups))
	}
	expect.Equal(t, "lineups were remembered", most, maxLineups)
}
