package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"assay/host/check"
	"assay/host/postgres/postgrestest"
	"assay/registry"
)

// Wherever the connection breaks, an append that says nil is in the chain once, one that says anything else is not
// there, and the ledger goes on.
func TestAppendSaysWhatBecameOfTheRecord(t *testing.T) {
	t.Parallel()
	type stage struct {
		name string
		is   func(string) bool
	}
	stages := []stage{{"begin", isBegin}, {"lock", isLock}, {"read", isRead}, {"write", isWrite}, {"commit", isCommit}}
	for _, stage := range stages {
		for fateName, fate := range map[string]fate{"is lost": lost, "is not answered": muted,
			"is answered by half": truncated} {
			t.Run(stage.name+" "+fateName, func(t *testing.T) {
				t.Parallel()
				url := postgrestest.Database(t)
				direct := open(t, url, nil)
				caller := newCaller(t, direct, plan(t, "pro", 1500))
				p := proxied(t, url)
				through := open(t, p.URL, nil)
				l := ledgerOn(t, through, LedgerConfig{})
				before := allowed(t, caller)
				if err := l.Append(t.Context(), before); err != nil {
					t.Fatal(err)
				}
				hit := p.once(fate, false, stage.is)
				r := allowed(t, caller)
				err := l.Append(t.Context(), r)
				receive(t, "the fault", hit)
				want := 0
				if stage.name == "commit" && fate != lost {
					want = 1 // it was committed, and looking its record up shows it
				}
				if stage.name == "begin" {
					want = 1 // nothing was sent before, so it is begun again
				}
				if (err == nil) != (want == 1) {
					t.Errorf("append: %v, want success %v", err, want == 1)
				}
				if n := recorded(t, direct, r.Decision.Ref); n != want {
					t.Errorf("the record stands in the audit trail %d times, want %d", n, want)
				}
				if err := l.Append(t.Context(), allowed(t, caller)); err != nil {
					t.Errorf("append after the fault: %v", err)
				}
				verifyLedger(t, direct)
			})
		}
	}
}

// A whole batch shares one fate.
func TestBatchSharesItsCommitsFate(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fate fate
		want int
	}{"commit is lost": {lost, 0}, "commit is not answered": {muted, 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := postgrestest.Database(t)
			direct := open(t, url, nil)
			caller, poor := newCaller(t, direct, plan(t, "pro", 1500)), newCaller(t, direct, plan(t, "free", 0))
			p := proxied(t, url)
			l := ledgerOn(t, open(t, p.URL, nil), LedgerConfig{})
			held := lockTheHeads(t, url)
			first, refused := allowed(t, caller), allowed(t, poor)
			rest := allowedMany(t, caller, 5)
			answers := queued(t, held, l, first, append(rest, refused))
			commits := 0
			p.set(func(m string) fate {
				if isCommit(m) {
					commits++
				}
				if commits == 2 {
					commits++
					return test.fate
				}
				return passes
			}, false)
			held.release(t)
			if err := receive(t, "the first answer", answers[0]); err != nil {
				t.Fatal(err)
			}
			for i, r := range rest {
				err := receive(t, "an answer", answers[1+i])
				if (err == nil) != (test.want == 1) {
					t.Errorf("append: %v, want success %v", err, test.want == 1)
				}
				if n := recorded(t, direct, r.Decision.Ref); n != test.want {
					t.Errorf("recorded %d times, want %d", n, test.want)
				}
			}
			if err := receive(t, "the refused check's answer", answers[1+len(rest)]); err == nil {
				t.Error("a check over its quota passed")
			}
			verifyLedger(t, direct)
		})
	}
}

// Nobody may believe a record lost while the transaction that holds it can still commit: the settling waits for the
// lock.
func TestSettlingWaitsForTheLostTransaction(t *testing.T) {
	t.Parallel()
	for name, commits := range map[string]bool{"which commits late": true, "which rolls back late": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := postgrestest.Database(t)
			direct := open(t, url, nil)
			caller := newCaller(t, direct, plan(t, "pro", 1500))
			p := proxied(t, url)
			l := ledgerOn(t, open(t, p.URL, nil), LedgerConfig{})
			hit := p.once(stalls, false, isCommit)
			r := allowed(t, caller)
			answer := make(chan error, 1)
			go func() { answer <- l.Append(context.Background(), r) }()
			receive(t, "the commit", hit)
			lost := receive(t, "the stalled connection", p.stalled)
			defer lost.drop()
			look := session(t, url)
			until(t, "settling waits for the head", func() bool { return lockWaiters(t, look) == 1 })
			select {
			case err := <-answer:
				t.Fatalf("append was answered with %v while its commit was open", err)
			default:
			}
			want := 0
			if commits {
				want = 1
				if err := lost.deliver(); err != nil {
					t.Fatal(err)
				}
			} else {
				lost.drop()
			}
			if err := receive(t, "the answer", answer); (err == nil) != commits {
				t.Errorf("append: %v, want success %v", err, commits)
			}
			if n := recorded(t, direct, r.Decision.Ref); n != want {
				t.Errorf("recorded %d times, want %d", n, want)
			}
			if err := l.Append(t.Context(), allowed(t, caller)); err != nil {
				t.Errorf("append after the fault: %v", err)
			}
			verifyLedger(t, direct)
		})
	}
}

// A batch in which everyone was refused holds nothing to look up, and nothing to lose.
func TestRefusalsOutliveTheirCommit(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	direct := open(t, url, nil)
	poor := newCaller(t, direct, plan(t, "free", 0))
	p := proxied(t, url)
	l := ledgerOn(t, open(t, p.URL, nil), LedgerConfig{})
	hit := p.once(lost, false, isCommit)
	err := l.Append(t.Context(), allowed(t, poor))
	receive(t, "the fault", hit)
	var over *check.QuotaError
	if !errors.As(err, &over) {
		t.Errorf("append: %v, want the quota error", err)
	}
	verifyLedger(t, direct)
}

// While the database cannot be reached, the outcome of a commit stays open: the error says so, and nothing is run
// again.
func TestCommitThatCannotBeSettledIsInDoubt(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	direct := open(t, url, nil)
	caller := newCaller(t, direct, plan(t, "pro", 1500))
	p := proxied(t, url)
	l := ledgerOn(t, open(t, p.URL, nil), LedgerConfig{})
	hit := p.once(muted, true, isCommit)
	r := allowed(t, caller)
	err := l.Append(t.Context(), r)
	receive(t, "the fault", hit)
	var doubt *inDoubtError
	if !errors.As(err, &doubt) {
		t.Errorf("append: %v, want an error that says that the outcome is unknown", err)
	}
	p.set(nil, false)
	if err := l.Append(t.Context(), allowed(t, caller)); err != nil {
		t.Errorf("append once the database is back: %v", err)
	}
	if n := recorded(t, direct, r.Decision.Ref); n != 1 {
		t.Errorf("recorded %d times, want 1", n)
	}
	verifyLedger(t, direct)
}

// What went wrong while settling must not be taken for a reason to run the batch again, or in halves.
func TestDoubtIsNeverRetried(t *testing.T) {
	t.Parallel()
	for _, state := range []string{"40001", "40P01", "23505"} {
		cause := &pgconn.PgError{Code: state}
		if !retryable(cause) && !isDataError(cause) {
			t.Errorf("%s alone gives no reason", state)
		}
		err := fmt.Errorf("recording: %w", &inDoubtError{cause})
		if retryable(err) || isDataError(err) {
			t.Errorf("a commit in doubt that met %s is run again", state)
		}
	}
}

// The head's lock may be held elsewhere for longer than a statement waits. Nothing is recorded then, and nothing is
// stuck.
func TestHeadThatStaysLockedFailsTheCheck(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	s := open(t, url, nil)
	l := ledgerOn(t, s, LedgerConfig{})
	caller := newCaller(t, s, plan(t, "pro", 1500))
	held := lockTheHeads(t, url)
	r := allowed(t, caller)
	if err := l.Append(t.Context(), r); sqlState(err) != "55P03" {
		t.Errorf("append: %v, want lock_not_available", err)
	}
	held.release(t)
	if err := l.Append(t.Context(), allowed(t, caller)); err != nil {
		t.Error(err)
	}
	if n := recorded(t, s, r.Decision.Ref); n != 0 {
		t.Errorf("recorded %d times, want 0", n)
	}
	verifyLedger(t, s)
}

// What Postgres rolls back only because of others is tried three times.
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
			url := postgrestest.Database(t)
			s := open(t, url, nil)
			l := ledgerOn(t, s, LedgerConfig{})
			caller := newCaller(t, s, plan(t, "pro", 1500))
			// A sequence moves on although its transaction rolls back.
			exec(t, session(t, url), "CREATE SEQUENCE failures", fmt.Sprintf(`CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$
				BEGIN IF nextval('failures') <= %d THEN RAISE EXCEPTION 'made to fail' USING ERRCODE = '%s'; END IF; RETURN NULL; END $$`,
				test.failures, test.state),
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

// The head must be found where it was locked. That it is not cannot be brought about from outside, so here the database
// swallows the statement.
func TestHeadThatDoesNotMoveUndoesTheBatch(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	s := open(t, url, nil)
	l := ledgerOn(t, s, LedgerConfig{})
	caller := newCaller(t, s, plan(t, "pro", 1500))
	conn := session(t, url)
	exec(t, conn, `CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$`,
		"CREATE TRIGGER swallow BEFORE UPDATE ON audit_heads FOR EACH ROW EXECUTE FUNCTION swallow()")
	r := allowed(t, caller)
	if err := l.Append(t.Context(), r); err == nil {
		t.Error("append passed although the head did not move")
	}
	if n := recorded(t, s, r.Decision.Ref); n != 0 {
		t.Errorf("recorded %d times, want 0", n)
	}
	exec(t, conn, "DROP TRIGGER swallow ON audit_heads")
	if err := l.Append(t.Context(), allowed(t, caller)); err != nil {
		t.Error(err)
	}
	verifyLedger(t, s)
}

// An altered head must be an error, not the end of the host.
func TestAlteredHeadIsAnError(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	s := open(t, url, nil)
	l := ledgerOn(t, s, LedgerConfig{})
	caller := newCaller(t, s, plan(t, "pro", 1500))
	exec(t, session(t, url), `UPDATE audit_heads SET hash = '\x00'`)
	if err := l.Append(t.Context(), allowed(t, caller)); err == nil {
		t.Error("append passed with a head of one byte")
	}
	if _, err := s.Heads(t.Context()); err == nil {
		t.Error("reading heads passed with a head of one byte")
	}
}

// So must one that is gone, or that is none of the host's.
func TestForeignHeadsAreNoEnd(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	s := open(t, url, nil)
	l, caller := ledgerOn(t, s, LedgerConfig{}), newCaller(t, s, plan(t, "pro", 1500))
	if err := s.PublishPlugin(t.Context(), module(t, "probe", "1.0.0", "Probes"), "1.0.0", false); err != nil {
		t.Fatal(err)
	}
	conn := session(t, url)
	exec(t, conn, "UPDATE audit_heads SET chain = 7")
	if err := l.Append(t.Context(), allowed(t, caller)); err == nil ||
		!strings.Contains(err.Error(), "audit chain 0 has no head") {
		t.Errorf("appending to a chain without a head: %v", err)
	}
	if _, err := s.ActivateLineup(t.Context(), lineupOf("probe@1.0.0"), registry.OriginOperator, ""); err != nil {
		t.Errorf("activating a lineup: %v", err)
	}
}
