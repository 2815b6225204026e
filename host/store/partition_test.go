package store

import (
	"context"
	"sync"
	"testing"
	"time"

	"assay/host/postgres/postgrestest"
)

func TestNewPartitionReceivesEarlierRecords(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	s := open(t, url, nil)
	l := ledgerOn(t, s, LedgerConfig{})
	caller := newCaller(t, s, plan(t, "pro", 1500))
	// None of these months has a partition yet. The values are the tables that hold the records in the end.
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
			t.Errorf("before partitions exist, a record is in %s", got)
		}
	}
	// In UTC this is already April, so partitions are created from April on.
	evening := time.Date(2031, 3, 31, 20, 0, 0, 0, time.FixedZone("", -5*60*60))
	later := open(t, url, func() time.Time { return evening })
	for ref, table := range refs {
		if got := place(ref); got != table {
			t.Errorf("a record is in %s, want %s", got, table)
		}
	}
	for range 2 {
		if err := later.EnsurePartitions(t.Context()); err != nil {
			t.Errorf("creating existing partitions: %v", err)
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

func TestManyHostsCreatePartitionsAtOnce(t *testing.T) {
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
		t.Errorf("%d records remain in the default partition, want 0", n)
	}
	verifyLedger(t, s)
}

// An uncommitted record in the default partition must not make creating its month's partition fail.
func TestPartitionWaitsForUncommittedRecords(t *testing.T) {
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
	stalled := receive(t, "the stalled connection", p.stalled)
	defer stalled.drop()
	look := session(t, url)
	until(t, "the ledger to wait for the head", func() bool { return lockWaiters(t, look) == 1 })
	s.now = func() time.Time { return noon }
	created := make(chan error, 1)
	go func() { created <- s.EnsurePartitions(context.Background()) }()
	until(t, "creating the partition to wait for the record", func() bool { return lockWaiters(t, look) == 2 })
	if err := stalled.deliver(); err != nil {
		t.Fatal(err)
	}
	for what, outcome := range map[string]chan error{"the partition": created, "the record": answer} {
		if err := receive(t, what, outcome); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if n := one[int](t, s, "SELECT count(*) FROM audit_records_2031_05"); n != 1 {
		t.Errorf("%d records in the month's partition, want 1", n)
	}
	verifyLedger(t, s)
}

// A dump may take hours and keeps partitions from being created. Meanwhile checks do not wait, hosts start, and the
// default partition takes the month's records.
func TestPartitionIsCreatedAfterADump(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	s := open(t, url, nil)
	l, caller := ledgerOn(t, s, LedgerConfig{}), newCaller(t, s, plan(t, "pro", 1500))
	dump := session(t, url)
	exec(t, dump, "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY", "LOCK TABLE audit_records IN ACCESS SHARE MODE")
	later := open(t, url, func() time.Time { return noon })
	if err := l.Append(t.Context(), allowed(t, caller)); err != nil {
		t.Errorf("appending during a dump: %v", err)
	}
	place := func() string {
		t.Helper()
		return one[string](t, s, "SELECT tableoid::regclass::text FROM audit_records")
	}
	if got := place(); got != "audit_records_other" {
		t.Errorf("the record is in %s", got)
	}
	exec(t, dump, "COMMIT")
	if err := later.EnsurePartitions(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := place(); got != "audit_records_2031_05" {
		t.Errorf("after the dump, the record is in %s", got)
	}
	verifyLedger(t, s)
}
