package store

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/uptrace/bun"

	"assay/migrations"
)

// A host that upgrades completes the indexes of partitions, however far another one got before it was interrupted.
func TestIndexesOfPartitionsAreCompleted(t *testing.T) {
	t.Parallel()
	const partition = "audit_records_2026_07"
	alone := "CREATE INDEX audit_records_by_subject ON ONLY audit_records ((seq >> 16), substr(pseudonym, 1, 8))"
	built := fmt.Sprintf("CREATE INDEX %s_by_subject ON %[1]s ((seq >> 16), substr(pseudonym, 1, 8))", partition)
	for name, interrupted := range map[string][]string{
		"at the beginning": {alone},
		"while it built an index": {alone, built, "UPDATE pg_index SET indisvalid = false WHERE indexrelid = '" +
			partition + "_by_subject'::regclass"},
		"after it built one": {alone, built},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, conn := emptyDatabase(t)
			s := &Store{direct: url, log: discard()}
			noError(t, s.migrate(t.Context(), migrationsUpTo(t, "0025")))
			exec(t, conn, "CREATE TABLE "+partition+
				" PARTITION OF audit_records FOR VALUES FROM ('2026-07-01') TO ('2026-08-01')",
				`INSERT INTO audit_records (chain, seq, recorded_at, at, kind, ref, account_id, key_id, type,
					pseudonym, nonce, verdict, revision, leaf, hash)
				VALUES (0, 1, '2026-07-20', '', 'check', 'chk_1', 'acct', 'key', 'domain', '\x01', '\x01', 'allow', 1,
					'\x01', '\x01')`)
			noError(t, s.migrate(t.Context(), migrationsUpTo(t, "0026")))
			exec(t, conn, "DROP INDEX audit_records_by_subject",
				"CREATE INDEX IF NOT EXISTS audit_records_by_pseudonym ON audit_records USING hash (pseudonym)")
			exec(t, conn, interrupted...)
			noError(t, s.migrate(t.Context(), migrations.FS))
			expect(t, "incomplete indexes", value[int](t, conn, "SELECT count(*) FROM pg_index WHERE NOT indisvalid"),
				0)
			expect(t, "the index that was replaced",
				value[bool](t, conn, "SELECT to_regclass('audit_records_by_pseudonym') IS NULL"), true)
			expect(t, "partitions without an index", value[int](t, conn, `SELECT count(*) FROM pg_inherits AS p
				WHERE inhparent = 'audit_records'::regclass AND NOT EXISTS (SELECT FROM pg_indexes
					WHERE tablename = inhrelid::regclass::text AND indexdef LIKE '%seq >> 16%')`), 0)
		})
	}
}

// The records of a subject are found in all spans of its chain, and only there, through their index.
func TestRecordsOfSubject(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	_, err := s.db.Exec(`INSERT INTO audit_records (chain, seq, recorded_at, at, kind, ref, account_id, key_id, type,
			pseudonym, nonce, verdict, revision, leaf, hash)
		SELECT chain, seq, now(), '', 'check', 'chk_' || chain || '_' || seq, 'acct', 'key', 'domain',
			CASE WHEN seq % 65536 < 2 THEN '\x0102030405060708ff' ELSE sha256(int8send(seq)) END, '\x01', 'allow', 1,
			'\x01', '\x01'
		FROM generate_series(0, 1) AS chain, generate_series(0, 200000, 17) AS step,
			LATERAL (VALUES (step), (step / 65536 * 65536 + 1)) AS r (seq) ON CONFLICT DO NOTHING`)
	noError(t, err)
	_, err = s.db.Exec("ANALYZE audit_records")
	noError(t, err)
	r := requester{Chain: 1}
	pseudonym := []byte("\x01\x02\x03\x04\x05\x06\x07\x08\xff")
	selected := func() *bun.SelectQuery {
		return s.db.NewSelect().TableExpr("? AS r", r.ofSubject(pseudonym)).Column("seq")
	}
	var found []int64
	noError(t, selected().Where("chain = 1").Order("seq").Scan(t.Context(), &found))
	if want := []int64{0, 1, 65537, 131073, 196609}; !slices.Equal(found, want) {
		t.Errorf("found %v, want %v", found, want)
	}
	var plan []string
	noError(t, s.db.NewRaw("EXPLAIN ?", selected()).Scan(t.Context(), &plan))
	if text := strings.Join(plan, "\n"); !strings.Contains(text, "Index Cond: (((seq >> 16) = span.span)") {
		t.Errorf("the plan does not use the index:\n%s", text)
	}
	pseudonym[8] = 0 // another pseudonym that begins the same
	if n, err := selected().Count(t.Context()); n != 0 || err != nil {
		t.Errorf("found %d records of nobody, %v", n, err)
	}
}
