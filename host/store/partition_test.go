package store

import (
	"context"
	"sync"
	"testing"
	"time"

	"assay/host/postgres/postgrestest"
)

func TestPartitionTakesWhatCameBeforeIt(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	s := open(t, url, nil)
	l := ledgerOn(t, s, LedgerConfig{})
	caller := newCaller(t, s, plan(t, "pro", 1500))
	// None of these months has a partition yet: they stand where the next two lines say.
	times := map[time.Time]string{
		time.Date(2031, 3, 31, 23, 59, 59, 999e6, time.UTC): "audit_records_other",
		time.Date(2031, 4, 1, 0, 0, 0, 0, time.UTC):         "audit_records_2031_04",
		time.Date(2031, 5, 20, 0, 0, 0, 0, time.UTC):        "audit_records_2031_05",
		time.Date(2031, 6, 30, 23, 59, 59, 999e6, time.UTC): "audit_records_2031_06",
		time.Date(2031, 7, 1, 0, 0, 0, 0, time.UTC):         "audit_records_other",
	}
	refs := map[string]string{}
	for when, table := range times {
		r := at(allowed(t, caller), when)
		if err := l.Append(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		refs[r.Decision.Ref] = table
	}
	place := func(ref string) string {
		t.Helper()
		return one[string](t, s, "SELECT tableoid::regclass::text FROM audit_records WHERE ref = ?", ref)
	}
	for ref := range refs {
		if got := place(ref); got != "audit_records_other" {
			t.Errorf("without partitions, a record stands in %s", got)
		}
	}
	// The store's month is April, by UTC, although it is still March elsewhere.
	later := open(t, url, func() time.Time { return time.Date(2031, 3, 31, 20, 0, 0, 0, time.FixedZone("", -5*60*60)) })
	for ref, table := range refs {
		if got := place(ref); got != table {
			t.Errorf("a record stands in %s, want %s", got, table)
		}
	}
	for range 2 {
		if err := later.EnsurePartitions(t.Context()); err != nil {
			t.Errorf("making partitions that are there: %v", err)
		}
	}
	if err := l.Append(t.Context(), at(allowed(t, caller), time.Date(2031, 4, 2, 0, 0, 0, 0, time.UTC))); err != nil {
		t.Fatal(err)
	}
	if n := one[int](t, s, "SELECT count(*) FROM audit_records_2031_04"); n != 2 {
		t.Errorf("%d records in April's partition, want 2", n)
	}
	verifyLedger(t, s)
}

func TestPartitionsMadeByManyHostsAtOnce(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	s := open(t, url, nil)
	l := ledgerOn(t, s, LedgerConfig{})
	caller := newCaller(t, s, plan(t, "pro", 1500))
	for _, err := range appendAll(t, allowedMany(t, caller, 20), l) {
		if err != nil {
			t.Fatal(err)
		}
	}
	hosts := []*Store{open(t, url, nil), open(t, url, nil), open(t, url, nil)}
	for _, host := range hosts {
		host.now = func() time.Time { return noon }
	}
	errs := make([]error, 9)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = hosts[i%len(hosts)].EnsurePartitions(t.Context()) })
	}
	appended := appendAll(t, allowedMany(t, caller, 50), l)
	wg.Wait()
	for _, err := range append(errs, appended...) {
		if err != nil {
			t.Error(err)
		}
	}
	if n := one[int](t, s, "SELECT count(*) FROM audit_records_other"); n != 0 {
		t.Errorf("%d records of a month that has a partition were left behind", n)
	}
	verifyLedger(t, s)
}

// A record that is being written into the month's place of exile must not bar its partition.
func TestPartitionWaitsForRecordsUnderWay(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	s := open(t, url, nil)
	caller := newCaller(t, s, plan(t, "pro", 1500))
	p := proxied(t, url)
	l := ledgerOn(t, open(t, p.URL, nil), LedgerConfig{})
	hit := p.once(stalls, false, isCommit)
	answer := make(chan error, 1)
	go func() { answer <- l.Append(context.Background(), allowed(t, caller)) }()
	receive(t, "the commit", hit)
	open := receive(t, "the stalled connection", p.stalled)
	defer open.drop()
	look := session(t, url)
	until(t, "settling waits for the head", func() bool { return lockWaiters(t, look) == 1 })
	s.now = func() time.Time { return noon }
	made := make(chan error, 1)
	go func() { made <- s.EnsurePartitions(context.Background()) }()
	until(t, "the partition waits for the record", func() bool { return lockWaiters(t, look) == 2 })
	if err := open.deliver(); err != nil {
		t.Fatal(err)
	}
	for what, outcome := range map[string]chan error{"the partition": made, "the record": answer} {
		if err := receive(t, what, outcome); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if n := one[int](t, s, "SELECT count(*) FROM audit_records_2031_05"); n != 1 {
		t.Errorf("%d records in the month's partition, want 1", n)
	}
	verifyLedger(t, s)
}

// While the database is dumped, which may take hours, no partition can be made. Neither do checks wait for that, nor
// does a host fail to start: the month's records have a place until it is made.
func TestPartitionIsMadeAfterADump(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	s := open(t, url, nil)
	l, caller := ledgerOn(t, s, LedgerConfig{}), newCaller(t, s, plan(t, "pro", 1500))
	dump := session(t, url)
	exec(t, dump, "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY", "LOCK TABLE audit_records IN ACCESS SHARE MODE")
	later := open(t, url, func() time.Time { return noon })
	if err := l.Append(t.Context(), allowed(t, caller)); err != nil {
		t.Errorf("checking while the database is dumped: %v", err)
	}
	place := func() string {
		t.Helper()
		return one[string](t, s, "SELECT tableoid::regclass::text FROM audit_records")
	}
	if got := place(); got != "audit_records_other" {
		t.Errorf("the record stands in %s", got)
	}
	exec(t, dump, "COMMIT")
	if err := later.EnsurePartitions(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := place(); got != "audit_records_2031_05" {
		t.Errorf("after the dump, the record stands in %s", got)
	}
	verifyLedger(t, s)
}
