package demotion

import (
	"fmt"
	"testing"

	"assay/host/check"
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
	if most != maxAccounts {
		t.Errorf("%d accounts were remembered, want %d", most, maxAccounts)
	}
	most = 0
	for range 3 * maxLineups {
		remember("", &check.Terms{})
		most = max(most, len(w.lineups))
	}
	if most != maxLineups {
		t.Errorf("%d lineups were remembered, want %d", most, maxLineups)
	}
}
