package store

import (
	"errors"
	"flag"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"assay/host/check"
	"assay/host/entity"
	"assay/host/store/postgres/postgrestest"
	"assay/host/store/storetest"
	"assay/migrations"
)

// emptyDatabase returns a database without a schema, and a connection to it.
func emptyDatabase(t *testing.T) (url string, conn *pgx.Conn) {
	t.Helper()
	needsPlainPostgres(t, "it begins with an empty schema, which a cluster is not")
	url = postgrestest.Empty(t)
	return url, session(t, url)
}

func TestManyHostsMigrateAtOnce(t *testing.T) {
	t.Parallel()
	url, _ := emptyDatabase(t)
	noError(t, errors.Join(concurrently(8, func(int) error { return openOnce(t.Context(), configOf(url, nil)) })...))
	s := open(t, url, nil)
	expect(t, "records of the first migration", rowsOf(t, s, "schema_steps WHERE name = '0001'"), 1)
	noError(t, storetest.PutInForce(t.Context(), url))
	noError(t, ledgerOn(t, s, LedgerConfig{}).Append(t.Context(), allowed(t, newCaller(t, s, plan(t, "pro", 1)))))
	verifyLedger(t, s)
}

// A host that has nothing to migrate does not wait for one that migrates, or that was stopped meanwhile. It refuses the
// database of another secret, and one of a newer host.
func TestOpenOnACurrentSchema(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	other := session(t, url)
	must(other.Exec(t.Context(), "SELECT pg_advisory_lock($1)", int64(migrationLock)))(t)
	noError(t, openOnce(t.Context(), configOf(url, nil)))
	foreign := Config{URL: url, Keys: storetest.NewRing('b'), Logger: discard()}
	wantError(t, "opening with another secret", errOf(Open(t.Context(), foreign)), ErrOtherSecret)
	exec(t, other, "INSERT INTO schema_steps (name, group_id) VALUES ('9001', 2)")
	wantErrorText(t, "opening a database of a newer host", openOnce(t.Context(), configOf(url, nil)),
		"(migration 9001) is newer than this host")
}

// The database ends the lock and the migration of a host that says nothing. A host that lost the lock stops migrating.
func TestMigrationsEndWithTheirHost(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	conn := session(t, url)
	db := must(connect(url, 2))(t)
	defer db.Close()
	lock := must((&Store{log: discard()}).lockMigrations(t.Context(), db, 10*time.Millisecond))(t)
	defer lock.end()
	var silence string
	noError(t, lock.tx.NewRaw("SHOW idle_in_transaction_session_timeout").Scan(t.Context(), &silence))
	expect(t, "the lock's time of silence", silence, "1min")
	must(conn.Exec(t.Context(), `SELECT pg_terminate_backend(l.pid) FROM pg_locks AS l JOIN pg_database AS d
		ON d.oid = l.database JOIN pg_stat_activity AS a ON a.pid = l.pid AND a.backend_type = 'client backend'
		WHERE l.locktype = 'advisory' AND d.datname = current_database()`))(t)
	receive(t, "the end of migrating", lock.ctx.Done())

	files := releaseWith(t,
		"CREATE TABLE seen AS SELECT current_setting('idle_in_transaction_session_timeout') AS silence", unchanged)
	noError(t, (&Store{direct: url, log: discard()}).migrate(t.Context(), files))
	expect(t, "a migration's time of silence", value[string](t, conn, "SELECT silence FROM seen"), "10s")
}

// A host that waits for the lock of migrations keeps no transaction open. The host that has the lock could wait for its
// end: a concurrent index build waits for all older snapshots.
func TestWaitingHostsHaveNoTransaction(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	conn := session(t, url)
	db, waiting := must(connect(url, 2))(t), must(connect(url, 1))(t)
	defer db.Close()
	defer waiting.Close()
	var pid int
	noError(t, waiting.NewRaw("SELECT pg_backend_pid()").Scan(t.Context(), &pid))
	lock := must((&Store{log: discard()}).lockMigrations(t.Context(), db, time.Hour))(t)
	next := make(chan *migrationsLock, 1)
	go func() {
		lock, err := (&Store{log: discard()}).lockMigrations(t.Context(), waiting, time.Hour)
		wantError(t, "error", err, nil)
		next <- lock
	}()
	until(t, "a host that has asked and keeps nothing open", func() bool {
		return value[bool](t, conn, "SELECT query ILIKE 'rollback%' AND xact_start IS NULL FROM pg_stat_activity "+
			"WHERE pid = $1", pid)
	})
	lock.end()
	receive(t, "the lock", next).end()
}

// A command changes the schema of no database, and creates nothing in one without a host.
func TestOpenForCommands(t *testing.T) {
	t.Parallel()
	openAs := func(url string, schema Schema) error {
		cfg := configOf(url, nil)
		cfg.Schema = schema
		return openOnce(t.Context(), cfg)
	}
	current := postgrestest.Database(t)
	noError(t, openAs(current, RequireSchema))
	noError(t, openAs(current, MigrateSchema))
	exec(t, session(t, current), "INSERT INTO schema_steps (name, group_id) VALUES ('9001', 2)")
	for _, schema := range []Schema{RequireSchema, MigrateSchema} {
		wantErrorText(t, "a command on a newer schema", openAs(current, schema), "is newer than this host")
	}

	url, conn := emptyDatabase(t)
	tables := func() int { return value[int](t, conn, "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") }
	for _, schema := range []Schema{RequireSchema, MigrateSchema} {
		wantError(t, "a command on an empty database", openAs(url, schema), ErrNoSchema)
	}
	expect(t, "tables", tables(), 0)

	noError(t, (&Store{direct: url, log: discard()}).migrate(t.Context(), migrations.FS))
	exec(t, conn, "DELETE FROM schema_functions")
	before := tables()
	wantError(t, "a command on a database whose first start was interrupted", openAs(url, RequireSchema), ErrNoSchema)
	exec(t, conn, fmt.Sprintf(`INSERT INTO installation (secret_fingerprint) VALUES ('\x%x')`, testRing.Fingerprint))
	wantErrorText(t, "a command on an older schema", openAs(url, RequireSchema), "start a host of this version first")
	expect(t, "tables", tables(), before)
	noError(t, openAs(url, MigrateSchema))
	noError(t, openAs(url, RequireSchema))
}

// A host with another secret does not migrate the database.
func TestOtherSecretDoesNotMigrate(t *testing.T) {
	t.Parallel()
	url, conn := emptyDatabase(t)
	noError(t, (&Store{direct: url, log: discard()}).migrate(t.Context(), migrations.FS))
	exec(t, conn, "INSERT INTO installation (secret_fingerprint) VALUES ('another')", "DELETE FROM schema_functions")
	wantError(t, "opening with another secret", openOnce(t.Context(), configOf(url, nil)), ErrOtherSecret)
	expect(t, "functions put in force", value[int](t, conn, "SELECT count(*) FROM schema_functions"), 0)
}

// A failed migration leaves nothing behind and can run again later.
func TestFailedMigrationIsRolledBack(t *testing.T) {
	t.Parallel()
	url, conn := emptyDatabase(t)
	exec(t, conn, "CREATE TABLE webhook_events (foreign_column int)") // conflicts in the middle of the first migration
	wantFailure(t, openOnce(t.Context(), configOf(url, nil)), "the migration ignored a table of that name")
	n := value[int](t, conn, `SELECT count(*) FROM pg_tables WHERE schemaname = 'public'
		AND tablename NOT IN ('webhook_events', 'schema_steps', 'schema_locks')`)
	holds(t, n == 0, "the failed migration left %d tables", n)
	expect(t, "migrations recorded as applied", value[int](t, conn, "SELECT count(*) FROM schema_steps"), 0)
	exec(t, conn, "DROP TABLE webhook_events")
	noError(t, openOnce(t.Context(), configOf(url, nil)))
}

// everyCut makes TestSetUpSurvivesALostConnection try every statement.
var everyCut = flag.Bool("every-cut", false, "lose each statement that creates a database, not one of each kind")

// Statements that leave a database in the same state when they are lost. Others that differ only in numbers, such as of
// each month's partition, or in the index that they build, do the same work.
var (
	readsOnly       = regexp.MustCompile(`^(begin|SET LOCAL|(-- .*\n)*SELECT [^(]* FROM )`)
	definesFunction = regexp.MustCompile(`^(-- .*\n)*CREATE OR REPLACE FUNCTION`)
	sameWork        = regexp.MustCompile(`[0-9]+|INDEX CONCURRENTLY(?s:.*)`)
)

// cuts returns the positions of the statements at which to cut the connection: one of each kind. Whichever statement of
// a migration in a transaction is lost, nothing is left of it.
func cuts(statements []string) (positions []int) {
	tried, inMigration := map[string]bool{}, false
	for i, statement := range statements {
		inMigration = inMigration && statement != "commit" || statement == "begin"
		kind := sameWork.ReplaceAllString(statement, "0")
		switch {
		case *everyCut:
		case readsOnly.MatchString(statement):
			kind = "a read"
		case definesFunction.MatchString(statement):
			kind = "a function"
		case inMigration && strings.Contains(statement, "\n"):
			kind = "a migration in a transaction"
		}
		// Losing the reply to the rollback that ends the lock is not an error.
		if !tried[kind] && statement != "rollback" {
			positions = append(positions, i)
		}
		tried[kind] = true
	}
	return positions
}

// If a host loses its connection at any statement of creating a database, the next host completes the work.
func TestSetUpSurvivesALostConnection(t *testing.T) {
	t.Parallel()
	url, _ := emptyDatabase(t)
	p := proxied(t, url)
	var statements []string // except pings of pooled connections, which depend on timing
	p.Set(func(m string) storetest.Fate {
		if m != "-- ping" {
			statements = append(statements, m)
		}
		return storetest.Passes
	}, false)
	noError(t, openOnce(t.Context(), configOf(p.URL, nil)))
	p.Set(nil, false) // stop collecting
	mustHold(t, len(statements) >= 20, "the proxy saw only %d statements", len(statements))
	for _, cut := range cuts(statements) {
		t.Run(fmt.Sprintf("%d %.60q", cut, statements[cut]), func(t *testing.T) {
			t.Parallel()
			url, _ := emptyDatabase(t)
			p := proxied(t, url)
			seen := -1
			hit := p.Once(storetest.Muted, true, func(m string) bool {
				if m != "-- ping" {
					seen++
				}
				return seen == cut
			})
			wantFailure(t, openOnce(t.Context(), configOf(p.URL, nil)), "opening succeeded in spite of the cut")
			receive(t, "the cut", hit)
			wantError(t, "after the cut", openOnce(t.Context(), configOf(url, nil)), nil)
		})
	}
}

func TestBadURLDoesNotShowThePassword(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"postgres://assay:hunter2@[::1", "postgres://assay:hunter2@host:port/x",
		"assay:hunter2"} {
		_, err := Open(t.Context(), Config{URL: url, Keys: testRing, Logger: discard()})
		holds(t, err != nil && !strings.Contains(err.Error(), "hunter2"), "opening %s: %v", url, err)
	}
}

// Defaults of the server, database or role do not matter: Open refuses those that could, and says how to fix them.
func TestServerSettingsDoNotMatter(t *testing.T) {
	t.Parallel()
	target, conn := emptyDatabase(t) // migrations run with these defaults too
	database := must(url.Parse(target))(t)
	for _, setting := range []string{
		"timezone TO 'Pacific/Kiritimati'", "datestyle TO 'German, DMY'", "bytea_output TO 'escape'",
		"client_encoding TO 'LATIN1'",
		"default_transaction_isolation TO 'serializable'", "statement_timeout TO '1s'", "lock_timeout TO '1ms'",
		"synchronous_commit TO off", "idle_in_transaction_session_timeout TO '1s'",
	} {
		exec(t, conn, "ALTER DATABASE "+strings.TrimPrefix(database.Path, "/")+" SET "+setting)
	}
	refusal := errOf(tryOpen(t.Context(), target))
	mustHold(t, refusal != nil, "opened a database whose defaults are unsuitable")
	for _, name := range []string{"bytea_output", "default_transaction_isolation", "statement_timeout", "lock_timeout",
		"synchronous_commit"} {
		wantErrorText(t, "opening", refusal, "the setting "+name+" is ")
	}
	for _, fix := range regexp.MustCompile(`ALTER ROLE \S+ IN DATABASE \S+ SET \w+ TO '[^']+'`).
		FindAllString(refusal.Error(), -1) {
		exec(t, conn, fix)
	}
	s := open(t, target, nil)
	noError(t, storetest.PutInForce(t.Context(), target))
	expectAll(t, listening(t, s))
	l, caller := ledgerOn(t, s, LedgerConfig{}), newCaller(t, s, plan(t, "pro", 10))
	e := parse(t, entity.Email, "jane.roe@example.net")
	for _, when := range []time.Time{noon, time.Date(2031, 4, 30, 23, 59, 59, 999e6, time.UTC),
		time.Date(2031, 5, 1, 0, 0, 0, 0, time.UTC)} {
		appendOne(t, l, at(decided(caller, e, check.Block), when))
	}
	noError(t, s.PruneSightings(t.Context()))
	verifyLedger(t, s)
	got := export(t, s, caller, about(e))
	holds(t, got.Total == 3 && got.Graph.LastSeen.Equal(noon), "exported %+v, want 3 checks, last seen at noon", got)
	expect(t, "erased checks", erase(t, s, caller, about(e)).Checks, 3)
	verifyLedger(t, s)
}
