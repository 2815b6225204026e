package lineup

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"assay/host/store/postgres/postgrestest"
	"assay/registry"
	"assay/registry/activation"
	"assay/registry/expect"
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

// A host ends a canary and moves layers to shadow by itself, and nothing else. It tries again when another activation
// is faster, and leaves alone what is no longer in force.
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
		h := newHost(t, postgrestest.Database(t))
		h.publish(t, module(t, "probe", "1.0.0", 10), module(t, "second", "1.0.0", 20), module(t, "needed", "1.0.0", 1))
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
		expect.That(t, (err == nil) == (c.err == "") && (err == nil || strings.Contains(err.Error(), c.err)),
			"error %v, want %q", err, c.err)
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

// Of several hosts that want the same step at once, one takes it. A host whose key is no longer trusted stores nothing
// that every host would refuse.
func TestStepIsTakenOnce(t *testing.T) {
	t.Parallel()
	h := newHost(t, postgrestest.Database(t))
	h.publish(t, module(t, "probe", "1.0.0", 10), module(t, "second", "1.0.0", 20))
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
			signed := expect.Value(h.steps().DemoteLayer(t.Context(), 1, "second", "it fails"))(t)
			if signed.Number != 0 {
				taken.Add(1)
			}
		})
	}
	all.Wait()
	expect.Equal(t, "hosts that took the step", taken.Load(), 1)
	expect.Equal(t, "activations", h.last(t).Number, 2)
}
