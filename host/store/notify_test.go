package store

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"

	"assay/host/check"
	"assay/host/facts/feed"
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
	var got []Topic
	want := []Topic{TopicCandidates, TopicErasures, TopicFeeds, TopicKeys, TopicLineup, TopicOverrides, TopicPlugins}
	for range want {
		got = append(got, receive(t, "a topic after connecting", topics))
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("received %v after connecting, want %v", got, want)
	}
}

func TestListenReportsChanges(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	a, b := open(t, url, nil), open(t, url, nil)
	topics := listening(t, a)
	expectAll(t, topics)
	caller := newCaller(t, b, plan(t, "pro", 1))
	spare, _ := newKey(t, b, caller.Account)
	for _, change := range []struct {
		topic Topic
		make  func() error
	}{
		{TopicPlugins, func() error {
			return b.PublishPlugin(t.Context(), module(t, "probe", "Probes"), "1.0.0", "", nil)
		}},
		{TopicFeeds, func() error {
			return errOf(b.ImportFeed(t.Context(), feed.List{Name: "Bad", Kind: feed.Bad},
				inPairs(entries(t, "a.example"))))
		}},
		{TopicFeeds, func() error { return b.WithdrawFeed(t.Context(), "Bad") }},
		{TopicLineup, func() error {
			_, err := activate(t.Context(), b, lineupOf("probe@1.0.0"), registry.OriginOperator, "")
			return err
		}},
		{TopicLineup, func() error { return rollback(t.Context(), b, 1, "") }},
		{TopicKeys, func() error { return b.RevokeAccountKey(t.Context(), caller.Account, spare.Key) }},
		{TopicKeys, func() error { return b.RevokeKey(t.Context(), caller.Key) }},
	} {
		noError(t, change.make())
		if topic := receive(t, "a notification", topics); topic != change.topic {
			t.Errorf("received %s, want %s", topic, change.topic)
		}
	}
	// A failed change sends no notification.
	wantFailure(t, rollback(t.Context(), b, 9, ""), "rolling back to an unknown revision succeeded")
	wantFailure(t, b.RevokeKey(t.Context(), caller.Key), "revoking a key twice succeeded")
	noError(t, b.PublishPlugin(t.Context(), module(t, "marker", "Marks"), "1.0.0", "", nil))
	expect(t, "topic", receive(t, "the marker", topics), TopicPlugins)
}

// A listener that lost its connection may have missed notifications, so it reports every topic after reconnecting.
func TestListenReconnects(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	topics := listening(t, s)
	expectAll(t, topics)
	conn := session(t, s.url)
	const listeners = " FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN %'"
	for range 2 {
		until(t, "one listener", func() bool { return value[int](t, conn, "SELECT count(*)"+listeners) == 1 })
		exec(t, conn, "SELECT pg_terminate_backend(pid)"+listeners)
		expectAll(t, topics)
	}
	noError(t, s.PublishPlugin(t.Context(), module(t, "probe", "Probes"), "1.0.0", "", nil))
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

// Hosts are told of an erasure before the records are gone: while the erasure waits for the head, which a test holds,
// the notification has come.
func TestErasuresAreAnnounced(t *testing.T) {
	t.Parallel()
	s, l, caller := newLedger(t, nil, LedgerConfig{})
	records := []check.Record{allowed(t, caller)}
	noError(t, l.Append(t.Context(), records...))
	name := records[0].Pseudonym
	if len(name) != 32 {
		t.Fatalf("Append sets the pseudonym %x", name)
	}
	topics := listening(t, s)
	expectAll(t, topics)
	head := lockTheHeads(t, s.url)
	erased := make(chan error, 1)
	go func() {
		_, err := s.Erase(context.WithoutCancel(t.Context()), caller, about(records[0].Entity))
		erased <- err
	}()
	topic := receive(t, "a notification", topics)
	if got, ok := topic.Erased(); !ok || !bytes.Equal(got, name) {
		t.Errorf("received %s: %x, want %x", topic, got, name)
	}
	expect(t, "records before", one[int](t, s, "SELECT count(*) FROM audit_records WHERE pseudonym = ?", name), 1)
	head.release(t)
	noError(t, receive(t, "the erasure", erased))
	expect(t, "records after", one[int](t, s, "SELECT count(*) FROM audit_records WHERE pseudonym = ?", name), 0)
}

func TestTopicOfErasures(t *testing.T) {
	t.Parallel()
	for topic, want := range map[Topic]string{
		TopicLineup: "no", "erasuresx": "no", TopicErasures: "any", "erasures xyz": "any", "erasures ": "any",
		erasureOf([]byte("ab")): "ab",
	} {
		got, ok := topic.Erased()
		switch {
		case !ok:
			expect(t, string(topic), "no", want)
		case len(got) == 0:
			expect(t, string(topic), "any", want)
		default:
			expect(t, string(topic), string(got), want)
		}
	}
}
