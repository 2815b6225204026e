package store

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"assay/host/check"
	"assay/host/customer/privacy"
	"assay/host/entity"
	"assay/host/store/postgres/postgrestest"
)

// finishRequests works on requests until none is left, as a host does.
func finishRequests(t *testing.T, s *Store) {
	t.Helper()
	for work := claimRequest1(t, s); work != nil; work = claimRequest1(t, s) {
		for more := true; more; {
			more = must(work.Step(t.Context()))(t)
		}
	}
}

func claimRequest1(t *testing.T, s *Store) privacy.Work {
	t.Helper()
	return must(s.ClaimRequest(t.Context()))(t)
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
		for _, held := range part.Checks {
			refs = append(refs, held.Ref)
		}
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
	const checks = 2*privacy.AtOnce + eraseBatch/2
	jane := parse(t, entity.Email, "jane.roe@mailbox-example.net")
	var want []string
	for range checks / 50 {
		records := decidedMany(caller, jane, check.Allow, 50)
		noError(t, l.Append(t.Context(), records...))
		for _, r := range records {
			want = append(want, r.Decision.Ref)
		}
	}
	noError(t, first.CatchUp(t.Context()))
	if _, err := first.Erase(t.Context(), caller, about(jane)); !errors.As(err, new(privacy.LargeError)) {
		t.Fatalf("erasing at once: %v, want a LargeError", err)
	}
	expect(t, "checks that remain", export(t, first, caller, about(jane)).Total, checks)

	exported := must(first.Begin(t.Context(), caller, privacy.KindExport, about(jane)))(t)
	expect(t, "the same request again",
		must(second.Begin(t.Context(), caller, privacy.KindExport, about(jane)))(t).ID, exported.ID)
	work := claimRequest1(t, first)
	if other := claimRequest1(t, second); other != nil {
		t.Error("two hosts have claimed one request")
	}
	expect(t, "more after the first step", must(work.Step(t.Context()))(t), true)
	_, err := first.Download(t.Context(), caller, exported.ID, "")
	wantError(t, "downloading a running export", err, privacy.ErrNoExport)
	appendOne(t, l, decided(caller, jane, check.Allow)) // later than the export
	endLeases(t, first)
	finishRequests(t, second)
	expect(t, "more for the host that was late", must(work.Step(t.Context()))(t), false)
	request := must(first.Request(t.Context(), caller, exported.ID))(t)
	expect(t, "state", request.State, privacy.StateDone)
	expect(t, "checks exported", request.Done, checks)
	refs, parts := download(t, first, caller, exported.ID)
	if !slices.Equal(refs, want) {
		t.Errorf("exported %d checks, want the %d before the request in their order", len(refs), len(want))
	}
	expect(t, "parts", parts, 3)
	for what, err := range map[string]error{
		"another account's request": errOf(first.Request(t.Context(), stranger, exported.ID)),
		"another account's export":  errOf(first.Download(t.Context(), stranger, exported.ID, "")),
	} {
		wantError(t, what, err, privacy.ErrUnknownRequest)
	}
	sealed := one[string](t, first, "SELECT encode(sealed, 'escape') FROM export_parts WHERE after = ''")
	if strings.Contains(sealed, want[0]) || strings.Contains(sealed, `"checks":[{"ref":`) {
		t.Error("a part of the export is stored in the clear")
	}

	erasure := must(first.Begin(t.Context(), caller, privacy.KindErasure, about(jane)))(t)
	work = claimRequest1(t, first)
	for range 3 {
		must(work.Step(t.Context()))(t)
	}
	request = must(second.Request(t.Context(), caller, erasure.ID))(t)
	expect(t, "erased in three steps", request.Done, 3*eraseBatch)
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

// Exports are deleted after a day and requests after a month. A request whose key was revoked fails.
func TestRequestsEnd(t *testing.T) {
	t.Parallel()
	s, l, caller := newLedger(t, nil, LedgerConfig{})
	r := allowed(t, caller)
	appendOne(t, l, r)
	done := must(s.Begin(t.Context(), caller, privacy.KindExport, about(r.Entity)))(t)
	finishRequests(t, s)
	expect(t, "parts", one[int](t, s, "SELECT count(*) FROM export_parts"), 1)
	conn := session(t, s.url)
	exec(t, conn, "UPDATE subject_requests SET settled_at = settled_at - interval '25 hours'")
	_, err := s.Download(t.Context(), caller, done.ID, "")
	wantError(t, "downloading after a day", err, privacy.ErrNoExport)
	noError(t, s.PruneRequests(t.Context()))
	expect(t, "parts after a day", one[int](t, s, "SELECT count(*) FROM export_parts"), 0)
	expect(t, "state after a day", must(s.Request(t.Context(), caller, done.ID))(t).State, privacy.StateDeleted)
	exec(t, conn, "UPDATE subject_requests SET settled_at = settled_at - interval '30 days'")
	noError(t, s.PruneRequests(t.Context()))
	expect(t, "requests after a month", len(must(s.Requests(t.Context(), caller))(t)), 0)

	must(s.Begin(t.Context(), caller, privacy.KindErasure, about(r.Entity)))(t)
	noError(t, s.RevokeKey(t.Context(), caller.Key))
	finishRequests(t, s)
	expect(t, "state without a key", one[string](t, s, "SELECT state FROM subject_requests"), "failed")
}

// A node with many links is forgotten in pieces.
func TestManyLinksAreErasedInPieces(t *testing.T) {
	t.Parallel()
	s, l, caller := newLedger(t, nil, LedgerConfig{})
	jane := parse(t, entity.Email, "jane.roe@mailbox-example.net")
	for i := range forgetLinks {
		r := decided(caller, jane, check.Allow)
		r.Linked = []entity.Entity{parse(t, entity.Domain, "shop-"+strings.Repeat("a", 1+i%50)+
			strings.Repeat("b", 1+i/50)+".example")}
		noError(t, l.Append(t.Context(), r))
	}
	noError(t, s.CatchUp(t.Context()))
	erased := erase(t, s, caller, about(jane))
	if erased.Links <= forgetLinks || erased.Checks != forgetLinks {
		t.Errorf("erased %s, want more than %d links", counts(erased), forgetLinks)
	}
	expect(t, "links that remain to the subject", one[int](t, s, `SELECT count(*) FROM graph_edges
		WHERE ? IN (encode(node, 'hex'), encode(other, 'hex'))`, node("email", jane.Value)), 0)
	expect(t, "sightings of the subject's parent", sightingOf(t, s, caller.Account, "maildomain",
		"mailbox-example.net"), "0 rows")
	verifyLedger(t, s)
}
