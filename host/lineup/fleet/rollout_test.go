package fleet_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"assay/host/lineup/fleet"
	"assay/registry/expect"
)

// roster is a store whose content a test changes each time that the hosts are read.
type roster struct {
	steps []func(r *roster) // called before Hosts returns

	mu        sync.Mutex
	hosts     []fleet.Host
	answers   map[string]fleet.Answer
	proposed  []fleet.Candidate
	withdrawn []string
}

func (r *roster) Hosts(context.Context) ([]fleet.Host, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.steps) > 0 {
		r.steps[0](r)
		r.steps = r.steps[1:]
	}
	return r.hosts, nil
}

func (r *roster) Propose(_ context.Context, c fleet.Candidate) error {
	r.proposed = append(r.proposed, c)
	return nil
}

func (r *roster) ExtendCandidate(context.Context, string) error { return nil }

func (r *roster) WithdrawCandidate(_ context.Context, id string) error {
	r.withdrawn = append(r.withdrawn, id)
	return nil
}

func (r *roster) Answers(context.Context, string) (answers []fleet.Answer, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.answers {
		answers = append(answers, a)
	}
	return answers, nil
}

func (r *roster) answer(host string, p fleet.Progress, reason string) {
	if r.answers == nil {
		r.answers = map[string]fleet.Answer{}
	}
	r.answers[host] = fleet.Answer{Host: host, Progress: p, Reason: reason}
}

// add adds a host, or changes it.
func (r *roster) add(name string, unseen time.Duration, s fleet.State) {
	h := fleet.Host{ID: name, Name: name, Unseen: unseen, State: s}
	for i := range r.hosts {
		if r.hosts[i].ID == name {
			r.hosts[i] = h
			return
		}
	}
	r.hosts = append(r.hosts, h)
}

const silent = 11 * time.Second

// rollout returns a rollout over r and the events that it reports, a line each.
func rollout(r *roster) (*fleet.Rollout, *[]string) {
	var events []string
	return &fleet.Rollout{Store: r, Observe: func(e fleet.Event) {
		events = append(events, strings.TrimSpace(fmt.Sprint(e.Host.Name, " ", e.What, " ", e.Reason)))
	}}, &events
}

func wantEvents(t *testing.T, got *[]string, want ...string) {
	t.Helper()
	expect.Equal(t, "events", fmt.Sprint(*got), fmt.Sprint(want))
}

var old = fleet.State{Activation: 1, Revision: 1}

func TestPrepare(t *testing.T) {
	t.Parallel()
	type testCase struct {
		steps  []func(r *roster)
		events []string
		ready  int
		err    string
	}
	expect.Each(t, map[string]testCase{
		"without hosts": {nil, nil, 0, ""},
		"all hosts": {[]func(r *roster){
			func(r *roster) { r.add("a", 0, old); r.add("b", 0, old) },
			func(r *roster) { r.answer("a", fleet.Loading, "") },
			func(r *roster) { r.answer("b", fleet.Loading, "") },
			func(r *roster) { r.answer("b", fleet.Ready, "") },
			func(r *roster) { r.answer("a", fleet.Ready, "") },
		}, []string{"a loading", "b loading", "b ready", "a ready"}, 2, ""},
		"one refuses": {[]func(r *roster){
			func(r *roster) { r.add("a", 0, old); r.add("b", 0, old) },
			func(r *roster) { r.answer("a", fleet.Ready, ""); r.answer("b", fleet.Refused, "no memory") },
		}, []string{"a ready", "b refused no memory"}, 0, "host b refused: no memory"},
		"one is silent": {[]func(r *roster){
			func(r *roster) { r.add("a", 0, old); r.add("b", silent, old) },
			func(r *roster) { r.answer("a", fleet.Ready, "") },
		}, []string{"b skipped silent for 11s", "a ready"}, 1, ""},
		"one stops while it loads": {[]func(r *roster){
			func(r *roster) { r.add("a", 0, old); r.answer("a", fleet.Loading, "") },
			func(r *roster) { r.add("a", 9*time.Second, old) },
			func(r *roster) { r.add("a", silent, old) },
		}, []string{"a loading", "a skipped silent for 11s"}, 0, ""},
		"one leaves": {[]func(r *roster){
			func(r *roster) { r.add("a", 0, old); r.answer("a", fleet.Loading, "") },
			func(r *roster) { r.hosts = nil },
		}, []string{"a loading"}, 0, ""},
		"one starts": {[]func(r *roster){
			func(r *roster) { r.add("a", 0, old) },
			func(r *roster) { r.answer("a", fleet.Ready, ""); r.add("b", 0, old) },
			func(r *roster) { r.answer("b", fleet.Ready, "") },
		}, []string{"a ready", "b ready"}, 2, ""},
	}, func(t *testing.T, c testCase) {
		r := &roster{steps: c.steps}
		run, events := rollout(r)
		p, err := run.Prepare(t.Context(), fleet.Candidate{Document: "{}"})
		wantEvents(t, events, c.events...)
		expect.Outcome(t, "preparing", err, c.err)
		if err == nil {
			expect.Equal(t, "hosts are ready", len(p.Answers), c.ready)
			expect.Equal(t, "withdrawn before it was closed", len(r.withdrawn), 0)
			expect.NoError(t, p.Close())
		}
		expect.That(t, len(r.proposed) == 1 && len(r.withdrawn) == 1 && r.withdrawn[0] == r.proposed[0].ID,
			"proposed %+v, withdrew %v", r.proposed, r.withdrawn)
	})
}

func TestAwait(t *testing.T) {
	t.Parallel()
	switched := fleet.State{Activation: 2, Revision: 2}
	later := fleet.State{Activation: 3, Revision: 1}
	broken := fleet.State{Activation: 1, Revision: 1, Refused: 2, Problem: "the key is not trusted"}
	type testCase struct {
		steps   []func(r *roster)
		events  []string
		running int
		err     string
	}
	expect.Each(t, map[string]testCase{
		"without hosts": {nil, nil, 0, ""},
		"all hosts": {[]func(r *roster){
			func(r *roster) { r.add("a", 0, old); r.add("b", 0, old) },
			func(r *roster) { r.add("b", 0, switched) },
			func(r *roster) { r.add("a", 0, switched) },
		}, []string{"b switched", "a switched"}, 2, ""},
		"another is faster": {[]func(r *roster){
			func(r *roster) { r.add("a", 0, later); r.add("b", 0, old) },
			func(r *roster) { r.add("b", 0, switched) },
		}, []string{"a moved on activation 3 is in force by now", "b switched"}, 1,
			"host a moved on: activation 3 is in force by now"},
		"one is stopped": {[]func(r *roster){
			func(r *roster) { r.add("a", 0, switched); r.add("b", 9*time.Second, old) },
			func(r *roster) { r.add("b", silent, old) },
		}, []string{"a switched", "b skipped silent for 11s"}, 1, ""},
		"one cannot run it": {[]func(r *roster){
			func(r *roster) { r.add("a", 0, broken); r.add("b", 0, old) },
			func(r *roster) { r.add("b", 0, switched) },
		}, []string{"a did not switch the key is not trusted", "b switched"}, 1,
			"host a did not switch: the key is not trusted"},
		"one refused an earlier one": {[]func(r *roster){
			func(r *roster) { r.add("a", 0, fleet.State{Refused: 1, Problem: "stale"}) },
			func(r *roster) { r.add("a", 0, switched) },
		}, []string{"a switched"}, 1, ""},
	}, func(t *testing.T, c testCase) {
		run, events := rollout(&roster{steps: c.steps})
		running, err := run.Await(t.Context(), 2)
		wantEvents(t, events, c.events...)
		expect.That(t, (err == nil) == (c.err == "") && (err == nil || err.Error() == c.err &&
			errors.As(err, new(*fleet.NotEverywhereError))), "error %v, want %q", err, c.err)
		expect.Equal(t, "hosts run it", len(running), c.running)
	})
}

// A command that is interrupted withdraws its candidate.
func TestPrepareInterrupted(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	r := &roster{steps: []func(r *roster){func(r *roster) { r.add("a", 0, old) }, func(*roster) { interrupt() }}}
	run, _ := rollout(r)
	p, err := run.Prepare(ctx, fleet.Candidate{Document: "{}"})
	expect.That(t, errors.Is(err, context.Canceled) && p == nil, "prepared %+v, %v", p, err)
	expect.Equal(t, "withdrew", len(r.withdrawn), 1)
}

// beats is a roster that remembers the reports, and fails to store some of them.
type beats struct {
	fleet.Roster
	failing atomic.Bool
	mu      sync.Mutex
	reports []string
}

func (b *beats) BeatHost(context.Context, string, string, fleet.State) (int, error) { return 1, nil }
func (b *beats) RemoveHost(context.Context, string) error                           { return nil }

func (b *beats) ReportShadow(_ context.Context, id string, report json.RawMessage) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failing.Load() {
		return errors.New("no database")
	}
	b.reports = append(b.reports, id+" "+string(report))
	return nil
}

// stopping is a roster whose host is stopped during a beat.
type stopping struct {
	fleet.Roster
	stop    func()
	givenUp error // why the beat's context had ended
	removed bool
}

func (s *stopping) BeatHost(ctx context.Context, _, _ string, _ fleet.State) (int, error) {
	s.stop()
	s.givenUp = ctx.Err()
	return 1, s.givenUp
}
func (s *stopping) RemoveHost(context.Context, string) error { s.removed = true; return nil }

// A host that stops during a beat waits for it: a beat that is stored after its removal would bring it back.
func TestBeatEndsBeforeRemoval(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	roster := &stopping{stop: stop}
	p := &fleet.Pulse{Roster: roster, ID: "host_a", Log: slog.New(slog.DiscardHandler),
		State: func() fleet.State { return fleet.State{} }}
	p.Run(ctx)
	expect.That(t, roster.givenUp == nil && roster.removed, "the beat ended with %v, the host was removed: %t",
		roster.givenUp, roster.removed)
}

// A host stores what its shadow layers found every ten seconds at most, when it has changed, and again after a failure.
func TestPulseReportsShadow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		roster, ctx := &beats{}, t.Context()
		var mu sync.Mutex
		var found json.RawMessage
		find := func(text string) {
			mu.Lock()
			defer mu.Unlock()
			found = json.RawMessage(text)
		}
		p := &fleet.Pulse{Roster: roster, ID: "host_a", Log: slog.New(slog.DiscardHandler),
			State: func() fleet.State { return fleet.State{} }, Shadow: func() (json.RawMessage, error) {
				mu.Lock()
				defer mu.Unlock()
				return found, nil
			}}
		ctx, stop := context.WithCancel(ctx)
		var running sync.WaitGroup
		running.Go(func() { p.Run(ctx) })
		want := func(after time.Duration, reports ...string) {
			t.Helper()
			<-time.After(after)
			synctest.Wait()
			roster.mu.Lock()
			defer roster.mu.Unlock()
			expect.That(t, slices.Equal(roster.reports, reports), "stored %q, want %q", roster.reports, reports)
		}
		want(30 * time.Second)
		find("[1]")
		want(11*time.Second, "host_a [1]")
		want(30*time.Second, "host_a [1]")
		find("[2]")
		roster.failing.Store(true)
		want(30*time.Second, "host_a [1]")
		roster.failing.Store(false)
		want(11*time.Second, "host_a [1]", "host_a [2]")
		for range 5 {
			find("[3]")
			<-time.After(time.Second)
			find("[4]")
			<-time.After(time.Second)
		}
		stop()
		running.Wait()
		expect.That(t, len(roster.reports) <= 3, "more than 3 reports were stored: %q", roster.reports)
	})
}
