package check_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"assay/host/check"
	"assay/host/entity"
	"assay/registry/expect"
)

// rendering returns a request whose answer lists queries and errors.
func rendering() *check.Once {
	return &check.Once{Render: func(answers []check.Answer) []byte {
		var lines []string
		for _, a := range answers {
			if a.Err != nil {
				lines = append(lines, a.Err.Error())
				continue
			}
			lines = append(lines, fmt.Sprint(a.Decision.Query, " ", a.Decision.Revision))
		}
		return []byte(strings.Join(lines, "; "))
	}}
}

// The answer is rendered before its records are appended, and from what is recorded.
func TestOnce(t *testing.T) {
	t.Parallel()
	host := field(entity.Domain, "example.com")
	const refusedOnce = "one of domain, email, phone or iban is required"
	single := func(f *fixture, once *check.Once) error {
		_, err := f.Check(t.Context(), check.Request{Caller: f.caller, Fields: []check.Field{host}, Once: once})
		return err
	}
	batch := func(items ...check.Item) func(*fixture, *check.Once) error {
		return func(f *fixture, once *check.Once) error {
			return expect.ErrorOf(f.CheckBatch(t.Context(), f.caller, items, once))
		}
	}
	type testCase struct {
		send    func(f *fixture, once *check.Once) error
		replace bool // the first lineup is refused
		want    string
		records int
	}
	expect.Each(t, map[string]testCase{
		"a check":                      {single, false, "example.com 7", 1},
		"a check that is scored again": {single, true, "example.com 8", 1},
		"a batch": {batch(check.Item{Fields: []check.Field{host}}, check.Item{},
			check.Item{Fields: []check.Field{anEmail}}), false,
			"example.com 7; " + refusedOnce + "; jane@example.com 7", 2},
		"a batch of which nothing is scored": {batch(check.Item{}), false, "", 0},
	}, func(t *testing.T, test testCase) {
		f := newFixture(t)
		f.swap(7, f.member("only"))
		once := rendering()
		ledger := &seeing{fixture: f}
		if test.replace {
			ledger.refuse = func() { f.swap(8, f.member("only")) }
		}
		f.Ledger = ledger
		expect.NoError(t, test.send(f, once))
		expect.That(t, string(once.Answer) == test.want && ledger.answer == test.want,
			"the answer is %q and the ledger saw %q, want %q", once.Answer, ledger.answer, test.want)
		expect.Equal(t, "records", len(f.records), test.records)
		for _, r := range f.records {
			expect.That(t, r.Once == once, "a record lacks the request: %+v", r)
		}
	})
}

// seeing is a ledger that notes the answer it was given. It refuses the first call if refuse is set.
type seeing struct {
	*fixture
	refuse func()
	answer string
}

func (s *seeing) Append(ctx context.Context, records ...check.Record) error {
	if s.refuse != nil {
		s.refuse()
		s.refuse = nil
		return check.ErrRevision
	}
	s.answer = string(records[0].Once.Answer)
	return s.fixture.Append(ctx, records...)
}

// A request that was recorded before is neither remembered nor counted against a quota that is spent.
func TestAnsweredRequest(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "only")
	f.appendErr = check.ErrAnswered
	for range 2 {
		_, err := f.Check(t.Context(), check.Request{Caller: f.caller, Fields: []check.Field{aDomain},
			Once: rendering()})
		_, batchErr := f.CheckBatch(t.Context(), f.caller, []check.Item{{Fields: []check.Field{aDomain}}}, rendering())
		for _, err := range []error{err, batchErr} {
			var internal *check.InternalError
			expect.That(t, errors.Is(err, check.ErrAnswered) && !errors.As(err, &internal), "got %v", err)
		}
	}
	expect.Equal(t, "decisions observed", len(f.done), 0)
}
