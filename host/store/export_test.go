package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"assay/host/check"
	"assay/host/customer/privacy"
	"assay/host/entity"
)

func TestExportIsComplete(t *testing.T) {
	t.Parallel()
	s := newStore(t, func() time.Time { return noon })
	l, o := ledgerOn(t, s, LedgerConfig{}), outboxOf(t, s)
	caller := subscriber(t, s)
	jane := parse(t, entity.Email, "jane.roe@example.net")
	first := appendOne(t, l, decided(caller, jane, check.Block))
	finish(t, o, ended(claimOne(t, o), 200))
	reviewed := at(decided(caller, jane, check.Review), noon.Add(time.Minute))
	reviewed.Linked = []entity.Entity{parse(t, entity.Phone, "+4915123456789")}
	second := appendOne(t, l, reviewed)
	third := appendOne(t, l, at(decided(caller, jane, check.Allow), noon.Add(2*time.Minute)))
	appendOne(t, l, decided(caller, parse(t, entity.Email, "john.roe@example.net"), check.Block))
	subject := must(s.SubjectOf(t.Context(), caller, jane))(t)
	got := export(t, s, caller, privacy.Selector{Ref: second})
	for i := range got.Checks {
		if e := got.Checks[i].Webhook; e != nil {
			e.NextAttemptAt, e.SettledAt = nil, nil // set by the database's clock
		}
	}
	_, body, err := reviewed.Decision.Event()
	noError(t, err)
	minute := func(n int) privacy.Time { return privacy.Time{Time: noon.Add(time.Duration(n) * time.Minute)} }
	held := func(ref string, n, score int, verdict check.Verdict, e *privacy.Event) privacy.Check {
		return privacy.Check{Ref: ref, Timestamp: minute(n).Format(check.TimeFormat), Type: "email", Score: score,
			Verdict: string(verdict), Key: caller.Key, Webhook: e}
	}
	noDiff(t, "exported", &privacy.Export{Subject: &subject, Type: new("email"), Total: 3, Checks: []privacy.Check{
		held(first, 0, 91, check.Block, &privacy.Event{Event: "check.blocked", Sequence: 1, State: "delivered",
			Attempts: 1, Timestamp: minute(0)}),
		held(second, 1, 55, check.Review, &privacy.Event{Event: "check.review", Sequence: 2, State: "pending",
			Timestamp: minute(1), Body: body}),
		held(third, 2, 7, check.Allow, nil),
	}, Graph: &privacy.Sightings{Checks: 3, Blocked: 1, Reviewed: 1, FirstSeen: minute(0), LastSeen: minute(2),
		Links: 3},
		Erasures: []privacy.Erasure{}, Overrides: []privacy.Override{}}, got)
}

func TestExportIsPaged(t *testing.T) {
	t.Parallel()
	s, l, caller := newLedger(t, nil, LedgerConfig{})
	r := allowed(t, caller)
	want := listOf(5, func(int) string { return appendOne(t, l, decided(caller, r.Entity, check.Allow)) })
	var got []string
	other := appendOne(t, l, decided(caller, parse(t, entity.Domain, "other.example"), check.Allow))
	whose := privacy.Selector{Ref: want[3]}
	for page := (privacy.Page{Limit: 2}); ; {
		exported := must(s.Export(t.Context(), caller, whose, page))(t)
		expect(t, "checks in total", exported.Total, 5)
		got = append(got, column(exported.Checks, func(c privacy.Check) string { return c.Ref })...)
		if exported.Next == nil {
			break
		}
		page.After = *exported.Next
	}
	noDiff(t, "pages", want, got)
	for _, after := range []string{other, check.NewRef()} {
		var invalid *entity.InvalidError
		_, err := s.Export(t.Context(), caller, whose, privacy.Page{After: after, Limit: 2})
		holds(t, errors.As(err, &invalid) && invalid.Field == "after", "page after a check of another subject: %v", err)
	}

	// What is kept of a delivered event's request is exported, and goes with an erasure.
	o, caller := outboxOf(t, s), subscriber(t, s)
	ref := blocked(t, l, caller, 1)[0]
	for _, status := range []int{500, 200} {
		exec(t, session(t, s.url), "UPDATE webhook_events SET next_attempt_at = now()")
		d := claimOne(t, o)
		e := ended(d, status)
		e.Request.Body = string(d.Body)
		finish(t, o, e)
	}
	delivered := export(t, s, caller, privacy.Selector{Ref: ref})
	holds(t, delivered.Total == 1 && delivered.Checks[0].Webhook != nil &&
		strings.Contains(string(delivered.Checks[0].Webhook.Body), "example.org"),
		"exported %+v, want 1 check with the event's body", delivered)
	erase(t, s, caller, privacy.Selector{Ref: ref})
	expect(t, "attempts", rowsOf(t, s, "webhook_attempts"), 0)
}

// Exports are recorded once an hour for each key and subject.
func TestExportsAreRecorded(t *testing.T) {
	t.Parallel()
	now := noon
	s, l, caller := newVerified(t, func() time.Time { return now }, LedgerConfig{})
	colleague, _ := newKey(t, s, caller.Account)
	first, second := privacy.Selector{Ref: appendOne(t, l, allowed(t, caller))},
		privacy.Selector{Ref: appendOne(t, l, decided(caller, parse(t, entity.Domain, "two.example"), check.Allow))}
	unseen := parse(t, entity.Domain, "never.example")
	for _, step := range []struct {
		who    check.Caller
		whose  privacy.Selector
		passed time.Duration
		want   int
	}{
		{caller, first, 0, 1},
		{caller, first, time.Minute, 1},
		{colleague, first, 0, 2},
		{caller, second, 0, 3},
		{caller, about(unseen), 0, 3},
		{caller, first, 58 * time.Minute, 3},
		{caller, first, 2 * time.Minute, 4},
	} {
		now = now.Add(step.passed)
		err := errOf(s.Export(t.Context(), step.who, step.whose, privacy.Page{Limit: 1}))
		noError(t, except(err, privacy.ErrUnknownSubject))
		expect(t, fmt.Sprint("exports recorded by ", now), rowsOf(t, s, `audit_records
			WHERE kind = 'export' AND account_id = ? AND key_id <> ''`, caller.Account), step.want)
	}
	got := export(t, s, caller, first) // records of exports are not checks
	holds(t, got.Total == 1 && len(got.Checks) == 1, "exported %+v, want 1 check", got)
	erased := erase(t, s, caller, first)
	holds(t, erased.Checks == 1 && erased.Erasures[0].Checks == 1, "erased %s, want 1 check", counts(erased))
}

// An export during an erasure is a snapshot: it contains either all data or none.
func TestExportDuringErasure(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	l, caller := ledgerOn(t, s, LedgerConfig{}), subscriber(t, s)
	r := decided(caller, parse(t, entity.Domain, "example.org"), check.Block)
	whose := about(r.Entity)
	for range 10 {
		const n = 3
		for range n {
			appendOne(t, l, decided(caller, r.Entity, check.Block))
		}
		erased := async(func() error { return errOf(s.Erase(context.WithoutCancel(t.Context()), caller, whose)) })
		for gone := false; !gone; {
			got := export(t, s, caller, whose)
			gone = got.Total == 0
			events := 0
			for _, c := range got.Checks {
				if c.Webhook != nil {
					events++
				}
			}
			if seen := got.Graph != nil; len(got.Checks) != got.Total || events != got.Total ||
				seen == gone || seen && got.Graph.Checks != got.Total || got.Total%n != 0 {
				t.Fatalf("inconsistent export: %d checks, %d listed, %d events, graph %+v", got.Total, len(got.Checks),
					events, got.Graph)
			}
		}
		noError(t, receive(t, "the erasure", erased))
	}
	verifyLedger(t, s)
}

// Subjects and checks are found by an index, also in a partition that was never analysed, not by reading all records.
func TestRecordsAreFoundByTheirIndex(t *testing.T) {
	t.Parallel()
	needsPlainPostgres(t, "it reads the statistics of indexes")
	s, l, caller := newLedger(t, nil, LedgerConfig{})
	host := must(tryOpen(t.Context(), s.url))(t)
	r := allowed(t, caller)
	noError(t, l.Append(t.Context(), r))
	conn := session(t, s.url)
	must(conn.Exec(t.Context(),
		`INSERT INTO audit_records (chain, seq, recorded_at, kind, ref, account_id, pseudonym,
			nonce, leaf, hash)
		SELECT 0, -i, $1, 'check', 'chk_' || i, $2, sha256(i::text::bytea), '\x00', '\x00', '\x00'
		FROM generate_series(1, 20000) AS i`, noon, caller.Account))(t)
	ctx := t.Context()
	noError(t, errors.Join(errOf(host.Export(ctx, caller, privacy.Selector{Ref: r.Decision.Ref},
		privacy.Page{Limit: 9})), errOf(host.Feedback(ctx, caller, r.Decision.Ref, nil)), errOf(host.Erase(ctx, caller,
		about(r.Entity))), host.Close()))
	scans := func(index string) int {
		return value[int](t, conn, `SELECT coalesce(sum(idx_scan), 0) FROM pg_stat_user_indexes
			WHERE starts_with(relname, 'audit_records') AND strpos(indexrelname, $1) > 0`, index)
	}
	until(t, "the statistics", func() bool { return scans("_expr_substr_") > 0 && scans("_ref_") > 0 })
	expect(t, "scans of the index on accounts", scans("_account_id_"), 0)
}
