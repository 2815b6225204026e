package store

import (
	"context"
	"slices"
	"testing"

	"assay/host/postgres/postgrestest"
	"assay/registry"
)

// listening starts a listener and returns what it is told.
func listening(t *testing.T, s *Store) <-chan Topic {
	t.Helper()
	heard, ended := make(chan Topic, 100), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer close(ended)
		s.Listen(ctx, func(topic Topic) { heard <- topic })
	}()
	t.Cleanup(func() {
		cancel()
		receive(t, "the listener's end", ended)
	})
	return heard
}

// expectAll takes the topics that a listener is told of when it has (re)connected.
func expectAll(t *testing.T, heard <-chan Topic) {
	t.Helper()
	var got []Topic
	for range 3 {
		got = append(got, receive(t, "what a new connection may have missed", heard))
	}
	slices.Sort(got)
	if !slices.Equal(got, []Topic{TopicKeys, TopicLineup, TopicPlugins}) {
		t.Errorf("told of %v on connecting, want every topic", got)
	}
}

func TestHostsHearOfChanges(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	a, b := open(t, url, nil), open(t, url, nil)
	heard := listening(t, a)
	expectAll(t, heard)
	caller := newCaller(t, b, plan(t, "pro", 1))
	for _, change := range []struct {
		topic Topic
		make  func() error
	}{
		{TopicPlugins, func() error {
			return b.PublishPlugin(t.Context(), module(t, "probe", "1.0.0", "Probes"), "1.0.0", false)
		}},
		{TopicLineup, func() error {
			_, err := b.ActivateLineup(t.Context(), lineupOf("probe@1.0.0"), registry.OriginOperator, "")
			return err
		}},
		{TopicLineup, func() error { return b.RollbackLineup(t.Context(), 1, "") }},
		{TopicKeys, func() error { return b.RevokeKey(t.Context(), caller.Key) }},
	} {
		if err := change.make(); err != nil {
			t.Fatal(err)
		}
		if topic := receive(t, "a notification", heard); topic != change.topic {
			t.Errorf("heard of %s, want %s", topic, change.topic)
		}
	}
	// What fails tells nobody.
	if err := b.RollbackLineup(t.Context(), 9, ""); err == nil {
		t.Error("rolled back to what never was")
	}
	if err := b.RevokeKey(t.Context(), caller.Key); err == nil {
		t.Error("revoked a key twice")
	}
	if err := b.PublishPlugin(t.Context(), module(t, "marker", "1.0.0", "Marks"), "1.0.0", false); err != nil {
		t.Fatal(err)
	}
	if topic := receive(t, "the marker", heard); topic != TopicPlugins {
		t.Errorf("heard of %s, which did not happen", topic)
	}
}

// A listener that was cut off has missed things: it connects again and says that all may have changed.
func TestListenerComesBack(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	s := open(t, url, nil)
	heard := listening(t, s)
	expectAll(t, heard)
	conn := session(t, url)
	for range 2 {
		n := value[int](t, conn, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN %'")
		if n != 1 {
			t.Fatalf("%d listeners ended, want 1", n)
		}
		expectAll(t, heard)
	}
	if err := s.PublishPlugin(t.Context(), module(t, "probe", "1.0.0", "Probes"), "1.0.0", false); err != nil {
		t.Fatal(err)
	}
	if topic := receive(t, "a notification", heard); topic != TopicPlugins {
		t.Errorf("heard of %s", topic)
	}
}

// A listener whose database cannot be reached keeps trying.
func TestListenerWaitsForTheDatabase(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	p := proxied(t, url)
	s := open(t, p.URL, nil)
	p.set(nil, true)
	heard := listening(t, s)
	until(t, "a first attempt has failed", func() bool { return p.refused.Load() > 0 })
	p.set(nil, false)
	expectAll(t, heard)
}
