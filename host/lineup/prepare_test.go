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
	"assay/host/fleet"
	"assay/host/postgres/postgrestest"
	"assay/host/store/storetest"
	"assay/registry"
)

// preparing runs a preparer of the host until the test ends. It polls, so that tests need not notify it.
func (h *host) preparing(t *testing.T, measure func(context.Context, *check.Lineup) (any, error)) {
	t.Helper()
	p := &Preparer{Candidates: h.store, Follower: h.follower, Host: "host_a", Log: storetest.Discard(),
		Measure: measure, polling: time.Millisecond}
	storetest.Background(t, p.Run)
}

// propose asks for a candidate and returns the host's answer, once it is not loading.
func (h *host) propose(t *testing.T, id string, l registry.LineupDocument, dry bool) fleet.Answer {
	t.Helper()
	l = storetest.Must(Pin(t.Context(), h.store, l, registry.LineupDocument{}))(t)
	text := storetest.Must(l.Canonical())(t)
	storetest.NoError(t, h.store.Propose(t.Context(), fleet.Candidate{ID: id, Document: string(text), Dry: dry}))
	var answer fleet.Answer
	storetest.Until(t, "an answer about "+id, func() bool {
		answers := storetest.Must(h.store.Answers(t.Context(), id))(t)
		if len(answers) == 1 {
			answer = answers[0]
		}
		return answer.Progress != "" && answer.Progress != fleet.Loading
	})
	return answer
}

// counting makes the host's follower count the modules that it reads.
func (h *host) counting() *atomic.Int64 {
	var reads atomic.Int64
	h.follower.source = &intercepted{Source: h.store, module: func(context.Context, registry.Digest) error {
		reads.Add(1)
		return nil
	}}
	return &reads
}

// What was prepared is swapped in without opening anything, and so is the lineup before at a rollback.
func TestPreparedLineupIsSwappedIn(t *testing.T) {
	t.Parallel()
	h := newHost(t, postgrestest.Database(t))
	h.follower.keepPrevious = time.Hour
	reads := h.counting()
	h.publish(t, module(t, "probe", "1.0.0", 10), module(t, "second", "1.0.0", 20))
	one, two := lineupOf(-1, "probe@1.0.0"), lineupOf(-1, "second@1.0.0")
	first := h.activate(t, one)
	h.follow(t, first)
	h.preparing(t, func(_ context.Context, l *check.Lineup) (any, error) {
		return map[string]int{"layers": len(l.Members)}, nil
	})
	answer := h.propose(t, "cand_1", two, false)
	if answer.Progress != fleet.Ready || string(answer.Report) != `{"layers": 1}` {
		t.Errorf("answer %+v with report %s", answer, answer.Report)
	}
	storetest.Expect(t, "before the commit", h.score(t), fmt.Sprintf("revision %d: 50", first))
	before := reads.Load()
	second := h.activate(t, two)
	h.follow(t, second)
	storetest.Expect(t, "after it", h.score(t), fmt.Sprintf("revision %d: 73", second))
	storetest.NoError(t, h.store.WithdrawCandidate(t.Context(), "cand_1"))
	h.rollback(t, first)
	h.follow(t, first)
	storetest.Expect(t, "after the rollback", h.score(t), fmt.Sprintf("revision %d: 50", first))
	storetest.Expect(t, "modules read since it was prepared", reads.Load()-before, 0)
	storetest.Expect(t, "open plugins", h.openPlugins(), 2)
}

// A candidate that is withdrawn, that expires or that is only measured is closed. One that cannot be opened is refused
// with the reason.
func TestAbandonedCandidateIsClosed(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	h := newHost(t, url)
	conn := storetest.Session(t, url)
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
	closed := func(what string) {
		storetest.Until(t, what+" to be closed", func() bool { return h.openPlugins() == 1 })
	}
	storetest.Expect(t, "withdrawn", h.propose(t, "cand_1", other, false).Progress, fleet.Ready)
	storetest.Expect(t, "open plugins", h.openPlugins(), 2)
	storetest.NoError(t, h.store.WithdrawCandidate(t.Context(), "cand_1"))
	closed("the withdrawn candidate")
	storetest.Expect(t, "expired", h.propose(t, "cand_2", other, false).Progress, fleet.Ready)
	storetest.Exec(t, conn, "UPDATE candidates SET expires = now()")
	closed("the expired candidate")
	storetest.Expect(t, "dry", h.propose(t, "cand_3", other, true).Progress, fleet.Ready)
	closed("the measured candidate")
	if a := h.propose(t, "cand_4", lineupOf(-1, "second@1.0.0", "broken@1.0.0"), false); a.Progress !=
		fleet.Refused || !strings.Contains(a.Reason, "unreachable") {
		t.Errorf("a broken layer: %+v", a)
	}
	closed("the refused candidate")
	failing.Store(true)
	if a := h.propose(t, "cand_5", other, false); a.Progress != fleet.Refused ||
		!strings.Contains(a.Reason, "no memory") {
		t.Errorf("a failed measurement: %+v", a)
	}
	closed("the candidate that was not measured")
}
