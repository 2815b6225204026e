package store

import (
	"cmp"
	"context"
	"fmt"
	"testing"
	"time"

	"assay/host/access/apikey"
	"assay/host/audit"
)

// wantStates checks that the last record of each account, key and list is about its row as it is stored.
func wantStates(t *testing.T, s *Store) {
	t.Helper()
	recorded := map[[2]string]audit.Hash{} // by type and ID
	noError(t, s.ReadAuditLog(t.Context(), func(ctx context.Context, log AuditLog) error {
		for row, err := range log.Rows(ctx, audit.StateChain, 0, 1<<62) {
			if err != nil {
				return err
			}
			if r := row.Record; r.Kind == audit.State {
				name := [2]string{r.Type, cmp.Or(r.Key, r.Account)}
				delete(recorded, name)
				if r.Digest != nil { // it was not removed
					recorded[name] = audit.Hash(r.Digest)
				}
			}
		}
		stored, err := log.States(ctx)
		for _, state := range stored {
			name := [2]string{state.Type, state.ID}
			expect(t, fmt.Sprint("the last record of ", name), recorded[name], audit.Hash(state.Digest))
			delete(recorded, name)
		}
		return err
	}))
	for name := range recorded {
		t.Errorf("%s is recorded, but not stored", name)
	}
}

// Every way in which keys are issued and end leaves records of them. Those of billing are in its own tests.
func TestStatesAreRecorded(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	caller := newCaller(t, s, plan(t, "pro", 10))
	limited := must(s.IssueKey(t.Context(), caller.Account, apikey.Wanted{Name: "limited", Lifetime: time.Hour,
		Limits: apikey.Limits{Scopes: []apikey.Scope{apikey.ScopeCheck}, Test: true,
			Networks: must(apikey.ParseNetworks([]string{"192.0.2.0/24"}))(t)}}))(t)
	must(s.RotateKey(t.Context(), caller.Account, limited.ID, time.Minute))(t)
	must(s.RotateKey(t.Context(), caller.Account, caller.Key, time.Minute))(t)
	noError(t, s.RevokeKey(t.Context(), caller.Key))
	wantError(t, "revoking it again", s.RevokeKey(t.Context(), caller.Key), apikey.ErrNotFound)
	noError(t, s.SetQuota(t.Context(), caller.Account, 20))
	wantStates(t, s)
	verifyLedger(t, s)
	expect(t, "records of the account", one[string](t, s, `SELECT string_agg(concat_ws(' ', type, verdict,
		nullif(score, 0), CASE WHEN revision > 0 THEN 'ends' END), ', ' ORDER BY seq)
		FROM audit_records WHERE kind = 'state' AND account_id = ?`, caller.Account),
		"account pro 10, key valid, key valid ends, key valid ends, key valid ends, key valid, key valid ends, "+
			"key revoked ends, account pro 20")
}
