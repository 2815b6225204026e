package store

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/uptrace/bun"

	"assay/host/store/postgres/postgrestest"
	"assay/host/store/storetest"
	"assay/migrations"
	is "assay/registry/expect"
)

// A host that starts while Postgres recovers from a crash, or is too busy to let it in, waits.
func TestOpenWaitsForTheDatabase(t *testing.T) {
	t.Parallel()
	is.Each(t, map[string]refusing{
		"recovering": {0, 3, refuseToStart},
		"busy":       {0, 1, func(client net.Conn) { _, _ = io.Copy(io.Discard, client) }},
		"down":       {time.Minute, 5, func(client net.Conn) {}},
	}, openAfter)
}

// refusing is a database that refuses its first connections.
type refusing struct {
	wait   time.Duration // of the host, for the database
	times  int32
	refuse func(client net.Conn)
}

// openAfter opens a store on a database that refuses its first connections.
func openAfter(t *testing.T, test refusing) {
	t.Helper()
	database := postgrestest.Database(t)
	open(t, database, nil) // which creates its tables
	at := is.Value(url.Parse(database))(t)
	target := at.Host
	listener := is.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { listener.Close() })
	at.Host = listener.Addr().String()
	var refused atomic.Int32
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer client.Close()
				if refused.Add(1) <= test.times {
					test.refuse(client)
					return
				}
				server, err := net.Dial("tcp", target)
				if err != nil {
					return
				}
				defer server.Close()
				go func() { _, _ = io.Copy(server, client); server.Close() }()
				_, _ = io.Copy(client, server)
			}()
		}
	}()
	cfg := configOf(at.String(), nil)
	cfg.Wait = test.wait
	storetest.Close(t, is.Value(Open(t.Context(), cfg))(t))
	n := refused.Load()
	holds(t, n > test.times, "the store opened after %d connections", n)
}

// refuseToStart answers a startup message as a Postgres that is recovering.
func refuseToStart(client net.Conn) {
	var length [4]byte
	if _, err := io.ReadFull(client, length[:]); err != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, client, int64(binary.BigEndian.Uint32(length[:]))-4)
	const fields = "SFATAL\x00VFATAL\x00C57P03\x00Mthe database system is in recovery mode\x00\x00"
	_, _ = client.Write(append(binary.BigEndian.AppendUint32([]byte{'E'}, uint32(4+len(fields))), fields...))
}

// documentedTable matches a row in docs/privacy.md: a table, its columns with personal data, and its other columns.
var documentedTable = regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|([^|]*)\\|([^|]*)\\|")

// TestDocumentOfStoredData compares the tables and columns in docs/privacy.md with the schema, so that none is missing.
func TestDocumentOfStoredData(t *testing.T) {
	t.Parallel()
	text := must(os.ReadFile("../../docs/privacy.md"))(t)
	documented := map[string]string{}
	for _, row := range documentedTable.FindAllStringSubmatch(string(text), -1) {
		columns := strings.Fields(strings.ReplaceAll(row[2]+row[3], "`", ""))
		slices.Sort(columns)
		documented[row[1]] = strings.Join(columns, " ")
	}
	s := newStore(t, nil)
	var tables []struct{ Name, Columns string }
	noError(t, s.db.NewRaw(`
		SELECT c.relname AS name, string_agg(a.attname, ' ' ORDER BY a.attname COLLATE "C") AS columns
		FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
		WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
			AND c.relname NOT LIKE 'bun\_%' AND c.relname NOT LIKE 'citus\_%'
		GROUP BY c.relname ORDER BY c.relname`).Scan(t.Context(), &tables))
	for _, table := range tables {
		expect(t, "columns in docs/privacy.md of "+table.Name, documented[table.Name], table.Columns)
		delete(documented, table.Name)
	}
	holds(t, len(documented) == 0, "docs/privacy.md lists tables that do not exist: %v", documented)

	// SealedWith counts the values of every column that is named as encrypted ones are.
	var named []struct{ Table, Column string }
	err := s.db.NewRaw(`SELECT c.relname AS table, a.attname AS column FROM pg_class AS c
		JOIN pg_attribute AS a ON a.attrelid = c.oid
		WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
			AND a.attname LIKE 'sealed%' AND NOT a.attisdropped`).Scan(t.Context(), &named)
	mustHold(t, err == nil && len(named) >= 10, "%v, %v", named, err)
	for _, n := range named {
		counted := func(c sealedColumn) bool { return c.table == n.Table && c.column == n.Column }
		holds(t, slices.ContainsFunc(sealedColumns, counted), "%s.%s is not counted", n.Table, n.Column)
	}
	counts, err := s.SealedWith(t.Context(), []byte{1, 2, 3, 4})
	holds(t, err == nil && len(counts) == 0, "%v, %v", counts, err)
	incomplete := func(c sealedColumn) bool { return (c.context == nil) != (c.key == "") }
	holds(t, !slices.ContainsFunc(sealedColumns, incomplete), "a column has a key or a context only")
}

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

// A later release migrates the database while a host records checks and another transaction keeps a table.
func TestMigrationGivesWay(t *testing.T) {
	t.Parallel()
	needsPlainPostgres(t, "Citus propagates the migration to nodes that cannot wait for each other")
	s, l, caller := newVerified(t, nil, LedgerConfig{})
	report := session(t, s.url) // such as a dump
	exec(t, report, "BEGIN", "SELECT count(*) FROM webhook_events")
	log := make(messages, 1000)
	later := releaseWith(t, "ALTER TABLE webhook_events ADD COLUMN later integer", unchanged)
	next := &Store{direct: s.url, log: slog.New(slog.NewJSONHandler(log, nil))}
	done := async(func() error { return next.migrate(t.Context(), later) })
	for range 2 {
		expect(t, "message", receive(t, "the migration to wait", log), "a migration waits for other transactions")
		noError(t, l.Append(t.Context(), allowed(t, caller)))
	}
	exec(t, report, "ROLLBACK")
	noError(t, receive(t, "the migration", done))
	noError(t, l.Append(t.Context(), allowed(t, caller)))
}

// The functions of a later release replace those of this one, which does not bring its own back.
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
	noError(t, openOnce(t.Context(), configOf(url, nil)))
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
	wantErrorText(t, "opening with the functions of a later release", openOnce(t.Context(), configOf(url, nil)),
		errNewerFunctions.Error())
}

// Connections to a primary that became a standby are dropped, so that the next statement finds the new primary.
func TestReadOnlyConnectionsAreDropped(t *testing.T) {
	t.Parallel()
	at := postgrestest.Database(t)
	name := strings.TrimPrefix(must(url.Parse(at))(t).Path, "/")
	s, conn := open(t, at, nil), session(t, at)
	create := func() error { return errOf(s.CreateAccount(t.Context(), plan(t, "pro", 1))) }
	noError(t, create())
	exec(t, conn, "ALTER DATABASE "+name+" SET default_transaction_read_only = on",
		`SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity
			WHERE datname = current_database() AND pid <> pg_backend_pid()`)
	until(t, "new connections to be read-only", func() bool { return sqlState(create()) == readOnly })
	exec(t, conn, "ALTER DATABASE "+name+" RESET default_transaction_read_only")
	noError(t, create())
}

func TestConnectTimeout(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]time.Duration{
		"postgres://localhost/assay":                    connectTimeout,
		"postgres://localhost/assay?connect_timeout=10": 10 * time.Second,
	} {
		expect(t, url, must(connConfig(url))(t).ConnectTimeout, want)
	}
}

// A caller that stops waiting does not cancel a commit, which would keep it from the standby that it waits for.
func TestCommitIsNotCancelled(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	conn := session(t, s.url)
	exec(t, conn, "CREATE TABLE slow (n int)", `CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS
			'BEGIN PERFORM pg_advisory_xact_lock(77); RETURN NULL; END'`,
		`CREATE CONSTRAINT TRIGGER wait AFTER INSERT ON slow DEFERRABLE INITIALLY DEFERRED
			FOR EACH ROW EXECUTE FUNCTION wait()`, "SELECT pg_advisory_lock(77)")
	ctx, cancel := context.WithCancel(t.Context())
	done := async(func() error {
		return transact(ctx, s.db, func(ctx context.Context, tx bun.Tx) error {
			return errOf(tx.ExecContext(ctx, "INSERT INTO slow VALUES (1)"))
		})
	})
	until(t, "the commit to wait", func() bool { return lockWaiters(t, conn) == 1 })
	cancel()
	wantError(t, "committing", receive(t, "the caller to return", done), context.Canceled)
	exec(t, conn, "SELECT pg_advisory_unlock(77)")
	until(t, "the commit to end", func() bool { return value[int](t, conn, "SELECT count(*) FROM slow") == 1 })
}

func noProgress(int, int, string) {}

func TestDistributeNeedsCitus(t *testing.T) {
	t.Parallel()
	needsPlainPostgres(t, "it expects an error for lack of it")
	for _, dry := range []bool{false, true} {
		steps, err := newStore(t, nil).Distribute(t.Context(), dry, noProgress)
		wantError(t, "distributing without Citus", err, ErrNoCitus)
		expect(t, "steps", len(steps), 0)
	}
}

// A cluster looks up the graph in another way than plain Postgres, and finds the same.
func TestGraphKnownOnCluster(t *testing.T) {
	t.Parallel()
	if onCitus() {
		t.Skip("this test compares with a database without Citus")
	}
	conn := session(t, newStore(t, nil).url)
	exec(t, conn,
		`INSERT INTO graph_sightings (node, account, kind, checks, blocked, reviewed, first_seen, last_seen,
			recent)
		SELECT node::bytea, graph_account(account), 'domain', 1, 0, 0, first_seen::timestamptz, last_seen::timestamptz,
			coalesce(recent::bytea, '')
		FROM (VALUES
			('many', 'a', '2026-01-01', '2026-10-01', 'aaaa'), ('many', 'b', '2026-01-02', '2026-10-01', 'bbbb'),
			('many', 'c', '2026-01-03', '2026-10-01', 'cccc'), ('many', 'd', '2026-01-04', '2026-10-01', NULL),
			('few', 'a', '2026-01-05', '2026-10-01', NULL), ('few', 'old', '2026-01-06', '2026-01-06', 'eeee'),
			('few', 'public', '2026-01-07', '2026-10-01', NULL),
			('old', 'old', '2026-01-08', '2026-01-08', NULL), ('public', 'public', '2026-01-09', '2026-10-01', NULL)
		) AS g (node, account, first_seen, last_seen, recent)`)
	found := func() string {
		return value[string](t, conn, `SELECT string_agg(concat_ws(' ', i, known, to_char(first_seen, 'DD'),
				nullif(convert_from(recent, 'UTF8'), '')), ', ' ORDER BY i)
			FROM graph_known('{many,many,many,few,few,few,old,public,none,many}', ARRAY(SELECT graph_account(a)
				FROM unnest('{a,"",d,a,old,"",old,public,a,none}'::text[]) WITH ORDINALITY AS g (a, n) ORDER BY n),
				graph_account('public'), '2026-06-01', 3)`)
	}
	const want = "1 t 01 aaaa, 2 t, 3 t 04, 4 f 05, 5 f, 6 f, 10 t"
	expect(t, "found", found(), want)
	names := replaceFunctions(t, conn)
	holds(t, slices.Contains(names, "graph_known"), "functions replaced: %v, want graph_known among them", names)
	expect(t, "found on a cluster", found(), want)
	expect(t, "functions left to replace", len(replaceFunctions(t, conn)), 0)
}

func TestPublicAccountCannotBeCreated(t *testing.T) {
	t.Parallel()
	at := postgrestest.Database(t)
	exec(t, session(t, at), "DELETE FROM accounts WHERE id = 'acct_public'",
		"ALTER TABLE accounts ADD CHECK (id <> 'acct_public')")
	wantErrorText(t, "opening", errOf(Open(t.Context(), configOf(at, nil))), "creating the public account")
}
