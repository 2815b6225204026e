package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"

	"assay/migrations"
)

// functionsFile defines each function of the database once.
const functionsFile = "functions.sql"

// readFunctions returns the text of functionsFile, with the cases of function record_state: a query for each type of
// migrations.States, which selects one row.
func readFunctions(files fs.FS) ([]byte, error) {
	text, err := fs.ReadFile(files, functionsFile)
	var cases []byte
	rows := strings.NewReplacer("/*", "", "*/", "").Replace(migrations.States)
	for query := range strings.SplitSeq(rows, "UNION ALL\n") {
		_, name, _ := strings.Cut(query, "SELECT '")
		name, _, _ = strings.Cut(name, "'")
		cases = fmt.Appendf(cases, `WHEN '%s' THEN
			SELECT one.account, one.state, one.amount, one.number, sha256(one.content)
			INTO of_account, of_state, of_amount, of_number, of_digest
			FROM (%s) AS one (type, id, account, state, amount, number, content);
			`, name, query)
	}
	return bytes.Replace(text, []byte("-- states.sql\n"), cases, 1), err
}

// functionsState compares the database's functions with those of this host.
type functionsState int

const (
	functionsCurrent functionsState = iota
	functionsOlder                  // or some are gone: Citus's undistribute_table drops those that use the table
	functionsNewer                  // the database had those of this host before
)

// compareFunctions reports whether the database has the functions of files.
func compareFunctions(ctx context.Context, db bun.IDB, files fs.FS) (functionsState, error) {
	text, err := readFunctions(files)
	if err != nil {
		return 0, err
	}
	digest := sha256.Sum256(text)
	var applied [][]byte
	err = db.NewRaw("SELECT digest FROM schema_functions ORDER BY number DESC").Scan(ctx, &applied)
	if sqlState(err) == undefinedTable || err == nil && len(applied) == 0 {
		return functionsOlder, nil
	}
	if err != nil {
		return 0, err
	}
	switch slices.IndexFunc(applied, func(d []byte) bool { return bytes.Equal(d, digest[:]) }) {
	case 0:
	case -1:
		return functionsOlder, nil
	default:
		return functionsNewer, nil
	}
	names, found := definedIn(text), 0
	err = db.NewRaw(`SELECT count(DISTINCT proname) FROM pg_proc
		WHERE pronamespace = current_schema()::regnamespace AND proname IN ?`, bun.Tuple(names)).Scan(ctx, &found)
	if err == nil && found != len(names) {
		return functionsOlder, nil
	}
	return functionsCurrent, err
}

var definedFunction = regexp.MustCompile(`(?m)^CREATE OR REPLACE FUNCTION (\w+)`)

// definedIn returns the names of the functions that a file defines.
func definedIn(text []byte) []string {
	return column(definedFunction.FindAllSubmatch(text, -1), func(match [][]byte) string { return string(match[1]) })
}

// applyFunctions creates or replaces the functions of files in one transaction, and drops those that only earlier files
// had. Functions that somebody else has added stay. The caller holds the lock of migrations.
func (s *Store) applyFunctions(ctx context.Context, db *bun.DB, files fs.FS) error {
	text, err := readFunctions(files)
	if err != nil {
		return err
	}
	digest := sha256.Sum256(text)
	// Functions that this transaction did not write are no longer in the file.
	statements := []string{string(text), dropFunctions("xmin <> pg_current_xact_id()::xid"), keepOnCluster}
	apply := func(statements ...string) error {
		return db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
			if err := boundLocks(ctx, tx, nil); err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, `INSERT INTO schema_functions (digest, names) VALUES (?, ?)
				ON CONFLICT DO NOTHING`, digest[:], pgdialect.Array(definedIn(text))); err != nil {
				return err
			}
			for _, statement := range statements {
				if _, err := tx.Tx.ExecContext(ctx, statement); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err = apply(statements...)
	if sqlState(err) == invalidFunctionDefinition { // a function with another result cannot be replaced
		err = apply(append([]string{dropFunctions("true")}, statements...)...)
	}
	return wrap(err, "applying %s", functionsFile)
}

// dropFunctions returns a statement that drops the functions of all files so far that fulfil a condition.
func dropFunctions(condition string) string {
	return `DO $drop$
		DECLARE
			gone regprocedure;
		BEGIN
			FOR gone IN SELECT oid FROM pg_proc WHERE pronamespace = current_schema()::regnamespace
					AND proname IN (SELECT unnest(names) FROM schema_functions) AND ` + condition + ` LOOP
				EXECUTE 'DROP FUNCTION ' || gone;
			END LOOP;
		END $drop$`
}

// keepOnCluster replaces the definitions that suit only plain Postgres if the database has the Citus extension.
var keepOnCluster = `DO $cluster$
	BEGIN
		IF EXISTS (SELECT FROM pg_extension WHERE extname = 'citus') THEN
			ALTER FUNCTION ledger_append RESET plan_cache_mode;
			` + statement("citus_graph_known") + `;
		END IF;
	END $cluster$`

var errNewerFunctions = errors.New("the database's functions are newer than this host's: start a host of the newer " +
	"version")
