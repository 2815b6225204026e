package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"assay/host/check"
	"assay/host/customer/privacy"
	"assay/host/store/postgres"
	"assay/host/store/postgres/postgrestest"
	"assay/host/store/storetest"
)

// Wherever the connection breaks, Append finds out the outcome, and records a check that was lost: once.
func TestAppendReportsTheOutcome(t *testing.T) {
	t.Parallel()
	fates := map[string]storetest.Fate{"passes": storetest.Passes, "is lost": storetest.Lost,
		"gets no reply": storetest.Muted, "gets half a reply": storetest.Truncated}
	direct, p, l, caller := ledgerThroughProxy(t, LedgerConfig{})
	for appendName, appendFate := range fates {
		for settleName, settleFate := range fates {
			if appendFate == storetest.Passes && settleFate != storetest.Passes {
				continue // nothing to settle
			}
			appends, settles := 0, 0
			p.Set(func(m string) storetest.Fate {
				switch {
				case isAppend(m):
					if appends++; appends == 1 {
						return appendFate
					}
				case isSettle(m):
					if settles++; settles == 1 {
						return settleFate
					}
				}
				return storetest.Passes
			}, false)
			what := fmt.Sprintf("a batch that %s, and settling it %s", appendName, settleName)
			r := allowed(t, caller)
			wantError(t, what, l.Append(t.Context(), r), nil)
			expect(t, what+": records", recorded(t, direct, r.Decision.Ref), 1)
		}
	}
}

func TestCallsOfABatchShareItsFate(t *testing.T) {
	t.Parallel()
	direct := newStore(t, nil)
	caller, poor := newCaller(t, direct, plan(t, "pro", 1500)), newCaller(t, direct, plan(t, "free", 0))
	for name, fate := range map[string]storetest.Fate{"the batch is lost": storetest.Lost,
		"the batch gets no reply": storetest.Muted} {
		t.Run(name, func(t *testing.T) {
			p := proxied(t, direct.url)
			l := ledgerOn(t, open(t, p.URL, nil), LedgerConfig{})
			held := lockTheHeads(t, direct.url)
			first, rejected := allowed(t, caller), allowed(t, poor)
			rest := allowedMany(t, caller, 5)
			answers := queued(t, held, l, first, append(rest, rejected))
			p.Once(fate, false, isAppend)
			held.release(t)
			noError(t, receive(t, "the first answer", answers[0]))
			for i, r := range rest {
				noError(t, receive(t, "an answer", answers[1+i]))
				expect(t, "records of the check", recorded(t, direct, r.Decision.Ref), 1)
			}
			// A rejection is not recorded, so its call is sent again.
			wantErrorText(t, "a check over its quota", receive(t, "its answer", answers[1+len(rest)]), "quota")
			verifyLedger(t, direct)
		})
	}
}

// A batch whose connection broke may still be recorded, as long as it waits for the head. Settling it waits for it.
func TestSettlingWaitsForALostBatch(t *testing.T) {
	t.Parallel()
	direct, p, l, caller := ledgerThroughProxy(t, LedgerConfig{})
	held := lockTheHeads(t, direct.url)
	var delivered atomic.Bool
	appends := 0
	p.Set(func(m string) storetest.Fate {
		switch {
		case isAppend(m):
			if appends++; appends == 1 {
				return storetest.Stalls
			}
		case isSettle(m) && !delivered.Load():
			return storetest.Lost
		}
		return storetest.Passes
	}, false)
	r := allowed(t, caller)
	answer := async(func() error { return l.Append(context.Background(), r) })
	lost := receive(t, "the stalled connection", p.Stalled)
	defer lost.Drop()
	noError(t, lost.Deliver())
	held.waiting(t, 1)
	delivered.Store(true)
	held.waiting(t, 2)
	mustHold(t, len(answer) == 0, "append returned while its batch could still be recorded")
	held.release(t)
	noError(t, receive(t, "the answer", answer))
	expect(t, "records of the check", recorded(t, direct, r.Decision.Ref), 1)
	expect(t, "batches that were sent", appends, 1)
}

// prepared returns calls as a ledger sends them.
func prepared(t *testing.T, l *Ledger, calls ...[]check.Record) (batch []*pending) {
	t.Helper()
	for _, records := range calls {
		rows, lacking, err := l.store.rows(must(l.account(t.Context(), records[0].Caller.Account))(t), records)
		noError(t, err)
		batch = append(batch, &pending{ctx: t.Context(), records: records, rows: rows, lacking: lacking})
	}
	return batch
}

// send sends calls to chain 0 as batch id and returns each call's error.
func send(t *testing.T, l *Ledger, id []byte, batch []*pending) ([]error, error) {
	t.Helper()
	conn := must(acquire(t.Context(), l.db))(t)
	defer func() { noError(t, conn.release()) }()
	calls, _, err := conn.append(appendParams(0, id, time.Minute, batch, answeredBatch{}), batch)
	return calls, err
}

// settled returns the places of the calls of batch id that are recorded.
func settled(t *testing.T, l *Ledger, id []byte, batch []*pending) []int {
	t.Helper()
	return must(l.trySettle(t.Context(), (&batcher{ledger: l}).settleParams(id, batch)))(t)
}

// A batch that arrives after it was settled is not recorded. Other batches are, also if a check was erased meanwhile.
func TestSettledBatchIsRefused(t *testing.T) {
	t.Parallel()
	s, l, caller := newVerified(t, nil, LedgerConfig{})
	one, two := []byte("batch one"), []byte("batch two")
	batch := prepared(t, l, allowedMany(t, caller, 2), allowedMany(t, caller, 1))
	for range 2 { // the reply to the first may be lost
		noDiff(t, "calls that are recorded", []int(nil), settled(t, l, one, batch))
	}
	wantError(t, "a batch that was settled", errOf(send(t, l, one, batch)), errLost)
	noError(t, errOf(send(t, l, two, batch)))
	noDiff(t, "calls that are recorded", []int{0, 1}, settled(t, l, two, batch))
	noDiff(t, "calls that are recorded", []int{1}, settled(t, l, []byte("batch three"),
		append(prepared(t, l, allowedMany(t, caller, 1)), batch[1])))
	wantError(t, "the batch again", errOf(send(t, l, two, batch)), errLost)
	erase(t, s, caller, privacy.Selector{Ref: batch[1].rows[0].ref})
	noDiff(t, "calls that are recorded", []int{0, 1}, settled(t, l, two, batch))
}

// A check is not answered before its standby has it, not even if the wait is cancelled and the commit stays local.
func TestCommitWaitsForTheStandby(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	noError(t, os.Chmod(dir, 0o711))
	postgrestest.Database(t) // skips the test without Postgres
	cluster := must(postgres.Open(t.Context(), postgres.Config{Dir: dir, Logger: discard(), Offline: true}))(t)
	t.Cleanup(func() { noError(t, cluster.Close(context.Background())) })
	s := open(t, cluster.URL(), nil)
	noError(t, storetest.PutInForce(t.Context(), cluster.URL()))
	l, caller := ledgerOn(t, s, LedgerConfig{}), newCaller(t, s, plan(t, "pro", 1000))
	conn := session(t, cluster.URL())
	waiting := func(query string) int {
		return value[int](t, conn, "SELECT coalesce(max(pid), 0) FROM pg_stat_activity WHERE wait_event = 'SyncRep' "+
			"AND query LIKE '%"+query+"%'")
	}
	// interrupted does something again until its commit waits for the standby, and then ends the wait: the server
	// commits locally.
	interrupted := func(query string, do func() error) (answer <-chan error) {
		until(t, query+" to wait for the standby", func() bool {
			for answer = async(do); ; {
				if pid := waiting(query); pid > 0 {
					exec(t, conn, fmt.Sprintf("SELECT pg_cancel_backend(%d)", pid))
					return true
				}
				select {
				case err := <-answer:
					noError(t, err)
					return false
				default:
				}
			}
		})
		return answer
	}
	exec(t, conn, "SET synchronous_commit = local", "ALTER SYSTEM SET synchronous_standby_names = 'missing'",
		"SELECT pg_reload_conf()")
	// The key comes first: while the check is settled, its chain's head is locked.
	created := interrupted("add_key", func() error {
		return errOf(s.CreateKey(context.Background(), caller.Account, "local"))
	})
	holds(t, errors.As(receive(t, "the new key", created), new(*check.DoubtError)), "a key without a standby: no doubt")
	var last check.Record
	answers := interrupted("ledger_append", func() error {
		last = allowed(t, caller)
		return l.Append(context.Background(), last)
	})
	until(t, "settling to wait for the standby", func() bool { return waiting("ledger_settle") > 0 })
	mustHold(t, len(answers) == 0, "append returned before the standby had the check")
	exec(t, conn, "ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")
	noError(t, receive(t, "the answer", answers))
	expect(t, "records of the check", recorded(t, s, last.Decision.Ref), 1)
}

// safeToRetry is an error from before anything was sent.
type safeToRetry struct{ error }

func (safeToRetry) SafeToRetry() bool { return true }

func TestInDoubt(t *testing.T) {
	t.Parallel()
	failure := func(severity, state string) error {
		return fmt.Errorf("appending: %w", &pgconn.PgError{SeverityUnlocalized: severity, Code: state})
	}
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"success":                        {nil, false},
		"the statement failed":           {failure("ERROR", "23505"), false},
		"the pooler lost the server":     {failure("ERROR", "08P01"), true},
		"the server stops":               {failure("FATAL", "57P01"), true},
		"a warning after the commit":     {&inDoubtError{failure("WARNING", "01000")}, true},
		"the connection broke":           {io.ErrUnexpectedEOF, true},
		"nothing was sent":               {safeToRetry{io.ErrUnexpectedEOF}, false},
		"in doubt, and an earlier error": {errors.Join(failure("ERROR", "23505"), &inDoubtError{io.EOF}), true},
	} {
		expect(t, name, inDoubt(test.err), test.want)
	}

	// An error while finding out the outcome must not cause the batch to be retried or bisected.
	for _, state := range []string{"40001", "40P01", "23505"} {
		cause := &pgconn.PgError{Code: state}
		holds(t, retryable(cause) || isDataError(cause), "%s alone is neither retryable nor a data error", state)
		err := fmt.Errorf("recording: %w", &inDoubtError{cause})
		holds(t, !retryable(err) && !isDataError(err), "a commit in doubt with %s is retried", state)
	}
}

// Accounts are spread over the chains of the configuration, each of which has a head. Fewer chains remove none.
func TestChainsOfNewAccounts(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	for _, chains := range []int{4, 1} {
		s := must(Open(t.Context(), Config{URL: url, Keys: testRing, Logger: discard(), Chains: chains}))(t)
		l := ledgerOn(t, s, LedgerConfig{})
		used := map[int]bool{}
		for i := 0; i < 8 || len(used) < chains && i < 400; i++ {
			caller := newCaller(t, s, plan(t, "pro", 10))
			noError(t, l.Append(t.Context(), allowed(t, caller)))
			used[one[int](t, s, "SELECT chain FROM accounts WHERE id = ?", caller.Account)] = true
		}
		expect(t, "chains in use", len(used), chains)
		expect(t, "heads", rowsOf(t, s, "audit_heads WHERE chain < 1000000"), 4)
		verifyLedger(t, s)
		noError(t, l.Close())
		noError(t, s.Close())
	}
}

// If the database is unreachable after a commit, the outcome is unknown. The error says so, and nothing is retried.
func TestUnresolvedCommitIsInDoubt(t *testing.T) {
	t.Parallel()
	direct, p, l, caller := ledgerThroughProxy(t, LedgerConfig{})
	l.resolving = time.Second
	hit := p.Once(storetest.Muted, true, isAppend)
	r := allowed(t, caller)
	err := l.Append(t.Context(), r)
	receive(t, "the fault", hit)
	holds(t, errors.As(err, new(*inDoubtError)), "append: %v, want an *inDoubtError", err)
	p.Set(nil, false)
	wantError(t, "append after the database is back", l.Append(t.Context(), allowed(t, caller)), nil)
	expect(t, "records of the check", recorded(t, direct, r.Decision.Ref), 1)
}

// The ledger tries a transaction up to three times if it fails because of other transactions.
func TestSerialisationFailuresAreTriedAgain(t *testing.T) {
	t.Parallel()
	needsPlainPostgres(t, "distributed tables have no triggers")
	s, l, caller := newVerified(t, nil, LedgerConfig{})
	conn := session(t, s.url)
	exec(t, conn, "CREATE TABLE failure (times integer, state text)", "CREATE SEQUENCE failures",
		// Sequences do not roll back, so they can count attempts.
		`CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ DECLARE f failure; BEGIN
			SELECT * FROM failure INTO f;
			IF nextval('failures') <= f.times THEN RAISE EXCEPTION 'injected failure' USING ERRCODE = f.state; END IF;
			RETURN NULL; END $$`,
		"CREATE TRIGGER fail AFTER INSERT ON audit_records FOR EACH STATEMENT EXECUTE FUNCTION fail()")
	for name, test := range map[string]struct {
		state    string
		failures int
		want     int // records
	}{
		"serialization_failure twice":       {"40001", 2, 1},
		"deadlock_detected twice":           {"40P01", 2, 1},
		"serialization_failure three times": {"40001", 3, 0},
		"another state once":                {"53200", 1, 0},
	} {
		exec(t, conn, "TRUNCATE failure", "ALTER SEQUENCE failures RESTART",
			fmt.Sprintf("INSERT INTO failure VALUES (%d, '%s')", test.failures, test.state))
		r := allowed(t, caller)
		expect(t, name+": no error", l.Append(t.Context(), r) == nil, test.want == 1)
		expect(t, name+": records", recorded(t, s, r.Decision.Ref), test.want)
	}
}
