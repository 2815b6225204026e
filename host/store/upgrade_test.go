package store

import (
	"context"
	_ "embed"
	"encoding/json"
	"io/fs"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/uptrace/bun"

	"assay/host/audit"
	"assay/host/check"
	"assay/host/store/postgres/postgrestest"
	"assay/host/store/storetest"
	"assay/migrations"
)

//go:embed testdata/ledger_0011.sql
var oldLedgerText string

// oldHost records checks as hosts before migration 0012 did.
type oldHost struct {
	db         *bun.DB
	statements map[string]string

	accepted, refused atomic.Int64
	slowest           atomic.Int64
}

func newOldHost(t *testing.T, url string) *oldHost {
	h := &oldHost{db: must(connect(url, 2))(t), statements: map[string]string{}}
	t.Cleanup(func() { _ = h.db.Close() })
	for _, part := range strings.Split(oldLedgerText, "-- name: ")[1:] {
		name, text, _ := strings.Cut(part, "\n")
		h.statements[name] = text
	}
	return h
}

// record records a check of the account, or nothing.
func (h *oldHost) record(ctx context.Context, account string) error {
	began := time.Now()
	at := began.UTC().Truncate(time.Millisecond)
	args := named{"account": account, "key": "key_" + account, "when": at, "month": period(at),
		"at": at.Format(check.TimeFormat), "ref": check.NewRef(), "pseudonym": []byte(account),
		"nonce": make([]byte, audit.NonceBytes)}
	args["node"] = testRing.SealNode([]byte(account), nodeContext(args["ref"].(string)))
	err := h.db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		if _, err := tx.ExecContext(ctx, "SET LOCAL lock_timeout = '3s'"); err != nil {
			return err
		}
		var head struct {
			Seq  int64
			Hash []byte
		}
		if err := tx.NewRaw(h.statements["lock"], args).Scan(ctx, &head); err != nil {
			return err
		}
		for _, name := range []string{"caller", "used"} {
			if _, err := tx.NewRaw(h.statements[name], args).Exec(ctx); err != nil {
				return err
			}
		}
		leaf := audit.Leaf(args["nonce"].([]byte), audit.Record{Kind: audit.Check, At: args["at"].(string),
			Ref: args["ref"].(string), Account: account, Key: "key_" + account, Type: "domain",
			Pseudonym: []byte(account), Score: 91, Verdict: "block", Revision: 3})
		next := audit.Head{Seq: head.Seq, Hash: audit.Hash(head.Hash)}.Next(leaf)
		args["seq"], args["leaf"], args["hash"] = next.Seq, leaf[:], next.Hash[:]
		_, err := tx.NewRaw(h.statements["write"], args).Exec(ctx)
		return err
	})
	for took := int64(time.Since(began)); ; {
		if before := h.slowest.Load(); before >= took || h.slowest.CompareAndSwap(before, took) {
			break
		}
	}
	if err != nil {
		h.refused.Add(1)
		return err
	}
	h.accepted.Add(1)
	return nil
}

// migrationsUpTo returns the migrations up to one.
func migrationsUpTo(t *testing.T, last string) fs.FS {
	t.Helper()
	files := fstest.MapFS{}
	for _, entry := range must(fs.ReadDir(migrations.FS, "."))(t) {
		if name := entry.Name(); strings.HasSuffix(name, ".sql") && name[:4] <= last {
			files[name] = &fstest.MapFile{Data: must(fs.ReadFile(migrations.FS, name))(t)}
		}
	}
	return files
}

// messages is a log that passes the messages on.
type messages chan string

func (m messages) Write(line []byte) (int, error) {
	var record struct{ Msg string }
	_ = json.Unmarshal(line, &record)
	m <- record.Msg
	return len(line), nil
}

// watchBuilds makes the database note, in the table blocking, indexes and foreign keys of the tables that exist now
// that are built or validated while nobody can write to the table. Heads, activations and subscriptions are few.
func watchBuilds(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	exec(t, conn, "CREATE TABLE blocking (what text)", `CREATE TABLE watched AS SELECT oid FROM pg_class
			WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')
				AND relname NOT IN ('audit_heads', 'lineup_activations', 'billing_subscriptions')`,
		`CREATE VIEW built AS
			SELECT indexrelid AS oid, indrelid AS of, indexrelid::regclass::text AS name FROM pg_index
			JOIN pg_class AS c ON c.oid = indexrelid AND relkind = 'i' -- that of a partitioned table itself is empty
			UNION ALL SELECT oid, conrelid, conname FROM pg_constraint WHERE contype = 'f' AND convalidated`,
		"CREATE TABLE known AS SELECT oid FROM built",
		`CREATE FUNCTION watch_builds() RETURNS event_trigger LANGUAGE plpgsql AS $$
		BEGIN
			INSERT INTO blocking SELECT b.name || ' under ' || l.mode
			FROM built AS b JOIN watched AS w ON w.oid = b.of
			JOIN pg_locks AS l ON l.pid = pg_backend_pid() AND l.relation = b.of
			WHERE b.oid NOT IN (SELECT oid FROM known)
				AND l.mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock');
			INSERT INTO known SELECT oid FROM built WHERE oid NOT IN (SELECT oid FROM known);
		END $$`,
		"CREATE EVENT TRIGGER watch_builds ON ddl_command_end EXECUTE FUNCTION watch_builds()")
}

// The check of TestUpgradeUnderLoad finds what keeps hosts from writing.
func TestBlockingBuildsAreFound(t *testing.T) {
	t.Parallel()
	needsPlainPostgres(t, "distributed tables refuse what it tries")
	conn := session(t, postgrestest.Database(t))
	watchBuilds(t, conn)
	for statement, found := range map[string]bool{
		"CREATE INDEX new_index ON quota_usage (used)":                                            true,
		"CREATE INDEX CONCURRENTLY other_index ON quota_usage (used)":                             false,
		"CREATE TABLE t (i integer PRIMARY KEY)":                                                  false,
		"ALTER TABLE quota_usage ADD UNIQUE (account_id, period, used)":                           true,
		"ALTER TABLE quota_usage ADD FOREIGN KEY (account_id) REFERENCES accounts":                true,
		"ALTER TABLE quota_usage ADD FOREIGN KEY (account_id) REFERENCES accounts (id) NOT VALID": false,
	} {
		exec(t, conn, "TRUNCATE blocking", statement)
		expect(t, statement, value[bool](t, conn, "SELECT count(*) > 0 FROM blocking"), found)
	}
}

// A migration that was interrupted while it built an index builds it again.
func TestIncompleteIndexesAreBuiltAgain(t *testing.T) {
	t.Parallel()
	url, conn := emptyDatabase(t)
	s := &Store{direct: url, log: discard()}
	incomplete := func(index string) {
		exec(t, conn, "UPDATE pg_index SET indisvalid = false WHERE indexrelid = '"+index+"'::regclass")
	}
	none := func() {
		t.Helper()
		expect(t, "incomplete indexes", value[int](t, conn, "SELECT count(*) FROM pg_index WHERE NOT indisvalid"), 0)
	}
	noError(t, s.migrate(t.Context(), migrationsUpTo(t, "0011")))
	exec(t, conn, "CREATE INDEX webhook_events_by_ref ON webhook_events (ref)",
		"ALTER TABLE webhook_events ADD COLUMN chain integer NOT NULL DEFAULT 0",
		"CREATE UNIQUE INDEX webhook_events_new_pkey ON webhook_events (chain, ref)")
	incomplete("webhook_events_by_ref")
	incomplete("webhook_events_new_pkey")
	noError(t, s.migrate(t.Context(), migrationsUpTo(t, "0015")))
	none()
	exec(t, conn, `CREATE INDEX webhook_events_new_due
		ON webhook_events (chain, account_id, next_attempt_at, ref) WHERE state = 'pending'`)
	incomplete("webhook_events_new_due")
	noError(t, s.migrate(t.Context(), migrations.FS))
	none()
}

// A host of this release migrates the database while hosts of the last one record checks, and while another transaction
// keeps a table for long. The hosts go on meanwhile, and each of their checks is recorded whole or not at all. No index
// of a table that may be large is built while they cannot write.
func TestUpgradeUnderLoad(t *testing.T) {
	t.Parallel()
	url, conn := emptyDatabase(t)
	noError(t, (&Store{direct: url, log: discard()}).migrate(t.Context(), migrationsUpTo(t, "0011")))
	genesis := audit.Genesis(0)
	must(conn.Exec(t.Context(), "INSERT INTO audit_heads (chain, seq, hash) VALUES (0, 0, $1)", genesis.Hash[:]))(t)
	exec(t, conn, `INSERT INTO accounts (id, plan, quota, salt, chain)
			SELECT n, 'pro', 1000000, '\x01', 0 FROM unnest(ARRAY['a', 'b', 'c']) AS n`,
		`INSERT INTO api_keys (id, account_id, name, hash, hint)
			SELECT 'key_' || id, id, '', id::bytea, '' FROM accounts`,
		`INSERT INTO webhook_endpoints (account_id, url, sealed_secret)
			SELECT id, 'https://receiver.example', '\x01' FROM accounts`,
		`INSERT INTO feeds (name, kind, source, format, entries, version, imported_at)
			SELECT n, n, '', 'plain', 2, 1, now() FROM unnest(ARRAY['bad', 'ranked']) AS n`,
		`INSERT INTO feed_entries SELECT id, sha256(id::text::bytea), 'domain', '', '', false, '', now() FROM feeds`,
		`INSERT INTO feed_ranks SELECT id, '\x0102', '\x03' FROM feeds WHERE kind = 'ranked'`)
	old := newOldHost(t, url)
	ctx, stop := context.WithCancel(t.Context())
	var hosts sync.WaitGroup
	for _, account := range []string{"a", "b", "c"} {
		hosts.Go(func() {
			for ctx.Err() == nil {
				if err := old.record(context.Background(), account); err != nil && !isOutage(err) && !isDataError(err) {
					t.Errorf("an old host's check: %v", err)
				}
			}
		})
	}
	until(t, "old hosts to record checks", func() bool { return old.accepted.Load() > 50 })

	watchBuilds(t, conn)
	report := session(t, url) // such as a dump
	exec(t, report, "BEGIN", "SELECT count(*) FROM webhook_events")
	log := make(messages, 1000)
	opened := make(chan error, 1)
	var s *Store
	go func() {
		var err error
		s, err = Open(t.Context(), Config{URL: url, Keys: testRing, Logger: slog.New(slog.NewJSONHandler(log, nil))})
		opened <- err
	}()
	for range 3 {
		expect(t, "message", receive(t, "the migration to wait", log), "a migration waits for other transactions")
		before := old.accepted.Load()
		until(t, "old hosts to record checks meanwhile", func() bool { return old.accepted.Load() > before+10 })
	}
	exec(t, report, "ROLLBACK")
	noError(t, receive(t, "the migration", opened))
	defer s.Close()
	before := old.accepted.Load()
	until(t, "old hosts to record checks afterwards", func() bool { return old.accepted.Load() > before+50 })
	noError(t, storetest.PutInForce(t.Context(), url))
	l := ledgerOn(t, s, LedgerConfig{})
	caller := newCaller(t, s, plan(t, "pro", 1000))
	for range 10 {
		noError(t, l.Append(t.Context(), at(decided(caller, parse(t, "domain", "example.org"), check.Block),
			s.now().UTC())))
	}
	stop()
	hosts.Wait()
	t.Logf("old hosts recorded %d checks, were refused %d, and waited for %v at most", old.accepted.Load(),
		old.refused.Load(), time.Duration(old.slowest.Load()).Round(time.Millisecond))
	var blocking []string
	noError(t, s.db.NewRaw("SELECT what FROM blocking").Scan(t.Context(), &blocking))
	if len(blocking) > 0 {
		t.Errorf("hosts could not write while these were built: %q", blocking)
	}
	verifyLedger(t, s)
	wantStates(t, s)
	expect(t, "records", one[int64](t, s, "SELECT count(*) FROM audit_records WHERE kind = 'check'"),
		old.accepted.Load()+10)
	expect(t, "counted", one[int64](t, s, "SELECT sum(used) FROM quota_usage"), old.accepted.Load()+10)
	expect(t, "events", one[int64](t, s, "SELECT count(*) FROM webhook_events"), old.accepted.Load())
	if longest := time.Duration(old.slowest.Load()); longest > time.Minute {
		t.Errorf("an old host waited for %v", longest)
	}
}

// After the migration, checks are recorded under the lineup that the release before put in force last, and hosts of
// that release still see it. Nothing is signed by the migration.
func TestUpgradeOfLineups(t *testing.T) {
	t.Parallel()
	url, conn := emptyDatabase(t)
	noError(t, (&Store{direct: url, log: discard()}).migrate(t.Context(), migrationsUpTo(t, "0021")))
	genesis := audit.Genesis(0)
	must(conn.Exec(t.Context(), "INSERT INTO audit_heads (chain, seq, hash) VALUES (0, 0, $1)", genesis.Hash[:]))(t)
	for revision := range int64(2) {
		must(conn.Exec(t.Context(), `SELECT activate_lineup($1, '{"layers": [{"layer": "probe@1.0.0"}]}', '\x00',
			'built-in', '', jsonb_build_object('0', $2::jsonb))`, revision+1, entry(audit.Record{Kind: audit.Lineup,
			At: "2031-05-20T12:00:00.000Z", Revision: revision + 1, Ref: check.NewRef()}, noon)))(t)
	}
	must(conn.Exec(t.Context(), `INSERT INTO plugin_modules (digest, wasm) VALUES ('\x01', '\x02');
		INSERT INTO plugin_versions (name, version, digest, manifest) VALUES ('probe', '1.0.0', '\x01', '{}')`))(t)
	s := open(t, url, nil)
	wantStates(t, s)
	expect(t, "states of lineups and plugins", one[int64](t, s, `SELECT count(DISTINCT (type, key_id))
		FROM audit_records WHERE type IN ('lineup', 'activation', 'plugin', 'module')`), 6)
	signed, ok, err := s.LastActivation(t.Context())
	if err != nil || !ok || signed != "" {
		t.Errorf("the last activation is %q, %v, %v", signed, ok, err)
	}
	active := must(s.ActiveLineup(t.Context()))(t)
	if active.Revision != 2 || len(active.Lineup.Layers) != 1 {
		t.Errorf("active is %+v", active)
	}
	if text, err := s.LineupText(t.Context(), 2); err != nil || len(text) != 0 {
		t.Errorf("its canonical text is %q, %v", text, err)
	}
	l, caller := ledgerOn(t, s, LedgerConfig{}), newCaller(t, s, plan(t, "pro", 1000))
	record := func(revision int64) error {
		return l.Append(t.Context(), of(revision, decided(caller, parse(t, "domain", "example.org"), check.Allow)))
	}
	noError(t, record(2))
	wantError(t, "a check under the lineup before", record(1), check.ErrRevision)
}
