package store

import (
	"encoding/json"
	"io/fs"
	"log/slog"
	"strings"
	"testing"
	"testing/fstest"

	"assay/host/store/postgres/postgrestest"
	"assay/migrations"
)

// releaseWith returns the files of a later release, which has one more migration and another text of the functions.
func releaseWith(t *testing.T, migration string, edit func(functions string) string) fs.FS {
	t.Helper()
	files := fstest.MapFS{"9999_test.tx.up.sql": &fstest.MapFile{Data: []byte(migration)}}
	for _, entry := range must(fs.ReadDir(migrations.FS, "."))(t) {
		files[entry.Name()] = &fstest.MapFile{Data: must(fs.ReadFile(migrations.FS, entry.Name()))(t)}
	}
	files[functionsFile].Data = []byte(edit(string(files[functionsFile].Data)))
	return files
}

func unchanged(functions string) string { return functions }

// messages is a log that passes the messages on.
type messages chan string

func (m messages) Write(line []byte) (int, error) {
	var record struct{ Msg string }
	_ = json.Unmarshal(line, &record)
	m <- record.Msg
	return len(line), nil
}

// A host of a later release migrates the database while a host records checks, and while another transaction keeps a
// table for long. The host goes on meanwhile.
func TestMigrationGivesWay(t *testing.T) {
	t.Parallel()
	needsDirect(t)
	needsPlainPostgres(t, "Citus propagates the migration to nodes that cannot wait for each other")
	s, l, caller := newLedger(t, nil, LedgerConfig{})
	report := session(t, s.url) // such as a dump
	exec(t, report, "BEGIN", "SELECT count(*) FROM webhook_events")
	log := make(messages, 1000)
	done := make(chan error, 1)
	later := releaseWith(t, "ALTER TABLE webhook_events ADD COLUMN later integer", unchanged)
	go func() {
		next := &Store{direct: s.url, log: slog.New(slog.NewJSONHandler(log, nil))}
		done <- next.migrate(t.Context(), later)
	}()
	for range 2 {
		expect(t, "message", receive(t, "the migration to wait", log), "a migration waits for other transactions")
		noError(t, l.Append(t.Context(), allowed(t, caller)))
	}
	exec(t, report, "ROLLBACK")
	noError(t, receive(t, "the migration", done))
	noError(t, l.Append(t.Context(), allowed(t, caller)))
	verifyLedger(t, s)
}

// The functions of a later release replace those of this one, in whatever form, and this one does not bring its own
// back.
func TestFunctionsFollowTheRelease(t *testing.T) {
	t.Parallel()
	needsPlainPostgres(t, "it changes functions that Citus has distributed")
	url := postgrestest.Database(t)
	conn := session(t, url)
	s := &Store{direct: url, log: discard()}
	results := func() string {
		return value[string](t, conn, `SELECT string_agg(oid::regprocedure || ' ' || prorettype::regtype, ', '
				ORDER BY oid::regprocedure::text)
			FROM pg_proc WHERE pronamespace = 'public'::regnamespace
				AND proname IN ('times_after', 'later', 'audit_field', 'monitor')`)
	}
	exec(t, conn, "CREATE FUNCTION monitor() RETURNS integer LANGUAGE sql AS 'SELECT 1'") // somebody else's
	before := results()
	exec(t, conn, "DROP FUNCTION audit_field")
	noError(t, openOnce(t.Context(), url))
	expect(t, "functions after one was lost", results(), before)

	exec(t, conn, "CREATE FUNCTION later(n integer) RETURNS text LANGUAGE sql AS 'SELECT n::text'") // not replaceable
	noError(t, s.migrate(t.Context(), releaseWith(t, "SELECT 1", func(text string) string {
		start := strings.Index(text, "CREATE OR REPLACE FUNCTION times_after")
		end := start + strings.Index(text[start:], "$$;") + len("$$;")
		later := "CREATE OR REPLACE FUNCTION later(n integer) RETURNS integer LANGUAGE sql AS 'SELECT n';"
		return text[:start] + later +
			strings.Replace(text[end:], "FUNCTION audit_field(", "FUNCTION audit_field(also integer, ", 1)
	})))
	if got := results(); strings.Contains(got, "times_after") || !strings.Contains(got, "later(integer) integer") ||
		strings.Count(got, "audit_field") != 1 || !strings.Contains(got, "monitor() integer") {
		t.Errorf("functions of the later release: %s", got)
	}
	exec(t, conn, "DELETE FROM schema_steps WHERE name = '9999'")
	wantErrorText(t, "opening with the functions of a later release", openOnce(t.Context(), url),
		errNewerFunctions.Error())
}
