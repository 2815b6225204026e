package audit

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"assay/host/access/apikey"
	"assay/host/audit"
	"assay/host/auditlog"
	"assay/host/cli"
	"assay/host/hosttest"
	"assay/host/installation"
	"assay/host/store"
	"assay/host/store/postgres/postgrestest"
	"assay/host/store/storetest"
	"assay/registry"
	"assay/registry/activation"
	"assay/registry/expect"
)

// changedTo are SQL expressions for a value in place of null, and for one other than that of the column $, by type.
var changedTo = map[string][2]string{
	"text": {"'x'", "$ || 'x'"}, "boolean": {"true", "NOT $"}, "jsonb": {"'{}'", `$ || '{"x": 1}'`},
	"bytea":  {`'\\x00'`, "CASE WHEN length($) = 0 THEN '\\x00' ELSE set_byte($, 0, get_byte($, 0) # 1) END"},
	"bigint": {"1", "$ + 1000"}, "integer": {"1", "$ + 1000"}, "smallint": {"1", "$ + 1000"},
	"double precision": {"1", "$ + 1"}, "numeric": {"1", "$ + 1"}, "real": {"1", "$ + 1"},
	"timestamp with time zone": {"now()", "$ + interval '1 h'"}, "date": {"now()", "$ + 1"},
	"interval": {"'1 h'", "$ + interval '1 h'"}, "text[]": {"'{}'", "$ || ARRAY['x']"},
	"bigint[]": {"'{}'", "$ || 1::bigint"}, "timestamp with time zone[]": {"'{}'", "$ || now()"},
	"bytea[]": {"'{}'", `$ || '\x00'::bytea`},
}

// `audit verify` finds each change of a value or row of an installation's database, or docs/audit-format.md lists it.
func TestColumnsThatVerificationCovers(t *testing.T) {
	t.Parallel()
	hosttest.NeedPostgres(t)
	v := newVerified(t)
	db := withoutConstraints(t, v.database)
	t.Run("each column", func(t *testing.T) { changeEachColumn(t, v, db) })
	t.Run("random changes", func(t *testing.T) { changeAtRandom(t, v, db) })
}

// changeEachColumn changes each column that the document does not list, and all that it lists at once.
func changeEachColumn(t *testing.T, v *verified, db *pgx.Conn) {
	t.Helper()
	documented := uncoveredColumns(t)
	for table, columns := range tableColumns(t, db) {
		listed, known := documented[table]
		delete(documented, table)
		if table == "audit_anchors" { // has no rows here: TestPrune and TestEveryChangeOfAnExportIsFound cover it
			continue
		}
		var open []column
		for _, c := range columns {
			if known && (len(listed) == 0 || slices.Contains(listed, c.name)) {
				open = append(open, c)
				continue
			}
			found := v.found
			if (damage{table: table, column: c.name}).public() {
				found = v.foundBothWays
			}
			expect.That(t, change(t, db, table, []column{c}, found), "a change of %s.%s passes", table, c.name)
		}
		expect.That(t, len(listed) == 0 || len(open) == len(listed),
			"docs/audit-format.md lists %v of %s, which has %v", listed, table, columns)
		expect.That(t, len(open) == 0 || !change(t, db, table, open, v.foundBothWays),
			"a change of %v in %s is found, which docs/audit-format.md lists", open, table)
	}
	for table := range documented {
		t.Errorf("docs/audit-format.md lists the table %s, which does not exist", table)
	}
}

// verified is an installation that was used and stopped, and what its log is verified with.
type verified struct {
	database    string
	b           *installation.Backend
	cfg         *installation.Config
	key         audit.Public
	trust       activation.Trust
	checkpoints *auditlog.Checkpoints // that are kept outside the database
}

func newVerified(t *testing.T) *verified {
	t.Helper()
	dir, database := hosttest.OwnSecrets(t, hosttest.DataDir(t)), postgrestest.Database(t)
	fillInstallation(t, dir, database)
	v := &verified{database: database, b: hosttest.OpenStore(t, dir, database),
		cfg: &installation.Config{DataDir: dir, DatabaseURL: database}}
	v.key = v.b.Store.Signer().Public
	v.checkpoints = auditlog.ReadCheckpoints(expect.Value(v.cfg.CheckpointDir().Files())(t), v.key)
	v.trust = expect.Value(v.b.Verifying(t.Context(), v.cfg))(t).Trust
	_, broken, err := cli.VerifyAudit(t.Context(), v.b, v.cfg, v.key, v.checkpoints)
	expect.Must(t, broken == nil && err == nil, "%v, %v", broken, err)
	return v
}

// found reports whether `audit verify` finds something wrong after a change of a table.
func (v *verified) found(ctx context.Context, table string) bool {
	if strings.HasPrefix(table, "plugin_") { // which takes longer
		_, broken, err := cli.VerifyAudit(ctx, v.b, v.cfg, v.key, v.checkpoints)
		return broken != nil || err != nil
	}
	_, broken, err := auditlog.Verify(ctx, v.b.Store, v.key, v.trust, v.checkpoints)
	return broken != nil || err != nil
}

// foundBothWays reports whether it is found with the installation and without.
func (v *verified) foundBothWays(ctx context.Context, table string) bool {
	publicly := false
	err := v.b.Store.ReadAuditLog(ctx, func(ctx context.Context, log store.AuditLog) error {
		_, broken, err := auditlog.VerifyPublic(ctx, log, v.key, v.checkpoints, time.Now())
		publicly = broken != nil
		return err
	})
	return (publicly || err != nil) && v.found(ctx, table)
}

// uncoveredColumns returns the columns that docs/audit-format.md lists as not covered, by table; none: all of them.
func uncoveredColumns(t *testing.T) map[string][]string {
	t.Helper()
	_, text, _ := strings.Cut(hosttest.ReadText(t, "../../../docs/audit-format.md"),
		"## What verification does not cover\n")
	_, text, _ = strings.Cut(text, "\n- ") // the paragraph before names other things
	text, _, _ = strings.Cut(text, "\n## ")
	documented := map[string][]string{}
	for _, row := range uncovered.FindAllStringSubmatch(text, -1) {
		documented[row[1]] = strings.Fields(strings.NewReplacer("`", "", ",", "").Replace(row[2]))
	}
	return documented
}

type column struct{ name, typ string }

// changed returns an SQL expression for a value other than that of the column.
func (c column) changed() string {
	name, to := pgx.Identifier{c.name}.Sanitize(), changedTo[c.typ]
	return fmt.Sprintf("CASE WHEN %s IS NULL THEN %s ELSE %s END", name, to[0], strings.ReplaceAll(to[1], "$", name))
}

// tableColumns returns the columns of all tables, sorted by name.
func tableColumns(t *testing.T, db *pgx.Conn) map[string][]column {
	t.Helper()
	rows := expect.Value(db.Query(t.Context(), `
		SELECT c.relname::text, a.attname::text, format_type(a.atttypid, NULL)
		FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
		WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
			AND c.relname NOT LIKE 'schema\_%' ORDER BY 1, 2`))(t)
	tables := map[string][]column{}
	var table, name, typ string
	expect.Value(pgx.ForEachRow(rows, []any{&table, &name, &typ}, func() error {
		tables[table] = append(tables[table], column{name, typ})
		return nil
	}))(t)
	return tables
}

// withoutConstraints returns a connection whose changes the database does not refuse, as those of its owner.
func withoutConstraints(t *testing.T, database string) *pgx.Conn {
	t.Helper()
	db := storetest.Session(t, database)
	storetest.Exec(t, db, "SET session_replication_role = replica", `DO $$
		DECLARE c record;
		BEGIN
			FOR c IN SELECT conrelid::regclass AS rel, conname FROM pg_constraint
				WHERE connamespace = 'public'::regnamespace AND contype IN ('c', 'f') AND coninhcount = 0
					AND conrelid <> 0
				ORDER BY contype DESC
			LOOP
				EXECUTE format('ALTER TABLE %s DROP CONSTRAINT IF EXISTS %I', c.rel, c.conname);
			END LOOP;
			FOR c IN SELECT attrelid::regclass AS rel, attname FROM pg_attribute WHERE attidentity = 'a' LOOP
				EXECUTE format('ALTER TABLE %s ALTER COLUMN %I DROP IDENTITY', c.rel, c.attname);
			END LOOP;
		END $$`)
	return db
}

// change changes the values of columns in a row, reports whether that is found, and restores them.
func change(t *testing.T, db *pgx.Conn, table string, columns []column,
	found func(ctx context.Context, table string) bool) bool {
	t.Helper()
	var name string
	var values []string
	for _, c := range columns {
		expect.Must(t, changedTo[c.typ][1] != "", "%s.%s: no other value of the type %s is known", table, c.name, c.typ)
		name = pgx.Identifier{c.name}.Sanitize()
		values = append(values, name+" = "+c.changed())
	}
	if !storetest.Value[bool](t, db, "SELECT EXISTS (TABLE "+table+")") {
		return false
	}
	const place = "format('(tableoid, ctid) = (%s, ''%s'')', tableoid, ctid)"
	row := storetest.Value[string](t, db, fmt.Sprintf("SELECT %s FROM %s ORDER BY %s IS NULL, ctid DESC LIMIT 1", place,
		table, name))
	storetest.Exec(t, db, "CREATE TEMP TABLE intact AS SELECT * FROM "+table+" WHERE "+row)
	changed := storetest.Value[string](t, db, fmt.Sprintf("UPDATE %s SET %s WHERE %s RETURNING %s", table,
		strings.Join(values, ", "), row, place))
	seen := found(t.Context(), table)
	storetest.Exec(t, db, "DELETE FROM "+table+" WHERE "+changed,
		"INSERT INTO "+table+" OVERRIDING SYSTEM VALUE SELECT * FROM intact", "DROP TABLE intact")
	return seen
}

// fillInstallation runs a host and does what leaves rows in the tables.
func fillInstallation(t *testing.T, dir, database string) {
	t.Helper()
	host := hosttest.StartHost(t, dir, database, hosttest.AllowLoopback)
	issued := hosttest.OutputJSON[apikey.Issued](t, dir, database, "keys", "create", "--plan", "pro")
	hosttest.Output(t, dir, database, "keys", "create", "--account", issued.Account, "--scope", "check", "--allow",
		"192.0.2.7", "--expires", "30d")
	list := hosttest.WriteFile(t, "list.txt", []byte("listed-example.net\nlisted-example.org\n"))
	hosttest.Output(t, dir, database, "feeds", "import", list, "--name", "Test", "--kind", "bad", "--category",
		"phishing")
	ranks := hosttest.WriteFile(t, "ranks.csv", []byte("1,listed-example.com\n2,listed-example.edu\n"))
	hosttest.Output(t, dir, database, "feeds", "import", ranks, "--name", "Popular", "--kind", "ranked")
	receiver, _ := hosttest.Receive(t, func(hosttest.Call) int { return http.StatusServiceUnavailable })
	hosttest.Output(t, dir, database, "webhooks", "set", issued.Account, "--url", receiver)
	hosttest.PushEmpty(t, dir, database, "probe", `"entities":["domain"],"facts":[],"signals":[]`)
	hosttest.Output(t, dir, database, "plugin", "transfer", "probe", "--to", "assay/operator")
	base := hosttest.OutputJSON[registry.LineupRevision](t, dir, database, "lineup", "show").Lineup
	hosttest.Output(t, dir, database, "lineup", "set", hosttest.WriteJSON(t, hosttest.Variant(base, 3)))
	blocked := hosttest.CheckUntilComplete(host, issued.Secret, `{"domain":"paypa1-secure-login.xyz"}`)
	erased := hosttest.CheckUntilComplete(host, issued.Secret, `{"email":"jane.roe@mailbox-example.net"}`)
	for _, call := range [][2]string{
		{"/api/feedback", `{"ref":"` + blocked.Ref + `","label":"fraud","note":"told us so"}`},
		{"/gdpr/review", `{"ref":"` + blocked.Ref + `","reason":"it is ours"}`},
		{"/api/overrides", `{"action":"allow","domain":"kept-example.net","reason":"known","expires_at":"` +
			time.Now().Add(24*time.Hour).UTC().Format(time.RFC3339) + `"}`},
		{"/gdpr/export", `{"ref":"` + blocked.Ref + `"}`}, {"/gdpr/erase", `{"ref":"` + erased.Ref + `"}`},
	} {
		status, answer := hosttest.Ask(t, host, issued.Secret, "POST", call[0], call[1])
		expect.Must(t, status == http.StatusOK, "%s: %d %v", call[0], status, answer)
	}
	hosttest.CheckUntilComplete(host, issued.Secret, `{"domain":"kept-example.net"}`)
	host.Stop(t, syscall.SIGTERM)
	hosttest.Output(t, dir, database, "secret", "rotate", "--in", "1h")
}
