package store

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"assay/host/check"
	"assay/host/customer/billing"
	"assay/host/store/postgres/postgrestest"
	"assay/host/store/storetest"
	"assay/registry"
)

// A firewall has cut off all connections and says nothing. The ledger finds out over a new connection that a check is
// not recorded, and closes the old ones, which would fail the next checks too.
func TestSilentConnectionsAreClosed(t *testing.T) {
	t.Parallel()
	direct, p, l, caller := ledgerThroughProxy(t, LedgerConfig{Late: 50 * time.Millisecond})
	t.Cleanup(p.Disconnect) // so that the ledger can be closed if the test fails
	_ = must(l.account(t.Context(), caller.Account))(t)
	idle := listOf(batchConnections, func(int) *connection { return must(acquire(t.Context(), l.db))(t) })
	idle = append(idle, must(acquire(t.Context(), l.settler))(t))
	for _, conn := range idle {
		noError(t, conn.release())
	}
	p.Once(storetest.Silences, false, isAppend)
	r := allowed(t, caller)
	wantRefusal(t, "a check that was lost", l.Append(t.Context(), r))
	expect(t, "records of the check", recorded(t, direct, r.Decision.Ref), 0)
	expect(t, "idle connections for batches that were closed", l.db.Stats().MaxIdleClosed, int64(batchConnections-1))
	expect(t, "idle connections for settling that were closed", l.settler.Stats().MaxIdleClosed,
		int64(settleConnections))
	until(t, "the connection of the batch to be closed", func() bool { return l.db.Stats().InUse == 0 })
}

// A request to settle a batch gets no reply. The ledger gives it up and sends another one.
func TestSettlingIsNotAwaitedForever(t *testing.T) {
	t.Parallel()
	direct, p, l, caller := ledgerThroughProxy(t, LedgerConfig{Late: 50 * time.Millisecond, Settling: time.Second})
	t.Cleanup(p.Disconnect) // so that the ledger can be closed if the test fails
	passes := map[string]bool{"": true}
	p.HoldBack(func(m string) bool {
		function := regexp.MustCompile("ledger_append|ledger_settle").FindString(m)
		defer func() { passes[function] = true }() // the next time
		return !passes[function]
	}, nil)
	r := allowed(t, caller)
	wantFailure(t, l.Append(t.Context(), r), "a check was answered that was not recorded")
	until(t, "the ledger to give up its connections", func() bool {
		return l.db.Stats().InUse+l.settler.Stats().InUse == 0
	})
	expect(t, "records of the check", recorded(t, direct, r.Decision.Ref), 0)
}

// A call is prepared again if its account was moved to another chain meanwhile, but not forever.
func TestAppendGivesUp(t *testing.T) {
	t.Parallel()
	needsPlainPostgres(t, "it replaces a function on one node")
	s, l, caller := newLedger(t, nil, LedgerConfig{})
	exec(t, session(t, s.url), "CREATE SEQUENCE calls", `DO $$ BEGIN
		EXECUTE format('CREATE OR REPLACE FUNCTION ledger_append(%s) RETURNS %s LANGUAGE plpgsql AS $f$ BEGIN
			PERFORM nextval(''calls'');
			RETURN QUERY SELECT 0, ''moved'', 0, 0, now(), 0::bigint, NULL::bytea;
		END $f$', pg_get_function_arguments('ledger_append'::regproc),
			pg_get_function_result('ledger_append'::regproc));
	END $$`)
	wantError(t, "a check of an account that is always elsewhere", l.Append(t.Context(), allowed(t, caller)), errMoved)
	expect(t, "attempts", one[int](t, s, "SELECT last_value FROM calls"), 3)
}

// A partition is not created if checks would wait while many records move to it.
func TestPartitionWithManyRecords(t *testing.T) {
	t.Parallel()
	s, l, caller := newLedger(t, nil, LedgerConfig{})
	for range 3 {
		noError(t, l.Append(t.Context(), at(allowed(t, caller), time.Date(2095, 1, 9, 0, 0, 0, 0, time.UTC))))
	}
	conn := session(t, s.url)
	for _, most := range []int{2, 3} {
		exec(t, conn, fmt.Sprintf("SELECT create_partition('audit_records_2095_01', '2095-01-01', '2095-02-01', %d)",
			most))
		expect(t, fmt.Sprintf("created with at most %d of 3 records", most), value[bool](t, conn,
			"SELECT to_regclass('audit_records_2095_01') IS NOT NULL"), most == 3)
	}
	verifyLedger(t, s)

	// Of hosts that create the same partition while a batch is recorded, one waits for the other and then finds it.
	hosts := []*pgx.Conn{session(t, s.url), session(t, s.url)}
	batch, monitor := session(t, s.url), session(t, s.url)
	year := 2070
	until(t, "both hosts to create a partition", func() bool { // they wait for a quarter of a second only
		create := fmt.Sprintf("SELECT create_partition('audit_records_%[1]d_01', '%[1]d-01-01', '%[1]d-02-01', 10)",
			year)
		year++
		exec(t, batch, "BEGIN", "SELECT audit_lock(0)")
		done := make(chan error, len(hosts))
		for _, host := range hosts {
			go func() { done <- errOf(host.Exec(context.WithoutCancel(t.Context()), create)) }()
		}
		until(t, "both hosts to wait", func() bool { return len(done) > 0 || lockWaiters(t, monitor) == len(hosts) })
		exec(t, batch, "COMMIT")
		err := errors.Join(receive(t, "a host", done), receive(t, "a host", done))
		holds(t, err == nil || postponed(err), "creating a partition: %v", err)
		return err == nil
	})
}

// Two subscriptions of one checkout are paid at once. The second host does not make another account.
func TestCheckoutIsPaidOnce(t *testing.T) {
	t.Parallel()
	direct := newStore(t, nil)
	p := proxied(t, direct.url)
	s := open(t, p.URL, nil)
	c := beginCheckout(t, direct, "", "starter")
	other := subscriptionOf(c, billing.Active)
	other.ID += "_other"
	var once sync.Once
	p.Set(func(m string) storetest.Fate {
		if strings.Contains(m, "apply_billing") {
			once.Do(func() { noError(t, give(context.WithoutCancel(t.Context()), direct, other)) })
		}
		return storetest.Passes
	}, false)
	apply(t, s, subscriptionOf(c, billing.Active))
	expect(t, "accounts, and accounts of subscriptions", one[string](t, direct, `SELECT concat_ws(' ', count(*),
		(SELECT count(DISTINCT account_id) FROM billing_subscriptions)) FROM accounts WHERE plan = 'starter'`), "1 1")
}

// A chain whose head is damaged refuses checks. Other chains, lineups and partitions go on, also while it is locked.
func TestDamagedChainHarmsItselfOnly(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	s := must(Open(t.Context(), Config{URL: url, Keys: testRing, Logger: discard(), Chains: 3}))(t)
	storetest.Close(t, s)
	l := ledgerOn(t, s, LedgerConfig{})
	conn := session(t, url)
	callers := make([]check.Caller, 3)
	for i := range callers {
		callers[i] = newCaller(t, s, plan(t, "pro", 10))
		exec(t, conn, fmt.Sprintf("UPDATE accounts SET chain = %d WHERE id = '%s'", i, callers[i].Account))
	}
	exec(t, conn, `UPDATE audit_heads SET hash = '\x00' WHERE chain = 1`,
		"BEGIN", "SELECT FROM audit_heads WHERE chain = 2 FOR UPDATE")
	blocked := async(func() error { return l.Append(context.Background(), allowed(t, callers[2])) })
	for range 3 {
		wantErrorText(t, "the damaged chain", l.Append(t.Context(), allowed(t, callers[1])), "32 bytes")
		wantError(t, "another chain", l.Append(t.Context(), allowed(t, callers[0])), nil)
	}
	exec(t, conn, "COMMIT")
	noError(t, receive(t, "the answer", blocked))
	expect(t, "chains", one[string](t, s, "SELECT string_agg(chain::text, ' ' ORDER BY chain) FROM audit_records"),
		"0 0 0 2")
	wantFailure(t, errOf(s.Heads(t.Context())), "reading heads succeeded with a one-byte head hash")
	must(activate(t.Context(), s, lineupOf("probe@1.0.0"), registry.OriginOperator, ""))(t)
	expect(t, "chains that record the lineup", value[int](t, conn,
		"SELECT count(*) FROM audit_records WHERE kind = 'activation' AND chain < 3"), 2)
	exec(t, conn, "SELECT create_partition('audit_records_209901', '2099-01-01', '2099-02-01', 10)")
	expect(t, "detached", value[bool](t, conn, "SELECT detach_partition('audit_records_209901', '{}', 10)"), true)
}

// Whatever the session's settings, a transaction that locks a head is durable, and waits for locks as long as asked.
func TestSettingsUnderTheHeadsLock(t *testing.T) {
	t.Parallel()
	conn := session(t, newStore(t, nil).url)
	for _, test := range []struct{ setting, before, want string }{
		{"synchronous_commit", "off", "on"},
		{"synchronous_commit", "local", "on"},
		{"synchronous_commit", "remote_write", "on"},
		{"synchronous_commit", "remote_apply", "remote_apply"},
		{"client_min_messages", "error", "warning"},
		{"client_min_messages", "notice", "notice"},
		{"lock_timeout", "1h", "123ms"},
	} {
		for _, lock := range []string{"audit_lock(0, '123ms')", "audit_lock_all('123ms')"} {
			if onCitus() && lock == "audit_lock(0, '123ms')" {
				continue // it runs on another machine
			}
			exec(t, conn, "BEGIN", fmt.Sprintf("SET LOCAL %s = '%s'", test.setting, test.before), "SELECT "+lock)
			expect(t, test.setting+" = "+test.before+", "+lock,
				value[string](t, conn, "SELECT current_setting($1)", test.setting), test.want)
			exec(t, conn, "ROLLBACK")
		}
	}
}

// If the head stays locked for too long, the check fails without a record, and the ledger continues.
func TestLockedHeadFailsTheCheck(t *testing.T) {
	t.Parallel()
	s, l, caller := newVerified(t, nil, LedgerConfig{Settling: time.Second})
	held := lockTheHeads(t, s.url)
	r := allowed(t, caller)
	expect(t, "append's SQL state", sqlState(l.Append(t.Context(), r)), "55P03") // lock_not_available
	held.release(t)
	noError(t, l.Append(t.Context(), allowed(t, caller)))
	expect(t, "records of the check", recorded(t, s, r.Decision.Ref), 0)

	// Changes of an account wait for the lock of its chain, and see what the change before has written.
	held = lockTheHeads(t, s.url)
	waiting := session(t, s.url)
	var name string
	found := async(func() error {
		return waiting.QueryRow(context.WithoutCancel(t.Context()), "SELECT plan FROM account_lock($1)",
			caller.Account).Scan(&name)
	})
	held.waiting(t, 1)
	exec(t, session(t, s.url), fmt.Sprintf("UPDATE accounts SET plan = 'starter' WHERE id = '%s'", caller.Account))
	held.release(t)
	noError(t, receive(t, "the account", found))
	expect(t, "plan", name, "starter")
}

// If updating the head has no effect, the batch must be rolled back. A trigger that suppresses the update simulates it.
// A missing head and a head of an unknown chain must not cause a panic.
func TestFailedHeadUpdateUndoesTheBatch(t *testing.T) {
	t.Parallel()
	needsPlainPostgres(t, "distributed tables have no triggers, and a row stays on its machine")
	s, l, caller := newLedger(t, nil, LedgerConfig{})
	conn := session(t, s.url)
	exec(t, conn, `CREATE FUNCTION suppress() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$`,
		"CREATE TRIGGER suppress BEFORE UPDATE ON audit_heads FOR EACH ROW EXECUTE FUNCTION suppress()")
	r := allowed(t, caller)
	wantFailure(t, l.Append(t.Context(), r), "append succeeded although the head was not updated")
	expect(t, "records of the check", recorded(t, s, r.Decision.Ref), 0)
	exec(t, conn, "DROP TRIGGER suppress ON audit_heads")
	noError(t, l.Append(t.Context(), allowed(t, caller)))
	verifyLedger(t, s)
	exec(t, conn, "UPDATE audit_heads SET chain = 7 WHERE chain = 0")
	wantErrorText(t, "appending to a chain without a head", l.Append(t.Context(), allowed(t, caller)),
		"audit chain 0 has no head")
	must(activate(t.Context(), s, lineupOf("probe@1.0.0"), registry.OriginOperator, ""))(t)
}

func TestNewPartitionReceivesEarlierRecords(t *testing.T) {
	t.Parallel()
	s, l, caller := newVerified(t, nil, LedgerConfig{})
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
		refs[appendOne(t, l, at(allowed(t, caller), when))] = table
	}
	for ref := range refs {
		expect(t, "partition of a record before its month has one", partitionOf(t, s, ref), "audit_records_other")
	}
	// In UTC this is already April, so partitions are created from April on.
	evening := time.Date(2031, 3, 31, 20, 0, 0, 0, time.FixedZone("", -5*60*60))
	later := open(t, s.url, func() time.Time { return evening })
	for ref, table := range refs {
		expect(t, "the partition of a record", partitionOf(t, s, ref), table)
	}
	for range 2 {
		wantError(t, "creating existing partitions", later.EnsurePartitions(t.Context()), nil)
	}
	noError(t, l.Append(t.Context(), at(allowed(t, caller), time.Date(2031, 4, 2, 0, 0, 0, 0, time.UTC))))
	expect(t, "records in April's partition", rowsOf(t, s, "audit_records_2031_04"), 2)
}

func TestManyHostsCreatePartitionsAtOnce(t *testing.T) {
	t.Parallel()
	s, l, caller := newVerified(t, nil, LedgerConfig{})
	noError(t, errors.Join(appendAll(t, allowedMany(t, caller, 20), l)...))
	hosts := []*Store{open(t, s.url, nil), open(t, s.url, nil), open(t, s.url, nil)}
	for _, host := range hosts {
		host.now = func() time.Time { return noon }
	}
	records := allowedMany(t, caller, 59)
	noError(t, errors.Join(concurrently(len(records), func(i int) error {
		if i < 9 {
			return hosts[i%len(hosts)].EnsurePartitions(t.Context())
		}
		return l.Append(t.Context(), records[i])
	})...))
	noError(t, hosts[0].EnsurePartitions(t.Context())) // all others may have postponed it
	expect(t, "remaining records", rowsOf(t, s, "audit_records_other"), 0)
}

// An uncommitted record in the default partition must not make creating its month's partition fail.
func TestPartitionWaitsForUncommittedRecords(t *testing.T) {
	t.Parallel()
	s, l, caller := newVerified(t, nil, LedgerConfig{})
	batch := prepared(t, l, allowedMany(t, caller, 1))
	conn := must(acquire(t.Context(), l.db))(t)
	defer func() { noError(t, conn.release()) }()
	noError(t, errOf(conn.pg.PgConn().Exec(t.Context(), "BEGIN").ReadAll()))
	noError(t, errOf2(conn.append(appendParams(0, []byte("batch"), time.Minute, batch, answeredBatch{}), batch)))
	look := session(t, s.url)
	s.now = func() time.Time { return noon }
	created := async(func() error { return s.EnsurePartitions(context.Background()) })
	until(t, "the creation to wait", func() bool { return len(created) > 0 || lockWaiters(t, look) == 1 })
	noError(t, errOf(conn.pg.PgConn().Exec(t.Context(), "COMMIT").ReadAll()))
	wantError(t, "creating the partition", receive(t, "the partition", created), nil)
	noError(t, s.EnsurePartitions(t.Context())) // if it was postponed after a quarter of a second
	expect(t, "records in the month's partition", rowsOf(t, s, "audit_records_2031_05"), 1)

	// A record that no head delays waits too. Postgres must not choose the default partition for it before.
	exec(t, look, "BEGIN", "SELECT create_partition('audit_records_2096_01', '2096-01-01', '2096-02-01', 10)")
	inserted := async(func() error {
		return errOf(conn.pg.Exec(context.Background(), `INSERT INTO audit_records
			(chain, seq, recorded_at, kind, leaf, hash) VALUES (0, -1, '2096-01-09', '', '', '')`))
	})
	until(t, "the record to wait", func() bool { return len(inserted) > 0 || lockWaiters(t, look) == 1 })
	exec(t, look, "COMMIT")
	wantError(t, "inserting the record", receive(t, "the record", inserted), nil)
	exec(t, look, "DELETE FROM audit_records_2096_01")
}

// While a dump keeps a partition from being created, checks do not wait, hosts start, and the default one is used.
func TestPartitionIsCreatedAfterADump(t *testing.T) {
	t.Parallel()
	s, l, caller := newVerified(t, nil, LedgerConfig{})
	dump := session(t, s.url)
	exec(t, dump, "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY", "LOCK TABLE audit_records IN ACCESS SHARE MODE")
	later := open(t, s.url, func() time.Time { return noon })
	ref := appendOne(t, l, allowed(t, caller))
	expect(t, "partition of the record", partitionOf(t, s, ref), "audit_records_other")
	exec(t, dump, "COMMIT")
	noError(t, later.EnsurePartitions(t.Context()))
	expect(t, "partition of the record after the dump", partitionOf(t, s, ref), "audit_records_2031_05")
}

// partitionOf returns the partition that holds a record, without the number of a shard.
func partitionOf(t *testing.T, s *Store, ref string) string {
	t.Helper()
	return one[string](t, s, `SELECT regexp_replace(tableoid::regclass::text, '_\d{5,}$', '') FROM audit_records
		WHERE ref = ?`, ref)
}
