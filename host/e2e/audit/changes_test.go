package audit

import (
	"bytes"
	"cmp"
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"assay/host/audit"
	"assay/host/auditlog"
	"assay/host/cli"
	"assay/host/hosttest"
	"assay/host/store"
	"assay/host/store/storetest"
	"assay/registry/expect"
)

var (
	randomChanges = flag.Int("random-changes", 6, "how many changes TestColumnsThatVerificationCovers makes")
	randomSeed    = flag.Uint64("random-seed", 1, "what it chooses them by")
)

// onlyInstallation are the tables and columns of which changes are found with the installation alone.
var onlyInstallation = map[string][]string{
	"audit_records": {"sealed_node"}, "state_records": {"sealed_node"}, "audit_anchors": nil, "audit_tiles": nil,
}

// changeAtRandom makes random single changes of the database, of all kinds and columns: a value, a row that is deleted
// or copied, a value of another row, records that are cut off. `audit verify` finds each with one checkpoint a chain
// that was kept elsewhere, but for those that docs/audit-format.md lists. What can be verified without the installation
// is found without it too, and in an export by the program in Python.
func changeAtRandom(t *testing.T, v *verified, db *pgx.Conn) {
	t.Helper()
	python := expect.Program(t, "python3", "python3")
	kept := newestOutside(t, v)
	g := &damager{db: db, random: rand.New(rand.NewPCG(*randomSeed, 0)), tables: tableColumns(t, db)}
	documented := uncoveredColumns(t)
	loose := looseRows(t)
	dir, counts := t.TempDir(), map[string]int{}
	exports := map[string]string{} // what was changed, by file
	for n := 0; n < *randomChanges; n++ {
		d := g.next(t)
		columns, listed := documented[d.table]
		if listed && (len(columns) == 0 || slices.Contains(columns, d.column)) ||
			slices.Contains(loose[d.kind], cmp.Or(d.column, d.table)) {
			counts["more, documented as not covered"]++
			n--
			continue
		}
		storetest.Exec(t, db, "CREATE TEMP TABLE intact AS TABLE "+d.table)
		storetest.Exec(t, db, d.statement)
		expect.That(t, v.found(t.Context(), d.table), "%s: passes unseen", d)
		counts["found with the secret"]++
		if d.public() {
			file := filepath.Join(dir, fmt.Sprint(n))
			found, exported := v.foundPublicly(t, kept, file)
			expect.That(t, found, "%s: passes unseen without the secret", d)
			counts["found without it"]++
			if exported {
				exports[file] = d.String()
			} else {
				counts["refused by the export"]++
			}
		}
		storetest.Exec(t, db, "DELETE FROM "+d.table,
			"INSERT INTO "+d.table+" OVERRIDING SYSTEM VALUE SELECT * FROM intact", "DROP TABLE intact")
	}
	_, broken, err := cli.VerifyAudit(t.Context(), v.b, v.cfg, v.key, v.checkpoints)
	expect.Must(t, broken == nil && err == nil, "after all changes were undone: %v, %v", broken, err)
	whole := filepath.Join(dir, "whole")
	found, _ := v.foundPublicly(t, kept, whole)
	expect.That(t, !found, "the log as it is does not verify")
	keys := hosttest.WriteFile(t, "keys", []byte(v.key.TreeKey(0)+"\n\n"+strings.Join(v.key.Statements(), "\n")))
	args := []string{"../../../examples/verify-python/verify.py", "export", "--key", keys, "--checkpoints", kept, whole}
	cmd := exec.CommandContext(t.Context(), python, append(args, slices.Sorted(maps.Keys(exports))...)...)
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	var notes bytes.Buffer
	cmd.Stderr = &notes
	expect.That(t, cmd.Run() != nil || len(exports) == 0, "the program in Python found nothing")
	for file, what := range exports {
		expect.That(t, strings.Contains(notes.String(), file+": "), "%s: passes the program in Python", what)
		counts["found by the program in Python"]++
	}
	expect.That(t, !strings.Contains(notes.String(), whole+": ") && !strings.Contains(notes.String(), "Traceback"),
		"the program in Python says %s", &notes)
	t.Logf("%d changes with seed %d: %v", *randomChanges, *randomSeed, counts)
}

var looseRow = regexp.MustCompile(`(?m)^- A ((?:row|value) \w+) in ([^:]*):`)

// looseRows returns the tables and columns in which changes pass as docs/audit-format.md says, by the kind of change.
func looseRows(t *testing.T) map[string][]string {
	t.Helper()
	_, text, _ := strings.Cut(hosttest.ReadText(t, "../../../docs/audit-format.md"), "## Rows that can come and go\n")
	loose := map[string][]string{}
	for _, found := range looseRow.FindAllStringSubmatch(text, -1) {
		loose["a "+found[1]] = strings.Fields(strings.NewReplacer("`", "", ",", "").Replace(found[2]))
	}
	return loose
}

// newestOutside writes a file with the newest checkpoint of each chain, as somebody outside keeps it.
func newestOutside(t *testing.T, v *verified) string {
	t.Helper()
	var notes []string
	for _, chain := range slices.Sorted(maps.Keys(expect.Value(v.b.Store.Trees(t.Context()))(t))) {
		notes = append(notes, expect.Value(v.b.Store.NewestCheckpoint(t.Context(), chain))(t))
	}
	return hosttest.WriteFile(t, "kept", []byte(strings.Join(notes, "\n")))
}

// foundPublicly reports whether verification without the installation fails, and whether an export was possible.
func (v *verified) foundPublicly(t *testing.T, kept, file string) (found, exported bool) {
	t.Helper()
	outside := func() *auditlog.Checkpoints { return auditlog.ReadCheckpoints([]string{kept}, v.key) }
	var text bytes.Buffer
	err := v.b.Store.ReadAuditLog(t.Context(), func(ctx context.Context, log store.AuditLog) error {
		_, broken, err := auditlog.VerifyPublic(ctx, log, v.key, outside(), time.Now())
		found = broken != nil || err != nil
		_, err = auditlog.WriteExport(ctx, log, v.key, time.Now(), &text, func(int64) {})
		return err
	})
	if err != nil {
		return found, false
	}
	expect.NoError(t, os.WriteFile(file, text.Bytes(), 0o600))
	export, err := auditlog.OpenExport(bytes.NewReader(text.Bytes()), int64(text.Len()))
	if err == nil {
		_, err, _ = auditlog.VerifyPublic(t.Context(), export, v.key, outside(), time.Now())
	}
	expect.That(t, (err != nil) == found, "the export: %v, unlike the database", err)
	return found, true
}

// damager chooses changes of a database.
type damager struct {
	db     *pgx.Conn
	random *rand.Rand
	tables map[string][]column
}

// damage is a single change. The column is "" if it is of whole rows.
type damage struct{ kind, table, column, statement string }

func (d damage) String() string {
	return strings.TrimSpace(d.kind + " in " + d.table + " " + d.column + ": " + d.statement)
}

// public reports whether the change is found without the installation too.
func (d damage) public() bool {
	columns, listed := onlyInstallation[d.table]
	return !listed || len(columns) > 0 && !slices.Contains(columns, d.column)
}

// next chooses a change that the database accepts.
func (g *damager) next(t *testing.T) damage {
	t.Helper()
	for {
		names := slices.Sorted(maps.Keys(g.tables))
		table := names[g.random.IntN(len(names))]
		rows := g.rows(t, table)
		if len(rows) == 0 {
			continue
		}
		c := g.tables[table][g.random.IntN(len(g.tables[table]))]
		row, other := rows[g.random.IntN(len(rows))], rows[g.random.IntN(len(rows))]
		d := g.damage(table, c, row, other)
		tx := expect.Value(g.db.Begin(t.Context()))(t)
		// A statement that changes nothing is none.
		before := "SELECT md5(string_agg(t::text, ' ' ORDER BY t::text)) FROM " + table + " AS t"
		same := storetest.Value[string](t, g.db, before)
		tag, err := tx.Exec(t.Context(), d.statement)
		changed := err == nil && tag.RowsAffected() > 0 && storetest.Value[string](t, g.db,
			"SELECT coalesce(("+before+"), '')") != same
		expect.NoError(t, tx.Rollback(t.Context()))
		if changed {
			return d
		}
	}
}

// rows returns conditions, each of which selects a row.
func (g *damager) rows(t *testing.T, table string) []string {
	t.Helper()
	found := expect.Value(g.db.Query(t.Context(), "SELECT format('(tableoid, ctid) = (%s, ''%s'')', tableoid, ctid) "+
		"FROM "+table+" ORDER BY tableoid, ctid LIMIT 1000"))(t)
	return expect.Value(pgx.CollectRows(found, pgx.RowTo[string]))(t)
}

func (g *damager) damage(table string, c column, row, other string) damage {
	name, value := pgx.Identifier{c.name}.Sanitize(), c.changed()
	switch g.random.IntN(6) {
	case 0:
		return damage{"a row deleted", table, "", "DELETE FROM " + table + " WHERE " + row}
	case 1:
		var columns, values []string
		for _, each := range g.tables[table] {
			columns = append(columns, pgx.Identifier{each.name}.Sanitize())
			values = append(values, cmp.Or(map[bool]string{true: value}[each.name == c.name],
				pgx.Identifier{each.name}.Sanitize()))
		}
		return damage{"a row copied", table, "", fmt.Sprintf("INSERT INTO %s (%s) OVERRIDING SYSTEM VALUE SELECT %s "+
			"FROM %[1]s WHERE %[4]s", table, strings.Join(columns, ", "), strings.Join(values, ", "), row)}
	case 2:
		return damage{"a value of another row", table, c.name, fmt.Sprintf(
			"UPDATE %s SET %s = (SELECT %[2]s FROM %[1]s WHERE %s) WHERE %s", table, name, other, row)}
	case 3:
		return damage{"a value deleted", table, c.name,
			fmt.Sprintf("UPDATE %s SET %s = NULL WHERE %s", table, name, row)}
	case 4:
		records := []string{"audit_records", "state_records"}[g.random.IntN(2)]
		chain := map[string]int{"audit_records": 0, "state_records": audit.StateChain + g.random.IntN(2)}[records]
		return damage{"the end cut off", records, "", fmt.Sprintf("DELETE FROM %s WHERE chain = %d AND "+
			"seq > (SELECT max(seq) - %d FROM %[1]s WHERE chain = %[2]d)", records, chain, 1+g.random.IntN(5))}
	}
	return damage{"a value", table, c.name, fmt.Sprintf("UPDATE %s SET %s = %s WHERE %s", table, name, value, row)}
}
