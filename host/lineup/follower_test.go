package lineup

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"assay/host/check"
	"assay/host/entity"
	"assay/host/sandbox"
	"assay/host/store"
	"assay/host/store/postgres/postgrestest"
	"assay/host/store/storetest"
	"assay/registry"
	"assay/registry/activation"
	"assay/registry/expect"
)

type nopObserver struct{}

func (nopObserver) LayerRan(entity.Type, check.Outcome, *check.Failure) {}
func (nopObserver) CheckDone(*check.Decision, time.Duration)            {}

// proCaller returns a caller on the Pro plan, which may check every type.
func proCaller(t *testing.T) check.Caller {
	t.Helper()
	return check.Caller{Account: "acct_test", Key: "key_test", Plan: storetest.Plan(t, "pro", 1)}
}

func (h *host) score(t *testing.T) string { t.Helper(); return h.scoreFor(t, "acct_test") }

// scoreFor checks a domain for an account, and returns the decision's revision and score, or the error.
func (h *host) scoreFor(t *testing.T, account string) string {
	t.Helper()
	caller := proCaller(t)
	caller.Account = account
	d, err := h.checker().Check(t.Context(),
		check.Request{Caller: caller, Fields: []check.Field{{Type: entity.Domain, Value: "example.org"}}})
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("revision %d: %d", d.Revision, d.Score)
}

func TestFollowSwapsInTheActiveRevision(t *testing.T) {
	t.Parallel()
	h := newHost(t, postgrestest.Database(t))
	h.follow(t, 0)
	got := h.score(t)
	expect.That(t, strings.Contains(got, check.ErrNoLineup.Error()), "before the first lineup: %s", got)
	h.publish(t, module(t, "probe", "1.0.0", 10), module(t, "second", "1.0.0", 20))
	h.follow(t, h.activate(t, lineupOf(-1, "probe@1.0.0")))
	expect.Equal(t, "score", h.score(t), "revision 1: 50")
	h.follow(t, 1)
	h.activate(t, lineupOf(-1, "probe@1.0.0", "second@1.0.0"))
	expect.Equal(t, "before following revision 2", h.score(t), "revision 1: 50")
	h.follow(t, 2)
	expect.Equal(t, "score", h.score(t), "revision 2: 88")
	a, manifests := h.follower.InForce()
	expect.Equal(t, "revision in force", a.Lineup.Revision, 2)
	for _, layer := range a.Document.Layers {
		if m := manifests[layer.Digest]; !strings.HasPrefix(layer.Layer, m.Name+"@") || m.BudgetFuel == 0 {
			t.Errorf("the manifest of %s is missing from %v", layer.Layer, manifests)
		}
	}
	h.rollback(t, 1)
	h.follow(t, 1)
	expect.Equal(t, "after the rollback", h.score(t), "revision 1: 50")
}

// Layers in shadow do not count, and layers that are off are not even opened. A lineup may give a layer less fuel than
// the 1,000,000 that its manifest asks for, next to another lineup that does not.
func TestLayersOfALineup(t *testing.T) {
	t.Parallel()
	second := module(t, "second", "1.0.0", 20)
	h := newHost(t, postgrestest.Database(t), module(t, "probe", "1.0.0", 10), second)
	for _, c := range []struct {
		mode  string
		fuel  int64
		score string
	}{
		{registry.ModeLive, 0, "88"}, {registry.ModeShadow, 0, "50"}, {registry.ModeOff, 0, "50"},
		{registry.ModeLive, 5, "50"}, {registry.ModeLive, 100_000, "88"}, {registry.ModeLive, 0, "88"},
	} {
		l, name := lineupOf(-1, "probe@1.0.0", "second@1.0.0"), fmt.Sprint(c.mode, " ", c.fuel)
		l.Layers[1].Mode, l.Layers[1].Fuel = c.mode, c.fuel
		revision := h.activate(t, l)
		h.follow(t, revision)
		expect.Equal(t, name, h.score(t), fmt.Sprintf("revision %d: %s", revision, c.score))
		h.follower.draining.Wait()
		expect.Equal(t, name+" is open", h.isOpen(second), c.mode != registry.ModeOff)
		candidate := expect.Value(OpenCandidate(t.Context(), h.store, h.box, l, nil))(t)
		tried := &host{live: &check.Live{}}
		tried.live.Swap(check.NewLineup(revision, ByType(l.Bias), check.Bands(l.Bands), candidate.Members))
		expect.Equal(t, name+" as a candidate", tried.score(t), h.score(t))
		expect.NoError(t, candidate.Close())
	}
}

// Lineups and canaries change while checks run. No check fails, and none mixes two revisions. Odd revisions have a bias
// of -1 and a layer of 10 points, even ones -5 and 30, so each score identifies its bias and its layer.
func TestSwapUnderLoad(t *testing.T) {
	t.Parallel()
	h := newHost(t, postgrestest.Database(t), module(t, "probe", "1.0.0", 10), module(t, "probe", "2.0.0", 30))
	lineups := [2]registry.LineupDocument{lineupOf(-5, "probe@2.0.0"), lineupOf(-1, "probe@1.0.0")}
	scores, versions := [2]int{12, 50}, [2]string{"2.0.0", "1.0.0"}
	h.follow(t, h.activate(t, lineups[1]))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var last [4]atomic.Int64 // revision that each worker saw
	var wg sync.WaitGroup
	checker := h.checker()
	for worker := range last {
		caller := proCaller(t)
		caller.Account = fmt.Sprint("acct_", worker)
		wg.Go(func() {
			pace := time.NewTicker(200 * time.Microsecond) // leaves CPU time for the swaps
			defer pace.Stop()
			for ctx.Err() == nil {
				<-pace.C
				d, err := checker.Check(context.Background(),
					check.Request{Caller: caller, Fields: []check.Field{{Type: entity.Domain, Value: "example.org"}}})
				if err != nil {
					t.Errorf("check: %v", err)
					return
				}
				o := d.Layers[0]
				odd := d.Revision % 2
				if d.Score != scores[odd] || o.Version != versions[odd] || o.Failure != "" {
					t.Errorf("revision %d after %d: score %d of layer %s, lost %q", d.Revision, last[worker].Load(),
						d.Score, o.Version, o.Failure)
					return
				}
				last[worker].Store(d.Revision)
			}
		})
	}
	seen := func(revision int64) {
		for worker := range last {
			expect.Until(t, "each worker to check", func() bool { return last[worker].Load() == revision })
		}
	}
	seen(1)
	both := [2]activation.Lineup{h.storeLineup(t, lineups[0]), h.storeLineup(t, lineups[1])}
	for n := int64(2); n <= 62; n++ { // each lineup keeps its revision; the last has no canary
		p := Proposal{Lineup: both[n%2]}
		if n%3 == 0 {
			p.Canary = &activation.Canary{Lineup: both[(n+1)%2], Share: 50}
		}
		h.change(t, p)
		h.follow(t, 2-n%2)
	}
	seen(2)
	stop()
	wg.Wait()
	expect.Until(t, "only the last lineup's plugin to be open", func() bool { return h.openPlugins() == 1 })
}

// A check keeps the plugins of its lineup open. The last check to finish closes them.
func TestRetiredPluginsCloseAfterTheLastCheck(t *testing.T) {
	t.Parallel()
	kept, retired := module(t, "kept", "1.0.0", 1), module(t, "retired", "1.0.0", 2)
	brief, fresh := module(t, "brief", "1.0.0", 3), module(t, "fresh", "1.0.0", 3)
	h := newHost(t, postgrestest.Database(t), kept, retired, brief, fresh)
	h.follow(t, h.activate(t, lineupOf(0, "kept@1.0.0", "retired@1.0.0")))
	held := h.live.Acquire()
	h.follow(t, h.activate(t, lineupOf(0, "kept@1.0.0", "brief@1.0.0")))
	h.follow(t, h.activate(t, lineupOf(0, "kept@1.0.0", "fresh@1.0.0")))
	// No check holds revision 2. Once its plugin is closed, an early release of revision 1 would show as well.
	expect.Until(t, "the plugin of revision 2 to be closed", func() bool { return !h.isOpen(brief) })
	expect.That(t, h.isOpen(kept) && h.isOpen(retired) && h.isOpen(fresh),
		"a plugin was closed while a check held its lineup")
	for _, m := range held.Members {
		result, err := m.Layer.Score(t.Context(), check.Input{})
		expect.That(t, err == nil && result.Score != 0, "layer %s of the old lineup: %+v, %v", m.Name, result, err)
	}
	held.Release()
	expect.Until(t, "the retired plugin to be closed", func() bool { return h.openPlugins() == 2 })
	expect.Equal(t, "score", h.score(t), "revision 3: 60")
}

// A revision that cannot be loaded is refused with a reason, and the previous one stays in force. So is an activation
// whose canary cannot be loaded, as a whole. The next loadable revision is followed.
func TestUnloadableRevisionIsRefused(t *testing.T) {
	t.Parallel()
	database := postgrestest.Database(t)
	h := newHost(t, database)
	h.publish(t, module(t, "probe", "1.0.0", 10), module(t, "other", "1.0.0", 20), brokenModule(t, "broken", "1.0.0"))
	h.follow(t, h.activate(t, lineupOf(-1, "probe@1.0.0")))
	bad := lineupOf(-1, "other@1.0.0", "broken@1.0.0")
	h.activate(t, bad)
	expect.ErrorText(t, "following it", h.follower.Follow(t.Context()), "unreachable")
	if s := h.follower.State(); s.Revision != 1 || s.Refused != 2 || !strings.Contains(s.Reason, "unreachable") {
		t.Errorf("state %+v, want revision 2 refused", s)
	}
	expect.Equal(t, "score", h.score(t), "revision 1: 50")
	expect.Equal(t, "open plugins", h.openPlugins(), 1)
	<-h.follower.StateChanged()
	storetest.Exec(t, storetest.Session(t, database), "DELETE FROM lineup_activations WHERE id = 2") // as of a backup
	h.follow(t, 1)
	storetest.Receive(t, "news that nothing is refused", h.follower.StateChanged())
	h.activate(t, bad)
	expect.ErrorText(t, "following it", h.follower.Follow(t.Context()), "unreachable")
	h.rollback(t, 1) // to the revision that is still in force
	h.follow(t, 1)
	h.activate(t, bad)
	expect.ErrorText(t, "following it again", h.follower.Follow(t.Context()), "unreachable")
	other, canary := h.storeLineup(t, lineupOf(-1, "other@1.0.0")), h.storeLineup(t, bad)
	h.change(t, Proposal{Lineup: other, Canary: &activation.Canary{Lineup: canary, Share: 5}})
	expect.ErrorText(t, "following a canary", h.follower.Follow(t.Context()), "unreachable")
	expect.Equal(t, "in force", h.follower.State().Revision, 1)
	expect.Equal(t, "open plugins", h.openPlugins(), 1)
	h.change(t, Proposal{Lineup: other})
	h.follow(t, 3)
	expect.Equal(t, "score", h.score(t), "revision 3: 73")
}

func TestPollingFindsMissedChanges(t *testing.T) {
	t.Parallel()
	h := newHost(t, postgrestest.Database(t), module(t, "probe", "1.0.0", 10), brokenModule(t, "broken", "1.0.0"))
	h.follower.pollInterval, h.follower.retryDelay = time.Millisecond, time.Hour
	storetest.Background(t, h.follower.Run)
	h.activate(t, lineupOf(-1, "probe@1.0.0"))
	expect.Until(t, "revision 1 to be in force", func() bool { return h.follower.State().Revision == 1 })
	h.activate(t, lineupOf(-1, "broken@1.0.0"))
	expect.Until(t, "revision 2 to be refused", func() bool { return h.follower.State().Refused == 2 })
	h.activate(t, lineupOf(-2, "probe@1.0.0"))
	expect.Until(t, "revision 3 to be in force",
		func() bool { return h.follower.State() == State{Activation: 3, Revision: 3} })
}

// Modules are compiled when they are published. A module that cannot be opened does not stop the others.
func TestPublishedPluginIsPrepared(t *testing.T) {
	t.Parallel()
	h := newHost(t, postgrestest.Database(t), brokenModule(t, "broken", "1.0.0"), module(t, "probe", "1.0.0", 10))
	h.follower.pollInterval = time.Hour
	read := h.counting()
	storetest.Background(t, h.follower.Run)
	h.follower.PluginsPublished()
	expect.Until(t, "both modules to be prepared", func() bool { return read.Load() == 2 })
	expect.Equal(t, "open plugins", h.openPlugins(), 0)
}

// intercepted is a source that calls module before it returns a module.
type intercepted struct {
	Source
	module func(context.Context, registry.Digest) error
}

func (s *intercepted) Module(ctx context.Context, digest registry.Digest) (registry.Module, error) {
	if err := s.module(ctx, digest); err != nil {
		return registry.Module{}, err
	}
	return s.Source.Module(ctx, digest)
}

// slow makes opening and preparing a module take until its context ends. The result receives each attempt.
func (h *host) slow(m registry.Module) (attempts chan struct{}) {
	attempts = make(chan struct{}, 100)
	intercept := func(ctx context.Context, digest registry.Digest) error {
		if digest != m.Digest {
			return nil
		}
		attempts <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}
	h.follower.open.source = &intercepted{Source: h.store, module: intercept}
	return attempts
}

// A module that takes long to prepare delays neither a new lineup nor a rollback.
func TestPreparationDoesNotDelayLineups(t *testing.T) {
	t.Parallel()
	heavy := module(t, "heavy", "1.0.0", 10)
	h := newHost(t, postgrestest.Database(t), heavy, module(t, "probe", "1.0.0", 10))
	h.follower.pollInterval = time.Hour
	attempts := h.slow(heavy)
	storetest.Background(t, h.follower.Run)
	h.follower.PluginsPublished()
	<-attempts
	for revision := range int64(2) {
		h.activate(t, lineupOf(float64(revision), "probe@1.0.0"))
		h.follower.LineupChanged()
		expect.Until(t, "the lineup to be in force", func() bool { return h.follower.State().Revision == revision+1 })
	}
	h.rollback(t, 1)
	h.follower.LineupChanged()
	expect.Until(t, "the rollback", func() bool { return h.follower.State().Revision == 1 })
}

// A lineup that takes long to load is abandoned when another one becomes active.
func TestSupersededLoadIsAbandoned(t *testing.T) {
	t.Parallel()
	intervals := map[string]time.Duration{"notified": time.Hour, "polling": time.Millisecond}
	expect.Each(t, intervals, func(t *testing.T, interval time.Duration) {
		heavy := module(t, "heavy", "1.0.0", 10)
		h := newHost(t, postgrestest.Database(t), heavy, module(t, "probe", "1.0.0", 10))
		h.follower.pollInterval = interval
		attempts := h.slow(heavy)
		h.follow(t, h.activate(t, lineupOf(0, "probe@1.0.0")))
		storetest.Background(t, h.follower.Run)
		h.activate(t, lineupOf(0, "probe@1.0.0", "heavy@1.0.0"))
		h.follower.LineupChanged()
		<-attempts
		h.activate(t, lineupOf(1, "probe@1.0.0"))
		if interval == time.Hour {
			h.follower.LineupChanged()
		}
		expect.Until(t, "revision 3 to be in force",
			func() bool { return h.follower.State() == State{Activation: 3, Revision: 3} })
		expect.Equal(t, "open plugins", h.openPlugins(), 1)
	})
}

// While lineups change faster than a host can load one, each attempt goes on where the last one was abandoned. A host
// opens as many plugins at once as it has processors, here two; the test is not parallel, because it sets their number.
func TestAbandonedLoadsAddUp(t *testing.T) { //nolint:paralleltest // as above
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	first, second := module(t, "first", "1.0.0", 10), module(t, "second", "1.0.0", 10)
	h := newHost(t, postgrestest.Database(t), first, second)
	h.follower.open.prepared[first.Digest], h.follower.open.prepared[second.Digest] = true, true
	var fetched, attempts atomic.Int64
	intercept := func(ctx context.Context, digest registry.Digest) error {
		if digest == first.Digest {
			fetched.Add(1)
			return nil
		}
		if attempts.Add(1) > 3 {
			return nil
		}
		expect.Until(t, "the first plugin to be open", func() bool { return h.isOpen(first) })
		h.activate(t, lineupOf(float64(attempts.Load()), "first@1.0.0", "second@1.0.0"))
		h.follower.LineupChanged()
		<-ctx.Done()
		return ctx.Err()
	}
	h.follower.open.source = &intercepted{Source: h.store, module: intercept}
	h.activate(t, lineupOf(0, "first@1.0.0", "second@1.0.0"))
	h.follow(t, 4)
	expect.Equal(t, "times that the first module was fetched", fetched.Load(), 1)
	h.follower.open.source = h.store
	h.follow(t, h.activate(t, lineupOf(0, "second@1.0.0")))
	h.follower.draining.Wait()
	expect.Equal(t, "the first plugin is open", h.isOpen(first), false)
}

// A host reads a module whose code it has kept only if the code is gone.
func TestKeptModulesAreNotFetched(t *testing.T) {
	t.Parallel()
	h, dir := newHost(t, postgrestest.Database(t)), filepath.Join(t.TempDir(), "compiled")
	h.follower.open.sandbox = sandbox.New(sandbox.Config{CacheDir: dir, CacheKey: []byte("key"), Instances: 1,
		Logger: storetest.Discard()})
	fetched := 0
	h.follower.open.source = &intercepted{Source: h.store, module: func(context.Context, registry.Digest) error {
		fetched++
		return nil
	}}
	h.publish(t, module(t, "kept", "1.0.0", 10), module(t, "other", "1.0.0", 10))
	for i, want := range []int{1, 2, 2, 3} {
		if i == 3 {
			for _, file := range expect.Value(filepath.Glob(filepath.Join(dir, "*[0-9a-f].sealed")))(t) {
				expect.NoError(t, os.Remove(file))
			}
		}
		h.follow(t, h.activate(t, lineupOf(float64(i), []string{"kept", "other"}[i%2]+"@1.0.0")))
		h.follower.draining.Wait()
		expect.Equal(t, "modules that were fetched", fetched, want)
	}
}

// Only notifications trigger following here, not polling.
func TestHostsFollowEachOthersChanges(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	hosts := []*host{newHost(t, url), newHost(t, url)}
	for _, h := range hosts {
		h.follower.pollInterval = time.Hour
		storetest.Background(t, h.follower.Run)
		storetest.Background(t, func(ctx context.Context) {
			h.store.Listen(ctx, func(topic store.Topic) {
				if topic == store.TopicLineup {
					h.follower.LineupChanged()
				}
			})
		})
	}
	hosts[0].publish(t, module(t, "probe", "1.0.0", 10))
	for i := range 5 {
		revision := hosts[i%2].activate(t, lineupOf(float64(-i), "probe@1.0.0"))
		for _, h := range hosts {
			expect.Until(t, "both hosts to follow", func() bool { return h.follower.State().Revision == revision })
		}
	}
	for range 1000 {
		hosts[0].follower.LineupChanged() // never blocks, even with a full queue
	}
}
