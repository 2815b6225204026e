package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"assay/host/audit"
	"assay/host/check"
	"assay/host/entity"
	"assay/host/postgres/postgrestest"
	"assay/host/privacy"
)

// The tests of retention happen in the past, since of two clocks the one behind counts, and the database has its own.
func day(year int, month time.Month, day int) time.Time {
	return time.Date(year, month, day, 12, 0, 0, 0, time.UTC)
}

// recordAt is a check of a domain of the given time.
func recordAt(t *testing.T, caller check.Caller, value string, when time.Time) check.Record {
	t.Helper()
	return at(decided(caller, parse(t, entity.Domain, value), check.Allow), when)
}

// fourteenMonths has a host record checks from January 2021 to February 2022, each month in its partition, and returns
// their references by month. The host's clock is left in March 2022: what is before March 2021 is past its retention.
func fourteenMonths(t *testing.T, s *Store, l *Ledger, caller check.Caller, now *time.Time) map[string][]string {
	t.Helper()
	refs := map[string][]string{}
	for month := range 14 {
		*now = day(2021, time.January, 20).AddDate(0, month, 0)
		if err := s.EnsurePartitions(t.Context()); err != nil {
			t.Fatal(err)
		}
		name := now.Format("2006-01")
		for i := range 3 {
			refs[name] = append(refs[name],
				appendOne(t, l, recordAt(t, caller, "example.org", now.Add(time.Duration(i)*time.Hour))))
		}
	}
	*now = day(2022, time.March, 10)
	return refs
}

// anchorDue keeps what a host keeps when there is something to prune.
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

// pruneOnce does what a host does in a round, and returns how many anchors there were to keep.
func pruneOnce(ctx context.Context, s *Store) (int, error) {
	due, err := anchorDue(ctx, s)
	if err != nil {
		return 0, err
	}
	anchors, err := AuditLog{s.db}.Anchors(ctx, 0, testSigner().VerifierKey())
	if err != nil {
		return 0, err
	}
	return len(due), s.PruneAudit(ctx, anchors[max(0, len(anchors)-1):])
}

func prune(t *testing.T, s *Store) int {
	t.Helper()
	n, err := pruneOnce(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func anchored(t *testing.T, s *Store) audit.Anchor {
	t.Helper()
	due, err := anchorDue(t.Context(), s)
	if err != nil || len(due) != 1 {
		t.Fatalf("due: %+v, %v", due, err)
	}
	return due[0]
}

// months lists the partitions of months before 2023.
func months(t *testing.T, s *Store) string {
	t.Helper()
	return one[string](t, s, `SELECT coalesce(string_agg(substr(c.relname, 15), ' ' ORDER BY c.relname), '') FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
		WHERE i.inhparent = 'audit_records'::regclass AND c.relname < 'audit_records_2023'`)
}

func TestRetention(t *testing.T) {
	t.Parallel()
	now := day(2021, time.January, 5)
	s := open(t, postgrestest.Database(t), func() time.Time { return now })
	l, caller := ledgerOn(t, s, LedgerConfig{}), newCaller(t, s, plan(t, "pro", 1500))
	// there was no partition for it
	exiled := appendOne(t, l, recordAt(t, caller, "example.org", day(2020, time.July, 1)))
	refs := fourteenMonths(t, s, l, caller, &now)
	if prune(t, s) != 1 {
		t.Error("nothing was due")
	}
	if got, want := months(t, s), "2021_03 2021_04 2021_05 2021_06 2021_07 2021_08 2021_09 2021_10 2021_11 2021_12 2022_01 2022_02 2022_03 2022_04"; got != want {
		t.Errorf("partitions %s, want %s", got, want)
	}
	for month, refs := range refs {
		for _, ref := range refs {
			want := 1
			if month < "2021-03" {
				want = 0
			}
			if recorded(t, s, ref) != want {
				t.Errorf("a check of %s stands %d times in the trail", month, recorded(t, s, ref))
			}
		}
	}
	if recorded(t, s, exiled) != 0 {
		t.Error("what had no partition was not pruned")
	}
	verifyLedger(t, s)
	record := one[string](t, s, "SELECT kind || ' ' || revision || ' ' || encode(digest, 'hex') || ' ' || at FROM audit_records ORDER BY seq DESC LIMIT 1")
	anchors, err := AuditLog{s.db}.Anchors(t.Context(), 0, testSigner().VerifierKey())
	if err != nil || len(anchors) != 1 {
		t.Fatalf("anchors: %+v, %v", anchors, err)
	}
	if a := anchors[0]; a.Seq != 7 || !a.Before.Equal(period(day(2021, time.March, 1))) ||
		record != fmt.Sprintf("pruning 7 %x 2022-03-10T12:00:00.000Z", a.Hash) {
		t.Errorf("anchored at %+v, recorded as %s", a, record)
	}
	held := export(t, s, caller, about(parse(t, entity.Domain, "example.org")))
	if held.Total != 36 || held.Checks[0].Ref != refs["2021-03"][0] {
		t.Errorf("exported are %d checks, the first %+v", held.Total, held.Checks[0])
	}

	before := dumpTables(t, s)
	if prune(t, s) != 0 || dumpTables(t, s) != before {
		t.Error("pruning again has done something")
	}
	now = day(2022, time.March, 31)
	if prune(t, s) != 0 {
		t.Error("something was due later in the same month")
	}
	now = time.Date(2022, 4, 1, 0, 0, 0, 0, time.UTC)
	if prune(t, s) != 1 || recorded(t, s, refs["2021-03"][2]) != 0 || recorded(t, s, refs["2021-04"][0]) != 1 {
		t.Error("the next month was not pruned alone")
	}
	verifyLedger(t, s)
	// Years later all is gone but what says so.
	now = day(2025, time.January, 1)
	prune(t, s)
	if n := one[int](t, s, "SELECT count(*) FROM audit_records WHERE kind <> 'pruning'"); n != 0 {
		t.Errorf("%d records are left", n)
	}
	verifyLedger(t, s)
}

// Where a chain is cut follows from its order, whatever the clocks of its hosts have said.
func TestAuditDue(t *testing.T) {
	t.Parallel()
	old, older := day(2021, time.February, 20), day(2020, time.December, 1)
	young, younger := day(2021, time.March, 2), day(2022, time.March, 10)
	future := day(2022, time.March, 12)
	for name, test := range map[string]struct {
		times []time.Time
		now   time.Time
		want  int64 // 0: nothing is due
	}{
		"no records":                   {nil, younger, 0},
		"young ones":                   {[]time.Time{young, younger}, younger, 0},
		"old ones":                     {[]time.Time{older, old}, younger, 2},
		"both":                         {[]time.Time{older, old, young, younger}, younger, 2},
		"the month's first instant":    {[]time.Time{old, time.Date(2021, 3, 1, 0, 0, 0, 0, time.UTC)}, younger, 1},
		"an old one behind a young":    {[]time.Time{older, young, old, younger}, younger, 1},
		"old ones in no order":         {[]time.Time{old, older, old, young}, younger, 3},
		"a young one first":            {[]time.Time{young, old, younger}, younger, 0},
		"one from the future":          {[]time.Time{old, future, old, young}, younger, 3},
		"from the future, then young":  {[]time.Time{old, future, young}, younger, 1},
		"the last is from the future":  {[]time.Time{old, young, future}, younger, 0},
		"the host's clock runs ahead":  {[]time.Time{time.Now().UTC()}, day(2199, time.January, 1), 0},
		"the host's clock runs behind": {[]time.Time{older, old, young, younger}, day(2022, time.January, 31), 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, postgrestest.Database(t), func() time.Time { return test.now })
			l, caller := ledgerOn(t, s, LedgerConfig{}), newCaller(t, s, plan(t, "pro", 1500))
			for _, when := range test.times {
				appendOne(t, l, recordAt(t, caller, "example.org", when))
			}
			due, err := s.AuditDue(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var got int64
			if len(due) > 0 {
				got = due[0].Seq
			}
			if got != test.want || len(due) > 1 {
				t.Errorf("due are %+v, want record %d", due, test.want)
			}
			prune(t, s)
			verifyLedger(t, s)
			if n := one[int64](t, s, "SELECT count(*) FROM audit_records WHERE kind = 'check'"); n != int64(
				len(test.times))-test.want {
				t.Errorf("%d of %d checks are left", n, len(test.times))
			}
		})
	}
}

// What is old and stands behind the cut is kept until the cut passes it, and its month is dropped all the same.
func TestStragglersOutliveTheirMonth(t *testing.T) {
	t.Parallel()
	now := day(2021, time.February, 20)
	s := open(t, postgrestest.Database(t), func() time.Time { return now })
	l, caller := ledgerOn(t, s, LedgerConfig{}), newCaller(t, s, plan(t, "pro", 1500))
	gone := appendOne(t, l, recordAt(t, caller, "example.org", now))
	midnight := time.Date(2021, 3, 1, 0, 0, 0, 0, time.UTC)
	appendOne(t, l, recordAt(t, caller, "example.org", midnight))
	late := appendOne(t, l, recordAt(t, caller, "example.org", midnight.Add(-time.Millisecond)))
	now = day(2022, time.March, 10)
	prune(t, s)
	if got := months(t, s); got != "2021_03 2021_04" {
		t.Errorf("partitions %s", got)
	}
	if recorded(t, s, gone) != 0 || one[string](t, s,
		"SELECT tableoid::regclass::text FROM audit_records WHERE ref = ?", late) != "audit_records_other" {
		t.Error("the straggler is not where rows without a partition are")
	}
	verifyLedger(t, s)
	now = day(2022, time.April, 10)
	if prune(t, s); recorded(t, s, late) != 0 {
		t.Error("the straggler was not pruned with what it stood behind")
	}
	verifyLedger(t, s)
}

// More than can be moved at once stays in its partition, and what is due goes a few rows at a time.
func TestManyStragglers(t *testing.T) {
	t.Parallel()
	now := day(2021, time.February, 20)
	s := open(t, postgrestest.Database(t), func() time.Time { return now })
	l, caller := ledgerOn(t, s, LedgerConfig{}), newCaller(t, s, plan(t, "pro", 1_000_000))
	many := func(when time.Time) []check.Record {
		records := allowedMany(t, caller, pruneBatch+1)
		for i := range records {
			records[i] = at(records[i], when)
		}
		return records
	}
	for _, records := range [][]check.Record{many(now), {recordAt(t, caller, "example.org", day(2021, time.March, 2))},
		many(now)} {
		if err := l.Append(t.Context(), records...); err != nil {
			t.Fatal(err)
		}
	}
	now = day(2022, time.March, 10)
	prune(t, s)
	if got := months(t, s); got != "2021_02 2021_03 2021_04" {
		t.Errorf("partitions %s", got)
	}
	if n := one[int](t, s, "SELECT count(*) FROM audit_records_2021_02"); n != pruneBatch+1 {
		t.Errorf("%d records stay, want %d", n, pruneBatch+1)
	}
	verifyLedger(t, s)
}

// Checks go on while hosts prune, all at once; it is done and recorded once.
func TestPruningByManyHostsAtOnce(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	now := day(2021, time.January, 5)
	s := open(t, url, func() time.Time { return now })
	l, caller := ledgerOn(t, s, LedgerConfig{}), newCaller(t, s, plan(t, "pro", 1500))
	fourteenMonths(t, s, l, caller, &now)
	hosts := []*Store{s, open(t, url, func() time.Time { return now }), open(t, url, func() time.Time { return now })}
	var wg sync.WaitGroup
	for _, host := range hosts {
		wg.Go(func() {
			if _, err := pruneOnce(t.Context(), host); err != nil {
				t.Error(err)
			}
		})
	}
	records := allowedMany(t, caller, 60)
	for i := range records {
		records[i] = at(records[i], now)
	}
	for _, err := range appendAll(t, records, l) {
		if err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
	prune(t, s) // what one gave up for another's lock
	if got := months(t, s); !strings.HasPrefix(got, "2021_03 ") {
		t.Errorf("partitions %s", got)
	}
	if n := one[int](t, s, "SELECT count(*) + (SELECT count(*) FROM audit_anchors) FROM audit_records WHERE kind = 'pruning'"); n != 2 {
		t.Errorf("%d anchors and records of them, want one each", n)
	}
	verifyLedger(t, s)
}

// A host may die at any point between the anchor and the end: the chain holds, and the next round ends it.
func TestPruningIsTakenUpAgain(t *testing.T) {
	t.Parallel()
	now := day(2021, time.January, 5)
	s := open(t, postgrestest.Database(t), func() time.Time { return now })
	l, caller := ledgerOn(t, s, LedgerConfig{}), newCaller(t, s, plan(t, "pro", 1500))
	appendOne(t, l, recordAt(t, caller, "example.org", day(2020, time.July, 1)))
	fourteenMonths(t, s, l, caller, &now)
	anchor := anchored(t, s)
	for _, step := range []func() error{
		func() error { return nil }, // dead behind the anchor
		func() error {
			return s.dropPartition(t.Context(), "audit_records_2021_02", map[int]int64{0: anchor.Seq})
		},
		// another host did
		func() error {
			return s.dropPartition(t.Context(), "audit_records_2021_02", map[int]int64{0: anchor.Seq})
		},
		func() error { return s.pruneRows(t.Context(), anchor) },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
		if err := verifyAuditLog(t, s); err != nil {
			t.Error(err)
		}
	}
	if prune(t, s) != 0 {
		t.Error("it was anchored again")
	}
	if got := months(t, s); !strings.HasPrefix(got, "2021_03 ") {
		t.Errorf("partitions %s", got)
	}
	verifyLedger(t, s)
}

// Whoever reads the trail, or records a check, keeps what is to be dropped, and is not kept waiting for long.
func TestPruningGivesWay(t *testing.T) {
	t.Parallel()
	for name, holder := range map[string]string{
		"to who reads":           "SELECT count(*) FROM audit_records",
		"to who records a check": "SELECT * FROM audit_heads FOR UPDATE",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := postgrestest.Database(t)
			now := day(2021, time.January, 5)
			s := open(t, url, func() time.Time { return now })
			l, caller := ledgerOn(t, s, LedgerConfig{}), newCaller(t, s, plan(t, "pro", 1500))
			appendOne(t, l, recordAt(t, caller, "example.org", day(2020, time.July, 1)))
			fourteenMonths(t, s, l, caller, &now)
			anchor := anchored(t, s)
			conn := session(t, url)
			exec(t, conn, "BEGIN", holder)
			prune(t, s)
			if got := months(t, s); !strings.HasPrefix(got, "2021_01 ") {
				t.Errorf("partitions %s", got)
			}
			if name == "to who records a check" {
				if err := s.pruneRows(t.Context(), anchor); sqlState(err) != lockNotAvailable {
					t.Errorf("rows were cut beside it: %v", err)
				}
			}
			exec(t, conn, "COMMIT")
			prune(t, s)
			verifyLedger(t, s)
		})
	}
}

// Who has begun to read the trail sees all of it, although a host prunes meanwhile.
func TestTrailIsReadWholeWhileItIsPruned(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	now := day(2021, time.January, 5)
	s := open(t, url, func() time.Time { return now })
	l, caller := ledgerOn(t, s, LedgerConfig{}), newCaller(t, s, plan(t, "pro", 1500))
	fourteenMonths(t, s, l, caller, &now)
	err := s.ReadAuditLog(t.Context(), func(ctx context.Context, trail AuditLog) error {
		if _, err := trail.Heads(ctx); err != nil {
			return err
		}
		prune(t, s)
		return verifyChains(ctx, trail)
	})
	if err != nil {
		t.Error(err)
	}
	prune(t, s)
	verifyLedger(t, s)
}

// What was erased before the cut is forgotten with it, and an erasure behind the cut holds, although it names what was
// before it.
func TestErasuresAcrossTheCut(t *testing.T) {
	t.Parallel()
	now := day(2021, time.January, 5)
	s := open(t, postgrestest.Database(t), func() time.Time { return now })
	l, caller := ledgerOn(t, s, LedgerConfig{}), newCaller(t, s, plan(t, "pro", 1500))
	across := parse(t, entity.Domain, "across.example")
	early := appendOne(t, l, recordAt(t, caller, "early.example", now))
	appendOne(t, l, recordAt(t, caller, across.Value, now))
	erase(t, s, caller, privacy.Selector{Ref: early})
	now = day(2021, time.June, 20)
	appendOne(t, l, recordAt(t, caller, across.Value, now))
	erase(t, s, caller, about(across))
	appendOne(t, l, recordAt(t, caller, "late.example", now))
	lists := func() string {
		t.Helper()
		return one[string](t, s, `SELECT (SELECT string_agg(erasure || ':' || seq, ' ' ORDER BY erasure, seq) FROM erased_records) || ' of ' ||
			(SELECT string_agg(seq::text, ' ' ORDER BY seq) FROM erasures)`)
	}
	if got := lists(); got != "3:1 5:2 5:4 of 3 5" {
		t.Fatalf("erased %s", got)
	}
	now = day(2022, time.March, 10)
	anchored(t, s)
	if err := verifyAuditLog(t, s); err != nil {
		t.Error(err)
	}
	prune(t, s)
	if got := lists(); got != "5:2 5:4 of 5" {
		t.Errorf("after the cut: %s", got)
	}
	verifyLedger(t, s)
	if held := export(t, s, caller, about(across)); held.Total != 0 || len(held.Erasures) != 1 ||
		held.Erasures[0].Checks != 2 {
		t.Errorf("held of what was erased on both sides: %+v", held)
	}
	if _, err := s.Erase(t.Context(), caller, privacy.Selector{Ref: early}); !errors.Is(err, privacy.ErrUnknownSubject) {
		t.Errorf("what was erased before the cut: %v", err)
	}
}

// Checks queue up behind whoever waits for the lock: that is not for as long as other statements may wait.
func TestPruningIsImpatient(t *testing.T) {
	t.Parallel()
	s := open(t, postgrestest.Database(t), nil)
	err := s.inTx(t.Context(), func(ctx context.Context, tx bun.Tx) error {
		if _, err := lockHeadsBriefly(ctx, tx); err != nil {
			return err
		}
		var patience string
		if err := tx.NewRaw("SHOW lock_timeout").Scan(ctx, &patience); err != nil || patience != "250ms" {
			t.Errorf("it waits for %s, %v", patience, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
