package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"assay/host/customer/billing"
	"assay/host/store/storetest"
)

// A firewall has cut off all connections and says nothing. The ledger finds out over a new connection that a check is
// not recorded, and closes the old ones, which would fail the next checks too.
func TestSilentConnectionsAreClosed(t *testing.T) {
	t.Parallel()
	direct := newStore(t, nil)
	p := proxied(t, direct.url)
	l := ledgerOn(t, open(t, p.URL, nil), LedgerConfig{Late: 50 * time.Millisecond})
	t.Cleanup(p.Disconnect) // so that the ledger can be closed if the test fails
	caller := newCaller(t, direct, plan(t, "pro", 100))
	_ = must(l.account(t.Context(), caller.Account))(t)
	var idle []*connection
	for range batchConnections {
		idle = append(idle, must(acquire(t.Context(), l.db))(t))
	}
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
	direct := newStore(t, nil)
	p := proxied(t, direct.url)
	l := ledgerOn(t, open(t, p.URL, nil), LedgerConfig{Late: 50 * time.Millisecond, Settling: time.Second})
	t.Cleanup(p.Disconnect) // so that the ledger can be closed if the test fails
	caller := newCaller(t, direct, plan(t, "pro", 100))
	held := map[string]bool{}
	p.HoldBack(func(m string) bool {
		for _, function := range []string{"ledger_append", "ledger_settle"} {
			if strings.Contains(m, function) && !held[function] {
				held[function] = true
				return true
			}
		}
		return false
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

// Changes of an account wait for the lock of its chain, and see what the change before has written.
func TestLockedAccountIsReadAgain(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	caller := newCaller(t, s, plan(t, "pro", 100))
	held := lockTheHeads(t, s.url)
	waiting := session(t, s.url)
	found := make(chan string, 1)
	go func() {
		var name string
		err := waiting.QueryRow(context.WithoutCancel(t.Context()),
			"SELECT plan FROM account_lock($1)", caller.Account).
			Scan(&name)
		found <- fmt.Sprint(name, err)
	}()
	held.waiting(t, 1)
	exec(t, session(t, s.url), fmt.Sprintf("UPDATE accounts SET plan = 'starter' WHERE id = '%s'", caller.Account))
	held.release(t)
	expect(t, "plan", receive(t, "the account", found), "starter<nil>")
}

// Of hosts that create the same partition while a batch is recorded, one waits for the other and then finds it.
func TestPartitionIsCreatedByOneHost(t *testing.T) {
	t.Parallel()
	needsDirect(t)
	s := newStore(t, nil)
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
		errs := []error{receive(t, "a host", done), receive(t, "a host", done)}
		if postponed(errs[0]) || postponed(errs[1]) {
			return false
		}
		noError(t, errors.Join(errs...))
		return true
	})
}

// A partition is not created if checks would wait while many records move to it.
func TestPartitionWithManyRecords(t *testing.T) {
	t.Parallel()
	s, l, caller := newLedger(t, nil, LedgerConfig{})
	for range 3 {
		noError(t, l.Append(t.Context(), at(allowed(t, caller), time.Date(2095, 1, 9, 0, 0, 0, 0, time.UTC))))
	}
	conn := session(t, s.url)
	for most, created := range []bool{2: false, 3: true} {
		if most < 2 {
			continue
		}
		exec(t, conn, fmt.Sprintf("SELECT create_partition('audit_records_2095_01', '2095-01-01', '2095-02-01', %d)",
			most))
		expect(t, fmt.Sprintf("created with at most %d of 3 records", most), value[bool](t, conn,
			"SELECT to_regclass('audit_records_2095_01') IS NOT NULL"), created)
	}
	verifyLedger(t, s)
}

// Two subscriptions of one checkout are paid at once. The second host finds that the checkout has changed since it read
// it, and does not make another account.
func TestCheckoutIsPaidOnce(t *testing.T) {
	t.Parallel()
	direct := newStore(t, nil)
	p := proxied(t, direct.url)
	s := open(t, p.URL, nil)
	c := beginCheckout(t, direct, "", "starter")
	other := newChange(c, 0, billing.Active)
	other.Subscription += "_other"
	applied := false
	p.Set(func(m string) storetest.Fate {
		if strings.Contains(m, "apply_billing") && !applied {
			applied = true
			if err := direct.Apply(context.WithoutCancel(t.Context()), other); err != nil {
				t.Error(err)
			}
		}
		return storetest.Passes
	}, false)
	apply(t, s, newChange(c, 0, billing.Active))
	expect(t, "accounts", one[int](t, direct, "SELECT count(*) FROM accounts WHERE plan = 'starter'"), 1)
	expect(t, "accounts of subscriptions", one[int](t, direct,
		"SELECT count(DISTINCT account_id) FROM billing_subscriptions"), 1)
}

// The page of a checkout cannot replace a key that the customer has rotated: the key still works for a while.
func TestRotatedKeyIsNotReissued(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	c := beginCheckout(t, s, "", "starter")
	apply(t, s, newChange(c, 0, billing.Active))
	claim := must(s.Claim(t.Context(), c.Session))(t)
	must(s.RotateKey(t.Context(), claim.Account, claim.KeyID, time.Hour))(t)
	wantError(t, "reissuing", errOf(s.Reissue(t.Context(), c.Session)), billing.ErrNoReissue)
	expect(t, "keys that work", one[int](t, s, "SELECT count(*) FROM api_keys WHERE state = 'valid'"), 2)
}

// A payment for a plan that this release does not know is refused and can be applied later.
func TestPaymentForAnUnknownPlan(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	c := beginCheckout(t, s, "", "starter")
	apply(t, s, newChange(c, 0, billing.Active))
	change := newChange(c, 1, billing.Active)
	change.Plan = "of-the-next-release"
	wantError(t, "applying", s.Apply(t.Context(), change), billing.ErrNoPlan)
	change.Plan = "pro"
	apply(t, s, change)
	expect(t, "plan", one[string](t, s,
		"SELECT a.plan FROM accounts AS a JOIN billing_checkouts AS c ON c.account_id = a.id"), "pro")
}
