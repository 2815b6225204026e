package check_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"assay/host/check"
	"assay/host/entity"
	"assay/registry/expect"
)

func same(t *testing.T, want, got any) {
	t.Helper()
	expect.NoDiff(t, "difference", want, got)
}

// layerFunc is a function that acts as a layer.
type layerFunc func(context.Context, check.Input) (check.Result, error)

func (f layerFunc) Score(ctx context.Context, facts check.Input) (check.Result, error) {
	return f(ctx, facts)
}

// gives returns a layer that always returns the same.
func gives(r check.Result, err error) layerFunc {
	return func(context.Context, check.Input) (check.Result, error) { return r, err }
}

// fixture is a Checker that is its own ledger and observer, and keeps what these receive.
type fixture struct {
	check.Checker
	caller    check.Caller
	appendErr error // returned by Append

	mu       sync.Mutex
	ran      []string // names of the layers that ran, in order
	records  []check.Record
	failures []*check.Failure // nil for calls that succeeded
	done     []*check.Decision
}

// newFixture returns a checker whose lineup has a layer of each name.
func newFixture(t *testing.T, layers ...string) *fixture {
	t.Helper()
	pro, ok := check.PlanNamed("pro")
	expect.Must(t, ok, "plan pro does not exist")
	f := &fixture{caller: check.Caller{Account: "acct_1", Key: "key_1", Plan: pro}}
	f.Checker = check.Checker{
		Live: &check.Live{}, Ledger: f, Observer: f, Deadline: time.Minute,
		Now: func() time.Time { return time.Date(2026, 1, 2, 4, 4, 5, 6_999_999, time.FixedZone("CET", 3600)) },
	}
	for _, name := range layers {
		f.swap(1, f.member(name))
	}
	return f
}

func (f *fixture) Append(_ context.Context, records ...check.Record) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.records = append(f.records, records...)
	return f.appendErr
}

func (f *fixture) LayerRan(_ entity.Type, o check.Outcome, failure *check.Failure) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if (o.Failure != "") != (failure != nil) {
		panic("the outcome and the failure disagree")
	}
	f.failures = append(f.failures, failure)
}

func (f *fixture) CheckDone(d *check.Decision, _ time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.done = append(f.done, d)
}

// member returns a member of weight 1 whose layer scores 50 and records its calls in f.ran.
func (f *fixture) member(name string, types ...entity.Type) check.Member {
	return f.memberFunc(name, gives(check.Result{Score: 50}, nil), types...)
}

func (f *fixture) memberFunc(name string, layer layerFunc, types ...entity.Type) check.Member {
	if len(types) == 0 {
		types = entity.Types()
	}
	return check.Member{
		Name: name, Version: "1.0.0", Weight: eachType(1), Range: full, Entities: types,
		Layer: layerFunc(func(ctx context.Context, facts check.Input) (check.Result, error) {
			f.mu.Lock()
			f.ran = append(f.ran, name)
			f.mu.Unlock()
			return layer(ctx, facts)
		}),
	}
}

// eachType returns the same number for all types.
func eachType(number float64) check.ByType {
	b := check.ByType{}
	for _, t := range entity.Types() {
		b[t] = number
	}
	return b
}

func (f *fixture) swap(revision int64, members ...check.Member) <-chan struct{} {
	return f.Live.Swap(check.NewLineup(revision, nil, bands, members))
}

func (f *fixture) check(fields ...check.Field) (*check.Decision, error) {
	return f.Check(context.Background(), check.Request{Caller: f.caller, Fields: fields, Country: "FR"})
}

func (f *fixture) mustCheck(t *testing.T, fields ...check.Field) *check.Decision {
	t.Helper()
	return expect.Value(f.check(fields...))(t)
}

func field(t entity.Type, value string) check.Field { return check.Field{Type: t, Value: value} }

var (
	aDomain = field(entity.Domain, "Example.COM")
	anEmail = field(entity.Email, "jane@example.com")
	aPhone  = field(entity.Phone, "06 12 34 56 78")
	anIBAN  = field(entity.IBAN, "DE89 3704 0044 0532 0130 00")
)

func TestFirstFieldByTypeIsScored(t *testing.T) {
	t.Parallel()
	type testCase struct {
		fields         []check.Field
		scored         entity.Type
		query          string
		linked, warned []string
	}
	expect.Each(t, map[string]testCase{
		"domain before all": {[]check.Field{anIBAN, aPhone, anEmail, aDomain}, entity.Domain, aDomain.Value,
			[]string{"jane@example.com", "+33612345678", "DE89370400440532013000"}, nil},
		"email before phone": {[]check.Field{aPhone, anEmail, anIBAN}, entity.Email, anEmail.Value,
			[]string{"+33612345678", "DE89370400440532013000"}, nil},
		"phone before iban": {[]check.Field{anIBAN, aPhone}, entity.Phone, aPhone.Value,
			[]string{"DE89370400440532013000"}, nil},
		"iban alone": {[]check.Field{anIBAN}, entity.IBAN, anIBAN.Value, nil, nil},
		"an empty field counts as missing": {[]check.Field{field(entity.Domain, ""), anEmail},
			entity.Email, anEmail.Value, nil, nil},
		"an invalid field is not linked": {[]check.Field{field(entity.IBAN, "?"), aPhone, field(entity.Email, "nobody"),
			aDomain}, entity.Domain, aDomain.Value, []string{"+33612345678"}, []string{"email: has no '@'",
			"iban: contains '?'; an IBAN consists of letters A-Z and digits"}},
	}, func(t *testing.T, c testCase) {
		f := newFixture(t, "a")
		d := f.mustCheck(t, c.fields...)
		expect.That(t, d.Type == c.scored && d.Query == c.query, "scored %s %q, want %s %q", d.Type, d.Query,
			c.scored, c.query)
		r := f.records[0]
		var linked []string
		for _, e := range r.Linked {
			linked = append(linked, e.Value)
		}
		same(t, c.linked, linked)
		var warned []string
		for _, w := range d.Warnings {
			warned = append(warned, w.Message)
		}
		same(t, c.warned, warned)
		expect.That(t, r.Entity.Type == c.scored && r.Decision == d && r.Caller.Key == "key_1",
			"the record has type %s and key %s", r.Entity.Type, r.Caller.Key)
	})
}

func TestRefusedRequests(t *testing.T) {
	t.Parallel()
	free, _ := check.PlanNamed("free")
	public := check.PublicPlan()
	pro, _ := check.PlanNamed("pro")
	type testCase struct {
		plan    check.Plan
		fields  []check.Field
		country string
		want    string // in the error's text
		as      any    // the type that the error must have
	}
	expect.Each(t, map[string]testCase{
		"no fields": {pro, nil, "", "domain, email, phone or iban", new(check.NoFieldError)},
		"blank fields only": {pro, []check.Field{field(entity.Domain, "  "), field(entity.IBAN, "\u3000")}, "",
			"domain, email, phone or iban", new(check.NoFieldError)},
		"invalid domain": {pro, []check.Field{field(entity.Domain, "not a domain")}, "", "domain: ",
			new(*entity.InvalidError)},
		"unknown country": {pro, []check.Field{aDomain}, "Utopia", "region.country: ", new(*entity.InvalidError)},
		"phone on free": {free, []check.Field{aPhone}, "FR",
			"the free plan does not cover phone checks, only domain and email", new(*check.PlanError)},
		"email without a key": {public, []check.Field{anEmail}, "",
			"the public plan does not cover email checks, only domain", new(*check.PlanError)},
		"no plan": {check.Plan{}, []check.Field{aDomain}, "", "domain", new(*check.PlanError)},
	}, func(t *testing.T, c testCase) {
		f := newFixture(t, "a")
		d, err := f.Check(context.Background(), check.Request{Caller: check.Caller{Plan: c.plan}, Fields: c.fields,
			Country: c.country})
		expect.That(t, d == nil && err != nil && strings.Contains(err.Error(), c.want) && errors.As(err, c.as),
			"got %+v, %T %v; want a %T containing %q", d, err, err, c.as, c.want)
		expect.That(t, len(f.ran)+len(f.records)+len(f.done) == 0,
			"a refused request ran layers %v and left %d records, %d decisions", f.ran, len(f.records), len(f.done))
	})
}

func TestLedgerErrors(t *testing.T) {
	t.Parallel()
	quota := &check.QuotaError{Quota: 50, ResetAt: time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)}
	down := errors.New("no connection")
	type testCase struct {
		err    error
		passed bool
	}
	expect.Each(t, map[string]testCase{
		"key ended, wrapped": {fmt.Errorf("appending: %w", check.ErrUnauthorized), true},
		"answered":           {check.ErrAnswered, true},
		"unavailable":        {&check.UnavailableError{Part: "ledger", Err: down}, true},
		"quota, wrapped":     {fmt.Errorf("appending: %w", quota), true},
		"database down":      {down, false},
	}, func(t *testing.T, c testCase) {
		f := newFixture(t, "a")
		f.appendErr = c.err
		d, err := f.check(aDomain)
		expect.Must(t, d == nil && errors.Is(err, c.err) && len(f.done) == 0, "got %+v, %v; observed %d decisions",
			d, err, len(f.done))
		var internal *check.InternalError
		expect.Must(t, c.passed != errors.As(err, &internal), "the error is a %T", err)
		expect.That(t, internal == nil || internal.Ref == f.records[0].Decision.Ref && strings.Contains(err.Error(),
			internal.Ref), "the error %q lacks the reference %s", err, f.records[0].Decision.Ref)
		f = newFixture(t, "a") // the other one remembers a spent quota
		f.appendErr = c.err
		answers, err := f.CheckBatch(t.Context(), f.caller, batchOf(2), nil)
		expect.That(t, answers == nil && errors.Is(err, c.err) && c.passed != errors.As(err, &internal) &&
			len(f.records) == 2 && len(f.done) == 0, "a batch: got %v, %v, %d records were appended, %d observed",
			answers, err, len(f.records), len(f.done))
	})
}

func TestErrorTextsForClients(t *testing.T) {
	t.Parallel()
	quota := &check.QuotaError{Quota: 150, ResetAt: time.Date(2026, 1, 31, 23, 0, 0, 0, time.FixedZone("west", -3600))}
	same(t, "the monthly quota of 150 checks is used up; it resets on 2026-02-01", quota.Error())
	failure := &check.Failure{Reason: check.Trap, Rule: "the layer crashed", Err: context.Canceled}
	same(t, "trap: the layer crashed", failure.Error())
	expect.Equal(t, "the failure shows its cause", errors.Is(failure, context.Canceled), true)
}

// A check fails before the first lineup, and keeps the one that it began with.
func TestCheckKeepsItsLineupThroughASwap(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	_, err := f.check(aDomain)
	var internal *check.InternalError
	expect.That(t, errors.As(err, &internal) && errors.Is(err, check.ErrNoLineup) &&
		strings.HasPrefix(internal.Ref, "chk_"), "got %v, want an InternalError wrapping ErrNoLineup", err)
	expect.Equal(t, "a check without a decision was recorded", len(f.records), 0)
	var drained <-chan struct{}
	f.swap(1, f.memberFunc("swapper", func(context.Context, check.Input) (check.Result, error) {
		drained = f.swap(2, f.member("next"))
		return check.Result{Score: 10}, nil
	}), f.memberFunc("last", func(context.Context, check.Input) (check.Result, error) {
		expect.Equal(t, "the lineup drained during a check", closed(drained), false)
		return check.Result{Score: 20}, nil
	}))
	d := f.mustCheck(t, aDomain)
	same(t, []string{"swapper", "last"}, f.ran)
	expect.Equal(t, "decided by revision", d.Revision, 1)
	expect.Equal(t, "drained after the check", closed(drained), true)
	d = f.mustCheck(t, aDomain)
	expect.That(t, d.Revision == 2 && f.ran[2] == "next", "the next check ran %v under revision %d", f.ran[2:],
		d.Revision)
}

// A lineup's floor bounds how much a layer clears, and a weight may differ by type.
func TestFloorAndWeightByType(t *testing.T) {
	t.Parallel()
	type testCase struct {
		score        int
		bounds       check.Range
		field        check.Field
		want         int
		contribution float64
	}
	expect.Each(t, map[string]testCase{
		"above the floor":    {-30, check.Range{-40, 0}, anEmail, -30, -0.6},
		"below the floor":    {-80, check.Range{-40, 0}, anEmail, -40, -0.8},
		"no clearing at all": {-80, check.Range{0, 100}, anEmail, 0, 0},
		"accusing":           {60, check.Range{-40, 100}, anEmail, 60, 1.2},
		"another type":       {-80, check.Range{-40, 0}, field(entity.Domain, "example.com"), -40, -2},
	}, func(t *testing.T, c testCase) {
		f := newFixture(t)
		result := check.Result{Score: c.score, Signals: []check.Signal{sig(c.score, "a:b:c")}}
		m := f.memberFunc("age", gives(result, nil))
		m.Range, m.Weight = c.bounds, check.ByType{entity.Email: 2, entity.Domain: 5}
		f.swap(1, m)
		if o := f.mustCheck(t, c.field).Layers[0]; o.Score != c.want || o.Contribution != c.contribution {
			t.Errorf("score %d, contribution %v, want %d and %v", o.Score, o.Contribution, c.want, c.contribution)
		}
	})
}

func TestDecision(t *testing.T) {
	t.Parallel()
	f, signals := newFixture(t), []check.Signal{sig(80, "a:b:c")}
	heavy := f.memberFunc("heavy", gives(check.Result{Score: 80, Signals: signals, Threat: "phishing"}, nil))
	heavy.Weight, heavy.Required, heavy.Version = eachType(5), true, "2.1.0"
	// Score, signals and threat of an abstaining layer do not count.
	abstained := check.Result{Abstained: true, Score: 100, Signals: []check.Signal{sig(100, "x:y:z")}, Threat: "spam"}
	f.swap(3, heavy, f.memberFunc("abstainer", gives(abstained, nil)),
		f.memberFunc("broken", gives(check.Result{Score: 100, Threat: "spam"}, &check.Failure{Reason: check.Trap,
			Err: errors.New("unreachable code")})),
		f.memberFunc("odd", gives(check.Result{}, &check.Failure{Reason: check.Exhausted,
			Err: errors.New("the odd layer ran out of fuel")})))
	d := f.mustCheck(t, anEmail)
	for i := range d.Layers {
		expect.That(t, d.Layers[i].Micros >= 0, "layer %d took %d us", i, d.Layers[i].Micros)
		d.Layers[i].Micros = 0
	}
	expect.Equal(t, "the time is in", d.At.Location(), time.UTC)
	ref := d.Ref
	expect.That(t, d.Terms != nil && len(d.Terms.Layers) == len(d.Layers) && d.Terms.Layers[0].Name == "heavy",
		"terms %+v of %d layers", d.Terms, len(d.Layers))
	d.Terms = nil
	same(t, &check.Decision{
		Fused: check.Fused{Score: 98, Lowest: 98, Highest: 100, Verdict: check.Block, Threat: "phishing",
			Signals: append(signals, check.Signal{Code: "host:degraded:broken",
				Text: "Assay: The broken layer failed; with it, the score would be between 98 and 100"},
				check.Signal{Code: "host:degraded:odd",
					Text: "Assay: The odd layer failed; with it, the score would be between 98 and 100"})},
		Ref: ref, Type: entity.Email, Query: "jane@example.com", Revision: 3,
		At: time.Date(2026, 1, 2, 3, 4, 5, 6_000_000, time.UTC), // UTC, whole milliseconds
		Layers: []check.Outcome{
			{Layer: "heavy", Version: "2.1.0", Weight: 5, Range: full, Score: 80, Contribution: 4, Required: true,
				Threat: "phishing", Signals: signals},
			{Layer: "abstainer", Version: "1.0.0", Weight: 1, Range: full, Abstained: true},
			{Layer: "broken", Version: "1.0.0", Weight: 1, Range: full, Failure: check.Trap},
			{Layer: "odd", Version: "1.0.0", Weight: 1, Range: full, Failure: check.Exhausted},
		},
	}, d)
	expect.That(t, len(f.done) == 1 && f.done[0] == d && len(f.failures) == 4 && f.failures[1] == nil &&
		f.failures[2].Reason == check.Trap && strings.Contains(f.failures[3].Err.Error(), "odd"),
		"observed %d decisions and the failures %v", len(f.done), f.failures)
}

func TestExplainRecordsNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.swap(4, f.member("a"))
	d, err := f.Explain(context.Background(), aPhone, "FR")
	expect.That(t, err == nil && d.Type == entity.Phone && d.Revision == 4 && d.Score == 62, "explained as %+v, %v", d,
		err)
	expect.Equal(t, "an explanation was recorded", len(f.records)+len(f.done), 0)
	_, err = f.Explain(context.Background(), field(entity.Phone, " "), "")
	expect.That(t, errors.As(err, new(check.NoFieldError)), "blank: %v", err)
}

// TestContract of the module compares what plans include.
func TestPlanNamed(t *testing.T) {
	t.Parallel()
	for _, name := range append(check.PlanNames(), "public") {
		p, ok := check.PlanNamed(name)
		expect.That(t, ok && p.Name == name && p.Covers(entity.Domain), "plan %s is %+v, %t", name, p, ok)
	}
	p, ok := check.PlanNamed("growth")
	expect.That(t, !ok && !p.Covers(entity.Domain), "unexpected plan: %+v", p)
}

func TestReferencesAreUniqueAndSortByTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // the machine's clock may be set back
		const count, timeChars = 10_000, 10 // a ULID begins with 10 characters of time
		seen, before := map[string]bool{}, ""
		for range count {
			ref := check.NewRef()
			ulid, ok := strings.CutPrefix(ref, "chk_")
			expect.Must(t, ok && len(ulid) == 26, "reference %q is not chk_ and a ULID", ref)
			expect.Must(t, ulid[:timeChars] >= before, "reference %q is earlier than its predecessor", ref)
			seen[ref], before = true, ulid[:timeChars]
			<-time.After(time.Millisecond / 10)
		}
		expect.Equal(t, "references", len(seen), count)
	})
}
