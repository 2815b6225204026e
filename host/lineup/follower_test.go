package lineup

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"assay/host/check"
	"assay/host/entity"
	"assay/host/postgres/postgrestest"
	"assay/host/store"
	"assay/registry"
)

type nobody struct{}

func (nobody) LayerRan(entity.Type, check.Outcome, *check.Failure) {}
func (nobody) CheckDone(*check.Decision, time.Duration)            {}

// pro may check everything.
func pro(t *testing.T) check.Caller {
	t.Helper()
	plan, ok := check.PlanNamed("pro")
	if !ok {
		t.Fatal("no plan pro")
	}
	return check.Caller{Account: "acct_test", Key: "key_test", Plan: plan}
}

// score checks a domain and returns the decision's revision and score.
func (h *host) score(t *testing.T) string {
	t.Helper()
	d, err := h.checker().Check(t.Context(),
		check.Request{Caller: pro(t), Fields: []check.Field{{Type: entity.Domain, Value: "example.org"}}})
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("revision %d: %d", d.Revision, d.Score)
}

func TestFollowerTakesTheActiveRevision(t *testing.T) {
	t.Parallel()
	h := newHost(t, postgrestest.Database(t))
	h.follow(t, 0)
	if got := h.score(t); !strings.Contains(got, check.ErrNoLineup.Error()) {
		t.Errorf("before the first lineup: %s", got)
	}
	h.publish(t, layer(t, "probe", "1.0.0", 10, false), layer(t, "second", "1.0.0", 20, false))
	h.activate(t, lineupOf(-1, "probe@1.0.0"))
	h.follow(t, 1)
	if got := h.score(t); got != "revision 1: 50" {
		t.Errorf("checked by %s", got)
	}
	h.follow(t, 1)
	h.activate(t, lineupOf(-1, "probe@1.0.0", "second@1.0.0"))
	if got := h.score(t); got != "revision 1: 50" {
		t.Errorf("before it was followed: %s", got)
	}
	h.follow(t, 2)
	if got := h.score(t); got != "revision 2: 88" {
		t.Errorf("checked by %s", got)
	}
	if err := h.store.RollbackLineup(t.Context(), 1, ""); err != nil {
		t.Fatal(err)
	}
	h.follow(t, 1)
	if got := h.score(t); got != "revision 1: 50" {
		t.Errorf("after the rollback: %s", got)
	}
}

// Lineups change while checks run. No check fails, and none is decided by a mix of two revisions: odd ones have a bias
// of -1 and a layer of 10 points, even ones -5 and 30, so that a score tells which bias and which layer made it.
func TestLineupsSwapUnderLoad(t *testing.T) {
	t.Parallel()
	h := newHost(t, postgrestest.Database(t))
	h.publish(t, layer(t, "probe", "1.0.0", 10, false), layer(t, "probe", "2.0.0", 30, false))
	lineups := [2]registry.LineupDocument{lineupOf(-5, "probe@2.0.0"), lineupOf(-1, "probe@1.0.0")}
	scores, versions := [2]int{12, 50}, [2]string{"2.0.0", "1.0.0"}
	h.activate(t, lineups[1])
	h.follow(t, 1)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var checked, changed [4]int
	var wg sync.WaitGroup
	checker, caller := h.checker(), pro(t)
	for worker := range checked {
		wg.Go(func() {
			last := int64(0)
			pace := time.NewTicker(200 * time.Microsecond) // leaves the processors something for the swaps
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
				if d.Score != scores[odd] || o.Version != versions[odd] || o.Failure != "" || d.Revision < last {
					t.Errorf("revision %d after %d: score %d of layer %s, lost %q", d.Revision, last, d.Score,
						o.Version, o.Failure)
					return
				}
				checked[worker]++
				if d.Revision != last {
					changed[worker]++
				}
				last = d.Revision
			}
		})
	}
	for revision := int64(2); revision <= 200; revision++ {
		if got := h.activate(t, lineups[revision%2]); got != revision {
			t.Fatalf("revision %d, want %d", got, revision)
		}
		h.follow(t, revision)
	}
	stop()
	wg.Wait()
	for worker := range checked {
		if changed[worker] < 2 {
			t.Errorf("a worker's %d checks saw %d revisions: nothing was swapped under load", checked[worker],
				changed[worker])
		}
	}
	until(t, "only the last lineup's plugin is open", func() bool { return h.openPlugins() == 1 })
}

// A check that holds the old lineup keeps its plugins open; the last one to leave closes them.
func TestRetiredPluginsAreClosedWhenTheLastCheckLeaves(t *testing.T) {
	t.Parallel()
	h := newHost(t, postgrestest.Database(t))
	kept, retired := layer(t, "kept", "1.0.0", 1, false), layer(t, "retired", "1.0.0", 2, false)
	brief, fresh := layer(t, "brief", "1.0.0", 3, false), layer(t, "fresh", "1.0.0", 3, false)
	h.publish(t, kept, retired, brief, fresh)
	h.activate(t, lineupOf(0, "kept@1.0.0", "retired@1.0.0"))
	h.follow(t, 1)
	held := h.live.Acquire()
	h.activate(t, lineupOf(0, "kept@1.0.0", "brief@1.0.0"))
	h.follow(t, 2)
	h.activate(t, lineupOf(0, "kept@1.0.0", "fresh@1.0.0"))
	h.follow(t, 3)
	// Nobody holds the lineup in between: when its plugin is closed, the older one's would be, too.
	until(t, "the plugin in between is closed", func() bool { return !h.isOpen(brief) })
	if !h.isOpen(kept) || !h.isOpen(retired) || !h.isOpen(fresh) {
		t.Error("a plugin was closed while a check holds its lineup")
	}
	for _, m := range held.Members {
		if result, err := m.Layer.Score(t.Context(), check.Input{}); err != nil || result.Score == 0 {
			t.Errorf("layer %s of the old lineup: %+v, %v", m.Name, result, err)
		}
	}
	held.Release()
	until(t, "the retired plugin is closed", func() bool { return h.openPlugins() == 2 })
	if got := h.score(t); got != "revision 3: 60" {
		t.Errorf("checked by %s", got)
	}
}

// What cannot be loaded leaves what is in force where it is, and says why. What comes next is followed.
func TestRevisionThatCannotBeLoadedIsRefused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ layer, why string }{
		"its layer traps as it starts": {"broken@1.0.0", "unreachable"},
		"its layer was not published":  {"probe@9.9.9", "no such published plugin"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, postgrestest.Database(t))
			h.publish(t, layer(t, "probe", "1.0.0", 10, false), layer(t, "other", "1.0.0", 20, false),
				layer(t, "broken", "1.0.0", 1, true))
			h.activate(t, lineupOf(-1, "probe@1.0.0"))
			h.follow(t, 1)
			bad := lineupOf(-1, "other@1.0.0", test.layer)
			h.activate(t, bad)
			if err := h.follower.Follow(t.Context()); err == nil {
				t.Fatal("it was followed")
			}
			if s := h.follower.State(); s.Revision != 1 || s.Refused != 2 || !strings.Contains(s.Reason, test.why) {
				t.Errorf("state %+v, want revision 2 refused for %q", s, test.why)
			}
			if got := h.score(t); got != "revision 1: 50" {
				t.Errorf("checked by %s", got)
			}
			if n := h.openPlugins(); n != 1 {
				t.Errorf("%d plugins are open, want that in force only", n)
			}
			// The operator goes back to what is in force all the time.
			if err := h.store.RollbackLineup(t.Context(), 1, ""); err != nil {
				t.Fatal(err)
			}
			h.follow(t, 1)
			h.activate(t, bad)
			if err := h.follower.Follow(t.Context()); err == nil {
				t.Fatal("it was followed")
			}
			h.activate(t, lineupOf(-1, "other@1.0.0"))
			h.follow(t, 4)
			if got := h.score(t); got != "revision 4: 73" {
				t.Errorf("checked by %s", got)
			}
		})
	}
}

func TestHintIsFollowedAtOnce(t *testing.T) {
	t.Parallel()
	h := newHost(t, postgrestest.Database(t))
	h.publish(t, layer(t, "probe", "1.0.0", 10, false))
	h.follower.poll = time.Hour // only the hint can tell
	h.running(t)
	h.activate(t, lineupOf(-1, "probe@1.0.0"))
	h.follower.Hint(store.TopicLineup)
	until(t, "the hint is followed", func() bool { return h.follower.State().Revision == 1 })
	for range 1000 {
		h.follower.Hint(store.TopicKeys) // never blocks, and is nothing to follow
	}
}

func TestLostHintIsMadeUpForByPolling(t *testing.T) {
	t.Parallel()
	h := newHost(t, postgrestest.Database(t))
	h.publish(t, layer(t, "probe", "1.0.0", 10, false), layer(t, "broken", "1.0.0", 1, true))
	h.follower.poll, h.follower.retry = time.Millisecond, time.Hour
	h.running(t)
	h.activate(t, lineupOf(-1, "probe@1.0.0"))
	until(t, "the first revision is in force", func() bool { return h.follower.State().Revision == 1 })
	h.activate(t, lineupOf(-1, "broken@1.0.0"))
	until(t, "the broken one is refused", func() bool { return h.follower.State().Refused == 2 })
	h.activate(t, lineupOf(-2, "probe@1.0.0"))
	until(t, "the third is in force", func() bool { return h.follower.State() == State{Revision: 3} })
}

// A module is compiled as it is published, so that a lineup of it can be swapped in at once. One that cannot be opened
// is told of, and stops nothing.
func TestPublishedPluginIsPrepared(t *testing.T) {
	t.Parallel()
	h := newHost(t, postgrestest.Database(t))
	h.follower.poll = time.Hour
	good, bad := layer(t, "probe", "1.0.0", 10, false), layer(t, "broken", "1.0.0", 1, true)
	h.publish(t, bad, good)
	h.running(t)
	h.follower.Hint(store.TopicPlugins)
	h.activate(t, lineupOf(-1, "probe@1.0.0"))
	h.follower.Hint(store.TopicLineup) // behind the other: when this is followed, that is done
	until(t, "the lineup is in force", func() bool { return h.follower.State().Revision == 1 })
	h.follower.mu.Lock()
	defer h.follower.mu.Unlock()
	if !h.follower.prepared[good.Digest] || !h.follower.prepared[bad.Digest] {
		t.Errorf("prepared %d modules, want both", len(h.follower.prepared))
	}
	if len(h.follower.open) != 1 {
		t.Errorf("%d plugins are open, want that in force only", len(h.follower.open))
	}
}

// Hosts that listen follow one another's changes.
func TestHostsFollowOneAnother(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	hosts := []*host{newHost(t, url), newHost(t, url)}
	for _, h := range hosts {
		h.follower.poll = time.Hour
		h.running(t)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			h.store.Listen(ctx, h.follower.Hint)
		}()
		t.Cleanup(func() {
			cancel()
			<-ended
		})
	}
	hosts[0].publish(t, layer(t, "probe", "1.0.0", 10, false))
	for i := range 5 {
		revision := hosts[i%2].activate(t, lineupOf(float64(-i), "probe@1.0.0"))
		for _, h := range hosts {
			until(t, "both hosts are on it", func() bool { return h.follower.State().Revision == revision })
		}
	}
}
