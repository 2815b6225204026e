package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"assay/host/check"
	"assay/host/customer/privacy"
	"assay/host/customer/webhook"
	"assay/host/entity"
	"assay/host/store/postgres/postgrestest"
)

// Two hosts record checks of a subject, deliver and resend their events, erase and export the subject, and verify the
// chain, all at once. Each check is erased completely or kept completely, nothing fails, and the chain always verifies.
func TestEraseDuringChecks(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	hosts := []*Store{open(t, url, nil), open(t, url, nil)}
	account := must(hosts[0].CreateAccount(t.Context(), plan(t, "pro", 1_000_000)))(t)
	must(hosts[0].SetEndpoint(t.Context(), account, "https://receiver.example/hook"))(t)
	caller, _ := newKey(t, hosts[0], account)
	caller.Plan.Webhooks = true
	jane, john := parse(t, entity.Email, "jane.roe@example.net"), parse(t, entity.Email, "john.roe@example.net")

	var acked, erased, events int
	var mu sync.Mutex
	var checks, others sync.WaitGroup
	done := make(chan struct{})
	for _, s := range hosts {
		l, o := ledgerOn(t, s, LedgerConfig{}), outboxOf(t, s)
		for range 3 {
			checks.Go(func() {
				for range 25 {
					batch := []check.Record{decided(caller, jane, check.Block), decided(caller, john, check.Block)}
					wantError(t, "checking", l.Append(context.Background(), batch...), nil)
					mu.Lock()
					acked++
					mu.Unlock()
				}
			})
		}
		loop := func(what string, f func(ctx context.Context) error) {
			others.Go(func() {
				for {
					select {
					case <-done:
						return
					default:
						if err := f(context.Background()); err != nil {
							t.Errorf("%s: %v", what, err)
							return
						}
					}
				}
			})
		}
		loop("erasing", func(ctx context.Context) error {
			e, err := s.Erase(ctx, caller, about(jane))
			if err == nil {
				mu.Lock()
				erased, events = erased+e.Checks, events+e.Events
				mu.Unlock()
			}
			return err
		})
		loop("exporting", func(ctx context.Context) error {
			_, err := s.Export(ctx, caller, about(jane), privacy.Page{Limit: 1000})
			if errors.Is(err, privacy.ErrUnknownSubject) {
				return nil
			}
			return err
		})
		loop("delivering", func(ctx context.Context) error {
			claimed, err := o.Claim(ctx, all)
			for i, d := range claimed {
				status := 500
				if i%2 == 0 {
					status = 200
				}
				_, _, ended := o.Finish(ctx, webhook.Outcome{Chain: d.Chain, Ref: d.Ref, Attempt: d.Attempt,
					EndedAt:   time.Now(),
					Status:    status,
					Delivered: status == 200})
				err = errors.Join(err, ended)
			}
			return err
		})
		loop("resending", func(ctx context.Context) error {
			_, _, err := s.ResendFailed(ctx, account, time.Now().Add(-time.Hour))
			return err
		})
		loop("verifying", func(context.Context) error { return verifyAuditLog(t, s) })
	}
	checks.Wait()
	until(t, "an erasure of checks", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return erased > 0
	})
	close(done)
	others.Wait()

	s := hosts[0]
	exported := must(s.Export(t.Context(), caller, about(jane), privacy.Page{Limit: 1000}))(t)
	if exported.Total+erased != acked || erased == 0 {
		t.Errorf("of %d checks %d were erased and %d remain", acked, erased, exported.Total)
	}
	if exported.Graph != nil && exported.Graph.Checks != exported.Total {
		t.Errorf("%d checks remain, but %d in the graph", exported.Total, exported.Graph.Checks)
	}
	if n := one[int](t, s, "SELECT count(*) FROM webhook_events"); n != 2*acked-events || events != erased {
		t.Errorf("%d events remain: of %d, %d were erased with %d checks", n, 2*acked, events, erased)
	}
	expect(t, "counted checks", one[int](t, s, "SELECT used FROM quota_usage WHERE account_id = ?", account), 2*acked)
	if other := export(t, s, caller, about(john)); other.Total != acked || other.Graph.Checks != acked {
		t.Errorf("of the other subject's %d checks, %d remain", acked, other.Total)
	}
	verifyLedger(t, s)
}

// Of two concurrent erasures of a subject, one erases everything and the other reports that erasure.
func TestConcurrentErasures(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	hosts := []*Store{open(t, url, nil), open(t, url, nil)}
	caller := newCaller(t, hosts[0], plan(t, "pro", 10))
	ref := appendOne(t, ledgerOn(t, hosts[0], LedgerConfig{}), allowed(t, caller))
	locked := lockTheHeads(t, url)
	results := make(chan *privacy.ErasureResult, 2)
	for _, s := range hosts {
		go func() {
			erased, err := s.Erase(context.Background(), caller, privacy.Selector{Ref: ref})
			if err != nil {
				t.Error(err)
			}
			results <- erased
		}()
	}
	locked.waiting(t, 2)
	locked.release(t)
	total := 0
	for range hosts {
		e := receive(t, "an erasure's result", results)
		total += e.Checks
		expect(t, "reported erasures", len(e.Erasures), 1)
	}
	expect(t, "checks erased", total, 1)
	verifyLedger(t, hosts[0])
}

// While an erasure waits for something else, it does not hold the head, for which all checks of the chain wait.
func TestErasureLocksHeadLast(t *testing.T) {
	t.Parallel()
	s, l, caller := newLedger(t, nil, LedgerConfig{})
	for name, links := range map[string]int{"a subject": 0, "a subject with many links": forgetLinks + 1} {
		t.Run(name, func(t *testing.T) {
			jane := parse(t, entity.Email, "jane.roe@mailbox-example.net")
			appendOne(t, l, decided(caller, jane, check.Allow))
			noError(t, s.CatchUp(t.Context()))
			other := session(t, s.url)
			exec(t, other, fmt.Sprintf(`INSERT INTO graph_edges (node, other, account_id, checks, last_seen)
				SELECT node, sha256(int4send(n)), account_id, 1, now()
				FROM graph_sightings, generate_series(1, %d) AS n WHERE kind = 'email'`, links),
				"BEGIN", "SELECT FROM graph_sightings FOR UPDATE", "SELECT FROM graph_edges FOR UPDATE")
			erased := make(chan error, 1)
			go func() {
				_, err := s.Erase(context.Background(), caller, about(jane))
				erased <- err
			}()
			monitor := session(t, s.url)
			until(t, "the erasure to wait", func() bool { return lockWaiters(t, monitor) == 1 })
			wantError(t, "locking the head",
				errOf(monitor.Exec(t.Context(), "SELECT FROM audit_heads FOR UPDATE NOWAIT")), nil)
			exec(t, other, "COMMIT")
			noError(t, receive(t, "the erasure", erased))
			verifyLedger(t, s)
		})
	}
}

// Pruning deletes erasures before the cut with their lists. An erasure after the cut still verifies, even if it erased
// records before the cut.
func TestErasuresAcrossTheCut(t *testing.T) {
	t.Parallel()
	now := day(2021, time.January, 5)
	s, l, caller := newLedger(t, func() time.Time { return now }, LedgerConfig{})
	across := parse(t, entity.Domain, "across.example")
	early := appendOne(t, l, recordAt(t, caller, "early.example", now))
	appendOne(t, l, recordAt(t, caller, across.Value, now))
	erase(t, s, caller, privacy.Selector{Ref: early})
	now = day(2021, time.June, 20)
	appendOne(t, l, recordAt(t, caller, across.Value, now))
	erase(t, s, caller, about(across))
	appendOne(t, l, recordAt(t, caller, "late.example", now))
	lists := func() string {
		t.Helper()
		return one[string](t, s, `SELECT
			(SELECT string_agg(erasure || ':' || seq, ' ' ORDER BY erasure, seq) FROM erased_records) || ' of ' ||
			(SELECT string_agg(seq::text, ' ' ORDER BY seq) FROM erasures)`)
	}
	if got := lists(); got != "3:1 5:2 5:4 of 3 5" {
		t.Fatalf("lists of erasures: %s", got)
	}
	now = day(2022, time.March, 10)
	anchored(t, s)
	noError(t, verifyAuditLog(t, s))
	prune(t, s)
	expect(t, "lists of erasures after pruning", lists(), "5:2 5:4 of 5")
	verifyLedger(t, s)
	if got := export(t, s, caller, about(across)); got.Total != 0 || len(got.Erasures) != 1 ||
		got.Erasures[0].Checks != 2 {
		t.Errorf("exported %+v, want one erasure of 2 checks", got)
	}
	_, err := s.Erase(t.Context(), caller, privacy.Selector{Ref: early})
	wantError(t, "erasing a check that was erased and pruned", err, privacy.ErrUnknownSubject)
}
