package store

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"assay/host/check"
	"assay/host/entity"
	"assay/host/postgres/postgrestest"
	"assay/host/privacy"
	"assay/host/webhook"
)

// While two hosts record checks of a subject, deliver their events and resend them, both erase it, export it and verify
// the chain. Each check is erased whole or kept whole, nothing fails, and the chain holds at every moment.
func TestEraseDuringChecks(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	hosts := []*Store{open(t, url, nil), open(t, url, nil)}
	account, err := hosts[0].CreateAccount(t.Context(), plan(t, "pro", 1_000_000))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := hosts[0].SetEndpoint(t.Context(), account, "https://receiver.example/hook"); err != nil {
		t.Fatal(err)
	}
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
					if err := l.Append(context.Background(), batch...); err != nil {
						t.Errorf("checking: %v", err)
					}
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
			held, err := s.Export(ctx, caller, about(jane), privacy.Page{Limit: 1000})
			if errors.Is(err, privacy.ErrUnknownSubject) {
				return nil
			}
			if err == nil && (held.Graph == nil) != (held.Total == 0) {
				t.Errorf("half of a check: %d and %+v", held.Total, held.Graph)
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
				_, _, ended := o.Finish(ctx, webhook.Outcome{Ref: d.Ref, Attempt: d.Attempt, EndedAt: time.Now(), Status: status,
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
	close(done)
	others.Wait()

	s := hosts[0]
	held, err := s.Export(t.Context(), caller, about(jane), privacy.Page{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	if held.Total+erased != acked || erased == 0 {
		t.Errorf("of %d checks %d were erased and %d are held", acked, erased, held.Total)
	}
	if held.Graph != nil && held.Graph.Checks != held.Total {
		t.Errorf("%d checks are held, and the graph saw %d", held.Total, held.Graph.Checks)
	}
	if n := one[int](t, s, "SELECT count(*) FROM webhook_events"); n != 2*acked-events || events != erased {
		t.Errorf("%d events are left: of %d, %d were erased with %d checks", n, 2*acked, events, erased)
	}
	if n := one[int](t, s, "SELECT used FROM quota_usage WHERE account_id = ?", account); n != 2*acked {
		t.Errorf("%d checks were counted, want %d: what was used stays used", n, 2*acked)
	}
	if other := export(t, s, caller, about(john)); other.Total != acked || other.Graph.Checks != acked {
		t.Errorf("of the other subject's %d checks, %d are held", acked, other.Total)
	}
	verifyLedger(t, s)
}

// Two erasures at once, of one subject: one takes it all, and the other finds that it is done.
func TestErasedAtOnce(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	hosts := []*Store{open(t, url, nil), open(t, url, nil)}
	caller := newCaller(t, hosts[0], plan(t, "pro", 10))
	ref := appendOne(t, ledgerOn(t, hosts[0], LedgerConfig{}), allowed(t, caller))
	held := lockTheHeads(t, url)
	answers := make(chan *privacy.ErasureResult, 2)
	for _, s := range hosts {
		go func() {
			erased, err := s.Erase(context.Background(), caller, privacy.Selector{Ref: ref})
			if err != nil {
				t.Error(err)
			}
			answers <- erased
		}()
	}
	held.waiting(t, 2)
	held.release(t)
	total := 0
	for range hosts {
		e := receive(t, "an erasure's answer", answers)
		if total += e.Checks; len(e.Erasures) != 1 {
			t.Errorf("%d erasures are told", len(e.Erasures))
		}
	}
	if total != 1 {
		t.Errorf("%d checks were erased", total)
	}
	verifyLedger(t, hosts[0])
}

// Of a commit whose answer was lost it is found out that it was kept, although the record has been erased since.
func TestCommitIsSettledAfterAnErasure(t *testing.T) {
	t.Parallel()
	s := open(t, postgrestest.Database(t), nil)
	l, caller := ledgerOn(t, s, LedgerConfig{}), newCaller(t, s, plan(t, "pro", 10))
	ref := appendOne(t, l, allowed(t, caller))
	row := auditRow{Leaf: one[[]byte](t, s, "SELECT leaf FROM audit_records"), Seq: 1}
	erase(t, s, caller, privacy.Selector{Ref: ref})
	lost := errors.New("the answer was lost")
	if err := l.resolveCommit([]int{0}, &row, lost); err != nil {
		t.Errorf("a commit that was kept: %v", err)
	}
	row.Leaf[0] ^= 1 // another record took its place
	if err := l.resolveCommit([]int{0}, &row, lost); !errors.Is(err, lost) {
		t.Errorf("a commit that was not kept: %v", err)
	}
}
