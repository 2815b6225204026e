package reputation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"assay/host/check"
	"assay/host/entity"
	"assay/host/facts"
	"assay/host/facts/feed"
	"assay/registry/expect"
)

// hangingStore is a store whose queries do not return before it is released.
type hangingStore struct {
	*memoryStore
	asked, released chan struct{}
}

func (s hangingStore) Listings(context.Context, []Node) ([]Listing, error) {
	s.asked <- struct{}{}
	<-s.released
	return nil, nil
}

// TestListedOrRefused checks that a listed domain never passes as unlisted because the database is busy or failing.
func TestListedOrRefused(t *testing.T) {
	t.Parallel()
	e := parse(t, entity.Domain, "secure-paypal-login.xyz")
	wanted := []string{"feed.listed", "graph.seen", "similar.nearest"}
	newStore := func() *memoryStore {
		m := &memoryStore{aggregates: func(s []Subject) ([]Aggregate, error) { return make([]Aggregate, len(s)), nil }}
		m.set(1, feed.List{Name: "Bad", Kind: feed.Bad}, e.Value)
		return m
	}
	collect := func(ctx context.Context, s Store, similar *Similar) (entity.Facts, error) {
		c := facts.NewCollector(slog.New(slog.DiscardHandler), NewFeed(s, similar.NoLists), NewGraph(s), similar)
		found, silent, err := c.Collect(ctx, "", e, wanted)
		expect.That(t, len(silent) == 0, "the database counts as a third party: %v", silent)
		return found, err
	}
	refused := func(what string, err error) {
		t.Helper()
		expect.That(t, errors.As(err, new(*check.UnavailableError)), "%s: error %v, want a refusal", what, err)
	}

	m := newStore()
	loaded := newSimilar(t, m)
	found, err := collect(t.Context(), m, loaded)
	expect.Must(t, err == nil && found["feed.listed"] == "Bad", "found %v, error %v", found, err)
	_, err = collect(t.Context(), m, NewSimilar(m, slog.New(slog.DiscardHandler)))
	refused("before the first load", err)

	failing := newStore()
	failing.broken = errors.New("too many connections")
	refused("a failing database", expect.ErrorOf(collect(t.Context(), failing, loaded)))

	ctx, cancel := context.WithCancel(t.Context())
	slow := hangingStore{newStore(), make(chan struct{}), make(chan struct{})}
	defer close(slow.released)
	go func() { <-slow.asked; cancel() }()
	refused("a slow database", expect.ErrorOf(collect(ctx, slow, loaded)))

	graph := newStore()
	graph.aggregates = func([]Subject) ([]Aggregate, error) { return nil, context.DeadlineExceeded }
	refused("a graph query that takes too long", expect.ErrorOf(collect(t.Context(), graph, loaded)))
}

// TestStaleLists checks how long a host uses the lists in its memory while it cannot load newer ones.
func TestStaleLists(t *testing.T) {
	t.Parallel()
	m := &memoryStore{}
	s := newSimilar(t, m)
	now := noon
	s.now = func() time.Time { return now }
	noLists := func(want bool) {
		t.Helper()
		expect.Equal(t, fmt.Sprint("NoLists after ", now.Sub(noon)), s.NoLists(), want)
	}
	ready := func(want bool) {
		t.Helper()
		err := s.Ready()
		expect.That(t, (err == nil) == want, "at %v: Ready returns %v", now.Sub(noon), err)
		_, err = s.Observe(t.Context(), parse(t, entity.Domain, "example.org"), all)
		expect.That(t, (err == nil) == want && !errors.Is(err, facts.ErrUnanswered), "at %v: Observe returns %v",
			now.Sub(noon), err)
	}
	noLists(true)
	ready(true)
	// Another host imports a list. This host hears nothing of it.
	m.set(1, feed.List{Name: "Bad", Kind: feed.Bad}, "secure-paypal-login.xyz")
	m.broken = errors.New("no database")
	now = now.Add(noListsFor)
	noLists(false)
	ready(true)
	for range 2 {
		expect.Error(t, "Load", s.Load(t.Context()), m.broken)
		now = now.Add(maxFailing)
	}
	ready(false)
	m.broken = nil
	expect.NoError(t, s.Load(t.Context()))
	noLists(false)
	ready(true)

	unloaded := NewSimilar(m, slog.New(slog.DiscardHandler))
	err := unloaded.Ready()
	expect.That(t, errors.Is(err, errNotLoaded) && !unloaded.NoLists(), "before the first load: Ready returns %v", err)
	m.broken = errors.New("no database")
	_ = unloaded.Load(t.Context())
	err = unloaded.Ready()
	expect.That(t, errors.Is(err, m.broken) && !unloaded.NoLists(), "after a failed first load: Ready returns %v", err)
}
