package store

import (
	"testing"

	"assay/migrations"
)

// A host that starts restores functions that were dropped, as they were. graph_known gets the form that every database
// can run.
func TestLostFunctionsAreRestored(t *testing.T) {
	t.Parallel()
	needsPlainPostgres(t, "it drops all functions; TestDistributeFullDatabase loses some")
	s, l, caller := newLedger(t, nil, LedgerConfig{})
	conn := session(t, s.url)
	const all = `SELECT string_agg(pg_get_functiondef(oid), ';' ORDER BY oid::regprocedure::text) FROM pg_proc
		WHERE pronamespace = 'public'::regnamespace AND proname <> 'graph_known'`
	before := value[string](t, conn, all)
	exec(t, conn, `DO $$ DECLARE f regprocedure; BEGIN
		FOR f IN SELECT oid FROM pg_proc
				WHERE pronamespace = 'public'::regnamespace AND prorettype <> 'trigger'::regtype LOOP
			EXECUTE 'DROP FUNCTION ' || f;
		END LOOP;
	END $$`)
	wantFailure(t, l.Append(t.Context(), allowed(t, caller)), "a check was recorded without the function for it")
	noError(t, openOnce(t.Context(), s.url))
	noDiff(t, "functions", before, value[string](t, conn, all))
	noError(t, l.Append(t.Context(), allowed(t, caller)))
	found, err := functions(migrations.FS)
	noError(t, err)
	expect(t, "definitions in the migrations", len(found), value[int](t, conn,
		"SELECT count(*) FROM pg_proc WHERE pronamespace = 'public'::regnamespace"))
}
