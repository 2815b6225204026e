package replay_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"assay/host/check"
	"assay/host/entity"
	"assay/host/lineup/replay"
	"assay/registry/expect"
)

var (
	bands = check.Bands{Review: 40, Block: 70}
	start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
)

// layerFunc is a function that acts as a layer.
type layerFunc func(in check.Input) (check.Result, error)

func (f layerFunc) Score(_ context.Context, in check.Input) (check.Result, error) { return f(in) }

// pointsOf returns a layer with one signal, whose points are those of a fact times a factor.
func pointsOf(fact string, factor int) layerFunc {
	return func(in check.Input) (check.Result, error) {
		text, _ := in.Get(fact)
		points := min(len(text)*factor, 100)
		return check.Result{Score: points, Signals: []check.Signal{{Points: points, Code: "points:of:" + fact}}}, nil
	}
}

func failing(reason check.FailureReason) layerFunc {
	return func(check.Input) (check.Result, error) { return check.Result{}, &check.Failure{Reason: reason} }
}

// member returns a layer for all types.
func member(name, recipe string, weight float64, layer check.Layer, facts ...string) check.Member {
	weights := check.ByType{}
	for _, t := range entity.Types() {
		weights[t] = weight
	}
	return check.Member{Name: name, Version: "1.0.0", Weight: weights, Range: check.Range{0, 100},
		Entities: entity.Types(), Facts: facts, Layer: layer, Recipe: recipe}
}

// lineup returns a lineup with the same bias for all types.
func lineup(bias float64, bands check.Bands, members ...check.Member) *check.Lineup {
	biases := check.ByType{}
	for _, t := range entity.Types() {
		biases[t] = bias
	}
	return check.NewLineup(1, biases, bands, members)
}

// local returns a lineup of a layer, built from the recipe, whose points are the length of the value.
func local(recipe string) *check.Lineup {
	return lineup(-2, bands, member("local", recipe, 3, pointsOf("entity.value", 3)))
}

// host is a Checker whose ledger, observer and lookups are simple.
type host struct {
	check.Checker

	ring     *replay.Ring
	recorded []check.Record
}

func newHost(l *check.Lineup) *host {
	h := &host{ring: replay.NewRing(1000, 1<<20)}
	h.Checker = check.Checker{Live: &check.Live{}, Collector: h, Ledger: h, Observer: h, Memory: h.ring,
		Now: func() time.Time { return start }, Deadline: time.Minute}
	h.Live.Swap(l)
	return h
}

// Collect implements check.Collector: the only fact that is looked up is the value's last byte, many times.
func (h *host) Collect(_ context.Context, _ string, e entity.Entity, wanted []string) (entity.Facts, []string, error) {
	facts := entity.Facts{}
	if slices.Contains(wanted, "dns.status") {
		last := e.Value[len(e.Value)-1]
		facts["dns.status"] = string(make([]byte, last%32))
	}
	return facts, nil, nil
}

func (h *host) Append(_ context.Context, records ...check.Record) error {
	for i := range records {
		records[i].Pseudonym = fmt.Appendf(nil, "%-32.32s", records[i].Entity.Value)
	}
	h.recorded = append(h.recorded, records...)
	return nil
}

func (h *host) LayerRan(entity.Type, check.Outcome, *check.Failure) {}
func (h *host) CheckDone(*check.Decision, time.Duration)            {}

// values are checked in every test. Their lengths differ, and with them the scores.
func values() (all []check.Field) {
	for i := range 30 {
		all = append(all, check.Field{Type: entity.Domain, Value: fmt.Sprintf("a%0*d.example.com", i+1, i)},
			check.Field{Type: entity.Email, Value: fmt.Sprintf("b%0*d@example.org", i+1, i)})
	}
	return all
}

func (h *host) check(t *testing.T, f check.Field) *check.Decision {
	t.Helper()
	pro, _ := check.PlanNamed("pro")
	return expect.Value(h.Check(t.Context(), check.Request{Caller: check.Caller{Account: "acct_1", Plan: pro},
		Fields: []check.Field{f}}))(t)
}

// checked returns a host that checked all values.
func checked(t *testing.T) *host {
	t.Helper()
	h := newHost(local("1"))
	for _, v := range values() {
		h.check(t, v)
	}
	return h
}

// collect returns a function that looks up facts for a record, which must not have been looked up for it.
func (h *host) collect(t *testing.T, r check.Record) func(context.Context, []string) (entity.Facts, error) {
	return func(ctx context.Context, wanted []string) (entity.Facts, error) {
		for _, fact := range wanted {
			_, known := r.LookedUp[fact]
			expect.That(t, !known, "%s is looked up again", fact)
		}
		facts, _, err := h.Collect(ctx, "", r.Entity, wanted)
		return facts, err
	}
}

func (h *host) lineup(t *testing.T) *check.Lineup {
	t.Helper()
	ref := h.Live.Acquire()
	ref.Release()
	return ref.Lineup
}
