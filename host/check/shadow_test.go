package check_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"assay/host/check"
	"assay/host/entity"
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

// shadowRun is what Shadow.Ran receives.
type shadowRun struct {
	live     *check.Decision
	shadow   check.Fused
	outcomes []check.Outcome
}

// shadowFixture has a live layer and a shadow layer that blocks, each with a fact of its own.
func shadowFixture(t *testing.T) (f *fixture, collector wantedFacts, ran chan shadowRun) {
	t.Helper()
	f = newFixture(t)
	collector, ran = wantedFacts{make(chan []string, 4)}, make(chan shadowRun, 1)
	live := f.member("live")
	live.Facts = []string{"dns.a", "domain.name"}
	shadow := f.memberFunc("candidate", func(_ context.Context, in check.Input) (check.Result, error) {
		for _, fact := range []string{"dns.a", "rdap.age_days", "config.zone"} {
			if _, ok := in.Get(fact); !ok {
				t.Errorf("the shadow layer lacks %s", fact)
			}
		}
		return check.Result{Score: 100}, nil
	})
	shadow.Facts, shadow.Weight, shadow.Shadow = []string{"dns.a", "rdap.age_days"}, eachType(20), true
	shadow.Config = map[string]string{"zone": "UTC"}
	f.Collector = collector
	f.Shadow = &check.Shadow{Collector: collector, Ran: func(_ entity.Type, live *check.Decision, shadow check.Fused,
		outcomes []check.Outcome) {
		ran <- shadowRun{live, shadow, outcomes}
	}}
	f.swap(1, live, shadow)
	return f, collector, ran
}

// A shadow layer changes neither the answer nor what is looked up for it. Afterwards it runs with all of its facts.
func TestShadowRunsAfterTheAnswer(t *testing.T) {
	t.Parallel()
	f, collector, ran := shadowFixture(t)
	d := f.mustCheck(t, aDomain)
	if len(d.Layers) != 1 || !slices.Equal(f.ran, []string{"live"}) {
		t.Errorf("the decision has the layers %+v after %v ran", d.Layers, f.ran)
	}
	same(t, []string{"dns.a"}, <-collector.asked)
	go f.Shadow.Run(t.Context())
	got := <-ran
	same(t, []string{"rdap.age_days"}, <-collector.asked)
	if got.live != d || got.shadow.Verdict != check.Block || len(got.outcomes) != 1 ||
		got.outcomes[0].Layer != "candidate" {
		t.Errorf("the shadow layers gave %+v", got)
	}
	if f.Shadow.LeftOut() != 0 {
		t.Errorf("%d checks were left out", f.Shadow.LeftOut())
	}
}

// Each check of a batch gets its shadow run too.
func TestShadowOfABatch(t *testing.T) {
	t.Parallel()
	f, collector, ran := shadowFixture(t)
	go f.Shadow.Run(t.Context())
	go func() {
		for range collector.asked { //nolint:revive // only emptied
		}
	}()
	_, err := f.CheckBatch(t.Context(), f.caller, []check.Item{{Fields: []check.Field{aDomain}},
		{Fields: []check.Field{anEmail}}})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		<-ran
	}
}

// A check that is answered while the queue is full is left out. A queued check keeps its lineup open.
func TestShadowLeavesOut(t *testing.T) {
	t.Parallel()
	f, _, _ := shadowFixture(t)
	f.Collector = nil
	const queued, more = 256, 5
	for range queued + more {
		f.mustCheck(t, aDomain)
	}
	if n := f.Shadow.LeftOut(); n != more {
		t.Errorf("%d checks were left out, want %d", n, more)
	}
	drained := f.swap(2)
	if closed(drained) {
		t.Error("the lineup drained before the shadow layers ran")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f.Shadow.Idle = func() bool { return false }
	f.Shadow.Run(ctx)
	<-drained
}

// While checks are judged, shadow layers wait. When that lasts, they are left out, and the lineup is released.
func TestShadowWaitsUntilIdle(t *testing.T) {
	t.Parallel()
	f, collector, ran := shadowFixture(t)
	var asked atomic.Int32
	f.Shadow.Idle = func() bool { return asked.Add(1) > 3 }
	f.mustCheck(t, aDomain)
	<-collector.asked
	go f.Shadow.Run(t.Context())
	<-ran
	if n := asked.Load(); n != 4 {
		t.Errorf("ran after %d questions", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	f.Shadow.Idle = func() bool { cancel(); return false }
	f.mustCheck(t, aDomain)
	drained := f.swap(2)
	f.Shadow.Run(ctx)
	<-drained
	if n := f.Shadow.LeftOut(); n != 1 {
		t.Errorf("%d checks were left out, want 1", n)
	}
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
		if d := f.mustCheck(t, aDomain); d.Revision != l.Revision {
			t.Errorf("%s was scored by revision %d, then by %d", account, l.Revision, d.Revision)
		}
		answers, err := f.CheckBatch(t.Context(), f.caller, []check.Item{{Fields: []check.Field{aDomain}}})
		if err != nil || answers[0].Decision.Revision != l.Revision {
			t.Errorf("%s in a batch: %+v, %v", account, answers, err)
		}
	}
	if taken < accounts*3/100 || taken > accounts*7/100 {
		t.Errorf("the canary takes %d of %d accounts, want about 5%%", taken, accounts)
	}
	if base.For("") != base {
		t.Error("the canary scores for nobody's account")
	}
	if d, err := f.Explain(t.Context(), aDomain, ""); err != nil || d.Revision != 1 {
		t.Errorf("explained by %+v, %v", d, err)
	}
}
