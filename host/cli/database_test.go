package cli

import (
	"slices"
	"strings"
	"testing"

	"assay/registry/expect"
)

// TestLibpqVariables reads addresses as Postgres's own programs would.
func TestLibpqVariables(t *testing.T) {
	t.Parallel()
	type testCase struct{ address, want string }
	expect.Each(t, map[string]testCase{
		"all parts": {"postgres://assay:p%40ss@db.example:6432/scores?sslmode=verify-full&sslrootcert=/ca.pem",
			"PGDATABASE=scores PGHOST=db.example PGPASSWORD=p@ss PGPORT=6432 PGSSLMODE=verify-full " +
				"PGSSLROOTCERT=/ca.pem PGUSER=assay"},
		"little": {"postgresql://db.example/", "PGHOST=db.example PGPORT=5432"},
		"a socket": {"postgres:///scores?host=/run/postgresql&port=5433",
			"PGDATABASE=scores PGHOST=/run/postgresql PGPORT=5433"},
		"IPv6":            {"postgres://[::1]:5433/x", "PGDATABASE=x PGHOST=::1 PGPORT=5433"},
		"several hosts":   {"postgres://a,b/x", "PGDATABASE=x PGHOST=a,b PGPORT=5432,5432"},
		"driver settings": {"postgres://a/x?default_query_exec_mode=exec", "PGDATABASE=x PGHOST=a PGPORT=5432"},
		"no URL":          {"host=db.example password=secret", "ASSAY_DATABASE_URL: "},
		"a broken URL":    {"postgres://assay:secret%zz@db/x", "ASSAY_DATABASE_URL: "},
	}, func(t *testing.T, c testCase) {
		got, err := libpqVariables(c.address)
		slices.Sort(got)
		if err != nil {
			expect.That(t, strings.HasPrefix(err.Error(), c.want) && !strings.Contains(err.Error(), "secret"), "%v",
				err)
		} else if strings.Join(got, " ") != c.want {
			t.Errorf("%v, want %s", got, c.want)
		}
	})
}
