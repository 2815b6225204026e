package check_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"assay/host/access/apikey"
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
	for i, a := range expect.Value(f.CheckBatch(t.Context(), f.caller, batchOf(check.MaxBatch), nil))(t) {
		expect.Equal(t, fmt.Sprint("answer ", i), a.Decision.Query, fmt.Sprintf("n%d.example.com", i))
	}
}

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

// guarded is a ledger that refuses decisions of a replaced lineup. Before each call of Append it puts the next revision
// in force, as if an operator had done so while the check was scored.
type guarded struct {
	*fixture
	next   []int64 // to be put in force before the calls of Append; 0: none
	ended  map[int64]bool
	scored []int64 // the revision of each call
}

func (g *guarded) Append(ctx context.Context, records ...check.Record) error {
	g.scored = append(g.scored, records[0].Decision.Revision)
	if n := len(g.scored); n <= len(g.next) && g.next[n-1] != 0 {
		g.swap(g.next[n-1], g.member("any"))
	}
	if g.ended[records[0].Decision.Revision] {
		return check.ErrRevision
	}
	return g.fixture.Append(ctx, records...)
}

// A check whose lineup was replaced is scored once more, or refused, and never recorded under the old revision.
func TestReplacedLineupIsNotRecorded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		next   []int64
		ended  map[int64]bool
		scored []int64
		want   int64 // the recorded revision; 0: refused
	}{
		"another lineup is in force": {[]int64{2}, map[int64]bool{1: true}, []int64{1, 2}, 2},
		"the host has not followed":  {nil, map[int64]bool{1: true}, []int64{1}, 0},
		"replaced again":             {[]int64{2, 3}, map[int64]bool{1: true, 2: true}, []int64{1, 2}, 0},
		"replaced, but in time":      {[]int64{2}, nil, []int64{1}, 1},
	} {
		for kind, run := range map[string]func(f *guarded) ([]check.Answer, error){
			"check": func(f *guarded) ([]check.Answer, error) {
				d, err := f.check(aDomain)
				return []check.Answer{{Decision: d}}, err
			},
			"batch": func(f *guarded) ([]check.Answer, error) {
				return f.CheckBatch(t.Context(), f.caller, batchOf(2), nil)
			},
		} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				t.Parallel()
				f := &guarded{fixture: newFixture(t), next: c.next, ended: c.ended}
				f.Ledger = f
				f.swap(1, f.member("any"))
				answers, err := run(f)
				same(t, c.scored, f.scored)
				var refused *check.UnavailableError
				expect.That(t, c.want != 0 || errors.As(err, &refused) && refused.Reason() == "lineup",
					"got %v, %v, want a refusal because of the lineup", answers, err)
				expect.That(t, c.want == 0 || err == nil, "%v", err)
				for i := 0; i < len(answers) && err == nil; i++ {
					same(t, c.want, answers[i].Decision.Revision)
				}
				for _, r := range f.records {
					same(t, c.want, r.Decision.Revision)
				}
				f.Live.Swap(nil)
			})
		}
	}
}

// newTestKey returns a fixture whose caller has a test key. It has no lineup, which nothing may need.
func newTestKey(t *testing.T) *fixture {
	f := newFixture(t)
	f.caller.Limits = apikey.Limits{Test: true}
	return f
}

func TestTestValues(t *testing.T) {
	t.Parallel()
	f := newTestKey(t)
	for _, v := range check.TestValues() {
		t.Run(string(v.Type)+" "+v.Answer, func(t *testing.T) {
			t.Parallel()
			value := v.Value
			if v.Type == entity.Email {
				value = "Jane.Doe+1@" + v.Value
			}
			e := expect.Value(entity.Parse(v.Type, value, "FR"))(t)
			expect.Must(t, strings.HasSuffix(e.Value, v.Value), "parsed as %q", e.Value)
			d, err := f.check(field(v.Type, " "+value+" "))
			switch v.Answer {
			case check.TestQuota:
				var quota *check.QuotaError
				expect.That(t, errors.As(err, &quota) && quota.Quota == f.caller.Plan.Quota &&
					quota.ResetAt.Equal(time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)),
					"error %v, want a *QuotaError until February", err)
			case check.TestUnavailable:
				expect.That(t, errors.As(err, new(*check.UnavailableError)), "error %v, want an *UnavailableError", err)
			default:
				expect.NoError(t, err)
				expect.That(t, string(d.Verdict) == v.Answer && bands.Verdict(d.Score) == d.Verdict &&
					len(d.Signals) == 1 && (d.Threat == "") == (d.Verdict == check.Allow) && d.Type == v.Type &&
					d.Query == " "+value+" " && strings.HasPrefix(d.Ref, "test_") && len(d.Ref) == len("test_")+26,
					"%+v", d)
			}
		})
	}
	t.Cleanup(func() {
		expect.That(t, len(f.records) == 0 && len(f.done) == 0 && len(f.ran) == 0,
			"%d records, %d observed, layers %v; want no trace", len(f.records), len(f.done), f.ran)
	})
}

func TestTestKeysCheckNothingElse(t *testing.T) {
	t.Parallel()
	f := newTestKey(t)
	free, _ := check.PlanNamed("free")
	for _, c := range []struct {
		name  string
		plan  check.Plan
		field check.Field
		want  string
	}{
		{"a real domain", f.caller.Plan, field(entity.Domain, "example.com"),
			"domain: is not a test value such as allow.test, and a test key checks no other"},
		{"a name under a test value", f.caller.Plan, field(entity.Domain, "www.block.test"), "such as allow.test"},
		{"a real mailbox", f.caller.Plan, field(entity.Email, "jane@example.com"), "such as jane@allow.test"},
		{"a real number", f.caller.Plan, field(entity.Phone, "+4930123456"), "such as +12025550100"},
		{"a real IBAN", f.caller.Plan, field(entity.IBAN, "DE89370400440532013000"), "such as GB05TEST00000000000000"},
		{"a domain as an address", f.caller.Plan, field(entity.Email, "block.test"), "email: "},
		{"a type that the plan lacks", free, field(entity.Phone, "+12025550100"), "the free plan does not cover phone"},
	} {
		caller := f.caller
		caller.Plan = c.plan
		d, err := f.Check(t.Context(), check.Request{Caller: caller, Fields: []check.Field{c.field}})
		expect.That(t, d == nil && err != nil && strings.Contains(err.Error(), c.want),
			"%s: got %+v, %v; want an error with %q", c.name, d, err, c.want)
	}
}

func TestBatchWithTestKey(t *testing.T) {
	t.Parallel()
	f := newTestKey(t)
	item := func(t entity.Type, value string) check.Item {
		return check.Item{Fields: []check.Field{field(t, value)}}
	}
	unreadable := errors.New("unreadable")
	answers, err := f.CheckBatch(t.Context(), f.caller, []check.Item{
		item(entity.Domain, "block.test"), {Err: unreadable},
		item(entity.Domain, "example.com"), item(entity.Email, "jo@allow.test")}, nil)
	expect.NoError(t, err)
	expect.That(t, answers[0].Decision.Verdict == check.Block && errors.As(answers[2].Err, new(*entity.InvalidError)) &&
		answers[1].Err == unreadable && answers[3].Decision.Verdict == check.Allow, //nolint:errorlint // the same
		"answers %+v", answers)
	items := []check.Item{item(entity.Domain, "block.test"), item(entity.Domain, "quota.test")}
	_, err = f.CheckBatch(t.Context(), f.caller, items, nil)
	expect.That(t, errors.As(err, new(*check.QuotaError)), "a batch with quota.test: %v", err)
	expect.That(t, len(f.records)+len(f.done)+len(f.ran) == 0, "%d records, %d observed, layers %v; want no trace",
		len(f.records), len(f.done), f.ran)
}
