package store

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"assay/host/check"
	"assay/host/store/storetest"
	"assay/registry"
)

// Wherever the connection breaks, Append returns nil if and only if the record is in the chain, and the ledger
// continues.
func TestAppendReportsTheOutcome(t *testing.T) {
	t.Parallel()
	type stage struct {
		name string
		is   func(string) bool
	}
	stages := []stage{{"begin", isBegin}, {"lock", isLock}, {"read", isRead}, {"write", isWrite}, {"commit", isCommit}}
	for _, stage := range stages {
		for fateName, fate := range map[string]storetest.Fate{"is lost": storetest.Lost,
			"gets no reply":     storetest.Muted,
			"gets half a reply": storetest.Truncated} {
			t.Run(stage.name+" "+fateName, func(t *testing.T) {
				t.Parallel()
				direct, p, l, caller := ledgerThroughProxy(t)
				before := allowed(t, caller)
				noError(t, l.Append(t.Context(), before))
				hit := p.Once(fate, false, stage.is)
				r := allowed(t, caller)
				err := l.Append(t.Context(), r)
				receive(t, "the fault", hit)
				want := 0
				if stage.name == "commit" && fate != storetest.Lost {
					want = 1 // it was committed, and the ledger finds its record
				}
				if stage.name == "begin" {
					want = 1 // nothing was sent before, so the ledger tries again
				}
				if (err == nil) != (want == 1) {
					t.Errorf("append: %v, want success %v", err, want == 1)
				}
				expect(t, "records of the check", recorded(t, direct, r.Decision.Ref), want)
				wantError(t, "append after the fault", l.Append(t.Context(), allowed(t, caller)), nil)
				verifyLedger(t, direct)
			})
		}
	}
}

func TestBatchSharesTheOutcomeOfItsCommit(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fate storetest.Fate
		want int
	}{"commit is lost": {storetest.Lost, 0}, "commit gets no reply": {storetest.Muted, 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			direct := newStore(t, nil)
			caller, poor := newCaller(t, direct, plan(t, "pro", 1500)), newCaller(t, direct, plan(t, "free", 0))
			p := proxied(t, direct.url)
			l := ledgerOn(t, open(t, p.URL, nil), LedgerConfig{})
			held := lockTheHeads(t, direct.url)
			first, rejected := allowed(t, caller), allowed(t, poor)
			rest := allowedMany(t, caller, 5)
			answers := queued(t, held, l, first, append(rest, rejected))
			commits := 0
			p.Set(func(m string) storetest.Fate {
				if isCommit(m) {
					commits++
				}
				if commits == 2 {
					commits++
					return test.fate
				}
				return storetest.Passes
			}, false)
			held.release(t)
			noError(t, receive(t, "the first answer", answers[0]))
			for i, r := range rest {
				err := receive(t, "an answer", answers[1+i])
				if (err == nil) != (test.want == 1) {
					t.Errorf("append: %v, want success %v", err, test.want == 1)
				}
				expect(t, "records of the check", recorded(t, direct, r.Decision.Ref), test.want)
			}
			if err := receive(t, "the rejected check's answer", answers[1+len(rest)]); err == nil {
				t.Error("a check over its quota was accepted")
			}
			verifyLedger(t, direct)
		})
	}
}

// The ledger must not report a record as lost while its transaction can still commit, so it waits for that
// transaction's locks.
func TestLedgerWaitsForALostTransaction(t *testing.T) {
	t.Parallel()
	for name, commits := range map[string]bool{"commits late": true, "rolls back late": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			direct, p, l, caller := ledgerThroughProxy(t)
			hit := p.Once(storetest.Stalls, false, isCommit)
			r := allowed(t, caller)
			answer := make(chan error, 1)
			go func() { answer <- l.Append(context.Background(), r) }()
			receive(t, "the commit", hit)
			lost := receive(t, "the stalled connection", p.Stalled)
			defer lost.Drop()
			monitor := session(t, direct.url)
			until(t, "the ledger to wait for the head", func() bool { return lockWaiters(t, monitor) == 1 })
			select {
			case err := <-answer:
				t.Fatalf("append returned %v while its commit was open", err)
			default:
			}
			want := 0
			if commits {
				want = 1
				noError(t, lost.Deliver())
			} else {
				lost.Drop()
			}
			if err := receive(t, "the answer", answer); (err == nil) != commits {
				t.Errorf("append: %v, want success %v", err, commits)
			}
			expect(t, "records of the check", recorded(t, direct, r.Decision.Ref), want)
			wantError(t, "append after the fault", l.Append(t.Context(), allowed(t, caller)), nil)
			verifyLedger(t, direct)
		})
	}
}

// A batch in which every check was rejected has no record to look up, and nothing to lose.
func TestRejectionsSurviveALostCommit(t *testing.T) {
	t.Parallel()
	direct := newStore(t, nil)
	poor := newCaller(t, direct, plan(t, "free", 0))
	p := proxied(t, direct.url)
	l := ledgerOn(t, open(t, p.URL, nil), LedgerConfig{})
	hit := p.Once(storetest.Lost, false, isCommit)
	err := l.Append(t.Context(), allowed(t, poor))
	receive(t, "the fault", hit)
	var over *check.QuotaError
	if !errors.As(err, &over) {
		t.Errorf("append: %v, want the quota error", err)
	}
	verifyLedger(t, direct)
}

// If the database is unreachable after a commit, the outcome is unknown. The error says so, and nothing is retried.
func TestUnresolvedCommitIsInDoubt(t *testing.T) {
	t.Parallel()
	direct, p, l, caller := ledgerThroughProxy(t)
	hit := p.Once(storetest.Muted, true, isCommit)
	r := allowed(t, caller)
	err := l.Append(t.Context(), r)
	receive(t, "the fault", hit)
	var doubt *inDoubtError
	if !errors.As(err, &doubt) {
		t.Errorf("append: %v, want an *inDoubtError", err)
	}
	p.Set(nil, false)
	wantError(t, "append after the database is back", l.Append(t.Context(), allowed(t, caller)), nil)
	expect(t, "records of the check", recorded(t, direct, r.Decision.Ref), 1)
	verifyLedger(t, direct)
}

// An error while finding out the outcome must not cause the batch to be retried or bisected.
func TestInDoubtErrorIsNeverRetried(t *testing.T) {
	t.Parallel()
	for _, state := range []string{"40001", "40P01", "23505"} {
		cause := &pgconn.PgError{Code: state}
		if !retryable(cause) && !isDataError(cause) {
			t.Errorf("%s alone is neither retryable nor a data error", state)
		}
		err := fmt.Errorf("recording: %w", &inDoubtError{cause})
		if retryable(err) || isDataError(err) {
			t.Errorf("a commit in doubt with %s is retried", state)
		}
	}
}

// If the head stays locked for longer than the lock timeout, the check fails without a record, and the ledger
// continues.
func TestLockedHeadFailsTheCheck(t *testing.T) {
	t.Parallel()
	s, l, caller := newLedger(t, nil, LedgerConfig{})
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

// The ledger tries a transaction up to three times if it fails because of other transactions.
func TestSerialisationFailuresAreTriedAgain(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		state    string
		failures int
		ok       bool
	}{
		"serialization_failure twice":       {"40001", 2, true},
		"deadlock_detected twice":           {"40P01", 2, true},
		"serialization_failure three times": {"40001", 3, false},
		"another state once":                {"53200", 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, l, caller := newLedger(t, nil, LedgerConfig{})
			// Sequences do not roll back, so they can count attempts.
			exec(t, session(t, s.url), "CREATE SEQUENCE failures",
				fmt.Sprintf(`CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
					IF nextval('failures') <= %d THEN RAISE EXCEPTION 'injected failure' USING ERRCODE = '%s'; END IF;
					RETURN NULL; END $$`, test.failures, test.state),
				"CREATE TRIGGER fail AFTER INSERT ON audit_records FOR EACH STATEMENT EXECUTE FUNCTION fail()")
			r := allowed(t, caller)
			err := l.Append(t.Context(), r)
			if (err == nil) != test.ok {
				t.Errorf("append: %v, want success %v", err, test.ok)
			}
			if n := recorded(t, s, r.Decision.Ref); (n == 1) != test.ok || n > 1 {
				t.Errorf("recorded %d times", n)
			}
			verifyLedger(t, s)
		})
	}
}

// If updating the head has no effect, the batch must be rolled back. A trigger that suppresses the update simulates it.
func TestFailedHeadUpdateUndoesTheBatch(t *testing.T) {
	t.Parallel()
	s, l, caller := newLedger(t, nil, LedgerConfig{})
	conn := session(t, s.url)
	exec(t, conn, `CREATE FUNCTION suppress() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$`,
		"CREATE TRIGGER suppress BEFORE UPDATE ON audit_heads FOR EACH ROW EXECUTE FUNCTION suppress()")
	r := allowed(t, caller)
	if err := l.Append(t.Context(), r); err == nil {
		t.Error("append succeeded although the head was not updated")
	}
	expect(t, "records of the check", recorded(t, s, r.Decision.Ref), 0)
	exec(t, conn, "DROP TRIGGER suppress ON audit_heads")
	noError(t, l.Append(t.Context(), allowed(t, caller)))
	verifyLedger(t, s)
}

// An altered head must cause an error, not a panic.
func TestAlteredHeadIsAnError(t *testing.T) {
	t.Parallel()
	s, l, caller := newLedger(t, nil, LedgerConfig{})
	exec(t, session(t, s.url), `UPDATE audit_heads SET hash = '\x00'`)
	if err := l.Append(t.Context(), allowed(t, caller)); err == nil {
		t.Error("append succeeded with a one-byte head hash")
	}
	if _, err := s.Heads(t.Context()); err == nil {
		t.Error("reading heads succeeded with a one-byte head hash")
	}
}

// A missing head and a head of an unknown chain must not cause a panic.
func TestMissingAndUnknownHeads(t *testing.T) {
	t.Parallel()
	s, l, caller := newLedger(t, nil, LedgerConfig{})
	noError(t, s.PublishPlugin(t.Context(), module(t, "probe", "1.0.0", "Probes"), "1.0.0", false))
	conn := session(t, s.url)
	exec(t, conn, "UPDATE audit_heads SET chain = 7")
	wantErrorText(t, "appending to a chain without a head", l.Append(t.Context(), allowed(t, caller)),
		"audit chain 0 has no head")
	if _, err := s.ActivateLineup(t.Context(), lineupOf("probe@1.0.0"), registry.OriginOperator, ""); err != nil {
		t.Errorf("activating a lineup: %v", err)
	}
}
