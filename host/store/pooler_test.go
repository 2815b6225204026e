package store

import (
	"bytes"
	"context"
	"errors"
	"os"
	osexec "os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/uptrace/bun"

	"assay/host/check"
	"assay/host/entity"
	"assay/host/store/postgres/postgrestest"
	"assay/host/store/storetest"
)

// A store works through a pooler in transaction mode. Tests run again in a process whose stores use one. pgbouncer
// before 1.21 may crash on a cancelled statement (its issue 822): the tests that fail in a run in which it did run once
// more.
func TestThroughPooler(t *testing.T) {
	t.Parallel()
	needsPlainPostgres(t, "it repeats the tests of a plain one")
	at := postgrestest.Database(t)
	const runs = 5
	names := strings.Fields(pooled)
	passed := 0
	for chosen, run := "^Test("+strings.Join(names, "|")+")$", 0; chosen != ""; run++ {
		pooler := storetest.NewPooler(t, at)
		tests := osexec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run="+chosen)
		tests.Env = append(os.Environ(), poolerEnv+"="+pooler.Addr, "ASSAY_TEST_DATABASE_URL="+at,
			"ASSAY_TEST_CITUS_URL=")
		out, err := tests.CombinedOutput()
		passed += len(regexp.MustCompile("(?m)^--- PASS").FindAll(out, -1))
		var failed []string
		for _, f := range regexp.MustCompile(`(?m)^--- FAIL: (\w+)`).FindAllSubmatch(out, -1) {
			failed = append(failed, string(f[1]))
		}
		crashed := pooler.Crashed()
		switch {
		case err == nil:
			chosen = ""
		case !crashed || run == runs-1:
			t.Fatalf("%v:\n%s", err, outputOf(failed, out))
		case failed != nil:
			chosen = "^(" + strings.Join(failed, "|") + ")$"
		}
	}
	holds(t, passed >= len(names), "%d of %d tests passed through the pooler", passed, len(names))
}

// outputOf returns what tests and no test wrote to the output of a verbose test.
func outputOf(tests []string, output []byte) []byte {
	start := regexp.MustCompile(`^(?:=== \w+|--- \w+:|PASS|FAIL)\s*(\w*)`)
	var kept []byte
	shown := true
	for line := range bytes.Lines(output) {
		if m := start.FindSubmatch(line); m != nil {
			shown = len(m[1]) == 0 || slices.Contains(tests, string(m[1]))
		}
		if shown {
			kept = append(kept, line...)
		}
	}
	return kept
}

// pooled are tests that together run every statement that a store sends through a pooler, apart from statements that
// are cancelled: pgbouncer before 1.21 can end if the database is dropped meanwhile.
const pooled = `
AcceptedLossLetsHostsGoOn AnswerOfALostHost Attempts CheckpointOfCheck ClaimShowsTheKeyOnce Claims CosignedCheckpoints
Declines DistributeNeedsCitus DocumentOfStoredData EndpointIsDisabledAfterFiveDaysOfFailures
EraseRemovesAllDataOfTheSubject FeedNames FeedbackIsKeptOncePerCheck Forget HostWithoutTheKeysInUse Hosts KeepAnchor
KeptAnswers KeyOfASession LargeSubject LineupRevisions ListenReportsChanges Once OutcomesAgreeWithTheRecords
ProbeAnswersPolls PruneSightings PublishedVersionNeverChanges RankedFeed RecordOfAnOverriddenCheck RecordedCheck
ReferenceNamesItsPartition Registration ReplacedSecretsOverlap RequestsEnd Review SearchChecks
SecondSubscriptionIsRefunded SequenceFollowsBatchOrder SettledReviewKeepsFeedback SignInOnce SinceTheThirdCustomer
StateOfTheDatabase Usage UsesWithinAnHour UsesWithoutChecks WaitingHostsHaveNoTransaction
`

// A check that is sent when a pooler dies is answered or refused: its outcome is found out at the database's address.
func TestKilledPoolerLeavesNoDoubt(t *testing.T) {
	t.Parallel()
	at := postgrestest.Database(t)
	pooler := storetest.NewPooler(t, at)
	direct := open(t, at, nil)
	cfg := configOf(at, nil)
	cfg.URL = pooler.URL(t, at)
	l := ledgerOn(t, storetest.Close(t, must(Open(t.Context(), cfg))(t)), LedgerConfig{Settling: 10 * time.Second})
	caller := newCaller(t, direct, plan(t, "pro", 1_000_000))
	heads := lockTheHeads(t, at)
	answer := async(func() error { return l.Append(context.WithoutCancel(t.Context()), allowed(t, caller)) })
	heads.waiting(t, 1)
	pooler.Kill()
	heads.release(t)
	err := receive(t, "an answer", answer)
	holds(t, err == nil || isRefusal(err), "appending: %v", err)
	verifyLedger(t, direct)
}

// Long statements work while 20 clients keep the pooler's two connections busy.
func TestBusyPooler(t *testing.T) {
	t.Parallel()
	at := postgrestest.Database(t)
	s := open(t, storetest.NewPooler(t, at).URL(t, at), nil)
	caller := newCaller(t, s, plan(t, "pro", 1_000_000))
	busy := must(connect(s.url, 20))(t)
	storetest.Close(t, busy)
	for range 20 {
		storetest.Background(t, func(ctx context.Context) {
			for ctx.Err() == nil && !t.Failed() {
				_, err := busy.ExecContext(context.WithoutCancel(ctx), "SELECT pg_sleep(0.001)")
				wantError(t, "a client", err, nil)
			}
		})
	}
	for range 3 {
		noError(t, errOf2(s.ForgetAccountSightings(t.Context(), caller.Account)))
		noError(t, s.PruneSightings(t.Context()))
		wantError(t, "withdrawing a list", s.WithdrawFeed(t.Context(), "none"), ErrNoFeed)
	}
}

// Without a direct URL, a host can still migrate: the lock on migrations ends with its transaction.
func TestMigrationsThroughPooler(t *testing.T) {
	t.Parallel()
	at, _ := emptyDatabase(t)
	pooled := storetest.NewPooler(t, at).URL(t, at)
	noError(t, errors.Join(concurrently(2, func(int) error {
		return openOnce(t.Context(), Config{URL: pooled, Keys: testRing, Logger: discard()})
	})...))
	verifyLedger(t, open(t, at, nil))
}

// When a pooler stops, answers in flight are lost. Every check that was answered is recorded and counted once.
func TestRestartedPoolerLosesNothing(t *testing.T) {
	t.Parallel()
	at := postgrestest.Database(t)
	pooler := storetest.NewPooler(t, at)
	direct, through := open(t, at, nil), open(t, pooler.URL(t, at), nil)
	caller := newCaller(t, direct, plan(t, "pro", 1_000_000))
	l := ledgerOn(t, through, LedgerConfig{Batch: 4})
	const callers, restarts, between = 8, 4, 40
	var mu sync.Mutex
	var answered []string
	refused := 0
	progress := make(chan struct{}, 100_000)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var work sync.WaitGroup
	e := parse(t, entity.Domain, "example.org")
	for range callers {
		work.Go(func() {
			for ctx.Err() == nil {
				r := decided(caller, e, check.Allow)
				err := l.Append(context.WithoutCancel(t.Context()), r)
				mu.Lock()
				switch {
				case err == nil:
					answered = append(answered, r.Decision.Ref)
					progress <- struct{}{}
				case isRefusal(err):
					refused++
				default:
					t.Errorf("appending: %v", err)
				}
				mu.Unlock()
			}
		})
	}
	for range restarts {
		for range between {
			receive(t, "an answer", progress)
		}
		pooler.Restart(t)
	}
	for range between {
		receive(t, "an answer", progress)
	}
	stop()
	work.Wait()
	t.Logf("%d answered, %d refused", len(answered), refused)
	expect(t, "recorded checks", rowsOf(t, direct, "audit_records WHERE kind = 'check'"), len(answered))
	expect(t, "answered checks that are recorded", one[int](t, direct,
		"SELECT count(DISTINCT ref) FROM audit_records WHERE ref IN (?)", bun.List(answered)), len(answered))
	verifyLedger(t, direct)
}

// A pool with a connection that was abandoned closes without an error.
func TestAbandonedConnection(t *testing.T) {
	t.Parallel()
	db := must(connect(postgrestest.Database(t), 1))(t)
	conn := must(acquire(t.Context(), db))(t)
	noError(t, conn.pg.PgConn().Conn().Close())
	noError(t, conn.sql.Close())
	noError(t, closePool(db))
}

// A host whose parts all want more connections than they have opens exactly as many as are documented.
func TestConnectionsOfAHost(t *testing.T) {
	t.Parallel()
	at := postgrestest.Database(t)
	s := open(t, at, nil)
	l, o := ledgerOn(t, s, LedgerConfig{}), outboxOf(t, s)
	expectAll(t, listening(t, s))
	const lock = 77
	conn := session(t, at)
	exec(t, conn, "SELECT pg_advisory_lock(77)")
	const wanted = 20
	var work sync.WaitGroup
	defer work.Wait()
	pools := []*bun.DB{s.db, l.db, l.settler, o.claims, o.outcomes}
	for _, db := range pools {
		for range wanted {
			work.Go(func() {
				wantError(t, "error", errOf(db.ExecContext(t.Context(), "SELECT pg_advisory_xact_lock(?)", lock)), nil)
			})
		}
	}
	for range 3 {
		work.Go(func() {
			err := s.inLongTx(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
				return errOf(tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", lock))
			})
			wantError(t, "error", err, nil)
		})
	}
	until(t, "all pools to be full", func() bool {
		for _, db := range pools {
			if stats := db.Stats(); stats.InUse < stats.MaxOpenConnections || stats.WaitCount == 0 {
				return false
			}
		}
		return lockWaiters(t, conn) == DefaultConnections-listenConnections
	})
	expect(t, "connections", value[int](t, conn, `SELECT count(*) FROM pg_stat_activity
		WHERE datname = current_database() AND application_name = 'assay'`), DefaultConnections)
	exec(t, conn, "SELECT pg_advisory_unlock(77)")
	work.Wait()
	for _, db := range pools {
		expect(t, "connections that stay open", db.Stats().Idle, db.Stats().MaxOpenConnections)
	}
}
