package main

import (
	"strings"
	"testing"

	"assay/host/postgres/postgrestest"
)

func TestKeysListTable(t *testing.T) {
	t.Parallel()
	dir, database := dataDir(t), postgrestest.Database(t)
	openStore(t, dir, database)
	output(t, dir, database, "keys", "create", "--name", "fresh")
	lines := strings.Split(output(t, dir, database, "keys", "list"), "\n")
	if !strings.HasSuffix(strings.TrimSpace(lines[0]), "EXPIRES") || !strings.Contains(lines[0], "LAST USED") ||
		!strings.HasSuffix(strings.TrimSpace(lines[1]), "-") {
		t.Errorf("printed:\n%s", strings.Join(lines, "\n"))
	}
}
