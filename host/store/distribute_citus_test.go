//go:build citus

package store

import (
	"context"
	"testing"

	"assay/host/check"
	"assay/host/entity"
)

// TestDistributeFullDatabase distributes a database with records, in two parts.
func TestDistributeFullDatabase(t *testing.T) {
	t.Parallel()
	s, l, caller := newLedger(t, nil, LedgerConfig{})
	for range 20 {
		noError(t, l.Append(t.Context(), decided(caller, parse(t, entity.Email, "jo@example.org"), check.Block)))
	}
	conn := session(t, s.url)
	exec(t, conn, "SET client_min_messages = warning",
		"SELECT undistribute_table('accounts', cascade_via_foreign_keys => true)",
		"SELECT undistribute_table('graph_sightings')", "SELECT undistribute_table('audit_records')",
		"SELECT undistribute_table('audit_heads')")
	expect(t, "functions that are lost", value[int](t, conn,
		"SELECT count(*) FROM pg_proc WHERE proname IN ('audit_lock', 'account_lock', 'graph_rows')"), 0)
	noError(t, openOnce(t.Context(), s.url)) // as the command does
	plan := must(s.Distribute(t.Context(), true, noProgress))(t)
	if len(plan) < 10 {
		t.Fatalf("%d steps are due, want at least 10: %v", len(plan), plan)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	done, err := s.Distribute(ctx, false, func(i, _ int, _ string) {
		if i == len(plan)/2 {
			interrupt()
		}
	})
	wantError(t, "an interrupted run", err, context.Canceled)
	rest := must(s.Distribute(t.Context(), false, noProgress))(t)
	expect(t, "steps of both runs", len(done)+len(rest), len(plan))
	expect(t, "steps left", len(must(s.Distribute(t.Context(), false, noProgress))(t)), 0)
	noError(t, l.Append(t.Context(), decided(caller, parse(t, entity.Email, "jo@example.org"), check.Block)))
	expect(t, "records", value[int](t, conn, "SELECT count(*) FROM audit_records WHERE kind = 'check'"), 21)
	expect(t, "checks counted", value[int](t, conn, "SELECT used FROM quota_usage"), 21)
	expect(t, "records left on the coordinator", value[int](t, conn,
		"SELECT sum(pg_relation_size(logicalrelid))::int FROM pg_dist_partition WHERE partmethod = 'h'"), 0)
}
