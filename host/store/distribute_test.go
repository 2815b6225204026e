package store

import (
	"slices"
	"testing"
)

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
		`INSERT INTO graph_sightings (node, account_id, kind, checks, blocked, reviewed, first_seen, last_seen,
			recent)
		SELECT node::bytea, account, 'domain', 1, 0, 0, first_seen::timestamptz, last_seen::timestamptz, recent::bytea
		FROM (VALUES
			('many', 'a', '2026-01-01', '2026-10-01', 'aaaa'), ('many', 'b', '2026-01-02', '2026-10-01', 'bbbb'),
			('many', 'c', '2026-01-03', '2026-10-01', 'cccc'), ('many', 'd', '2026-01-04', '2026-10-01', NULL),
			('few', 'a', '2026-01-05', '2026-10-01', NULL), ('few', 'old', '2026-01-06', '2026-01-06', 'eeee'),
			('few', 'public', '2026-01-07', '2026-10-01', NULL),
			('old', 'old', '2026-01-08', '2026-01-08', NULL), ('public', 'public', '2026-01-09', '2026-10-01', NULL)
		) AS g (node, account, first_seen, last_seen, recent)`)
	found := func() string {
		return value[string](t, conn, `SELECT string_agg(concat_ws(' ', i, known, to_char(first_seen, 'DD'),
				convert_from(recent, 'UTF8')), ', ' ORDER BY i)
			FROM graph_known('{many,many,many,few,few,few,old,public,none,many}', '{a,"",d,a,old,"",old,public,a,none}',
				'public', '2026-06-01', 3)`)
	}
	const want = "1 t 01 aaaa, 2 t, 3 t 04, 4 f 05, 5 f, 6 f, 10 t"
	expect(t, "found", found(), want)
	if names := replaceFunctions(t, conn); !slices.Contains(names, "graph_known") {
		t.Errorf("functions replaced: %v, want graph_known among them", names)
	}
	expect(t, "found on a cluster", found(), want)
	expect(t, "functions left to replace", len(replaceFunctions(t, conn)), 0)
}
