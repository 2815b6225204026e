package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"assay/host/audit"
	"assay/host/check"
	"assay/host/entity"
	is "assay/registry/expect"
)

// day returns noon of a day, UTC. It must be past: AuditDue uses the earlier of the host's and the database's time.
func day(year int, month time.Month, day int) time.Time {
	return time.Date(year, month, day, 12, 0, 0, 0, time.UTC)
}

// recordAt returns a check of a domain at the given time.
func recordAt(t *testing.T, caller check.Caller, value string, when time.Time) check.Record {
	t.Helper()
	return at(decided(caller, parse(t, entity.Domain, value), check.Allow), when)
}

// pastRetention opens a store with a check of July 2020, which has no partition of its own, and three of each month
// from January 2021 on. On its clock's 10 March 2022, records from before 10 March 2021 are past their retention.
func pastRetention(t *testing.T, months int) (s *Store, l *Ledger, caller check.Caller, now *time.Time,
	refs map[string][]string) {
	t.Helper()
	now = new(day(2021, time.January, 5))
	s, l, caller = newLedger(t, func() time.Time { return *now }, LedgerConfig{})
	old := appendOne(t, l, recordAt(t, caller, "example.org", day(2020, time.July, 1)))
	refs = map[string][]string{"2020-07": {old}}
	for month := range months {
		*now = day(2021, time.January, 20).AddDate(0, month, 0)
		noError(t, s.EnsurePartitions(t.Context()))
		name := now.Format("2006-01")
		records := make([]check.Record, 3)
		for i := range records {
			records[i] = recordAt(t, caller, "example.org", now.Add(time.Duration(i)*time.Hour))
			refs[name] = append(refs[name], records[i].Decision.Ref)
		}
		noError(t, l.Append(t.Context(), records...))
	}
	*now = day(2022, time.March, 10)
	return s, l, caller, now, refs
}

// anchorDue signs and stores an anchor for each chain with records to prune.
func anchorDue(ctx context.Context, s *Store) ([]audit.Anchor, error) {
	due, err := s.AuditDue(ctx)
	for _, a := range due {
		var note string
		if err == nil {
			note, err = testSigner().Anchor(a)
		}
		if err == nil {
			err = s.KeepAnchor(ctx, a, note)
		}
	}
	return due, err
}

// pruneOnce prunes as a host does, and returns the number of new anchors.
func pruneOnce(ctx context.Context, s *Store) (int, error) {
	due, err := anchorDue(ctx, s)
	if err != nil {
		return 0, err
	}
	anchors, err := s.Anchors(ctx, 0, testSigner().Public)
	if err != nil {
		return 0, err
	}
	return len(due), s.PruneAudit(ctx, anchors[max(0, len(anchors)-1):])
}

func prune(t *testing.T, s *Store) int {
	t.Helper()
	return must(pruneOnce(t.Context(), s))(t)
}

func anchored(t *testing.T, s *Store) audit.Anchor {
	t.Helper()
	due, err := anchorDue(t.Context(), s)
	mustHold(t, err == nil && len(due) == 1, "due: %+v, %v", due, err)
	return due[0]
}

// months lists the partitions of months before 2023.
func months(t *testing.T, s *Store) string {
	t.Helper()
	return one[string](t, s, `SELECT coalesce(string_agg(substr(c.relname, 15), ' ' ORDER BY c.relname), '')
		FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
		WHERE i.inhparent = 'audit_records'::regclass AND c.relname < 'audit_records_2023'`)
}

func TestRetention(t *testing.T) {
	t.Parallel()
	s, _, caller, now, refs := pastRetention(t, 14)
	expect(t, "anchors that pruning kept", prune(t, s), 1)
	want := "2021_03 2021_04 2021_05 2021_06 2021_07 2021_08 2021_09 2021_10 2021_11 2021_12 " +
		"2022_01 2022_02 2022_03 2022_04"
	expect(t, "partitions", months(t, s), want)
	for month, refs := range refs {
		for _, ref := range refs {
			want := 1
			if month < "2021-03" {
				want = 0
			}
			expect(t, "records of a check from "+month, recorded(t, s, ref), want)
		}
	}
	verifyLedger(t, s)
	record := one[string](t, s, `SELECT kind || ' ' || revision || ' ' || encode(digest, 'hex') || ' ' ||
			to_char(recorded_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
		FROM audit_records ORDER BY seq DESC LIMIT 1`)
	anchors, err := s.Anchors(t.Context(), 0, testSigner().Public)
	mustHold(t, err == nil && len(anchors) == 1, "anchors: %+v, %v", anchors, err)
	a := anchors[0]
	holds(t, a.Seq == 7 && a.Before.Equal(time.Date(2021, 3, 10, 0, 0, 0, 0, time.UTC)) && record == fmt.Sprintf(
		"pruning 7 %x 2022-03-10T12:00:00.000Z", a.Hash), "anchored at %+v, recorded as %s", a, record)
	exported := export(t, s, caller, about(parse(t, entity.Domain, "example.org")))
	holds(t, exported.Total == 36 && exported.Checks[0].Ref == refs["2021-03"][0], "exported %d checks, the first %+v",
		exported.Total, exported.Checks[0])

	before := dumpTables(t, s)
	holds(t, prune(t, s) == 0 && dumpTables(t, s) == before, "pruning again had an effect")
	*now = day(2022, time.March, 20)
	expect(t, "anchors of a run on the last day", prune(t, s), 0)
	*now = time.Date(2022, 3, 21, 0, 0, 0, 0, time.UTC)
	holds(t, prune(t, s) == 1 && recorded(t, s, refs["2021-03"][2]) == 0 && recorded(t, s, refs["2021-04"][0]) == 1,
		"exactly the next day should be pruned")
	expect(t, "partitions before the month has ended", months(t, s), want)
	verifyLedger(t, s)
	// Years later only records of pruning, and of accounts and keys, remain.
	*now = day(2025, time.January, 1)
	prune(t, s)
	expect(t, "remaining records", rowsOf(t, s, "audit_records WHERE kind <> 'pruning'"), 0)
	verifyLedger(t, s)
	wantStates(t, s)
}

// Records need not be in order of time, because hosts' clocks differ.
func TestAuditDue(t *testing.T) {
	t.Parallel()
	old, older := day(2021, time.February, 20), day(2020, time.December, 1)
	young, younger := day(2021, time.March, 11), day(2022, time.March, 10)
	future := day(2022, time.March, 12)
	now := day(2022, time.January, 31)
	s, _, caller := newLedger(t, func() time.Time { return now }, LedgerConfig{})
	conn, start := session(t, s.url), audit.Genesis(0)
	for name, test := range map[string]struct {
		times []time.Time
		now   time.Time
		want  int64 // 0: nothing is due
	}{
		"young records":               {[]time.Time{young, younger}, younger, 0},
		"old, then young":             {[]time.Time{older, old, young, younger}, younger, 2},
		"the day's first instant":     {[]time.Time{old, time.Date(2021, 3, 10, 0, 0, 0, 0, time.UTC)}, younger, 1},
		"an old record after a young": {[]time.Time{older, young, old, younger}, younger, 1},
		"a young record first":        {[]time.Time{young, old, younger}, younger, 0},
		"a record from the future":    {[]time.Time{old, future, old, young}, younger, 3},
		"future, then young":          {[]time.Time{old, future, young}, younger, 1},
		"the last is from the future": {[]time.Time{old, young, future}, younger, 0},
		"the host's clock is fast":    {[]time.Time{time.Now().UTC()}, day(2199, time.January, 1), 0},
		"the host's clock is slow":    {[]time.Time{older, old, young, younger}, day(2022, time.January, 31), 0},
	} {
		exec(t, conn, "DELETE FROM audit_records WHERE chain = 0", "DELETE FROM audit_anchors",
			"DELETE FROM quota_usage", "DELETE FROM graph_contributions",
			fmt.Sprintf(`UPDATE audit_heads SET seq = 0, hash = '\x%x' WHERE chain = 0`, start.Hash))
		now = test.now
		l := ledgerOn(t, s, LedgerConfig{})
		noError(t, l.Append(t.Context(), column(test.times, func(when time.Time) check.Record {
			return recordAt(t, caller, "example.org", when)
		})...))
		due := must(s.AuditDue(t.Context()))(t)
		var got int64
		if len(due) > 0 {
			got = due[0].Seq
		}
		holds(t, got == test.want && len(due) <= 1, "%s: due: %+v, want up to record %d", name, due, test.want)
		prune(t, s)
		verifyLedger(t, s)
		remaining := rowsOf(t, s, "audit_records WHERE kind = 'check'")
		expect(t, name+": checks that remain", remaining, len(test.times)-int(test.want))
	}
}

// An old record after the cut is kept until the cut passes it. Its partition is dropped nevertheless.
func TestLateRecordsOutliveTheirPartition(t *testing.T) {
	t.Parallel()
	now := day(2021, time.February, 20)
	s, l, caller := newVerified(t, func() time.Time { return now }, LedgerConfig{})
	gone := appendOne(t, l, recordAt(t, caller, "example.org", now))
	midnight := time.Date(2021, 3, 1, 0, 0, 0, 0, time.UTC)
	appendOne(t, l, recordAt(t, caller, "example.org", midnight))
	late := appendOne(t, l, recordAt(t, caller, "example.org", midnight.Add(-time.Millisecond)))
	now = day(2022, time.March, 1)
	prune(t, s)
	expect(t, "partitions", months(t, s), "2021_03 2021_04")
	table := partitionOf(t, s, late)
	holds(t, recorded(t, s, gone) == 0 && table == "audit_records_other",
		"the late record is in %s, want audit_records_other", table)
	verifyLedger(t, s)
	now = day(2022, time.April, 10)
	prune(t, s)
	expect(t, "late records after their predecessor was pruned", recorded(t, s, late), 0)
}

// A partition with many late records is kept. The other records in it are deleted in batches.
func TestManyLateRecordsKeepTheirPartition(t *testing.T) {
	t.Parallel()
	now := day(2021, time.February, 20)
	s, l, caller := newVerified(t, func() time.Time { return now }, LedgerConfig{})
	many := func(when time.Time) []check.Record { return atAll(allowedMany(t, caller, pruneBatch+1), when) }
	for _, records := range [][]check.Record{many(now), {recordAt(t, caller, "example.org", day(2021, time.March, 2))},
		many(now)} {
		noError(t, l.Append(t.Context(), records...))
	}
	now = day(2022, time.March, 1)
	prune(t, s)
	expect(t, "partitions", months(t, s), "2021_02 2021_03 2021_04")
	expect(t, "remaining records", rowsOf(t, s, "audit_records_2021_02"), pruneBatch+1)
}

// Records of states, of which imports of lists add some every hour, are kept, but keep no partition.
func TestStatesKeepNoPartition(t *testing.T) {
	t.Parallel()
	s, _, _, _, _ := pastRetention(t, 14)
	exec(t, session(t, s.url), fmt.Sprintf(`SELECT append_state('name', '', 'n' || n, '', 0, 0, NULL)
		FROM generate_series(1, %d) AS n; UPDATE state_records SET recorded_at = '2021-02-20'`, pruneBatch+1))
	prune(t, s)
	holds(t, strings.HasPrefix(months(t, s), "2021_03 "), "partitions %s", months(t, s))
	holds(t, rowsOf(t, s, "state_records") > pruneBatch, "records of states were deleted")
}

// Several hosts prune at once while checks continue. The result is recorded once.
func TestPruningByManyHostsAtOnce(t *testing.T) {
	t.Parallel()
	s, l, caller, now, _ := pastRetention(t, 3)
	hosts := []*Store{s, open(t, s.url, s.now), open(t, s.url, s.now)}
	records := atAll(allowedMany(t, caller, 60), *now)
	noError(t, errors.Join(concurrently(len(hosts)+len(records), func(i int) error {
		if i < len(hosts) {
			return errOf(pruneOnce(t.Context(), hosts[i]))
		}
		return l.Append(t.Context(), records[i-len(hosts)])
	})...))
	prune(t, s) // completes work postponed because of a lock
	expect(t, "the first partition", strings.Fields(months(t, s))[0], "2021_03")
	expect(t, "pruning records", rowsOf(t, s, "audit_records WHERE kind = 'pruning'"), 1)
	expect(t, "anchors", rowsOf(t, s, "audit_anchors"), 1)
	verifyLedger(t, s)
	exec(t, session(t, s.url), `CREATE OR REPLACE FUNCTION detach_partition(partition text, cuts jsonb,
		max_moved integer) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN RAISE undefined_table; END'`)
	noError(t, s.dropPartition(t.Context(), "audit_records_2021_03", nil)) // another host dropped it meanwhile
}

// A host may crash at any point after keeping the anchor. The chain still verifies, and the next run completes pruning.
func TestInterruptedPruningIsCompleted(t *testing.T) {
	t.Parallel()
	s, _, _, _, _ := pastRetention(t, 3)
	anchor := anchored(t, s)
	for _, step := range []func() error{
		func() error { return nil }, // crashed after keeping the anchor
		func() error {
			return s.dropPartition(t.Context(), "audit_records_2021_02", map[int]int64{0: anchor.Seq})
		},
		func() error { // another host has dropped it already
			return s.dropPartition(t.Context(), "audit_records_2021_02", map[int]int64{0: anchor.Seq})
		},
		func() error { return s.pruneRows(t.Context(), anchor) },
	} {
		noError(t, step())
		noError(t, verifyAuditLog(t, s))
	}
	expect(t, "anchors of a second run", prune(t, s), 0)
	expect(t, "the first partition", strings.Fields(months(t, s))[0], "2021_03")
	verifyLedger(t, s)
}

// Pruning is postponed while others read the audit log or record checks.
func TestPruningYieldsToOthers(t *testing.T) {
	t.Parallel()
	is.Each(t, map[string]string{
		"a reader":               "SELECT count(*) FROM audit_records",
		"a check being recorded": "SELECT * FROM audit_heads WHERE chain = 0 FOR UPDATE",
	}, func(t *testing.T, holder string) {
		s, _, _, _, _ := pastRetention(t, 3)
		anchored(t, s)
		conn := session(t, s.url)
		exec(t, conn, "BEGIN", holder)
		prune(t, s)
		expect(t, "the first partition", strings.Fields(months(t, s))[0], "2021_01")
		exec(t, conn, "COMMIT")
		prune(t, s)
		verifyLedger(t, s)
	})
}

// A reader of the audit log sees all of its snapshot, even if a host prunes meanwhile.
func TestReadAuditLogDuringPruning(t *testing.T) {
	t.Parallel()
	s, _, _, _, _ := pastRetention(t, 3)
	err := s.ReadAuditLog(t.Context(), func(ctx context.Context, log AuditLog) error {
		if _, err := log.Heads(ctx); err != nil {
			return err
		}
		prune(t, s)
		return verifyChains(ctx, log)
	})
	wantError(t, "error", err, nil)
	prune(t, s)
	verifyLedger(t, s)
}
