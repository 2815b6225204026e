package store

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"

	"assay/host/lineup/fleet"
)

func TestHosts(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	conn := session(t, s.url)
	running := fleet.State{Activation: 7, Revision: 3, Canary: "of 5 values that it scored, none differs"}
	broken := fleet.State{Activation: 6, Revision: 2, Refused: 7, Problem: "layer probe: no such module"}
	for range 2 {
		noError(t, s.BeatHost(t.Context(), "host_b", "b:1", broken))
		noError(t, s.BeatHost(t.Context(), "host_a", "a:1", running))
	}
	exec(t, conn, "UPDATE hosts SET seen_at = now() - interval '11 seconds' WHERE id = 'host_b'",
		"UPDATE hosts SET seen_at = now() + interval '1 hour' WHERE id = 'host_a'") // however slow the test is
	hosts := must(s.Hosts(t.Context()))(t)
	expect(t, "hosts", len(hosts), 2)
	a, b := hosts[0], hosts[1]
	if a.Name != "a:1" || a.Silent() || a.State != running || b.Name != "b:1" || !b.Silent() || b.State != broken {
		t.Errorf("hosts %+v", hosts)
	}
	expect(t, "live hosts", must(s.LiveHosts(t.Context()))(t), 1)
	noError(t, s.BeatHost(t.Context(), "host_b", "b:1", running))
	if b := must(s.Hosts(t.Context()))(t)[1]; b.Silent() || b.State != running {
		t.Errorf("after its next beat: %+v", b)
	}
	expect(t, "shadow reports", len(must(s.ShadowReports(t.Context()))(t)), 0)
	noError(t, s.ReportShadow(t.Context(), "host_a", json.RawMessage(`[1]`)))
	noError(t, s.ReportShadow(t.Context(), "host_b", json.RawMessage(`[2]`)))
	noError(t, s.ReportShadow(t.Context(), "host_b", json.RawMessage(`[3]`)))
	noError(t, s.BeatHost(t.Context(), "host_b", "b:1", running))
	noDiff(t, "shadow reports", []json.RawMessage{json.RawMessage("[1]"), json.RawMessage("[3]")},
		must(s.ShadowReports(t.Context()))(t))
	noError(t, s.RemoveHost(t.Context(), "host_a"))
	exec(t, conn, "UPDATE hosts SET seen_at = now() - interval '61 minutes'")
	noError(t, s.PruneHosts(t.Context()))
	expect(t, "hosts", len(must(s.Hosts(t.Context()))(t)), 0)
}

func TestCandidates(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	conn := session(t, s.url)
	first := fleet.Candidate{ID: "cand_1", Signed: "assay candidate v1\n"}
	second := fleet.Candidate{ID: "cand_2", Document: `{"note": "as it was hashed"}`}
	noError(t, s.Propose(t.Context(), first))
	noError(t, s.Propose(t.Context(), second))
	noDiff(t, "candidates", []fleet.Candidate{first, second}, must(s.Candidates(t.Context()))(t))
	ready := fleet.Answer{Candidate: "cand_1", Host: "host_a", Progress: fleet.Ready,
		Report: json.RawMessage(`{"checks": 9}`)}
	refused := fleet.Answer{Candidate: "cand_1", Host: "host_b", Progress: fleet.Refused, Reason: "no memory"}
	noError(t, s.Answer(t.Context(), fleet.Answer{Candidate: "cand_1", Host: "host_a", Progress: fleet.Loading}))
	noError(t, s.Answer(t.Context(), ready))
	noError(t, s.Answer(t.Context(), refused))
	noDiff(t, "answers", []fleet.Answer{ready, refused}, must(s.Answers(t.Context(), "cand_1"))(t))
	expect(t, "answers to the other", len(must(s.Answers(t.Context(), "cand_2"))(t)), 0)

	exec(t, conn, "UPDATE candidates SET expires = now() + interval '1 second'")
	noError(t, s.ExtendCandidate(t.Context(), "cand_2"))
	if left := one[float64](t, s, `SELECT extract(epoch FROM expires - now())::float8 FROM candidates
		WHERE id = 'cand_2'`); left < candidateLife.Seconds()-20 || left > candidateLife.Seconds() {
		t.Errorf("the candidate expires in %v s, want %v", left, candidateLife)
	}
	exec(t, conn, "UPDATE candidates SET expires = now() WHERE id = 'cand_1'") // its command was killed
	noDiff(t, "candidates", []fleet.Candidate{second}, must(s.Candidates(t.Context()))(t))
	noError(t, s.WithdrawCandidate(t.Context(), "cand_2"))
	noError(t, s.Answer(t.Context(), fleet.Answer{Candidate: "cand_2", Host: "host_a", Progress: fleet.Ready}))
	expect(t, "answers to a candidate that has ended", len(must(s.Answers(t.Context(), "cand_2"))(t)), 0)
	noError(t, s.PruneHosts(t.Context()))
	expect(t, "answers", one[int](t, s, "SELECT count(*) FROM candidate_hosts"), 0)
}

// A host answers while a command withdraws the candidate, which is no error of the host.
func TestAnswerToACandidateThatIsWithdrawn(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	noError(t, s.Propose(t.Context(), fleet.Candidate{ID: "cand_1", Signed: "assay candidate v1\n"}))
	conn, monitor := session(t, s.url), session(t, s.url)
	exec(t, conn, "BEGIN", "DELETE FROM candidates WHERE id = 'cand_1'")
	answered := make(chan error, 1)
	go func() {
		answered <- s.Answer(t.Context(), fleet.Answer{Candidate: "cand_1", Host: "host_a", Progress: fleet.Ready})
	}()
	until(t, "the answer to wait", func() bool { return lockWaiters(t, monitor) == 1 })
	exec(t, conn, "COMMIT")
	noError(t, receive(t, "the answer", answered))
	expect(t, "answers", len(must(s.Answers(t.Context(), "cand_1"))(t)), 0)
}

// Commands that are waiting learn within moments that a host has changed, because it says so at once.
func TestPulse(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	changed := make(chan struct{}, 1)
	var number atomic.Int64
	number.Store(1)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		(&fleet.Pulse{Roster: s, ID: "host_a", Name: "a", Log: discard(), Changed: changed,
			State: func() fleet.State { return fleet.State{Activation: number.Load()} }}).Run(ctx)
	}()
	activation := func() int64 {
		hosts := must(s.Hosts(t.Context()))(t)
		if len(hosts) == 0 {
			return 0
		}
		return hosts[0].Activation
	}
	until(t, "the host to appear", func() bool { return activation() == 1 })
	number.Store(2)
	changed <- struct{}{}
	until(t, "its change to be seen", func() bool { return activation() == 2 })
	stop()
	receive(t, "its end", done)
	expect(t, "hosts afterwards", activation(), 0)
}
