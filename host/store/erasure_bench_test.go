package store

import (
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"assay/host/check"
	"assay/host/customer/privacy"
	"assay/host/entity"
)

// measureHeads notes how long each transaction that appends to a chain holds its head, until the commit is written to
// the log, in seconds. It does not include waiting for the disk.
var measureHeads = []string{
	"CREATE UNLOGGED TABLE held (seconds float8)",
	"ALTER FUNCTION audit_lock RENAME TO audit_lock_unmeasured",
	`CREATE FUNCTION audit_lock(of_chain integer, patience text DEFAULT '3s') RETURNS audit_heads
	LANGUAGE plpgsql SET enable_seqscan = off AS $$
	DECLARE
		head audit_heads := audit_lock_unmeasured(of_chain, patience);
	BEGIN
		IF coalesce(current_setting('test.locked_at', true), '') = '' THEN
			PERFORM set_config('test.locked_at', clock_timestamp()::text, true);
		END IF;
		RETURN head;
	END $$`,
	`CREATE FUNCTION note_held() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN
		INSERT INTO held VALUES (
			extract(epoch FROM clock_timestamp() - current_setting('test.locked_at')::timestamptz));
		RETURN NULL;
	END $$`,
	`CREATE CONSTRAINT TRIGGER held AFTER UPDATE ON audit_heads DEFERRABLE INITIALLY DEFERRED
	FOR EACH ROW EXECUTE FUNCTION note_held()`,
}

// BenchmarkHeadHeld measures how long a step of an erasure holds the head of its chain, and a batch of checks.
func BenchmarkHeadHeld(b *testing.B) {
	needsPlainPostgres(b, "distributed tables have no triggers")
	s, l, caller := newLedger(b, nil, LedgerConfig{})
	jane := parse(b, entity.Email, "jane.roe@mailbox-example.net")
	conn := must(pgx.Connect(b.Context(), s.url))(b)
	defer conn.Close(b.Context())
	for _, statement := range measureHeads {
		must(conn.Exec(b.Context(), statement))(b)
	}
	const steps = 20
	report := func(b *testing.B) {
		rows := must(conn.Query(b.Context(), "SELECT seconds * 1000 FROM held"))(b)
		held := must(pgx.CollectRows(rows, pgx.RowTo[float64]))(b)
		must(conn.Exec(b.Context(), "TRUNCATE held"))(b)
		slices.Sort(held)
		b.ReportMetric(held[len(held)/2], "p50-ms")
		b.ReportMetric(held[(len(held)-1)*99/100], "p99-ms")
	}
	record := func(b *testing.B) {
		for range steps {
			noError(b, l.Append(b.Context(), decidedMany(caller, jane, check.Allow, eraseBatch)...))
		}
	}
	b.Run(fmt.Sprintf("checks=%d", eraseBatch), func(b *testing.B) {
		for b.Loop() {
			record(b)
		}
		report(b)
	})
	b.Run("erasure", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			record(b)
			noError(b, s.CatchUp(b.Context()))
			must(conn.Exec(b.Context(), "TRUNCATE held"))(b)
			b.StartTimer()
			must(s.Begin(b.Context(), caller, privacy.KindErasure, about(jane)))(b)
			work := must(s.ClaimRequest(b.Context()))(b)
			for more := true; more; {
				more = must(work.Step(b.Context()))(b)
			}
		}
		report(b)
	})
}
