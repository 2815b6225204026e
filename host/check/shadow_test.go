package check_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"assay/host/check"
	"assay/host/entity"
	"assay/registry/expect"
)

// wantedFacts is a Collector that notes what is wanted of it, and knows every fact.
type wantedFacts struct{ asked chan []string }

func (c wantedFacts) Collect(_ context.Context, _ string, _ entity.Entity, wanted []string) (entity.Facts, []string,
	error) {
	c.asked <- wanted
	facts := entity.Facts{}
	for _, name := range wanted {
		facts[name] = "known"
	}
	return facts, nil, nil
}

// shadowRun is what ShadowRan receives.
type shadowRun struct {
	live     *check.Decision
	shadow   check.Fused
	outcomes []check.Outcome
}

// shadowRuns receives what shadow layers find, and counts what they leave out.
type shadowRuns struct {
	ran  chan shadowRun
	left atomic.Int32
}

func (r *shadowRuns) ShadowRan(live *check.Decision, shadow check.Fused, outcomes []check.Outcome) {
	r.ran <- shadowRun{live, shadow, outcomes}
}

func (r *shadowRuns) ShadowLeftOut(*check.Decision) { r.left.Add(1) }

// shadowFixture has a live layer and a shadow layer that blocks, each with a fact of its own.
func shadowFixture(t *testing.T) (f *fixture, collector wantedFacts, runs *shadowRuns) {
	t.Helper()
	f = newFixture(t)
	collector, runs = wantedFacts{make(chan []string, 4)}, &shadowRuns{ran: make(chan shadowRun, 1)}
	live := f.member("live")
	live.Facts = []string{"dns.a", "domain.name"}
	shadow := f.memberFunc("candidate", func(_ context.Context, in check.Input) (check.Result, error) {
		for _, fact := range []string{"dns.a", "rdap.age_days", "config.zone"} {
			_, ok := in.Get(fact)
			expect.That(t, ok, "the shadow layer lacks %s", fact)
		}
		return check.Result{Score: 100}, nil
	})
	shadow.Facts, shadow.Weight, shadow.Shadow = []string{"dns.a", "rdap.age_days"}, eachType(20), true
	shadow.Config = map[string]string{"zone": "UTC"}
	f.Collector = collector
	f.Shadow = &check.Shadow{Collector: collector, Observer: runs}
	f.swap(1, live, shadow)
	return f, collector, runs
}

// A shadow layer changes neither the answer nor what is looked up for it. Afterwards it runs with all of its facts.
func TestShadowRunsAfterTheAnswer(t *testing.T) {
	t.Parallel()
	f, collector, runs := shadowFixture(t)
	d := f.mustCheck(t, aDomain)
	expect.That(t, len(d.Layers) == 1 && slices.Equal(f.ran, []string{"live"}),
		"the decision has the layers %+v after %v ran", d.Layers, f.ran)
	same(t, []string{"dns.a"}, <-collector.asked)
	go f.Shadow.Run(t.Context())
	got := <-runs.ran
	same(t, []string{"rdap.age_days"}, <-collector.asked)
	expect.That(t, got.live == d && got.shadow.Verdict == check.Block && len(got.outcomes) == 1 &&
		got.outcomes[0].Layer == "candidate", "the shadow layers gave %+v", got)
	expect.Equal(t, "checks left out", runs.left.Load(), 0)

	// Each check of a batch gets its shadow run too.
	expect.Value(f.CheckBatch(t.Context(), f.caller, batchOf(2), nil))(t)
	for range 2 {
		<-runs.ran
	}
}

// A check is left out while the queue is full, and after Run has ended. A queued check keeps its lineup open.
func TestShadowLeavesOut(t *testing.T) {
	t.Parallel()
	f, _, runs := shadowFixture(t)
	f.Collector = nil
	const queued, more = 256, 5
	for range queued + more {
		f.mustCheck(t, aDomain)
	}
	expect.Equal(t, "checks left out", runs.left.Load(), more)
	ctx, cancel := context.WithCancel(t.Context())
	f.Shadow.Spare = func(ctx context.Context, _ func()) error {
		cancel()
		<-ctx.Done()
		return ctx.Err()
	}
	drained := f.swap(2)
	expect.Equal(t, "the lineup drained before the shadow layers ran", closed(drained), false)
	f.Shadow.Collector = nil
	f.Shadow.Run(ctx)
	<-drained
	expect.Equal(t, "checks left out", runs.left.Load(), queued+more)

	shadow := f.member("late")
	shadow.Shadow = true
	f.swap(3, f.member("live"), shadow)
	f.mustCheck(t, aDomain)
	<-f.swap(4)
	expect.Equal(t, "checks left out", runs.left.Load(), queued+more+1)
}

// A check is left out if its shadow layers cannot find what they would have found before the answer, and if no lineup
// would have changed its verdict, it is not counted.
func TestShadowNeedsFactsAndLayers(t *testing.T) {
	t.Parallel()
	type setup struct {
		fixture *fixture
		layer   *layerFunc
		shadow  *check.Member
	}
	fails := func(err error) func(setup) {
		return func(s setup) { *s.layer = gives(check.Result{}, err) }
	}
	type testCase struct {
		prepare func(s setup)
		ran     int
		left    int32
	}
	expect.Each(t, map[string]testCase{
		"all is well":                         {func(setup) {}, 1, 0},
		"a fact of the host's own is missing": {func(s setup) { s.fixture.Shadow.Collector = noFacts{} }, 0, 1},
		"the call was not completed":          {fails(errors.New("no time")), 0, 1},
		"the layer fails":                     {fails(&check.Failure{Reason: check.Trap}), 1, 0},
		"no processor is free": {func(s setup) {
			s.fixture.Shadow.Spare = func(context.Context, func()) error { return context.DeadlineExceeded }
		}, 0, 1},
		"an override decided": {func(s setup) {
			s.fixture.Overrides = &fixedOverrides{found: &check.Override{ID: "ovr_1", Verdict: check.Block}}
		}, 0, 0},
	}, func(t *testing.T, c testCase) {
		f, runs := newFixture(t), &shadowRuns{ran: make(chan shadowRun, 1)}
		layer := gives(check.Result{}, nil)
		shadow := f.memberFunc("shadow", func(ctx context.Context, in check.Input) (check.Result, error) {
			return layer(ctx, in)
		})
		shadow.Shadow, shadow.Facts = true, []string{"dns.a"}
		f.Shadow = &check.Shadow{Observer: runs}
		c.prepare(setup{f, &layer, &shadow})
		f.swap(1, f.member("live"), shadow)
		f.mustCheck(t, aDomain)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() { f.Shadow.Run(ctx) })
		<-f.swap(2) // waits for the queued check
		cancel()
		all.Wait()
		same(t, c.ran, len(runs.ran))
		expect.Equal(t, "checks left out", runs.left.Load(), c.left)
	})
}

// What a shadow layer finds is exactly what a check finds when the layer counts.
func TestShadowEqualsLive(t *testing.T) {
	t.Parallel()
	members := func(f *fixture, shadow bool) (all []check.Member) {
		for i := range 12 {
			m := f.memberFunc(fmt.Sprint("layer", i), func(_ context.Context, in check.Input) (check.Result, error) {
				value, _ := in.Get("domain.ascii")
				points := int(value[0]) % 61
				return check.Result{Score: points, Threat: "phishing", Signals: []check.Signal{
					{Points: points, Code: fmt.Sprint("a:b:", i), Text: fmt.Sprint(points)}}}, nil
			})
			m.Weight, m.Shadow = eachType(0.7), shadow && i%3 == 0
			all = append(all, m)
		}
		return all
	}
	f, runs := newFixture(t), &shadowRuns{ran: make(chan shadowRun, 26)}
	f.Shadow = &check.Shadow{Observer: runs}
	f.swap(1, members(f, true)...)
	value := func(i int) check.Field { return field(entity.Domain, string(rune('a'+i))+"-b.com") }
	for i := range cap(runs.ran) {
		f.mustCheck(t, value(i))
	}
	go f.Shadow.Run(t.Context())
	f.swap(2, members(f, false)...)
	for i := range cap(runs.ran) {
		same(t, f.mustCheck(t, value(i)).Fused, (<-runs.ran).shadow)
	}
}

// While checks are in progress, shadow layers have a twentieth of one processor.
func TestShadowPauses(t *testing.T) {
	t.Parallel()
	type testCase struct {
		busy bool
		took time.Duration // a call of the layer
		want time.Duration // 10 checks
	}
	expect.Each(t, map[string]testCase{
		"idle":          {false, 3 * time.Millisecond, 30 * time.Millisecond},
		"busy":          {true, 3 * time.Millisecond, 10 * 63 * time.Millisecond},
		"busy, briefly": {true, 50 * time.Microsecond, 10 * 2050 * time.Microsecond},
	}, func(t *testing.T, c testCase) {
		synctest.Test(t, func(t *testing.T) {
			f, runs := newFixture(t), &shadowRuns{ran: make(chan shadowRun, 11)}
			layer := f.memberFunc("shadow", func(context.Context, check.Input) (check.Result, error) {
				<-time.After(c.took)
				return check.Result{}, nil
			})
			layer.Shadow = true
			f.Shadow = &check.Shadow{Observer: runs, Idle: func() bool { return !c.busy }}
			f.swap(1, f.member("live"), layer)
			for range cap(runs.ran) {
				f.mustCheck(t, aDomain)
			}
			ctx, stop := context.WithCancel(t.Context())
			var running sync.WaitGroup
			running.Go(func() { f.Shadow.Run(ctx) })
			<-runs.ran
			began := time.Now()
			for range cap(runs.ran) - 1 {
				<-runs.ran
			}
			same(t, c.want, time.Since(began))
			stop()
			running.Wait()
		})
	})
}

// noFacts is a Collector whose database does not respond.
type noFacts struct{}

func (noFacts) Collect(context.Context, string, entity.Entity, []string) (entity.Facts, []string, error) {
	return nil, nil, &check.UnavailableError{Part: "facts"}
}

// A canary scores for its share of the accounts, always the same ones, in single checks and batches.
func TestCanary(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	base := check.NewLineup(1, nil, bands, []check.Member{f.member("base")})
	base.Canary = &check.Canary{Lineup: check.NewLineup(2, nil, bands, []check.Member{f.member("canary")}), Percent: 5,
		Seed: []byte("seed")}
	f.Live.Swap(base)
	const accounts = 4000
	taken := 0
	for i := range accounts {
		account := fmt.Sprintf("acct_%d", i)
		l := base.For(account)
		if l != base {
			taken++
		}
		if i >= 100 {
			continue
		}
		f.caller.Account = account
		expect.Equal(t, account+" is scored by revision", f.mustCheck(t, aDomain).Revision, l.Revision)
		answers, err := f.CheckBatch(t.Context(), f.caller, []check.Item{{Fields: []check.Field{aDomain}}}, nil)
		expect.That(t, err == nil && answers[0].Decision.Revision == l.Revision, "%s in a batch: %+v, %v", account,
			answers, err)
	}
	expect.That(t, taken >= accounts*3/100 && taken <= accounts*7/100,
		"the canary takes %d of %d accounts, want about 5%%", taken, accounts)
	expect.Equal(t, "the canary scores for nobody's account", base.For(""), base)
	d, err := f.Explain(t.Context(), aDomain, "")
	expect.That(t, err == nil && d.Revision == 1, "explained by %+v, %v", d, err)
}
