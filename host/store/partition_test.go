package store

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"
)

func TestNewPartitionReceivesEarlierRecords(t *testing.T) {
	t.Parallel()
	s, l, caller := newLedger(t, nil, LedgerConfig{})
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
		noError(t, l.Append(t.Context(), r))
		refs[r.Decision.Ref] = table
	}
	place := func(ref string) string { return partitionOf(t, s, ref) }
	for ref := range refs {
		expect(t, "partition of a record before its month has one", place(ref), "audit_records_other")
	}
	// In UTC this is already April, so partitions are created from April on.
	evening := time.Date(2031, 3, 31, 20, 0, 0, 0, time.FixedZone("", -5*60*60))
	later := open(t, s.url, func() time.Time { return evening })
	for ref, table := range refs {
		expect(t, "the partition of a record", place(ref), table)
	}
	for range 2 {
		wantError(t, "creating existing partitions", later.EnsurePartitions(t.Context()), nil)
	}
	noError(t, l.Append(t.Context(), at(allowed(t, caller), time.Date(2031, 4, 2, 0, 0, 0, 0, time.UTC))))
	expect(t, "records in April's partition", one[int](t, s, "SELECT count(*) FROM audit_records_2031_04"), 2)
	verifyLedger(t, s)
}

func TestManyHostsCreatePartitionsAtOnce(t *testing.T) {
	t.Parallel()
	s, l, caller := newLedger(t, nil, LedgerConfig{})
	noError(t, errors.Join(appendAll(t, allowedMany(t, caller, 20), l)...))
	hosts := []*Store{open(t, s.url, nil), open(t, s.url, nil), open(t, s.url, nil)}
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
	noError(t, errors.Join(append(errs, appended...)...))
	noError(t, hosts[0].EnsurePartitions(t.Context())) // all others may have postponed it
	expect(t, "remaining records", one[int](t, s, "SELECT count(*) FROM audit_records_other"), 0)
	verifyLedger(t, s)
}

// An uncommitted record in the default partition must not make creating its month's partition fail.
func TestPartitionWaitsForUncommittedRecords(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	caller := newCaller(t, s, plan(t, "pro", 1500))
	l := ledgerOn(t, s, LedgerConfig{})
	batch := prepared(t, l, allowedMany(t, caller, 1))
	conn := must(acquire(t.Context(), l.db))(t)
	defer func() { noError(t, conn.release()) }()
	noError(t, errOf(conn.pg.Exec(t.Context(), "BEGIN").ReadAll()))
	params := appendParams(0, []byte("batch"), time.Minute, batch, answeredBatch{})
	_, _, err := conn.append(params, batch)
	noError(t, err)
	look := session(t, s.url)
	s.now = func() time.Time { return noon }
	created := make(chan error, 1)
	go func() { created <- s.EnsurePartitions(context.Background()) }()
	until(t, "creating the partition to wait for the record", func() bool {
		return len(created) > 0 || lockWaiters(t, look) == 1
	})
	noError(t, errOf(conn.pg.Exec(t.Context(), "COMMIT").ReadAll()))
	wantError(t, "creating the partition", receive(t, "the partition", created), nil)
	noError(t, s.EnsurePartitions(t.Context())) // if it was postponed after a quarter of a second
	expect(t, "records in the month's partition", one[int](t, s, "SELECT count(*) FROM audit_records_2031_05"), 1)
	verifyLedger(t, s)
}

// A dump may take hours and keeps partitions from being created. Meanwhile checks do not wait, hosts start, and the
// default partition takes the month's records.
func TestPartitionIsCreatedAfterADump(t *testing.T) {
	t.Parallel()
	s, l, caller := newLedger(t, nil, LedgerConfig{})
	dump := session(t, s.url)
	exec(t, dump, "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY", "LOCK TABLE audit_records IN ACCESS SHARE MODE")
	later := open(t, s.url, func() time.Time { return noon })
	r := allowed(t, caller)
	wantError(t, "appending during a dump", l.Append(t.Context(), r), nil)
	expect(t, "partition of the record", partitionOf(t, s, r.Decision.Ref), "audit_records_other")
	exec(t, dump, "COMMIT")
	noError(t, later.EnsurePartitions(t.Context()))
	expect(t, "partition of the record after the dump", partitionOf(t, s, r.Decision.Ref), "audit_records_2031_05")
	verifyLedger(t, s)
}

// partitionOf returns the partition that holds a record, without the number of a shard.
func partitionOf(t *testing.T, s *Store, ref string) string {
	t.Helper()
	return one[string](t, s, `SELECT regexp_replace(tableoid::regclass::text, '_\d{5,}$', '') FROM audit_records
		WHERE ref = ?`, ref)
}
