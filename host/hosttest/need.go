package hosttest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/host/store/postgres/postgrestest"
	"assay/registry/expect"
)

// NeedPostgres skips a test on a machine without Postgres.
func NeedPostgres(t testing.TB) { postgrestest.Database(t) }

// NeedClients skips a test on a machine without the programs that the guide uses.
func NeedClients(t *testing.T) {
	t.Helper()
	for _, name := range []string{"pg_dump", "pg_restore", "psql"} {
		expect.Program(t, name, "postgresql-client")
	}
}

// ClusterDir returns the directory of the private Postgres of a data directory.
func ClusterDir(t *testing.T, dir string) string {
	t.Helper()
	location, err := os.ReadFile(filepath.Join(dir, "postgres.location"))
	if errors.Is(err, fs.ErrNotExist) {
		return dir
	}
	expect.NoError(t, err)
	return strings.TrimSpace(string(location))
}
