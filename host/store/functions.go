package store

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/uptrace/bun"
)

// functions returns the latest definition of each function in the migrations.
func functions(files fs.FS) (map[string]string, error) {
	names, err := fs.Glob(files, "*.sql") // sorted
	if err != nil {
		return nil, err
	}
	definitions := map[string]string{}
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		for _, statement := range strings.Split("\n"+string(text), "\nCREATE ")[1:] {
			name, ok := strings.CutPrefix(strings.TrimPrefix(statement, "OR REPLACE "), "FUNCTION ")
			if !ok {
				continue
			}
			name, _, _ = strings.Cut(name, "(")
			// The last line is "$$;" or "END $$;". A regular expression would take most of a host's start.
			definition, _, _ := strings.Cut(statement, "$$;")
			// Without empty lines, as the migrator runs it.
			definitions[name] = "CREATE " + strings.ReplaceAll(definition, "\n\n", "\n") + "$$;"
		}
	}
	return definitions, nil
}

// restoreFunctions creates the functions that the database has lost: Citus's undistribute_table replaces a table, and
// drops the functions that use its row type.
func (s *Store) restoreFunctions(ctx context.Context, db *bun.DB, files fs.FS) error {
	definitions, err := functions(files)
	if err != nil {
		return err
	}
	var found []string
	err = db.NewRaw("SELECT DISTINCT proname FROM pg_proc WHERE pronamespace = current_schema()::regnamespace").
		Scan(ctx, &found)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(definitions)) {
		if slices.Contains(found, name) {
			continue
		}
		if _, err := db.ExecContext(ctx, definitions[name]); err != nil {
			return fmt.Errorf("restoring the function %s: %w", name, err)
		}
		s.log.Warn("restored a function that the database had lost", "name", name)
	}
	return nil
}
