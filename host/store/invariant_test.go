package store

import (
	"cmp"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"assay/host/access/apikey"
	"assay/host/audit"
)

// verifyLedger checks the invariants of a database. Each chain verifies from its beginning or newest anchor to its
// head, and contains every record once. Each account's counts add up to its number of checks, unless some were
// erased or pruned. Which month a check counts for is the database's time, not the check's.
func verifyLedger(t testing.TB, s *Store) {
	t.Helper()
	noError(t, verifyAuditLog(t, s))
	records := one[int64](t, s, `SELECT
		sum(seq - (SELECT coalesce(max(seq), 0) FROM audit_anchors AS a WHERE a.chain = h.chain))
		FROM audit_heads AS h`)
	const counted = `SELECT count(*) || ' ' ||
			count(DISTINCT ref) + count(*) FILTER (WHERE kind = 'erased' AND ref IS NULL)
		FROM (SELECT ref, kind FROM audit_records UNION ALL SELECT ref, kind FROM state_records) AS r`
	expect(t, "records and distinct references", one[string](t, s, counted), fmt.Sprint(records, " ", records))
	// In queries of their own: as subqueries they make Citus count some accounts once for each shard.
	var erased []string
	noError(t, s.db.NewRaw("SELECT DISTINCT account_id FROM audit_records WHERE kind = 'erasure'").
		Scan(t.Context(), &erased))
	pruned := one[bool](t, s, "SELECT count(*) > 0 FROM audit_anchors")
	wrong := one[int](t, s, `SELECT count(*) FROM
		(SELECT account_id, chain, sum(used) AS used FROM quota_usage GROUP BY 1, 2) AS u
		FULL JOIN
			(SELECT account_id, chain, count(*) AS used
			FROM audit_records WHERE kind = 'check' AND account_id <> ? GROUP BY 1, 2) AS r USING (account_id, chain)
		WHERE u.used IS DISTINCT FROM r.used
			AND account_id NOT IN (?)`, publicAccount, bun.List(append(erased, "")))
	holds(t, wrong == 0 || pruned, "the counts of %d accounts differ from their numbers of checks", wrong)
}

// recorded returns the number of audit records with a reference.
func recorded(t *testing.T, s *Store, ref string) int {
	t.Helper()
	return one[int](t, s, "SELECT count(*) FROM audit_records WHERE ref = ?", ref)
}

// testSigner returns the signer of checkpoints and anchors.
func testSigner() *audit.Signer { return audit.NewSigner("test", testRing.SignSeed) }

// verifyAuditLog verifies each chain in one snapshot.
func verifyAuditLog(t testing.TB, s *Store) error {
	t.Helper()
	return s.ReadAuditLog(t.Context(), verifyChains)
}

func verifyChains(ctx context.Context, log AuditLog) error {
	heads, err := log.Heads(ctx)
	if err != nil {
		return err
	}
	for _, head := range heads {
		anchors, err := log.Anchors(ctx, head.Chain, testSigner().Public)
		if err != nil {
			return err
		}
		start := audit.Genesis(head.Chain)
		if n := len(anchors); n > 0 {
			start = anchors[n-1].Head
		}
		v := audit.NewVerifier(start, testSigner().Public, nil)
		// There is no upper bound, because a record after the head would be an error as well.
		for row, err := range log.Rows(ctx, head.Chain, start.Seq, 1<<62) {
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

// wantStates checks that the last record of each account, key and list is about its row as it is stored.
func wantStates(t *testing.T, s *Store) {
	t.Helper()
	recorded := map[[2]string]audit.Hash{} // by type and ID
	noError(t, s.ReadAuditLog(t.Context(), func(ctx context.Context, log AuditLog) error {
		for _, head := range must(log.Heads(ctx))(t) {
			for row, err := range log.Rows(ctx, head.Chain, 0, 1<<62) {
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
		FROM state_records WHERE account_id = ?`, caller.Account),
		"account pro 10, key valid, key valid ends, key valid ends, key valid ends, key valid, key valid ends, "+
			"key revoked ends, account pro 20")
}
