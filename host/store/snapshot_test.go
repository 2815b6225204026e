package store

import (
	"fmt"
	"strconv"
	"testing"
	"time"
)

// An open snapshot keeps each old version of the rows that every batch changes. A batch must not read them all: after
// an hour there would be millions.
func TestOldVersionsAreNotRead(t *testing.T) {
	t.Parallel()
	if onCitus() {
		t.Skip("this test counts what its own session reads")
	}
	s, l, caller := newLedger(t, nil, LedgerConfig{})
	noError(t, l.Append(t.Context(), allowed(t, caller)))
	exec(t, session(t, s.url), "BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT FROM audit_heads")
	exec(t, session(t, s.url), "SET enable_seqscan = off", fmt.Sprintf(`DO $$ BEGIN FOR i IN 1 .. 5000 LOOP
			UPDATE audit_heads SET seq = i + 1 WHERE chain = 0 AND seq = i;
			UPDATE quota_usage SET used = used + 1 WHERE ctid = (SELECT ctid FROM quota_usage
				WHERE chain = 0 AND account_id = '%s' AND period > '2000-01-01' ORDER BY period DESC LIMIT 1);
		END LOOP; END $$`, caller.Account))
	expect(t, "used", one[int](t, s, "SELECT used FROM quota_usage"), 5001)
	conn := must(acquire(t.Context(), l.db))(t)
	defer func() { noError(t, conn.release()) }()
	noError(t, errOf(conn.pg.Exec(t.Context(), "BEGIN").ReadAll()))
	// A page has room for about a hundred versions. Of two batches, at least one finds room for its own: an update that
	// moves to a new page is compared with all versions, because their keys are equal.
	read := map[string][]int{}
	for i := range 3 {
		for _, table := range []string{"audit_heads", "quota_usage"} {
			r := must(conn.pg.Exec(t.Context(), fmt.Sprintf("SELECT pg_stat_get_xact_blocks_fetched('%s'::regclass)",
				table)).ReadAll())(t)
			read[table] = append(read[table], must(strconv.Atoi(string(r[0].Rows[0][0])))(t))
		}
		batch := prepared(t, l, allowedMany(t, caller, 1))
		_, _, err := conn.append(appendParams(0, []byte{byte(i)}, time.Minute, batch, answeredBatch{}), batch)
		noError(t, err)
	}
	for table, blocks := range read {
		if least := min(blocks[1]-blocks[0], blocks[2]-blocks[1]); least > 20 {
			t.Errorf("a batch reads %d blocks of %s", least, table)
		}
	}
	noError(t, errOf(conn.pg.Exec(t.Context(), "COMMIT").ReadAll()))
}
