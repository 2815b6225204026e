package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"assay/host/check"
	"assay/host/customer/privacy"
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

	var acked, erased, events atomic.Int64
	var checks, others sync.WaitGroup
	ctx, end := context.WithCancel(t.Context())
	defer end()
	for _, s := range hosts {
		l, o := ledgerOn(t, s, LedgerConfig{}), outboxOf(t, s)
		for range 3 {
			checks.Go(func() {
				for range 25 {
					batch := []check.Record{decided(caller, jane, check.Block), decided(caller, john, check.Block)}
					wantError(t, "checking", l.Append(context.Background(), batch...), nil)
					acked.Add(1)
				}
			})
		}
		loop := func(what string, f func(ctx context.Context) error) {
			others.Go(func() {
				for ctx.Err() == nil && !t.Failed() {
					wantError(t, what, f(context.Background()), nil)
				}
			})
		}
		loop("erasing", func(ctx context.Context) error {
			e, err := s.Erase(ctx, caller, about(jane))
			if err == nil {
				erased.Add(int64(e.Checks))
				events.Add(int64(e.Events))
			}
			return err
		})
		loop("exporting", func(ctx context.Context) error {
			err := errOf(s.Export(ctx, caller, about(jane), privacy.Page{Limit: 1000}))
			return except(err, privacy.ErrUnknownSubject)
		})
		loop("delivering", func(ctx context.Context) error {
			claimed, err := o.Claim(ctx, all)
			for i, d := range claimed {
				_, _, failed := o.Finish(ctx, ended(d, []int{200, 500}[i%2]))
				err = errors.Join(err, failed)
			}
			return err
		})
		loop("resending", func(ctx context.Context) error {
			return errOf2(s.ResendFailed(ctx, account, time.Now().Add(-time.Hour)))
		})
		loop("verifying", func(context.Context) error { return verifyAuditLog(t, s) })
	}
	checks.Wait()
	until(t, "an erasure of checks", func() bool { return erased.Load() > 0 })
	end()
	others.Wait()

	s, sent, gone := hosts[0], int(acked.Load()), int(erased.Load())
	left := must(s.Export(t.Context(), caller, about(jane), privacy.Page{Limit: 1000}))(t)
	expect(t, "checks that remain", left.Total, sent-gone)
	holds(t, left.Graph == nil && left.Total == 0 || left.Graph != nil && left.Graph.Checks == left.Total,
		"%d remain, the graph: %+v", left.Total, left.Graph)
	expect(t, "events that were erased", int(events.Load()), gone)
	expect(t, "events that remain", rowsOf(t, s, "webhook_events"), 2*sent-gone)
	expect(t, "counted checks", one[int](t, s, "SELECT used FROM quota_usage WHERE account_id = ?", account), 2*sent)
	other := export(t, s, caller, about(john))
	holds(t, other.Total == sent && other.Graph.Checks == sent, "of %d other checks, %+v remain", sent, other)
	verifyLedger(t, s)
}

// A check that is recorded after an erasure has read the subject's records is erased as well, with what it adds to the
// reputation graph, in the same step: a fault between two steps would leave one without the other.
func TestCheckDuringErasure(t *testing.T) {
	t.Parallel()
	s, l, caller := newLedger(t, nil, LedgerConfig{})
	for before := range 2 {
		t.Run(fmt.Sprintf("after %d checks", before), func(t *testing.T) {
			jane := parse(t, entity.Email, "jane.roe@mailbox-example.net")
			for range before {
				appendOne(t, l, decided(caller, jane, check.Allow))
			}
			noError(t, s.CatchUp(t.Context()))
			other, monitor := session(t, s.url), session(t, s.url)
			exec(t, other, "BEGIN", "SELECT FROM graph_progress FOR UPDATE")
			steps := make(chan erasureBatch, 1)
			erased := async(func() error {
				batch, err := s.eraseStep(context.Background(), &erasing{caller: caller, selector: about(jane)})
				steps <- batch
				return err
			})
			until(t, "the erasure to wait", func() bool { return lockWaiters(t, monitor) == 1 })
			appendOne(t, l, decided(caller, jane, check.Allow))
			exec(t, other, "COMMIT")
			noError(t, receive(t, "the erasure", erased))
			step := receive(t, "its result", steps)
			expect(t, "erased", step.Checks, before+1)
			expect(t, "records that remain", step.more, false)
			noError(t, s.CatchUp(t.Context()))
			expect(t, "records and sightings that remain", one[int](t, s, `SELECT
				(SELECT count(*) FROM audit_records WHERE kind = 'check') + (SELECT count(*) FROM graph_sightings)`), 0)
			verifyLedger(t, s)
		})
	}
}

// Of two concurrent erasures of a subject, one erases everything and the other reports that erasure.
func TestConcurrentErasures(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	hosts := []*Store{open(t, url, nil), open(t, url, nil)}
	caller := newCaller(t, hosts[0], plan(t, "pro", 10))
	ref := appendOne(t, ledgerOn(t, hosts[0], LedgerConfig{}), allowed(t, caller))
	locked := lockTheHeads(t, url)
	results := make([]*privacy.ErasureResult, 2)
	ended := async(func() error {
		return errors.Join(concurrently(2, func(i int) (err error) {
			results[i], err = hosts[i].Erase(context.Background(), caller, privacy.Selector{Ref: ref})
			return err
		})...)
	})
	locked.waiting(t, 2)
	locked.release(t)
	noError(t, receive(t, "the erasures", ended))
	expect(t, "checks erased", results[0].Checks+results[1].Checks, 1)
	expect(t, "reported erasures", len(results[0].Erasures)+len(results[1].Erasures), 2)
	verifyLedger(t, hosts[0])

	// Hosts learn of an erasure when it commits.
	s, l := hosts[0], ledgerOn(t, hosts[0], LedgerConfig{})
	records := []check.Record{allowed(t, caller)}
	noError(t, l.Append(t.Context(), records...))
	name := records[0].Pseudonym
	mustHold(t, len(name) == 32, "Append sets the pseudonym %x", name)
	topics := listening(t, s)
	expectAll(t, topics)
	noError(t, errOf(s.Erase(t.Context(), caller, about(records[0].Entity))))
	topic := receive(t, "a notification", topics)
	got, ok := topic.Erased()
	holds(t, ok && bytes.Equal(got, name), "received %s: %x, want %x", topic, got, name)
	expect(t, "records after", rowsOf(t, s, "audit_records WHERE pseudonym = ?", name), 0)
}

// While an erasure waits for something else, it does not hold the head, for which all checks of the chain wait.
func TestErasureLocksHeadLast(t *testing.T) {
	t.Parallel()
	needsPlainPostgres(t, "it locks rows of a subject on all nodes")
	s, l, caller := newLedger(t, nil, LedgerConfig{})
	for name, links := range map[string]int{"a subject": 0, "a subject with many links": forgetLinks + 1} {
		t.Run(name, func(t *testing.T) {
			jane := parse(t, entity.Email, "jane.roe@mailbox-example.net")
			appendOne(t, l, decided(caller, jane, check.Allow))
			noError(t, s.CatchUp(t.Context()))
			other := session(t, s.url)
			exec(t, other, fmt.Sprintf(`INSERT INTO graph_edges (node, other, account, checks, last_seen)
				SELECT node, sha256(int4send(n)), account, 1, now()
				FROM graph_sightings, generate_series(1, %d) AS n WHERE kind = 'email'`, links),
				"BEGIN", "SELECT FROM graph_sightings FOR UPDATE", "SELECT FROM graph_edges FOR UPDATE")
			erased := async(func() error { return errOf(s.Erase(context.Background(), caller, about(jane))) })
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

// Pruning deletes erasures before the cut. Later ones still verify, even if they erased records before the cut.
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
	expect(t, "lists of erasures", lists(), "3:1 5:2 5:4 of 3 5")
	now = day(2022, time.March, 10)
	anchored(t, s)
	noError(t, verifyAuditLog(t, s))
	prune(t, s)
	expect(t, "lists of erasures after pruning", lists(), "5:2 5:4 of 5")
	verifyLedger(t, s)
	got := export(t, s, caller, about(across))
	holds(t, got.Total == 0 && len(got.Erasures) == 1 && got.Erasures[0].Checks == 2,
		"exported %+v, want one erasure of 2 checks", got)
	_, err := s.Erase(t.Context(), caller, privacy.Selector{Ref: early})
	wantError(t, "erasing a check that was erased and pruned", err, privacy.ErrUnknownSubject)
}

// finishRequests works on requests until none is left, as a host does.
func finishRequests(t *testing.T, s *Store) {
	t.Helper()
	for {
		work := must(s.ClaimRequest(t.Context()))(t)
		if work == nil {
			return
		}
		for more := true; more; {
			more = must(work.Step(t.Context()))(t)
		}
	}
}

// endLeases does what time does if a host stops.
func endLeases(t *testing.T, s *Store) {
	t.Helper()
	exec(t, session(t, s.url), "UPDATE subject_requests SET lease_until = now() - interval '1 second'")
}

// download returns all checks of an export.
func download(t *testing.T, s *Store, c check.Caller, id string) (refs []string, parts int) {
	t.Helper()
	for after := ""; ; parts++ {
		var part privacy.Export
		noError(t, json.Unmarshal(must(s.Download(t.Context(), c, id, after))(t), &part))
		refs = append(refs, column(part.Checks, func(held privacy.Check) string { return held.Ref })...)
		if part.Next == nil {
			return refs, parts + 1
		}
		after = *part.Next
	}
}

// A subject with many checks is exported and erased in the background by whichever host lives.
func TestLargeSubject(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	first, second := open(t, url, nil), open(t, url, nil)
	caller, stranger := newCaller(t, first, plan(t, "pro", 1_000_000)), newCaller(t, first, plan(t, "pro", 10))
	l := ledgerOn(t, first, LedgerConfig{})
	const checks = eraseRead + eraseBatch/2
	jane := parse(t, entity.Email, "jane.roe@mailbox-example.net")
	var want []string
	for range checks / 50 {
		records := decidedMany(caller, jane, check.Allow, 50)
		noError(t, l.Append(t.Context(), records...))
		want = append(want, column(records, refOf)...)
	}
	noError(t, first.CatchUp(t.Context()))
	_, err := first.Erase(t.Context(), caller, about(jane))
	mustHold(t, errors.As(err, new(privacy.LargeError)), "erasing at once: %v, want a LargeError", err)
	expect(t, "checks that remain", export(t, first, caller, about(jane)).Total, checks)

	exported := must(first.Begin(t.Context(), caller, privacy.KindExport, about(jane)))(t)
	expect(t, "the same request again",
		must(second.Begin(t.Context(), caller, privacy.KindExport, about(jane)))(t).ID, exported.ID)
	work := must(first.ClaimRequest(t.Context()))(t)
	holds(t, must(second.ClaimRequest(t.Context()))(t) == nil, "two hosts have claimed one request")
	expect(t, "more after the first step", must(work.Step(t.Context()))(t), true)
	_, err = first.Download(t.Context(), caller, exported.ID, "")
	wantError(t, "downloading a running export", err, privacy.ErrNoExport)
	appendOne(t, l, decided(caller, jane, check.Allow)) // later than the export
	endLeases(t, first)
	finishRequests(t, second)
	expect(t, "more for the host that was late", must(work.Step(t.Context()))(t), false)
	request := must(first.Request(t.Context(), caller, exported.ID))(t)
	expect(t, "state", request.State, privacy.StateDone)
	expect(t, "checks exported", request.Done, checks)
	refs, parts := download(t, first, caller, exported.ID)
	holds(t, slices.Equal(refs, want), "exported %d checks, want the %d before the request in their order", len(refs),
		len(want))
	expect(t, "parts", parts, checks/privacy.AtOnce+1)
	_, err = first.Request(t.Context(), stranger, exported.ID)
	wantError(t, "another account's request", err, privacy.ErrUnknownRequest)
	_, err = first.Download(t.Context(), stranger, exported.ID, "")
	wantError(t, "another account's export", err, privacy.ErrUnknownRequest)
	sealed := one[string](t, first, "SELECT encode(sealed, 'escape') FROM export_parts WHERE after = ''")
	holds(t, !strings.Contains(sealed, want[0]) && !strings.Contains(sealed, `"checks":[{"ref":`),
		"a part of the export is stored in the clear")

	erasure := must(first.Begin(t.Context(), caller, privacy.KindErasure, about(jane)))(t)
	work = must(first.ClaimRequest(t.Context()))(t)
	for range eraseRead / eraseBatch {
		expect(t, "more than one read", must(work.Step(t.Context()))(t), true)
	}
	request = must(second.Request(t.Context(), caller, erasure.ID))(t)
	expect(t, "erased after one read", request.Done, eraseRead)
	endLeases(t, first)
	finishRequests(t, second)
	request = must(second.Request(t.Context(), caller, erasure.ID))(t)
	expect(t, "state", request.State, privacy.StateDone)
	expect(t, "checks erased", request.Done, checks+1)
	expect(t, "the export's state", must(first.Request(t.Context(), caller, exported.ID))(t).State,
		privacy.StateDeleted)
	_, err = first.Download(t.Context(), caller, exported.ID, "")
	wantError(t, "downloading an erased export", err, privacy.ErrNoExport)
	expect(t, "records, sightings, parts and names that remain", one[int](t, first, `SELECT
		(SELECT count(*) FROM audit_records WHERE pseudonym IS NOT NULL) + (SELECT count(*) FROM export_parts) +
		(SELECT count(*) FROM subject_requests WHERE sealed IS NOT NULL) +
		(SELECT count(*) FROM graph_sightings WHERE kind = 'email')`), 0)
	verifyLedger(t, first)
}

// An account with many requests waits for those of others.
func TestRequestsInTurns(t *testing.T) {
	t.Parallel()
	s, l, busy := newLedger(t, nil, LedgerConfig{})
	other := newCaller(t, s, plan(t, "pro", 10))
	var ids []string
	for i, c := range []check.Caller{busy, busy, other} {
		subject := parse(t, entity.Domain, fmt.Sprintf("shop%d.example", i))
		appendOne(t, l, decided(c, subject, check.Allow))
		ids = append(ids, must(s.Begin(t.Context(), c, privacy.KindExport, about(subject)))(t).ID)
	}
	exec(t, session(t, s.url), "UPDATE subject_requests SET lease_until = created_at - interval '1 hour'", fmt.Sprintf(
		"UPDATE subject_requests SET state = 'done', sealed = NULL, settled_at = now() WHERE id = '%s'", ids[1]))
	for _, want := range []string{ids[2], ids[0]} {
		expect(t, "claimed", must(s.ClaimRequest(t.Context()))(t).(*requestWork).row.ID, want)
	}
}

// Exports are deleted after a day and requests after a month. A request whose key was revoked fails.
func TestRequestsEnd(t *testing.T) {
	t.Parallel()
	s, l, caller := newLedger(t, nil, LedgerConfig{})
	r := allowed(t, caller)
	appendOne(t, l, r)
	done := must(s.Begin(t.Context(), caller, privacy.KindExport, about(r.Entity)))(t)
	finishRequests(t, s)
	expect(t, "parts", rowsOf(t, s, "export_parts"), 1)
	conn := session(t, s.url)
	exec(t, conn, "UPDATE subject_requests SET settled_at = now() - interval '25 hours'")
	wantError(t, "downloading after a day", errOf(s.Download(t.Context(), caller, done.ID, "")), privacy.ErrNoExport)
	noError(t, s.Prune(t.Context()))
	expect(t, "parts after a day", rowsOf(t, s, "export_parts"), 0)
	expect(t, "state after a day", must(s.Request(t.Context(), caller, done.ID))(t).State, privacy.StateDeleted)
	exec(t, conn, "UPDATE subject_requests SET settled_at = now() - interval '31 days'")
	noError(t, s.Prune(t.Context()))
	expect(t, "requests after a month", len(must(s.Requests(t.Context(), caller))(t)), 0)

	for change, parts := range map[string]int{"UPDATE subject_requests SET state = 'failed'": 0,
		"UPDATE subject_requests SET state = 'deleted'": 0, "DELETE FROM subject_requests": 0,
		"UPDATE subject_requests SET state = 'running', sealed = '', settled_at = NULL": 1} {
		must(s.Begin(t.Context(), caller, privacy.KindExport, about(r.Entity)))(t)
		finishRequests(t, s)
		exec(t, conn, change)
		noError(t, s.Prune(t.Context()))
		expect(t, "parts after "+change, rowsOf(t, s, "export_parts"), parts)
		exec(t, conn, "DELETE FROM export_parts", "DELETE FROM subject_requests")
	}

	must(s.Begin(t.Context(), caller, privacy.KindErasure, about(r.Entity)))(t)
	noError(t, s.RevokeKey(t.Context(), caller.Key))
	finishRequests(t, s)
	expect(t, "state without a key", one[string](t, s, "SELECT state FROM subject_requests"), "failed")
}

// A node with many links is forgotten in pieces.
func TestManyLinksAreErasedInPieces(t *testing.T) {
	t.Parallel()
	s, l, caller := newVerified(t, nil, LedgerConfig{})
	jane := parse(t, entity.Email, "jane.roe@mailbox-example.net")
	var records []check.Record
	phone := parse(t, entity.Phone, "+4915112345678") // a subject without records of its own
	for i := range forgetLinks {
		r := decided(caller, jane, check.Allow)
		shop := parse(t, entity.Domain, "shop-"+strings.Repeat("a", 1+i%50)+strings.Repeat("b", 1+i/50)+".example")
		r.Linked = []entity.Entity{shop, phone}
		other := decided(caller, shop, check.Allow)
		other.Linked = []entity.Entity{phone}
		records = append(records, r, other)
	}
	noError(t, l.Append(t.Context(), records...))
	noError(t, s.CatchUp(t.Context()))
	erased := erase(t, s, caller, about(phone))
	holds(t, erased.Links > forgetLinks && erased.Sightings == 1 && len(erased.Erasures) == 1, "erased %s of the phone",
		counts(erased))
	erased = erase(t, s, caller, about(jane))
	holds(t, erased.Links > forgetLinks && erased.Checks == forgetLinks, "erased %s, want more than %d links",
		counts(erased), forgetLinks)
	expect(t, "links that remain to the subject", rowsOf(t, s, `graph_edges
		WHERE ? IN (encode(node, 'hex'), encode(other, 'hex'))`, node("email", jane.Value)), 0)
	expect(t, "sightings of the subject's parent", sightingOf(t, s, caller.Account, "maildomain",
		"mailbox-example.net"), "0 rows")
}
