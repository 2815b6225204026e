package store

import (
	"context"
	"fmt"
	"testing"
	"time"

	"assay/host/check"
	"assay/host/store/postgres/postgrestest"
	"assay/host/store/storetest"
	"assay/registry"
)

// A chain whose head is damaged refuses checks. Those of other chains are recorded, also while it is locked, and
// neither lineups nor partitions are kept from changing.
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
	blocked := make(chan error, 1)
	go func() { blocked <- l.Append(context.Background(), allowed(t, callers[2])) }()
	for range 3 {
		wantErrorText(t, "the damaged chain", l.Append(t.Context(), allowed(t, callers[1])), "32 bytes")
		wantError(t, "another chain", l.Append(t.Context(), allowed(t, callers[0])), nil)
	}
	exec(t, conn, "COMMIT")
	noError(t, receive(t, "the answer", blocked))
	expect(t, "records of chain 0", one[int](t, s, "SELECT count(*) FROM audit_records WHERE chain = 0"), 3)
	expect(t, "records of chain 2", one[int](t, s, "SELECT count(*) FROM audit_records WHERE chain = 2"), 1)
	wantFailure(t, errOf(s.Heads(t.Context())), "reading heads succeeded with a one-byte head hash")
	must(activate(t.Context(), s, lineupOf("probe@1.0.0"), registry.OriginOperator, ""))(t)
	expect(t, "chains that record the lineup", value[int](t, conn,
		"SELECT count(*) FROM audit_records WHERE kind = 'activation' AND chain < 3"), 2)
	exec(t, conn, "SELECT create_partition('audit_records_209901', '2099-01-01', '2099-02-01', 10)")
	expect(t, "detached", value[bool](t, conn, "SELECT detach_partition('audit_records_209901', '{}', 10)"), true)
}

// A transaction that locks a head is durable, reports an interrupted wait for a standby, and waits for locks as long as
// asked, whatever the session's settings are.
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

// If the head stays locked for longer than the lock timeout, the check fails without a record, and the ledger
// continues.
func TestLockedHeadFailsTheCheck(t *testing.T) {
	t.Parallel()
	s, l, caller := newLedger(t, nil, LedgerConfig{Settling: time.Second})
	held := lockTheHeads(t, s.url)
	r := allowed(t, caller)
	if err := l.Append(t.Context(), r); sqlState(err) != "55P03" {
		t.Errorf("append: %v, want lock_not_available", err)
	}
	held.release(t)
	noError(t, l.Append(t.Context(), allowed(t, caller)))
	expect(t, "records of the check", recorded(t, s, r.Decision.Ref), 0)
	verifyLedger(t, s)
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
