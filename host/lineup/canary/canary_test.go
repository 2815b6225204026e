package canary

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"assay/host/check"
	"assay/host/entity"
	"assay/registry/expect"
)

var bands = check.Bands{Review: 40, Block: 70}

type layerFunc func(in check.Input) (check.Result, error)

func (f layerFunc) Score(_ context.Context, in check.Input) (check.Result, error) { return f(in) }

func points(n int) layerFunc {
	return func(check.Input) (check.Result, error) {
		return check.Result{Score: n, Signals: []check.Signal{{Points: n, Code: "test:points:of"}}}, nil
	}
}

func failing(reason check.FailureReason) layerFunc {
	return func(check.Input) (check.Result, error) { return check.Result{}, &check.Failure{Reason: reason} }
}

// byFact scores 100 for entities with a fact.
func byFact(fact string) layerFunc {
	return func(in check.Input) (check.Result, error) {
		if _, ok := in.Get(fact); ok {
			return check.Result{Score: 100}, nil
		}
		return check.Result{}, nil
	}
}

func layerOf(name, recipe string, layer check.Layer, facts ...string) check.Member {
	weights := check.ByType{}
	for _, t := range entity.Types() {
		weights[t] = 10
	}
	return check.Member{Name: name, Version: "1.0.0", Weight: weights, Range: check.Range{0, 100},
		Entities: entity.Types(), Facts: facts, Layer: layer, Recipe: recipe}
}

func lineup(revision int64, bias float64, members ...check.Member) *check.Lineup {
	biases := check.ByType{}
	for _, t := range entity.Types() {
		biases[t] = bias
	}
	return check.NewLineup(revision, biases, bands, members)
}

// host is a Checker with a canary that scores for every account.
type host struct {
	check.Checker
	watch    *Watch
	override *check.Override

	mu        sync.Mutex
	outcomes  map[Outcome]int
	collected []string
	reasons   []string // of withdrawals
	broken    int      // so many withdrawals fail, the next ones
	judged    chan struct{}
}

func newHost(t *testing.T, base, trial *check.Lineup, limit float64) *host {
	t.Helper()
	h := &host{outcomes: map[Outcome]int{}, judged: make(chan struct{}, 1000)}
	h.Checker = check.Checker{Live: &check.Live{}, Collector: h, Ledger: h, Observer: h, Now: time.Now,
		Deadline: time.Minute, Overrides: h}
	h.watch = &Watch{Live: h.Live, Collector: h, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Observe: func(o Outcome) {
			h.mu.Lock()
			h.outcomes[o]++
			h.mu.Unlock()
			h.judged <- struct{}{}
		}, Withdraw: func(_ context.Context, revision int64, reason string) error {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.reasons = append(h.reasons, fmt.Sprint(revision, " ", reason))
			if h.broken > 0 {
				h.broken--
				return errors.New("the database is away")
			}
			return nil
		}}
	h.Checker.Trial = h.watch
	h.put(base, trial, limit)
	go h.watch.Run(t.Context())
	return h
}

func (h *host) put(base, trial *check.Lineup, limit float64) {
	base.Canary = &check.Canary{Lineup: trial, Percent: 100, Seed: []byte("seed"), Limit: limit}
	h.Live.Swap(base)
}

func (h *host) Collect(_ context.Context, _ string, _ entity.Entity, wanted []string) (entity.Facts, []string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.collected = append(h.collected, wanted...)
	facts := entity.Facts{}
	for _, name := range wanted {
		facts[name] = "known"
	}
	return facts, nil, nil
}

func (h *host) Append(_ context.Context, records ...check.Record) error {
	for i := range records {
		records[i].Pseudonym = []byte(records[i].Entity.Value)
	}
	return nil
}

func (h *host) LayerRan(entity.Type, check.Outcome, *check.Failure) {}
func (h *host) CheckDone(*check.Decision, time.Duration)            {}
func (h *host) Find(string, entity.Entity) (*check.Override, error) { return h.override, nil }

// check checks n different domains, and waits until each was judged.
func (h *host) check(t *testing.T, from, n int) {
	t.Helper()
	pro, _ := check.PlanNamed("pro")
	for i := from; i < from+n; i++ {
		_, err := h.Check(t.Context(), check.Request{Caller: check.Caller{Account: "acct_1", Plan: pro},
			Fields: []check.Field{{Type: entity.Domain, Value: fmt.Sprintf("a%d.example.com", i)}}})
		expect.Must(t, err == nil || errors.As(err, new(*check.UnavailableError)), "%v", err)
		select {
		case <-h.judged:
		case <-t.Context().Done():
			t.Fatal("a check was not judged")
		}
	}
}

// A canary is withdrawn for what it changes or fails, and for nothing that happens to the other lineup too.
func TestWatch(t *testing.T) {
	t.Parallel()
	same := layerOf("same", "same", points(50))
	type testCase struct {
		base, trial *check.Lineup
		outcome     Outcome
		reason      string // of its withdrawal; empty: it is not withdrawn
	}
	expect.Each(t, map[string]testCase{
		"the same":                             {lineup(1, -6, same), lineup(2, -6, same), Same, ""},
		"other weights with the same verdicts": {lineup(1, -6, same), lineup(2, -6.1, same), Same, ""},
		"other weights": {lineup(1, -6, same), lineup(2, -4, same), Flipped,
			"2 Withdrawn: of 11 values that it scored, 11 have another verdict (most often domain: block instead of " +
				"allow)"},
		"a changed layer": {lineup(1, -6, layerOf("layer", "old", points(50))),
			lineup(2, -6, layerOf("layer", "new", points(70))), Flipped, "11 have another verdict"},
		"a changed layer with the same points": {lineup(1, -6, layerOf("layer", "old", points(50))),
			lineup(2, -6, layerOf("layer", "new", points(51))), Same, ""},
		"a layer that fails": {lineup(1, -6, same), lineup(2, -6, same, layerOf("new", "new", failing(check.Trap))),
			Failed, "11 failed (most often layer new)"},
		"a layer that fails in both": {lineup(1, -6, same, layerOf("new", "old", failing(check.Trap))),
			lineup(2, -6, same, layerOf("new", "new", failing(check.Exhausted))), Same, ""},
		"no layer for the type": {lineup(1, 6, same), func() *check.Lineup {
			phone := same
			phone.Entities = []entity.Type{entity.Phone}
			return lineup(2, -6, phone)
		}(), Flipped, "11 have another verdict"},
		"a layer that only the other lineup has": {lineup(1, -6, same, layerOf("old", "old", byFact("dns.a"), "dns.a")),
			lineup(2, 4, same), Same, ""},
	}, func(t *testing.T, c testCase) {
		h := newHost(t, c.base, c.trial, 0.01)
		h.check(t, 0, 20)
		h.mu.Lock()
		defer h.mu.Unlock()
		expect.Equal(t, "checks that ended as "+string(c.outcome), h.outcomes[c.outcome], 20)
		expect.That(t, (c.reason != "" || len(h.reasons) == 0) && (c.reason == "" || len(h.reasons) == 1 &&
			strings.Contains(h.reasons[0], c.reason)), "withdrawn %q, want %q", h.reasons, c.reason)
	})
}

// What only the other lineup reads is looked up after the answer.
func TestWatchLooksUpMissingFacts(t *testing.T) {
	t.Parallel()
	h := newHost(t, lineup(1, -6, layerOf("layer", "old", byFact("rdap.age_days"), "dns.a", "rdap.age_days")),
		lineup(2, -6, layerOf("layer", "new", byFact("dns.a"), "dns.a")), 0.01)
	h.check(t, 0, 1)
	expect.Equal(t, "looked up", fmt.Sprint(h.collected), "[dns.a rdap.age_days]")
	expect.Equal(t, "checks with this outcome", h.outcomes[Same], 1)
}

// A check of a value that was counted before, or that an override decided, says nothing about a canary.
func TestWatchIgnores(t *testing.T) {
	t.Parallel()
	layer := layerOf("layer", "layer", points(50))
	h := newHost(t, lineup(1, -6, layer), lineup(2, -4, layer, layerOf("own", "own", points(0))), 0.01)
	h.check(t, 0, 1)
	for range 20 {
		h.check(t, 0, 1)
	}
	expect.That(t, h.outcomes[Flipped] == 1 && h.outcomes[Again] == 20, "outcomes %v", h.outcomes)
	h.watch.Decided([]check.Record{{Decision: &check.Decision{Override: &check.Override{}, Revision: 2}}})
	h.check(t, 1, 1) // is judged after all of them
	expect.That(t, h.outcomes[Flipped] == 2 && h.outcomes[Failed] == 0 && len(h.reasons) == 0,
		"outcomes %v, withdrawn %q", h.outcomes, h.reasons)
}

// Another canary or base starts from nothing. A check of a canary that has ended is not counted.
func TestWatchStartsAgain(t *testing.T) {
	t.Parallel()
	layer := layerOf("layer", "layer", points(50))
	h := newHost(t, lineup(1, -6, layer), lineup(2, -4, layer), 0.01)
	h.check(t, 0, 10)
	h.put(lineup(3, -6, layer), lineup(2, -4, layer), 0.01)
	h.check(t, 10, 10)
	h.put(lineup(3, -6, layer), lineup(4, -4, layer), 0.01)
	h.watch.Decided([]check.Record{{Decision: &check.Decision{Revision: 2}}})
	h.check(t, 20, 10)
	expect.Equal(t, "withdrawals", len(h.reasons), 0)
	h.watch.Live.Swap(lineup(3, -6, layer))
	again := lineup(3, -6, layer)
	again.Canary = &check.Canary{Lineup: lineup(4, -4, layer), Percent: 100, Seed: []byte("seed"), Limit: 0.01,
		Began: 9}
	h.Live.Swap(again)
	expect.Equal(t, "the summary of a canary with an earlier lineup", h.watch.Summary(), "")
	h.check(t, 40, 10)
	got := h.watch.Summary()
	expect.That(t, strings.HasPrefix(got, "of 10 values that it scored, 10 have another verdict"), "summary %q", got)
	h.check(t, 30, 1)
	expect.That(t, len(h.reasons) == 1 && strings.HasPrefix(h.reasons[0], "4 Withdrawn: of 11 values"), "withdrawn %q",
		h.reasons)
	h.Live.Swap(lineup(5, -6, layer))
	expect.Equal(t, "without a canary, the summary", h.watch.Summary(), "")
}

// A withdrawal that fails is tried again after a while.
func TestWatchTriesAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		layer := layerOf("layer", "layer", points(50))
		h := newHost(t, lineup(1, -6, layer), lineup(2, -4, layer), 0)
		h.broken = 2
		for i, want := range []int{1, 1, 2, 3, 3} {
			if i == 2 || i == 3 {
				<-time.After(retryDelay + 1)
			}
			h.check(t, i, 1)
			expect.Equal(t, fmt.Sprint("withdrawals after check ", i), len(h.reasons), want)
		}
	})
}

// A host that cannot compare leaves checks out instead of keeping customers or their data waiting.
func TestWatchLeavesOut(t *testing.T) {
	t.Parallel()
	layer := layerOf("layer", "layer", points(50))
	h := newHost(t, lineup(1, -6, layer), lineup(2, -4, layer), 0.01)
	stopped := &Watch{Live: h.Live, Observe: h.watch.Observe}
	const queued, more = 256, 5
	for range queued + more {
		stopped.Decided([]check.Record{{Decision: &check.Decision{Revision: 2}}})
	}
	expect.Equal(t, "checks with this outcome", h.outcomes[LeftOut], more)
	for range more {
		<-h.judged
	}
	h.watch.queue() <- trial{revision: 2, at: time.Now().Add(-2 * maxWait),
		record: check.Record{Decision: &check.Decision{}}}
	<-h.judged
	expect.That(t, h.outcomes[LeftOut] == more+1, "outcomes %v, want one more that waited too long", h.outcomes)
}

// checksUntil returns after how many checks a canary is withdrawn of which every nth flips, 0 if not after 20,000.
func checksUntil(n int, limit float64) int {
	t, account := newTally(), &effect{}
	t.accounts[""] = account
	for i := 1; i <= 20_000; i++ {
		account.checks++
		if i%n == 0 {
			account.bad++
		}
		if t.beyond(limit) {
			return i
		}
	}
	return 0
}

func TestBeyond(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		every int
		limit float64
		want  int
	}{
		"everything flips":              {1, 0.01, 11},
		"a half":                        {2, 0.01, 22},
		"2%":                            {50, 0.01, 1800},
		"1%, the limit":                 {100, 0.01, 0},
		"0.1%":                          {1000, 0.01, 0},
		"the first of a strict one":     {1, 0, 1},
		"a later one of a strict one":   {500, 0, 500},
		"everything, without any limit": {1, 1, 0},
		"a half, at a limit of a tenth": {2, 0.1, 28},
		"a tenth, at its limit":         {10, 0.1, 0},
	} {
		expect.Equal(t, name+": withdrawn after", checksUntil(c.every, c.limit), c.want)
	}
}

// An account that looks for values near the bands does not end a canary for the others.
func TestBeyondWithoutTheWorst(t *testing.T) {
	t.Parallel()
	one := newTally()
	for i := range 2 * oneIn {
		one.accounts[fmt.Sprint(i)] = &effect{checks: 5}
	}
	one.accounts["0"], one.accounts["1"] = &effect{50, 50}, &effect{40, 40}
	expect.That(t, !one.beyond(0.01) && !one.beyond(0), "two of %d accounts end a canary", len(one.accounts))
	one.accounts["2"] = &effect{40, 40}
	expect.That(t, one.beyond(0.01), "three of %d accounts do not end a canary", len(one.accounts))
}

// Whatever share a canary flips, from twice its limit on, a host alone withdraws it after few wrong verdicts.
func TestFlipsUntilWithdrawal(t *testing.T) {
	t.Parallel()
	for every := 1; every <= 50; every++ {
		if n := checksUntil(every, 0.01); n == 0 || n/every > 36 {
			t.Errorf("a canary of which every %dth verdict flips is withdrawn after %d checks", every, n)
		}
	}
}

// Chance withdraws a canary that is just at its limit in at most one of a thousand cases.
func TestChanceRarelyWithdraws(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	const canaries, checks, limit = 3000, 3000, 0.01
	withdrawn := 0
	for range canaries {
		one, account := newTally(), &effect{}
		one.accounts[""] = account
		for range checks {
			account.checks++
			if random.Float64() < limit {
				account.bad++
			}
			if one.beyond(limit) {
				withdrawn++
				break
			}
		}
	}
	expect.That(t, withdrawn <= canaries/1000, "%d of %d were withdrawn", withdrawn, canaries)
}

// A value counts once. The memory for that is bounded.
func TestCounted(t *testing.T) {
	t.Parallel()
	one := newTally()
	for i := range maxSeen + 10 {
		value := []byte(fmt.Sprint(i))
		expect.Must(t, !one.counted(value), "value %d was counted before", i)
		one.count("", value)
		expect.Must(t, one.counted(value), "value %d was not counted", i)
	}
	expect.That(t, one.checks == maxSeen+10 && len(one.seen) == 10, "%d checks, %d remembered", one.checks,
		len(one.seen))
}

func TestTallyText(t *testing.T) {
	t.Parallel()
	one := newTally()
	one.checks = 812
	expect.Equal(t, "text", one.String(), "of 812 values that it scored, none differs")
	one.flips, one.failed = 24, 3
	one.flipped[flip{entity.Email, check.Allow, check.Review}] = 4
	one.flipped[flip{entity.Domain, check.Allow, check.Block}] = 20
	one.failing = map[string]int{"lexical": 1, "graph": 1, "similarity": 1}
	expect.Equal(t, "text", one.String(), "of 812 values that it scored, 24 have another verdict (most often domain: "+
		"block instead of allow) and 3 failed (most often layer graph)")
}
