package lineup

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"assay/host/check"
	"assay/host/lineup/fleet"
	"assay/host/store/postgres/postgrestest"
	"assay/host/store/storetest"
	"assay/registry"
	"assay/registry/activation"
	"assay/registry/expect"
)

// preparing runs a preparer of the host until the test ends. It polls, so that tests need not notify it.
func (h *host) preparing(t *testing.T, measure func(context.Context, *check.Lineup) (any, error)) {
	t.Helper()
	p := &Preparer{Candidates: h.store, Follower: h.follower, Host: "host_a", Log: storetest.Discard(),
		Measure: measure, polling: time.Millisecond}
	storetest.Background(t, p.Run)
}

// propose asks to prepare a lineup and returns the host's answer, once it is not loading.
func (h *host) propose(t *testing.T, id string, l registry.LineupDocument) fleet.Answer {
	t.Helper()
	return h.offer(t, id, Proposal{Lineup: h.storeLineup(t, l)})
}

// offer asks to prepare what is proposed and returns the host's answer, once it is not loading.
func (h *host) offer(t *testing.T, id string, p Proposal) fleet.Answer {
	t.Helper()
	p.Base, p.Author, p.At = h.last(t), "ana@test", time.Now()
	signed := expect.Value(activation.SignCandidate(p.Activation(), operator))(t)
	return h.answer(t, fleet.Candidate{ID: id, Signed: signed})
}

// measure asks to measure a lineup and returns the host's answer, once it is not loading.
func (h *host) measure(t *testing.T, id string, l registry.LineupDocument) fleet.Answer {
	t.Helper()
	signed := expect.Value(activation.SignMeasurement([]byte(h.canonical(t, l)), operator))(t)
	return h.answer(t, fleet.Candidate{ID: id, Signed: signed})
}

// canonical returns the text of a lineup of published plugins.
func (h *host) canonical(t *testing.T, l registry.LineupDocument) string {
	t.Helper()
	l = expect.Value(Pin(t.Context(), h.store, l, registry.LineupDocument{}))(t)
	return string(expect.Value(l.Canonical())(t))
}

func (h *host) answer(t *testing.T, c fleet.Candidate) fleet.Answer {
	t.Helper()
	expect.NoError(t, h.store.Propose(t.Context(), c))
	var answer fleet.Answer
	expect.Until(t, "an answer about "+c.ID, func() bool {
		answers := expect.Value(h.store.Answers(t.Context(), c.ID))(t)
		if len(answers) == 1 {
			answer = answers[0]
		}
		return answer.Progress != "" && answer.Progress != fleet.Loading
	})
	return answer
}

// wantAnswer asks to prepare a candidate, and expects that it is refused for the reason want, or ready without one.
func (h *host) wantAnswer(t *testing.T, name string, c fleet.Candidate, want string) {
	t.Helper()
	c.ID = check.NewRef()
	answer := h.answer(t, c)
	if want == "" {
		expect.Equal(t, name, answer.Progress, fleet.Ready)
	} else if answer.Progress != fleet.Refused || !strings.Contains(answer.Reason, want) {
		t.Errorf("%s: %s %s, want it to be refused: %s", name, answer.Progress, answer.Reason, want)
	}
	expect.NoError(t, h.store.WithdrawCandidate(t.Context(), c.ID))
}

// counting makes the host's follower count the modules that it reads.
func (h *host) counting() *atomic.Int64 {
	var reads atomic.Int64
	h.follower.open.source = &intercepted{Source: h.store, module: func(context.Context, registry.Digest) error {
		reads.Add(1)
		return nil
	}}
	return &reads
}

// What was prepared and measured is swapped in without opening anything, and so is the lineup before at a rollback. The
// lineup of a canary is prepared too, so that starting and promoting it opens nothing.
func TestPreparedLineupIsSwappedIn(t *testing.T) {
	t.Parallel()
	h := newHost(t, postgrestest.Database(t))
	h.follower.keepPrevious = time.Hour
	reads := h.counting()
	h.publish(t, module(t, "probe", "1.0.0", 10), module(t, "second", "1.0.0", 20), module(t, "third", "1.0.0", 1))
	one, two := lineupOf(-1, "probe@1.0.0"), lineupOf(-1, "second@1.0.0")
	first := h.activate(t, one)
	h.follow(t, first)
	h.preparing(t, func(_ context.Context, l *check.Lineup) (any, error) {
		return map[string]int{"layers": len(l.Members)}, nil
	})
	answer := h.propose(t, "cand_1", two)
	expect.That(t, answer.Progress == fleet.Ready && string(answer.Report) == `{"layers": 1}`,
		"answer %+v with report %s", answer, answer.Report)
	expect.Equal(t, "before the commit", h.score(t), fmt.Sprintf("revision %d: 50", first))
	before := reads.Load()
	second := h.activate(t, two)
	h.follow(t, second)
	expect.Equal(t, "after it", h.score(t), fmt.Sprintf("revision %d: 73", second))
	expect.NoError(t, h.store.WithdrawCandidate(t.Context(), "cand_1"))
	h.rollback(t, first)
	h.follow(t, first)
	expect.Equal(t, "after the rollback", h.score(t), fmt.Sprintf("revision %d: 50", first))
	expect.Equal(t, "modules read since it was prepared", reads.Load()-before, 0)
	expect.Equal(t, "open plugins", h.openPlugins(), 2)

	base := h.last(t).Lineup
	trial := h.storeLineup(t, lineupOf(-1, "probe@1.0.0", "third@1.0.0"))
	canary := Proposal{Lineup: base, Canary: &activation.Canary{Lineup: trial, Share: 5}}
	answer = h.offer(t, "cand_2", canary)
	expect.That(t, answer.Progress == fleet.Ready && string(answer.Report) == `{"layers": 2}`,
		"answer %+v with report %s", answer, answer.Report)
	before = reads.Load()
	h.change(t, canary)
	h.follow(t, first)
	h.change(t, Proposal{Lineup: trial})
	h.follow(t, trial.Revision)
	expect.Equal(t, "modules read since the canary was prepared", reads.Load()-before, 0)
	both := Proposal{Lineup: base, Canary: &activation.Canary{Lineup: trial, Share: 5}}
	expect.Equal(t, "report on a lineup that changes with its canary", string(h.offer(t, "cand_3", both).Report),
		`{"layers": 1}`)
}

// A candidate that is withdrawn, that expires, that is only measured or that cannot be opened is closed.
func TestAbandonedCandidateIsClosed(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	h, conn := newHost(t, url), storetest.Session(t, url)
	h.publish(t, module(t, "probe", "1.0.0", 10), module(t, "second", "1.0.0", 20), brokenModule(t, "broken", "1.0.0"))
	h.follow(t, h.activate(t, lineupOf(-1, "probe@1.0.0")))
	var failing atomic.Bool
	h.preparing(t, func(context.Context, *check.Lineup) (any, error) {
		if failing.Load() {
			return nil, errors.New("no memory")
		}
		return nil, nil
	})
	other := lineupOf(-1, "probe@1.0.0", "second@1.0.0")
	closed := func(what string) { expect.Until(t, what+" to be closed", func() bool { return h.openPlugins() == 1 }) }
	expect.Equal(t, "withdrawn", h.propose(t, "cand_1", other).Progress, fleet.Ready)
	expect.Equal(t, "open plugins", h.openPlugins(), 2)
	expect.NoError(t, h.store.WithdrawCandidate(t.Context(), "cand_1"))
	closed("the withdrawn candidate")
	expect.Equal(t, "expired", h.propose(t, "cand_2", other).Progress, fleet.Ready)
	storetest.Exec(t, conn, "UPDATE candidates SET expires = now()")
	closed("the expired candidate")
	expect.Equal(t, "dry", h.measure(t, "cand_3", other).Progress, fleet.Ready)
	closed("the measured candidate")
	a := h.propose(t, "cand_4", lineupOf(-1, "second@1.0.0", "broken@1.0.0"))
	expect.That(t, a.Progress == fleet.Refused && strings.Contains(a.Reason, "unreachable"), "a broken layer: %+v", a)
	closed("the refused candidate")
	failing.Store(true)
	a = h.propose(t, "cand_5", other)
	expect.That(t, a.Progress == fleet.Refused && strings.Contains(a.Reason, "no memory"), "unmeasured: %+v", a)
	closed("the candidate that was not measured")
}

// A host prepares only what it would run: it refuses an activation for the reason for which it would refuse it after
// the commit. What was signed to be prepared cannot be put in force.
func TestCandidateIsVerified(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	h := newHost(t, url, module(t, "probe", "1.0.0", 10), module(t, "probe", "2.0.0", 30))
	first := h.activate(t, lineupOf(-1, "probe@1.0.0"))
	stored := h.storeLineup(t, lineupOf(-5, "probe@1.0.0"))
	h.change(t, Proposal{Lineup: stored})
	h.follow(t, stored.Revision)
	h.preparing(t, nil)
	target := h.storeLineup(t, lineupOf(-1, "probe@2.0.0"))
	base := Proposal{Base: h.last(t), Lineup: target, Author: "ana@test", At: time.Now()}
	sign := func(change func(a *activation.Activation), key activation.Key) string {
		a := base.Activation()
		change(&a)
		return expect.Value(activation.SignCandidate(a, key))(t)
	}
	nothing := func(*activation.Activation) {}
	for name, test := range map[string]struct{ signed, want string }{
		"an operator's": {sign(nothing, operator), ""},
		"a stranger's":  {sign(nothing, mustKey("stranger", 9)), "which the trust file does not list"},
		"a host's":      {sign(nothing, hostKey), "a host's key may only move one layer"},
		"an activation": {h.sign(t, base, operator).Note, "does not begin with"},
		"an old number": {sign(func(a *activation.Activation) { a.Number = 2 }, operator),
			"its number is not above 2, which this host ran"},
		"another one before": {sign(func(a *activation.Activation) { a.Previous = registry.Digest{7} }, operator),
			"the predecessor of 3, is missing"},
		"another lineup": {sign(func(a *activation.Activation) { a.Lineup.Hash = registry.Digest{7} }, operator),
			"its text was altered"},
		"an operator's after a restored backup": {sign(func(a *activation.Activation) { a.Number = 9 }, operator), ""},
		"an unknown revision": {sign(func(a *activation.Activation) { a.Lineup.Revision = 70 }, operator),
			"there is no such lineup revision"},
		"an unknown canary": {sign(func(a *activation.Activation) {
			a.Canary = &activation.Canary{Share: 5, Lineup: activation.Lineup{Revision: first, Hash: [32]byte{7}}}
		}, operator), "canary: revision 1: reading lineup: its text was altered"},
	} {
		h.wantAnswer(t, name, fleet.Candidate{Signed: test.signed}, test.want)
	}

	hash := base.Activation().Hash()
	expect.Value(storetest.Session(t, url).Exec(t.Context(), `INSERT INTO lineup_activations (id, revision, number,
		signed, hash) VALUES (3, $1, 3, $2, $3)`, target.Revision, sign(nothing, operator), hash[:]))(t)
	expect.ErrorText(t, "following a candidate", h.follower.Follow(t.Context()), "first line is not")
	expect.Equal(t, "revision in force", h.follower.State().Revision, stored.Revision)
}

// Who can write to the database can make a host measure lineups, but with no layer that an operator has not signed: the
// report could tell what the layer found in the values of recent checks.
func TestForgedMeasurement(t *testing.T) {
	t.Parallel()
	h := newHost(t, postgrestest.Database(t), module(t, "probe", "1.0.0", 10), module(t, "second", "1.0.0", 20))
	h.follow(t, h.activate(t, lineupOf(-1, "probe@1.0.0")))
	var measured atomic.Int64
	h.preparing(t, func(context.Context, *check.Lineup) (any, error) {
		measured.Add(1)
		return nil, nil
	})
	starved := lineupOf(-1, "probe@1.0.0")
	starved.Layers[0].Fuel = registry.MinBudget
	signed := func(key activation.Key) fleet.Candidate {
		note := expect.Value(activation.SignMeasurement([]byte(h.canonical(t, lineupOf(-1, "second@1.0.0"))), key))(t)
		return fleet.Candidate{Signed: note}
	}
	for name, test := range map[string]struct {
		candidate fleet.Candidate
		want      string
	}{
		"other weights": {fleet.Candidate{Document: h.canonical(t, lineupOf(-3, "probe@1.0.0"))}, ""},
		"another layer": {fleet.Candidate{Document: h.canonical(t, lineupOf(-1, "probe@1.0.0", "second@1.0.0"))},
			"second@1.0.0 is not in force with this module"},
		"another setting":               {fleet.Candidate{Document: h.canonical(t, starved)}, "probe@1.0.0 is not"},
		"another layer, by an operator": {signed(operator), ""},
		"another layer, by a host":      {signed(hostKey), "may not sign it"},
		"no lineup":                     {fleet.Candidate{Document: "{"}, "reading lineup"},
		"no note":                       {fleet.Candidate{Signed: "yes"}, "malformed note"},
	} {
		before := measured.Load()
		h.wantAnswer(t, name, test.candidate, test.want)
		expect.Equal(t, name+": measured", measured.Load() != before, test.want == "")
	}
}

// Candidates that somebody wrote into the database cost a host little: it measures one at a time, reads no long ones
// and only the newest, and prepares what an operator signed meanwhile.
func TestManyCandidates(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	h := newHost(t, url, module(t, "probe", "1.0.0", 10), module(t, "second", "1.0.0", 20))
	h.follow(t, h.activate(t, lineupOf(-1, "probe@1.0.0")))
	var inProgress, most atomic.Int64
	release := make(chan struct{})
	h.preparing(t, func(ctx context.Context, l *check.Lineup) (any, error) {
		if l.Bias["domain"] != -3 {
			return nil, nil
		}
		most.Store(max(most.Load(), inProgress.Add(1)))
		defer inProgress.Add(-1)
		select {
		case <-release:
		case <-ctx.Done():
		}
		return nil, nil
	})
	expect.Value(storetest.Session(t, url).Exec(t.Context(), `INSERT INTO candidates (id, document, made_at, expires)
		SELECT 'forged_' || n, $1, now() - interval '1 s' * n, 'infinity' FROM generate_series(1, 100) AS n`,
		h.canonical(t, lineupOf(-3, "probe@1.0.0"))))(t)
	storetest.Exec(t, storetest.Session(t, url), `INSERT INTO candidates (id, document, expires)
		VALUES ('long', repeat('x', 600000), 'infinity')`)
	expect.Until(t, "one to be measured", func() bool { return inProgress.Load() > 0 })
	expect.Equal(t, "signed meanwhile", h.propose(t, "cand_1", lineupOf(-1, "second@1.0.0")).Progress, fleet.Ready)
	listed := expect.Value(h.store.Candidates(t.Context()))(t)
	expect.That(t, len(listed) == 32 && listed[31].ID == "cand_1" && listed[30].ID == "forged_1",
		"%d candidates are read, the last is %s", len(listed), listed[len(listed)-1].ID)
	close(release)
	expect.Until(t, "the others to be measured", func() bool {
		ready := 0
		for _, c := range listed {
			for _, a := range expect.Value(h.store.Answers(t.Context(), c.ID))(t) {
				if a.Progress == fleet.Ready {
					ready++
				}
			}
		}
		return ready == len(listed)
	})
	expect.Equal(t, "most at once", most.Load(), 1)
	expect.ErrorText(t, "a long one", h.store.Propose(t.Context(), fleet.Candidate{ID: "cand_2",
		Document: strings.Repeat("x", 600_000)}), "more than 524288 bytes")
}

// A forged "ready" puts nothing in force on a host that refuses, and the host says so after the commit.
func TestForgedAnswer(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	h, conn := newHost(t, url), storetest.Session(t, url)
	h.publish(t, module(t, "probe", "1.0.0", 10), brokenModule(t, "broken", "1.0.0"))
	first := h.activate(t, lineupOf(-1, "probe@1.0.0"))
	h.follow(t, first)
	pulse := &fleet.Pulse{Roster: h.store, ID: "host_a", Name: "a:1", Log: storetest.Discard(),
		Changed: h.follower.StateChanged(), State: func() fleet.State {
			s := h.follower.State()
			return fleet.State{Activation: s.Activation, Revision: s.Revision, Refused: s.RefusedActivation,
				Problem: s.Reason}
		}}
	storetest.Background(t, pulse.Run)
	h.preparing(t, nil)
	bad := lineupOf(-1, "broken@1.0.0")
	expect.Equal(t, "answer", h.propose(t, "cand_1", bad).Progress, fleet.Refused)
	storetest.Exec(t, conn, "UPDATE candidate_hosts SET state = 'ready', reason = ''",
		"UPDATE hosts SET activation = 2, revision = 2")
	second := h.activate(t, bad)
	expect.ErrorText(t, "following", h.follower.Follow(t.Context()), "unreachable")
	_, err := (&fleet.Rollout{Store: h.store}).Await(t.Context(), 2)
	if err == nil {
		expect.Until(t, "the host to say what it runs", func() bool {
			_, err = (&fleet.Rollout{Store: h.store}).Await(t.Context(), 2)
			return err != nil
		})
	}
	expect.ErrorText(t, "waiting for the host", err, "host a:1 did not switch: ")
	if s := h.follower.State(); s.Revision != first || s.Refused != second {
		t.Errorf("state %+v, want revision %d in force and %d refused", s, first, second)
	}
	expect.Equal(t, "score", h.score(t), fmt.Sprintf("revision %d: 50", first))
}

// A revoked plugin that is in force keeps scoring, with a warning. It cannot be put in force again, and neither
// measurements nor explanations run it.
func TestRevokedPlugin(t *testing.T) {
	t.Parallel()
	probe := module(t, "probe", "1.0.0", 10)
	h := newHost(t, postgrestest.Database(t), probe, module(t, "second", "1.0.0", 20))
	h.follow(t, h.activate(t, lineupOf(-1, "probe@1.0.0")))
	h.verifier.Trust = mustTrust("operator " + operator.Verifier + "\nrevoked " + probe.Digest.String())
	h.preparing(t, nil)
	got := h.propose(t, "cand_1", lineupOf(-2, "probe@1.0.0", "second@1.0.0"))
	expect.That(t, got.Progress == fleet.Refused &&
		strings.Contains(got.Reason, "refused, revoked plugin: the trust file revokes probe@1.0.0"),
		"with the plugin: %s, %s", got.Progress, got.Reason)
	expect.Equal(t, "without the plugin", h.propose(t, "cand_2", lineupOf(-2, "second@1.0.0")).Progress, fleet.Ready)
	got = h.measure(t, "cand_3", lineupOf(-2, "probe@1.0.0"))
	expect.That(t, strings.Contains(got.Reason, "revokes probe@1.0.0"), "measured: %s, %s", got.Progress, got.Reason)
	text := h.canonical(t, lineupOf(-2, "probe@1.0.0"))
	h.wantAnswer(t, "reweighed", fleet.Candidate{Document: text}, "revokes probe@1.0.0")
	expect.ErrorText(t, "explaining", NewPast(h.follower, time.Minute).With(t.Context(), "a", h.last(t).Lineup.Revision,
		nil), "revokes probe@1.0.0")
	h.follow(t, h.last(t).Lineup.Revision)
	expect.Equal(t, "degraded", strings.Join(h.follower.Degraded(), "\n"),
		"layer probe@1.0.0 is in force, although the trust file revokes its plugin")
}
