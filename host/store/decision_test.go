package store

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"assay/host/audit"
	"assay/host/check"
	"assay/host/customer/decision"
	"assay/host/customer/feedback"
	"assay/host/customer/privacy"
	"assay/host/entity"
	is "assay/registry/expect"
)

// searched returns the references of all pages of a search that reads a few records at a time, and the number of pages.
func searched(t *testing.T, s *Store, c check.Caller, q decision.Query, reads int) (refs []string, pages int) {
	t.Helper()
	for {
		page := must(s.searchChecks(t.Context(), c, q, reads))(t)
		pages++
		refs = append(refs, column(page.Checks, func(found decision.Check) string { return found.Ref })...)
		mustHold(t, len(page.Checks) <= q.Limit, "%d checks on a page of %d", len(page.Checks), q.Limit)
		if page.Next == nil {
			return refs, pages
		}
		q.After = must(decision.ParseCursor(*page.Next))(t)
	}
}

func TestSearchChecks(t *testing.T) {
	t.Parallel()
	s, l, mine := newLedger(t, nil, LedgerConfig{})
	theirs := newCaller(t, s, plan(t, "pro", 10))
	second, _ := newKey(t, s, mine.Account)
	jane, shop := parse(t, entity.Email, "jane@example.net"), parse(t, entity.Domain, "shop.example")
	appendOne(t, l, decided(theirs, jane, check.Block))
	verdicts := []check.Verdict{check.Allow, check.Review, check.Block}
	var all []check.Record
	for i := range 24 { // four checks in each millisecond
		e, c := jane, mine
		if i%2 == 1 {
			e = shop
		}
		if i%8 >= 4 {
			c = second
		}
		r := at(decided(c, e, verdicts[i%3]), noon.Add(time.Duration(i/4)*time.Millisecond))
		appendOne(t, l, r)
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b check.Record) int { // newest first
		if d := b.Decision.At.Compare(a.Decision.At); d != 0 {
			return d
		}
		return strings.Compare(b.Decision.Ref, a.Decision.Ref)
	})
	type testCase struct {
		q       decision.Query
		matches func(r check.Record) bool
	}
	is.Each(t, map[string]testCase{
		"all": {decision.Query{}, func(check.Record) bool { return true }},
		"a verdict": {decision.Query{Verdict: check.Block},
			func(r check.Record) bool { return r.Decision.Verdict == check.Block }},
		"a type": {decision.Query{Type: entity.Domain},
			func(r check.Record) bool { return r.Entity.Type == entity.Domain }},
		"a key": {decision.Query{Key: second.Key}, func(r check.Record) bool { return r.Caller.Key == second.Key }},
		"a time": {decision.Query{From: noon.Add(time.Millisecond), Until: noon.Add(3 * time.Millisecond)},
			func(r check.Record) bool {
				since := r.Decision.At.Sub(noon)
				return since >= time.Millisecond && since < 3*time.Millisecond
			}},
		"a value": {decision.Query{Entity: &jane}, func(r check.Record) bool { return r.Entity.Value == jane.Value }},
		"a value and a verdict": {decision.Query{Entity: &shop, Verdict: check.Review},
			func(r check.Record) bool { return r.Entity.Value == shop.Value && r.Decision.Verdict == check.Review }},
		"nothing": {decision.Query{Key: theirs.Key}, func(check.Record) bool { return false }},
	}, func(t *testing.T, test testCase) {
		var want []string
		for _, r := range all {
			if test.matches(r) {
				want = append(want, r.Decision.Ref)
			}
		}
		for _, size := range [][2]int{{100, 1000}, {5, 1000}, {1, 7}, {3, 3}, {100, 24}} {
			test.q.Limit = size[0]
			got, pages := searched(t, s, mine, test.q, size[1])
			noDiff(t, fmt.Sprintf("%d per page, reading %d", size[0], size[1]), want, got)
			most := 2 + len(all)/min(size[0], size[1])
			holds(t, pages <= most, "%d pages, want at most %d", pages, most)
		}
	})
}

// A page that was read stays the start of the next one although its last check is erased.
func TestSearchAfterErasure(t *testing.T) {
	t.Parallel()
	s, l, caller := newLedger(t, nil, LedgerConfig{})
	older := appendOne(t, l, recordAt(t, caller, "a.example", noon))
	newer := appendOne(t, l, recordAt(t, caller, "b.example", noon.Add(time.Second)))
	page := must(s.SearchChecks(t.Context(), caller, decision.Query{Limit: 1}))(t)
	expect(t, "first page", page.Checks[0].Ref, newer)
	erase(t, s, caller, privacy.Selector{Ref: newer})
	after := must(decision.ParseCursor(*page.Next))(t)
	page = must(s.SearchChecks(t.Context(), caller, decision.Query{Limit: 1, After: after}))(t)
	expect(t, "second page", page.Checks[0].Ref, older)
	holds(t, page.Next == nil, "there is a third page: %v", page.Next)
}

func TestRecordedCheck(t *testing.T) {
	t.Parallel()
	s, l, mine := newLedger(t, func() time.Time { return noon }, LedgerConfig{})
	r := at(decided(mine, parse(t, entity.Email, "jane@example.net"), check.Block), noon)
	r.Decision.Override = &check.Override{ID: "ovr_1", Verdict: check.Block, Digest: []byte("digest of the override")}
	ref := appendOne(t, l, r)
	want := &decision.Details{Check: decision.Check{Ref: ref, Timestamp: noon.Format(check.TimeFormat), Type: "email",
		Score: r.Decision.Score, Verdict: "block", Key: mine.Key, Revision: r.Decision.Revision, Overridden: true}}
	want.Record = decision.Record{Intact: true, Chain: one[int](t, s, "SELECT chain FROM audit_records WHERE ref = ?",
		ref), Number: one[int64](t, s, "SELECT seq FROM audit_records WHERE ref = ?", ref)}
	noDiff(t, "by reference", want, must(s.RecordedCheck(t.Context(), mine, ref, nil))(t))
	keyless := check.Caller{Account: mine.Account}
	noDiff(t, "by value", want, must(s.RecordedCheck(t.Context(), keyless, ref, &r.Entity))(t))
	var invalid *entity.InvalidError
	for _, other := range []entity.Entity{parse(t, entity.Email, "john@example.net"),
		parse(t, entity.Domain, "example.net")} {
		_, err := s.RecordedCheck(t.Context(), mine, ref, &other)
		holds(t, errors.As(err, &invalid) && invalid.Field == string(other.Type) &&
			invalid.Reason == "is not the value of this check", "%s: %v", other.Value, err)
	}
	must(s.AskReview(t.Context(), mine, ref, decision.Asking{Reason: "why?"}))(t)
	keep(t, s, mine, feedback.Report{Ref: ref, Label: feedback.Legitimate, Note: "an old customer"}, nil)
	note := "an old customer"
	want.Review = &privacy.Review{Ref: ref, State: decision.Asked, Reason: "why?", AskedAt: privacy.Time{Time: noon}}
	want.Feedback = &privacy.Feedback{Label: "legitimate", Note: &note, Timestamp: privacy.Time{Time: noon}}
	noDiff(t, "with feedback and a review", want, must(s.RecordedCheck(t.Context(), mine, ref, nil))(t))
	must(s.db.ExecContext(t.Context(), "UPDATE audit_records SET score = 7 WHERE ref = ?", ref))(t)
	holds(t, !must(s.RecordedCheck(t.Context(), mine, ref, nil))(t).Record.Intact, "an altered record is called intact")
	noError(t, s.RevokeKey(t.Context(), mine.Key))
	wantError(t, "with a revoked key", errOf(s.RecordedCheck(t.Context(), mine, ref, nil)), check.ErrUnauthorized)
	wantError(t, "search with a revoked key", errOf(s.SearchChecks(t.Context(), mine, decision.Query{Limit: 1})),
		check.ErrUnauthorized)
}

// A check names the first checkpoint that covers its record, unless its signature is not valid.
func TestCheckpointOfCheck(t *testing.T) {
	t.Parallel()
	s, l, mine := newLedger(t, nil, LedgerConfig{})
	ref := appendOne(t, l, recordAt(t, mine, "a.example", noon))
	record := func() decision.Record { return must(s.RecordedCheck(t.Context(), mine, ref, nil))(t).Record }
	r := record()
	holds(t, r.Checkpoint == nil, "without any: %+v", r.Checkpoint)
	first := r.Number // record number first is leaf 0
	noError(t, s.StartTree(t.Context(), r.Chain, first))
	signer := audit.NewSigner("", s.keys.SignSeed)
	for _, step := range []struct {
		name       string
		size, sign int64 // of the stored tree, and of the signed one
		want       int64 // the last record of the checkpoint; 0: none
	}{
		{"before the record", 0, 0, 0},
		{"far after it", 300, 300, first + 299},
		{"first after it", 20, 20, first + 19},
		{"signed for another size", 2, 3, 0},
		{"up to it", 1, 1, first},
	} {
		tree := Tree{TreeHead: audit.TreeHead{Chain: r.Chain, Size: step.size}, First: first}
		note := must(signer.SignTree(audit.TreeHead{Chain: r.Chain, Size: step.sign}))(t)
		noError(t, s.KeepCheckpoints(t.Context(), []Tree{tree}, []string{note}))
		got := record().Checkpoint
		holds(t, (got == nil) == (step.want == 0) && (got == nil || got.Number == step.want), "%s: %+v", step.name, got)
		holds(t, got == nil || time.Since(got.SignedAt.Time) <= time.Hour, "%s: %+v", step.name, got)
	}
	must(s.db.ExecContext(t.Context(), "UPDATE audit_trees SET first_seq = first_seq + 1"))(t)
	expect(t, "of a tree that begins after the record", record().Checkpoint, nil)
}

// BenchmarkRecordedChecks searches a million checks of an account in vain, counts them, and exports them.
func BenchmarkRecordedChecks(b *testing.B) {
	s, l, caller := newLedger(b, func() time.Time { return noon }, LedgerConfig{})
	noError(b, l.Append(b.Context(), allowed(b, caller)))
	must(s.db.ExecContext(b.Context(), `INSERT INTO audit_records (chain, seq, recorded_at, kind, ref, account_id,
		key_id, type, pseudonym, nonce, score, verdict, revision, leaf, hash)
		SELECT chain, seq + n, recorded_at - n * interval '1 second', kind, 'chk_' || lpad(n::text, 26, '0'),
		account_id, key_id, type, sha256(n::text::bytea), nonce, score, verdict, revision, leaf, hash
		FROM audit_records, generate_series(1, 1000000) AS n WHERE kind = 'check'`))(b)
	must(s.db.ExecContext(b.Context(), "ANALYZE audit_records"))(b)
	b.Run("search", func(b *testing.B) {
		for b.Loop() {
			must(s.SearchChecks(b.Context(), caller, decision.Query{Verdict: check.Block, Limit: 50}))(b)
		}
	})
	b.Run("count", func(b *testing.B) {
		for b.Loop() {
			counts := must(s.CountChecks(b.Context(), caller, time.Time{}, noon.AddDate(1, 0, 0)))(b)
			expect(b, "checks", decision.Query{}.Selected(counts), 1_000_001)
		}
	})
	b.Run("days", func(b *testing.B) { // as a page counts them
		for b.Loop() {
			first := noon.Truncate(24*time.Hour).AddDate(-1, 0, 0)
			counts := must(s.CountDays(b.Context(), caller, first, noon.Add(time.Minute)))(b)
			expect(b, "checks", decision.Query{}.Selected(counts), 1_000_001)
		}
	})
	b.Run("export", func(b *testing.B) {
		for b.Loop() {
			export := must(decision.NewExport(b.Context(), s, caller, decision.Query{}, decision.CSV, func() {}))(b)
			b.ReportMetric(float64(must(io.Copy(io.Discard, export))(b)), "bytes")
			noError(b, export.Close())
		}
	})
}

// A reference names the time of its check, so that a look-up reads one partition.
func TestReferenceNamesItsPartition(t *testing.T) {
	t.Parallel()
	needsPlainPostgres(t, "it reads a plan")
	s, l, caller := newLedger(t, nil, LedgerConfig{})
	r := at(allowed(t, caller), time.Now())
	noError(t, l.Append(t.Context(), r))
	span := recordedWithin(r.Decision.Ref)[0]
	rows := must(session(t, s.url).Query(t.Context(), fmt.Sprintf(`EXPLAIN SELECT FROM audit_records WHERE chain = 0
		AND ref = '%s' AND recorded_at BETWEEN '%s' AND '%s'`, r.Decision.Ref, span[0].Format(time.RFC3339Nano),
		span[1].Format(time.RFC3339Nano))))(t)
	plan := strings.Join(must(pgx.CollectRows(rows, pgx.RowTo[string]))(t), "\n")
	holds(t, strings.Count(plan, " on "+partition(time.Now())) > 0 && !strings.Contains(plan, "other") &&
		!strings.Contains(plan, partition(time.Now().AddDate(0, 2, -27))), "the plan reads other partitions:\n%s", plan)
	found := must(s.CheckRecord(t.Context(), caller, r.Decision.Ref))(t)
	expect(t, "the check's record", found.Record.Ref, r.Decision.Ref)
}
