package store

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// documentedTable matches a row of the tables in docs/privacy.md: a table of the database, its columns with personal
// data, and its other columns.
var documentedTable = regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|([^|]*)\\|([^|]*)\\|")

// TestDocumentOfStoredData compares the tables and columns in docs/privacy.md with the schema, so that none is missing.
func TestDocumentOfStoredData(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/privacy.md")
	noError(t, err)
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
	for name := range documented {
		t.Errorf("docs/privacy.md lists the table %s, which does not exist", name)
	}
}
