package check_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"assay/host/check"
	"assay/host/entity"
	"assay/registry/expect"
)

func TestCheckBatch(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.swap(7, f.member("only"))
	items := []check.Item{
		{Fields: []check.Field{field(entity.Domain, "example.com")}, Country: "FR"},
		{Fields: []check.Field{field(entity.Domain, "not a domain")}},
		{},
		{Err: errors.New("unreadable")},
		{Fields: []check.Field{field(entity.IBAN, "DE89370400440532013000"), field(entity.Email, "jane@example.org")}},
		{Fields: []check.Field{field(entity.Domain, "example.com")}, Country: "Atlantis"},
	}
	answers := expect.Value(f.CheckBatch(t.Context(), f.caller, items, nil))(t)
	var got []string
	for _, a := range answers {
		if a.Err != nil {
			got = append(got, a.Err.Error())
			continue
		}
		got = append(got, fmt.Sprintf("%s %s, revision %d", a.Decision.Type, a.Decision.Query, a.Decision.Revision))
	}
	same(t, []string{
		"domain example.com, revision 7",
		"domain: contains a space",
		"one of domain, email, phone or iban is required",
		"unreadable",
		"email jane@example.org, revision 7",
		"region.country: must be an ISO 3166-1 alpha-2 code such as DE, or EU",
	}, got)
	expect.That(t, len(f.records) == 2 && len(f.records[1].Linked) == 1 && f.records[0].Decision == answers[0].Decision,
		"recorded: %+v", f.records)
	expect.Equal(t, "CheckDone was called for", len(f.done), 2)
}

// TestLedgerErrors has the other errors.
func TestCheckBatchIsAllOrNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "only")
	f.appendErr = &check.QuotaError{Quota: 10, Left: 1, Needed: 2}
	answers, err := f.CheckBatch(t.Context(), f.caller, batchOf(2), nil)
	expect.Error(t, "a batch", err, f.appendErr)
	expect.That(t, answers == nil && len(f.records) == 2, "got %v, and %d records were appended", answers,
		len(f.records))
}

func TestCheckBatchNeedsAPlanWithBatches(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "only")
	f.caller.Plan, _ = check.PlanNamed("starter")
	_, err := f.CheckBatch(t.Context(), f.caller, []check.Item{{}}, nil)
	var plan *check.PlanError
	expect.That(t, errors.As(err, &plan) && plan.Error() == "the starter plan does not include batch checks", "got %v",
		err)
}

// All lookups must start before any ends.
func TestCheckBatchLooksUpConcurrently(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var begun atomic.Int32
	all := make(chan struct{})
	f.Collector = collectorFunc(func(ctx context.Context, _ entity.Entity, _ []string) (entity.Facts, []string) {
		if begun.Add(1) == check.MaxBatch {
			close(all)
		}
		select {
		case <-all:
		case <-ctx.Done():
			t.Error("a lookup waited for another lookup to end")
		}
		return nil, nil
	})
	m := f.member("reader")
	m.Facts = []string{"dns.a"}
	f.swap(1, m)
	answers := expect.Value(f.CheckBatch(t.Context(), f.caller, batchOf(check.MaxBatch), nil))(t)
	for i, a := range answers {
		want := fmt.Sprintf("n%d.example.com", i)
		expect.Must(t, a.Decision.Query == want, "answer %d is for %s", i, a.Decision.Query)
	}
}
