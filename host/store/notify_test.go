package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"assay/host/facts/feed"
	"assay/host/lineup/fleet"
	"assay/host/store/postgres/postgrestest"
	"assay/host/store/storetest"
	"assay/registry"
)

// listening starts a listener and returns the topics that it receives.
func listening(t *testing.T, s *Store) <-chan Topic {
	t.Helper()
	topics := make(chan Topic, 100)
	storetest.Background(t, func(ctx context.Context) { s.Listen(ctx, func(topic Topic) { topics <- topic }) })
	return topics
}

// expectAll receives the topics that a listener reports after it has (re)connected.
func expectAll(t *testing.T, topics <-chan Topic) {
	t.Helper()
	want := []Topic{TopicCandidates, TopicErasures, TopicFeeds, TopicKeys, TopicLineup, TopicOverrides, TopicPlugins}
	got := listOf(len(want), func(int) Topic { return receive(t, "a topic after connecting", topics) })
	slices.Sort(got)
	noDiff(t, "topics after connecting", want, got)
}

func TestListenReportsChanges(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	a, b := open(t, url, nil), open(t, url, nil)
	topics := listening(t, a)
	expectAll(t, topics)
	caller := newCaller(t, b, plan(t, "pro", 1))
	spare, _ := newKey(t, b, caller.Account)
	probe, bad := module(t, "probe", "Probes"), feed.List{Name: "Bad", Kind: feed.Bad}
	for _, change := range []struct {
		topic Topic
		make  func() error
	}{
		{TopicPlugins, func() error { return b.PublishPlugin(t.Context(), probe, "1.0.0", "", nil) }},
		{TopicFeeds, func() error { return errOf(b.ImportFeed(t.Context(), bad, inPairs(entries(t, "a.example")))) }},
		{TopicFeeds, func() error { return b.WithdrawFeed(t.Context(), "Bad") }},
		{TopicLineup, func() error {
			return errOf(activate(t.Context(), b, lineupOf("probe@1.0.0"), registry.OriginOperator, ""))
		}},
		{TopicLineup, func() error { return rollback(t.Context(), b, 1, "") }},
		{TopicKeys, func() error { return b.RevokeAccountKey(t.Context(), caller.Account, spare.Key) }},
		{TopicKeys, func() error { return b.RevokeKey(t.Context(), caller.Key) }},
	} {
		noError(t, change.make())
		expect(t, "the notification", receive(t, "a notification", topics), change.topic)
	}
	// A failed change sends no notification.
	wantFailure(t, rollback(t.Context(), b, 9, ""), "rolling back to an unknown revision succeeded")
	wantFailure(t, b.RevokeKey(t.Context(), caller.Key), "revoking a key twice succeeded")
	noError(t, b.PublishPlugin(t.Context(), module(t, "marker", "Marks"), "1.0.0", "", nil))
	expect(t, "topic", receive(t, "the marker", topics), TopicPlugins)

	// A listener that lost its connection may have missed notifications, so it reports every topic after reconnecting.
	conn := session(t, url)
	const listeners = " FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN %'"
	for range 2 {
		until(t, "one listener", func() bool { return value[int](t, conn, "SELECT count(*)"+listeners) == 1 })
		exec(t, conn, "SELECT pg_terminate_backend(pid)"+listeners)
		expectAll(t, topics)
	}
	noError(t, b.PublishPlugin(t.Context(), module(t, "third", "Probes"), "1.0.0", "", nil))
	expect(t, "topic", receive(t, "a notification", topics), TopicPlugins)
}

// A listener connects again if it was refused, or cut off silently before it listens.
func TestListenConnectsAgain(t *testing.T) {
	t.Parallel()
	p := proxied(t, postgrestest.Database(t))
	s := open(t, p.URL, nil)
	p.Set(nil, true)
	topics := listening(t, s)
	until(t, "a first attempt to fail", func() bool { return p.Refused.Load() > 0 })
	cut := p.Once(storetest.Silences, false, func(message string) bool { return strings.HasPrefix(message, "LISTEN") })
	receive(t, "the cut", cut)
	expectAll(t, topics)
}

func TestTopicOfErasures(t *testing.T) {
	t.Parallel()
	for topic, want := range map[Topic]string{
		TopicLineup: "no", "erasuresx": "no", TopicErasures: "any", "erasures xyz": "any", "erasures ": "any",
		"erasures 6162": "ab",
	} {
		text := "no"
		if got, ok := topic.Erased(); ok {
			text = cmp.Or(string(got), "any")
		}
		expect(t, string(topic), text, want)
	}
}

func TestHosts(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	conn := session(t, s.url)
	running := fleet.State{Activation: 7, Revision: 3, Canary: "of 5 values that it scored, none differs"}
	broken := fleet.State{Activation: 6, Revision: 2, Refused: 7, Problem: "layer probe: no such module"}
	for range 2 {
		noError(t, errOf(s.BeatHost(t.Context(), "host_b", "b:1", broken)))
		noError(t, errOf(s.BeatHost(t.Context(), "host_a", "a:1", running)))
	}
	exec(t, conn, "UPDATE hosts SET seen_at = now() - interval '11 seconds' WHERE id = 'host_b'",
		"UPDATE hosts SET seen_at = now() + interval '1 hour' WHERE id = 'host_a'") // however slow the test is
	hosts := must(s.Hosts(t.Context()))(t)
	expect(t, "hosts", len(hosts), 2)
	a, b := hosts[0], hosts[1]
	holds(t, a.Name == "a:1" && !a.Silent() && a.State == running && b.Name == "b:1" && b.Silent() && b.State == broken,
		"hosts %+v", hosts)
	expect(t, "live hosts", must(s.BeatHost(t.Context(), "host_a", "a:1", running))(t), 1)
	expect(t, "live hosts", must(s.BeatHost(t.Context(), "host_b", "b:1", running))(t), 2)
	expect(t, "a host's turn", s.Turn(time.Second), 2*time.Second)
	b = must(s.Hosts(t.Context()))(t)[1]
	holds(t, !b.Silent() && b.State == running, "after its next beat: %+v", b)
	expect(t, "shadow reports", len(must(s.ShadowReports(t.Context()))(t)), 0)
	noError(t, s.ReportShadow(t.Context(), "host_a", json.RawMessage(`[1]`)))
	noError(t, s.ReportShadow(t.Context(), "host_b", json.RawMessage(`[2]`)))
	noError(t, s.ReportShadow(t.Context(), "host_b", json.RawMessage(`[3]`)))
	noError(t, errOf(s.BeatHost(t.Context(), "host_b", "b:1", running)))
	noDiff(t, "shadow reports", []json.RawMessage{json.RawMessage("[1]"), json.RawMessage("[3]")},
		must(s.ShadowReports(t.Context()))(t))
	noError(t, s.RemoveHost(t.Context(), "host_a"))
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
	left := one[float64](t, s, "SELECT extract(epoch FROM expires - now())::float8 FROM candidates WHERE id = 'cand_2'")
	holds(t, left >= candidateLife.Seconds()-20 && left <= candidateLife.Seconds(),
		"the candidate expires in %v s, want %v", left, candidateLife)
	exec(t, conn, "UPDATE candidates SET expires = now() WHERE id = 'cand_1'") // its command was killed
	noDiff(t, "candidates", []fleet.Candidate{second}, must(s.Candidates(t.Context()))(t))
	noError(t, s.WithdrawCandidate(t.Context(), "cand_2"))
	noError(t, s.Answer(t.Context(), fleet.Answer{Candidate: "cand_2", Host: "host_a", Progress: fleet.Ready}))
	expect(t, "answers to a candidate that has ended", len(must(s.Answers(t.Context(), "cand_2"))(t)), 0)
	noError(t, s.Prune(t.Context()))
	expect(t, "answers", rowsOf(t, s, "candidate_hosts"), 0)

	// A host answers while a command withdraws the candidate, which is no error of the host.
	noError(t, s.Propose(t.Context(), fleet.Candidate{ID: "cand_3", Signed: "assay candidate v1\n"}))
	monitor := session(t, s.url)
	exec(t, conn, "BEGIN", "DELETE FROM candidates WHERE id = 'cand_3'")
	answered := async(func() error {
		return s.Answer(t.Context(), fleet.Answer{Candidate: "cand_3", Host: "host_a", Progress: fleet.Ready})
	})
	until(t, "the answer to wait", func() bool { return lockWaiters(t, monitor) == 1 })
	exec(t, conn, "COMMIT")
	noError(t, receive(t, "the answer", answered))
	expect(t, "answers", len(must(s.Answers(t.Context(), "cand_3"))(t)), 0)
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

// TestPrune gives tables rows just old enough to be deleted, more than one statement deletes, and one that is not.
func TestPrune(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	conn := session(t, s.url)
	tables := []struct{ name, columns, values, age string }{
		{"rate_uses", "name, used, used_at", "n, 1, old", "1 min"},
		{"public_uses", "client, uses, expires_at", "int4send(n), '{}', old", "0"},
		{"sessions", "id, hash, account_id, began_at, used_at, proved_at, expires_at, browser, network",
			"n, int4send(n), '', old, old, old, old, '', ''", "0"},
		{"sign_in_links", "hash, account_id, recovers, expires_at", "int4send(n), '', false, old", "0"},
		{"hosts", "id, name, seen_at", "n, '', old", "1 hour"},
		{"candidates", "id, signed, expires", "n, '', old", "0"},
		{"registrations", "domain, outcome, registrar, status, fetched_at, next_at, failures",
			"int4send(n), 'absent', '', '', old, old, 0", "60 days"},
		{"billing_tabs", "checkout_id, earlier, created_at", "n, '', old", "7 days"},
		{"billing_declines", "id, customer, card, declined_at", "n, '', '', old", "1 day"},
		{"billing_refunds", "subscription_id, account_id, refunded_at", "n, '', old", "30 days"},
		{"ledger_settlements", "chain, batch, recorded, settled_at", "0, int4send(n), true, old", "1 day"},
		{"answers", "chain, account_id, key_hash, request, sealed, subjects, kept_at",
			"0, '', int4send(n), '', '', '{}', old", "1 day"},
	}
	for _, table := range tables {
		exec(t, conn, fmt.Sprintf(`INSERT INTO %s (%s) SELECT %s FROM (
			SELECT n, now() - interval '%s' - CASE WHEN n = 0 THEN interval '-1 h' ELSE interval '1 s' END AS old
			FROM generate_series(0, %d) AS n) AS r`, table.name, table.columns, table.values, table.age, 2*pruneBatch))
	}
	noError(t, s.Prune(t.Context()))
	for _, table := range tables {
		expect(t, "rows of "+table.name, rowsOf(t, s, ""+table.name), 1)
	}
}

// TestOnce runs a job of two hosts: one of them runs it in each interval, and either one after a failure.
func TestOnce(t *testing.T) {
	t.Parallel()
	a := newStore(t, nil)
	runs, skipped, failure := 0, 0, errors.New("no space")
	var err error
	job := func(s *Store) func(context.Context) error {
		return s.Once("tidy", time.Hour, func(context.Context) error { runs++; return err }, func() { skipped++ })
	}
	first, second := job(a), job(open(t, a.url, nil))
	later := func(by string) { // in UTC, so that Citus knows that it is the same on each node
		exec(t, session(t, a.url),
			"UPDATE jobs SET due_at = (due_at AT TIME ZONE 'UTC' - interval '"+by+"') AT TIME ZONE 'UTC'")
	}
	for _, step := range []struct {
		what  string
		later string
		fails error
		runs  int
	}{
		{what: "at the start of two hosts", later: "0", runs: 1},
		{what: "before the interval has passed", later: "30 min", runs: 1},
		{what: "after the interval", later: "30 min", fails: failure, runs: 2},
		{what: "soon after a failure", later: "0", runs: 2},
		{what: "a minute after a failure", later: "1 min", runs: 3},
		{what: "after the clock was a day ahead", later: "-1 day", runs: 4},
	} {
		later(step.later)
		err = step.fails
		got := errors.Join(first(t.Context()), second(t.Context()))
		holds(t, errors.Is(got, step.fails) && (got == nil) == (step.fails == nil), "%s: %v", step.what, got)
		holds(t, runs == step.runs, "%s: the job has run %d times, want %d", step.what, runs, step.runs)
	}
	expect(t, "times that another host had run it", skipped, 2*6-runs)
}

// TestStatements checks that each file of statements is used, and exists.
func TestStatements(t *testing.T) {
	t.Parallel()
	var used []string
	for _, file := range must(os.ReadDir("."))(t) {
		if !strings.HasSuffix(file.Name(), ".go") {
			continue
		}
		text := string(must(os.ReadFile(file.Name()))(t))
		for _, m := range regexp.MustCompile(`(?:query\([\w.]+, |statement\()"(\w+)"`).
			FindAllStringSubmatch(text, -1) {
			used = append(used, m[1]+".sql")
		}
	}
	slices.Sort(used)
	noDiff(t, "files of statements", column(must(os.ReadDir("sql"))(t), fs.DirEntry.Name), slices.Compact(used))
}
