package lineup

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"assay/host/access/admission"
	"assay/host/check"
	"assay/host/entity"
	"assay/host/store/postgres/postgrestest"
	"assay/registry"
	"assay/registry/activation"
	"assay/registry/expect"
	"assay/sdk"
)

// racing is a catalog in which another activation is faster the first time.
type racing struct {
	Catalog
	first func()
	once  sync.Once
}

func (r *racing) Activate(ctx context.Context, a activation.Signed) error {
	if r.first != nil {
		r.once.Do(r.first)
	}
	return r.Catalog.Activate(ctx, a)
}

func (h *host) steps() *Steps {
	return &Steps{Verifier: h.verifier, Catalog: h.store,
		Key: func() (activation.Key, error) { return hostKey, nil }, Author: "host test:1", Now: time.Now}
}

// A host ends a canary and moves layers to shadow by itself. It leaves alone what is no longer in force.
func TestSteps(t *testing.T) {
	t.Parallel()
	lineup := lineupOf(-1, "probe@1.0.0", "second@1.0.0", "needed@1.0.0")
	lineup.Layers[2].Required = true
	trial := lineupOf(-3, "probe@1.0.0", "second@1.0.0", "needed@1.0.0")
	other := lineupOf(-2, "probe@1.0.0", "second@1.0.0")
	shadow := lineupOf(-1, "probe@1.0.0", "second@1.0.0", "needed@1.0.0")
	shadow.Layers[1].Mode, shadow.Layers[2].Required = registry.ModeShadow, true
	const base, canary = 1, 2
	type testCase struct {
		canary *registry.LineupDocument                              // in force at the beginning
		faster func(h *host, base, trial activation.Lineup) Proposal // what is activated meanwhile
		take   func(s *Steps, trial activation.Lineup) (activation.Signed, error)
		want   string // revision, canary and number of the last activation
		err    string
	}
	expect.Each(t, map[string]testCase{
		"withdraw": {&trial, nil, withdraw, "1 0 2", ""},
		"withdraw what ended meanwhile": {&trial, func(_ *host, base, _ activation.Lineup) Proposal {
			return Proposal{Lineup: base}
		}, withdraw, "1 0 2", ""},
		"withdraw what was promoted meanwhile": {&trial, func(_ *host, _, trial activation.Lineup) Proposal {
			return Proposal{Lineup: trial}
		}, withdraw, "2 0 2", ""},
		"withdraw from another share": {&trial, func(_ *host, base, trial activation.Lineup) Proposal {
			return Proposal{Lineup: base, Canary: &activation.Canary{Lineup: trial, Share: 7}}
		}, withdraw, "1 0 3", ""},
		"withdraw from another lineup": {&trial, func(h *host, _, trial activation.Lineup) Proposal {
			return Proposal{Lineup: h.storeLineup(t, other), Canary: &activation.Canary{Lineup: trial, Share: 5}}
		}, withdraw, "3 0 3", ""},
		"demote":                       {nil, nil, demote("second", base), "3 0 2", ""},
		"demote next to a canary":      {&trial, nil, demote("second", base), "3 2 2", ""},
		"demote a layer of the canary": {&trial, nil, demote("second", canary), "1 2 1", ""},
		"demote to the canary":         {&shadow, nil, demote("second", base), "1 3 1", "promote it"},
		"demote a required layer":      {nil, nil, demote("needed", base), "1 0 1", "it is required"},
		"demote an unknown layer":      {nil, nil, demote("nobody", base), "1 0 1", ""},
		"demote in a replaced lineup": {nil, func(h *host, _, _ activation.Lineup) Proposal {
			return Proposal{Lineup: h.storeLineup(t, other)}
		}, demote("second", base), "4 0 2", ""},
	}, func(t *testing.T, c testCase) {
		h := newHost(t, postgrestest.Database(t), module(t, "probe", "1.0.0", 10), module(t, "second", "1.0.0", 20),
			module(t, "needed", "1.0.0", 1))
		start := Proposal{Lineup: h.storeLineup(t, lineup)}
		tried := h.storeLineup(t, trial)
		if c.canary != nil {
			tried = h.storeLineup(t, *c.canary)
			start.Canary = &activation.Canary{Lineup: tried, Share: 5}
		}
		h.change(t, start)
		h.follow(t, start.Lineup.Revision)
		s, racer := h.steps(), &racing{Catalog: h.store}
		if c.faster != nil {
			racer.first = func() { h.change(t, c.faster(h, start.Lineup, tried)) }
		}
		s.Catalog = racer
		signed, err := c.take(s, tried)
		expect.Outcome(t, "the step", err, c.err)
		last := h.last(t)
		revision := int64(0)
		if last.Canary != nil {
			revision = last.Canary.Revision
		}
		expect.Equal(t, "in force", fmt.Sprint(last.Lineup.Revision, revision, last.Number), c.want)
		expect.That(t, signed.Number == 0 || signed.Number == last.Number && signed.Role == activation.Host,
			"it took %+v, last is %+v", signed, last)
		expect.That(t, signed.Number != 0 || last.Author != s.Author, "it took a step without saying so: %+v", last)
		h.follow(t, last.Lineup.Revision) // a host runs it
	})
}

func withdraw(s *Steps, trial activation.Lineup) (activation.Signed, error) {
	return s.WithdrawCanary(context.Background(), trial.Revision, "it fails")
}

func demote(layer string, revision int64) func(*Steps, activation.Lineup) (activation.Signed, error) {
	return func(s *Steps, _ activation.Lineup) (activation.Signed, error) {
		return s.DemoteLayer(context.Background(), revision, layer, "it fails")
	}
}

// Of several hosts that want the same step at once, one takes it. A host whose key is not trusted takes none.
func TestStepIsTakenOnce(t *testing.T) {
	t.Parallel()
	h := newHost(t, postgrestest.Database(t), module(t, "probe", "1.0.0", 10), module(t, "second", "1.0.0", 20))
	h.activate(t, lineupOf(-1, "probe@1.0.0", "second@1.0.0"))
	former, untrusted := *h.verifier, h.steps()
	former.Trust = mustTrust("operator " + operator.Verifier + "\nformer " + hostKey.Verifier)
	untrusted.Verifier = &former
	expect.Failure(t, expect.ErrorOf(untrusted.DemoteLayer(t.Context(), 1, "second", "it fails")),
		"a step with a former key was taken")
	expect.Equal(t, "activations", h.last(t).Number, 1)
	var all sync.WaitGroup
	var taken atomic.Int32
	for range 5 {
		all.Go(func() {
			if expect.Value(h.steps().DemoteLayer(t.Context(), 1, "second", "it fails"))(t).Number != 0 {
				taken.Add(1)
			}
		})
	}
	all.Wait()
	expect.Equal(t, "hosts that took the step", taken.Load(), 1)
	expect.Equal(t, "activations", h.last(t).Number, 2)
	former.Memory = expect.Value(OpenMemory(t.TempDir() + "/activation"))(t)
	expect.ErrorText(t, "last signed by a former key, and never run", expect.ErrorOf(former.Current(t.Context())),
		"give key host its role back until `assay lineup set` has signed anew")
}

// What hosts changed by themselves is listed as degraded until an operator activates something.
func TestOwnStepsAreDegraded(t *testing.T) {
	t.Parallel()
	database := postgrestest.Database(t)
	h := newHost(t, database)
	h.publish(t, module(t, "probe", "1.0.0", 10), module(t, "second", "1.0.0", 20), module(t, "third", "1.0.0", 5))
	base := h.storeLineup(t, lineupOf(-1, "probe@1.0.0", "second@1.0.0", "third@1.0.0"))
	trial := h.storeLineup(t, lineupOf(-3, "probe@1.0.0"))
	h.change(t, Proposal{Lineup: base, Canary: &activation.Canary{Lineup: trial, Share: 5}})
	degraded := func(h *host) string {
		t.Helper()
		h.follow(t, h.last(t).Lineup.Revision)
		return strings.Join(h.follower.Degraded(), "\n")
	}
	expect.Equal(t, "an operator's canary", degraded(h), "")

	expect.Value(h.steps().DemoteLayer(t.Context(), base.Revision, "second", "Second fails"))(t)
	const second = "layer second was moved to shadow by host test:1: Second fails"
	expect.Equal(t, "after a demotion", degraded(h), second)
	expect.Value(h.steps().WithdrawCanary(t.Context(), trial.Revision, "It flips"))(t)
	const canary = "the canary, revision 2, was withdrawn by host test:1: It flips"
	expect.Equal(t, "after a withdrawal", degraded(h), canary+"\n"+second)
	expect.Value(h.steps().DemoteLayer(t.Context(), h.last(t).Lineup.Revision, "third", "Third fails"))(t)
	const third = "layer third was moved to shadow by host test:1: Third fails"
	expect.Equal(t, "after another demotion", degraded(h), third+"\n"+canary+"\n"+second)
	expect.Equal(t, "on another host", degraded(newHost(t, database)), third+"\n"+canary+"\n"+second)

	// A start with newer built-in layers is no operator's decision.
	last := h.last(t)
	upgrade := Proposal{Base: last, Lineup: last.Lineup, Author: activation.BuiltIn, At: last.At}
	expect.NoError(t, h.store.Activate(t.Context(), expect.Value(upgrade.Sign(operator, trust))(t)))
	expect.Equal(t, "after an upgrade", degraded(h), third+"\n"+canary+"\n"+second)

	// Newer built-in layers can bring a layer back.
	mended := lineupOf(-1, "probe@1.0.0", "second@1.0.0", "third@1.0.0")
	mended.Layers[1].Mode = registry.ModeShadow
	upgrade.Base, upgrade.Lineup = h.last(t), h.storeLineup(t, mended)
	expect.NoError(t, h.store.Activate(t.Context(), expect.Value(upgrade.Sign(operator, trust))(t)))
	expect.Equal(t, "after an upgrade that mends a layer", degraded(h), canary+"\n"+second)

	h.change(t, Proposal{Lineup: h.last(t).Lineup})
	expect.Equal(t, "after an operator's activation", degraded(h), "")
}

// A host that cannot read what hosts changed says so, and goes on. It tries again.
func TestOwnStepsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	h := newHost(t, postgrestest.Database(t), module(t, "probe", "1.0.0", 10), module(t, "second", "1.0.0", 20))
	revision := h.activate(t, lineupOf(-1, "probe@1.0.0", "second@1.0.0"))
	h.follow(t, revision)
	expect.Value(h.steps().DemoteLayer(t.Context(), revision, "second", "It fails"))(t)
	records := h.follower.verifier.Records
	h.follower.retryDelay = 0
	h.follow(t, revision+1)
	h.follower.steps = ownSteps{}
	h.follower.verifier.Records = forgetful{records}
	h.follow(t, revision+1)
	expect.Equal(t, "degraded", strings.Join(h.follower.Degraded(), "\n"),
		"what hosts changed by themselves cannot be read: see the log")
	h.follower.verifier.Records = records
	h.follow(t, revision+1)
	expect.Equal(t, "degraded later", strings.Join(h.follower.Degraded(), "\n"),
		"layer second was moved to shadow by host test:1: It fails")
}

// forgetful are records without lineups.
type forgetful struct{ Records }

func (forgetful) LineupText(context.Context, int64) ([]byte, error) {
	return nil, registry.ErrNoRevision
}

// A lineup that was in force can be opened again, one at a time, by accounts in turn, and leaves nothing open.
func TestPast(t *testing.T) {
	t.Parallel()
	h := newHost(t, postgrestest.Database(t), module(t, "probe", "1.0.0", 10), module(t, "second", "1.0.0", 20))
	first := h.activate(t, lineupOf(-1, "probe@1.0.0", "second@1.0.0"))
	never := h.storeLineup(t, lineupOf(-3, "probe@1.0.0"))
	last := h.activate(t, lineupOf(-2, "probe@1.0.0"))
	h.follow(t, last)
	open := h.openPlugins()
	past := NewPast(h.follower, 3*time.Millisecond) // time for three that have not been measured yet
	ended := expect.Ended(t)

	expect.NoError(t, past.With(t.Context(), "flood", first, func(l *check.Lineup) error {
		expect.That(t, l.Revision == first && len(l.Scoring(entity.Domain)) == 2 && l.Terms(entity.Domain).Bias == -1,
			"opened %+v", l)
		expect.Equal(t, "plugins open with the past", h.openPlugins(), open+1)
		o, _, err := l.Scoring(entity.Domain)[1].Run(t.Context(), entity.Domain, check.Input{})
		expect.Equal(t, "score of a layer of the past", o.Score, 20)
		expect.Error(t, "the same account's second", past.With(ended, "flood", first, nil), admission.ErrShare)
		expect.Error(t, "another account's, which waits", past.With(ended, "other", first, nil), context.Canceled)
		return err
	}))
	expect.Equal(t, "plugins open afterwards", h.openPlugins(), open)
	for _, revision := range []int64{never.Revision, 4711} {
		expect.Error(t, fmt.Sprintf("revision %d, which was never in force", revision),
			past.With(t.Context(), "flood", revision, nil), registry.ErrNoRevision)
	}
	expect.Error(t, "after a failure it is the next one's turn, and it", past.With(t.Context(), "flood", last,
		func(*check.Lineup) error { return io.EOF }), io.EOF)
}

// settingLayer scores its setting "limit" and abstains without one.
type settingLayer struct{ check.Layer }

func (settingLayer) Score(_ context.Context, in check.Input) (check.Result, error) {
	limit, known := in.Get("config.limit")
	if !known {
		return check.Result{Abstained: true}, nil
	}
	score, err := strconv.Atoi(limit)
	return check.Result{Score: score}, err
}

// TestSettingsOfCases checks that the settings of a case take the place of the lineup's, which stay as they are.
func TestSettingsOfCases(t *testing.T) {
	t.Parallel()
	lineup := map[string]string{"limit": "5"}
	own := registry.Case{Type: "domain", Value: "a.de", Facts: sdk.Facts{"config.limit": "7"}, Min: 7, Max: 7}
	of := registry.Case{Type: "domain", Value: "a.de", Min: 5, Max: 5}
	none := registry.Case{Type: "domain", Value: "a.de", Abstains: true}
	expect.NoError(t, RunCases(t.Context(), settingLayer{}, lineup, []registry.Case{own, of}))
	expect.NoError(t, RunCases(t.Context(), settingLayer{}, nil, []registry.Case{own, none}))
	expect.ErrorText(t, "the lineup's setting", RunCases(t.Context(), settingLayer{}, lineup,
		[]registry.Case{none}), "the layer scores 5, and is expected to abstain")
}
