package reputation

import (
	"context"
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

	"go.uber.org/goleak"

	"assay/host/access/admission"
	"assay/host/entity"
	"assay/host/facts"
	"assay/host/facts/feed"
	"assay/registry/expect"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noon = time.Date(2031, 5, 20, 12, 0, 0, 0, time.UTC)

// memoryStore implements Store with lists in memory. The test sets its aggregates.
type memoryStore struct {
	mu         sync.Mutex
	feeds      []feed.List
	entries    map[int][]ListedName
	pages      map[string]bool // "list value" of entries for single pages
	ranks      map[string]int  // likewise, of ranked lists
	ages       map[string]int  // days by value, beyond the number of the list
	aggregates func([]Subject) ([]Aggregate, error)
	queries    int
	broken     error
}

func (m *memoryStore) set(id int, f feed.List, values ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.remove(f.Name)
	f.ID = id
	f.Version = len(m.entries) + 1
	m.feeds = append(m.feeds, f)
	if m.entries == nil {
		m.entries = map[int][]ListedName{}
	}
	m.entries[id] = nil
	for i, v := range values {
		kind := entity.Domain
		if strings.Contains(v, "@") {
			kind = entity.Email
		}
		e, err := entity.Parse(kind, v, "")
		if err != nil {
			panic(err)
		}
		name := e.Facts["domain.name"]
		if kind == entity.Email {
			name = e.Facts["email.user"]
		}
		m.entries[id] = append(m.entries[id], ListedName{Node: fmt.Appendf(nil, "%06d", i), Type: string(kind),
			Value: e.Value, Name: name, Category: f.Category})
	}
}

func (m *memoryStore) remove(name string) {
	m.feeds = slices.DeleteFunc(m.feeds, func(f feed.List) bool { return f.Name == name })
}

func (m *memoryStore) withdraw(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.remove(name)
}

func (m *memoryStore) Feeds(context.Context) ([]feed.List, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]feed.List{}, m.feeds...), m.broken
}

func (m *memoryStore) FeedNames(_ context.Context, id int, after []byte, limit int) ([]ListedName, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var page []ListedName
	for _, e := range m.entries[id] {
		if string(e.Node) > string(after) && len(page) < limit && !m.pageOnGoodHost(id, e.Value) {
			page = append(page, e)
		}
	}
	return page, nil
}

// pageOnGoodHost reports whether an entry is a single page on a host that is on a good list.
func (m *memoryStore) pageOnGoodHost(id int, value string) bool {
	page, good := false, false
	for _, f := range m.feeds {
		page = page || f.ID == id && m.pages[f.Name+" "+value]
		good = good || f.Kind == feed.Good &&
			slices.ContainsFunc(m.entries[f.ID], func(e ListedName) bool { return e.Value == value })
	}
	return page && good
}

func (m *memoryStore) Listings(_ context.Context, nodes []Node) ([]Listing, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.queries++
	if m.broken != nil {
		return nil, m.broken
	}
	var found []Listing
	for _, f := range m.feeds {
		for _, e := range m.entries[f.ID] {
			for i, n := range nodes {
				if n.Kind == e.Type && n.Value == e.Value {
					found = append(found, Listing{
						Index: i, Name: f.Name, Kind: f.Kind, Category: e.Category, Page: m.pages[f.Name+" "+e.Value],
						Fresh: f.FreshUntil == nil || f.FreshUntil.After(noon), Rank: m.ranks[f.Name+" "+e.Value],
						FirstSeen: noon.Add(-time.Duration(f.ID+m.ages[e.Value]) * 24 * time.Hour),
					})
				}
			}
		}
	}
	return found, nil
}

func (m *memoryStore) GraphAggregates(_ context.Context, subjects []Subject) ([]Aggregate, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.queries++
	return m.aggregates(subjects)
}

func all(string) bool { return true }

func parse(t *testing.T, kind entity.Type, value string) entity.Entity {
	t.Helper()
	return expect.Value(entity.Parse(kind, value, ""))(t)
}

func TestFeedFacts(t *testing.T) {
	t.Parallel()
	m := &memoryStore{pages: map[string]bool{"Pages docs.example.com": true, "Pages shop.example.net": true,
		"GoodPages odd.example": true}, ranks: map[string]int{"Tranco popular.example": 8410,
		"Umbrella popular.example": 20_000, "Umbrella cdn.popular.example": 17, "Tranco gmail.com": 30,
		"Tranco github.io": 100, "Tranco weebly.com": 400}}
	m.set(1, feed.List{Name: "Bad", Kind: feed.Bad, Category: "phishing"}, "bad.example", "weird.github.io",
		"github.io", "weebly.com", "x@mail.example.org", "gmail.com", "throwaway.example", "linen.example")
	m.set(2, feed.List{Name: "Worse", Kind: feed.Bad, Category: "malware"}, "bad.example", "throwaway.example")
	m.set(3, feed.List{Name: "Mixed", Kind: feed.Bad}, "bad.example", "good.example", "wool.example")
	m.set(4, feed.List{Name: "More", Kind: feed.Bad, Category: "malware"}, "bad.example")
	m.set(5, feed.List{Name: "Pages", Kind: feed.Bad, Category: "malware"}, "docs.example.com", "shop.example.net")
	m.set(6, feed.List{Name: "Ranks", Kind: feed.Good}, "good.example", "example.com")
	m.set(7, feed.List{Name: "GoodPages", Kind: feed.Good}, "odd.example")
	m.set(8, feed.List{Name: "Tranco", Kind: feed.Ranked}, "popular.example", "gmail.com", "github.io", "weebly.com")
	m.set(9, feed.List{Name: "Umbrella", Kind: feed.Ranked}, "popular.example", "cdn.popular.example")
	m.set(10, feed.List{Name: "Old", Kind: feed.Bad, FreshUntil: &noon}, "stale.example", "bad2.example",
		"felt.example")
	m.set(11, feed.List{Name: "Older", Kind: feed.Bad}, "bad2.example")
	m.set(12, feed.List{Name: "Trash", Kind: feed.Bad, Category: "disposable"}, "linen.example", "wool.example",
		"silk.example", "felt.example")
	m.set(13, feed.List{Name: "Deep", Kind: feed.Bad}, "loft.example", "b.loft.example")
	m.entries[13][0].Category, m.entries[13][1].Category = "malware", "phishing"
	m.ages = map[string]int{"loft.example": 86}
	f := NewFeed(m, hasLists)
	f.now = func() time.Time { return noon }
	type testCase struct {
		kind  entity.Type
		value string
		want  entity.Facts
	}
	expect.Each(t, map[string]testCase{
		"on several lists": {entity.Domain, "bad.example", entity.Facts{
			"feed.listed": "Bad, Worse, Mixed, 1 more", "feed.lists": "4", "feed.match": "exact",
			"feed.category": "malware", "feed.days": "4"}},
		"below a listed domain": {entity.Domain, "a.b.c.d.e.f.g.bad.example", entity.Facts{
			"feed.listed": "Bad, Worse, Mixed, 1 more", "feed.lists": "4", "feed.match": "parent",
			"feed.category": "malware", "feed.days": "4"}},
		"a customer of a listed hosting service": {entity.Domain, "flowers.github.io", entity.Facts{}},
		"below a listed customer": {entity.Domain, "www.weird.github.io",
			entity.Facts{"feed.listed": "Bad", "feed.lists": "1", "feed.match": "parent", "feed.category": "phishing",
				"feed.days": "1"}},
		"below two domains of a list": {entity.Domain, "a.b.loft.example", entity.Facts{"feed.listed": "Deep",
			"feed.lists": "1", "feed.match": "parent", "feed.category": "phishing", "feed.days": "99"}},
		"far below a name that is below its registrable domain": {entity.Domain, strings.Repeat("x.", 50) +
			"b.loft.example", entity.Facts{"feed.listed": "Deep", "feed.lists": "1", "feed.match": "parent",
			"feed.category": "phishing", "feed.days": "99"}},
		"a listed address": {entity.Email, "X+tag@mail.example.org",
			entity.Facts{"feed.listed": "Bad", "feed.lists": "1", "feed.match": "exact", "feed.category": "phishing",
				"feed.days": "1"}},
		"another address of the same domain": {entity.Email, "y@mail.example.org", entity.Facts{}},
		"at a listed domain": {entity.Email, "jane@mx.throwaway.example",
			entity.Facts{"feed.listed": "Bad, Worse", "feed.lists": "2", "feed.match": "mail_domain",
				"feed.category": "malware", "feed.days": "2"}},
		"at a listed mail provider": {entity.Email, "jane@gmail.com", entity.Facts{}},
		"on a good and a bad list": {entity.Domain, "good.example",
			entity.Facts{"feed.listed": "Mixed", "feed.lists": "1", "feed.match": "exact", "feed.days": "3",
				"feed.good": "Ranks", "feed.good_match": "exact"}},
		"a page below a good domain": {entity.Domain, "docs.example.com", entity.Facts{
			"feed.listed": "Pages", "feed.lists": "1", "feed.match": "page", "feed.category": "malware",
			"feed.days": "5", "feed.good": "Ranks", "feed.good_match": "parent"}},
		"another host than the page's": {entity.Domain, "www.shop.example.net", entity.Facts{}},
		"an address at a page's host":  {entity.Email, "info@shop.example.net", entity.Facts{}},
		"a page on a good list":        {entity.Domain, "odd.example", entity.Facts{}},
		"below a popular domain": {entity.Domain, "x.cdn.popular.example", entity.Facts{"feed.rank": "17",
			"feed.rank_list": "Umbrella"}},
		"popular": {entity.Domain, "popular.example", entity.Facts{"feed.rank": "8410", "feed.rank_list": "Tranco"}},
		"an address at a popular domain": {entity.Email, "jane@popular.example", entity.Facts{"feed.rank": "8410",
			"feed.rank_list": "Tranco"}},
		"an address at a popular mail provider":    {entity.Email, "jane@gmail.com", entity.Facts{}},
		"a customer of a popular hosting service":  {entity.Domain, "flowers2.github.io", entity.Facts{}},
		"a listed and popular site builder's site": {entity.Domain, "flowers.weebly.com", entity.Facts{}},
		"on a list that is out of date": {entity.Domain, "stale.example", entity.Facts{"feed.listed": "Old",
			"feed.lists": "1", "feed.match": "exact", "feed.days": "10", "feed.fresh": "no"}},
		"on two lists, of which one is out of date": {entity.Domain, "bad2.example", entity.Facts{
			"feed.listed": "Old, Older", "feed.lists": "2", "feed.match": "exact", "feed.days": "11",
			"feed.fresh": "yes"}},
		"on lists of phishing and of disposable mail": {entity.Domain, "linen.example", entity.Facts{
			"feed.listed": "Bad, Trash", "feed.lists": "2", "feed.match": "exact", "feed.category": "phishing",
			"feed.days": "12"}},
		"on lists without a category and of disposable mail": {entity.Domain, "wool.example", entity.Facts{
			"feed.listed": "Mixed, Trash", "feed.lists": "2", "feed.match": "exact", "feed.days": "12"}},
		"on lists that are out of date and of disposable mail": {entity.Domain, "felt.example", entity.Facts{
			"feed.listed": "Old, Trash", "feed.lists": "2", "feed.match": "exact", "feed.days": "12",
			"feed.fresh": "no"}},
		"on a list of disposable mail": {entity.Domain, "silk.example", entity.Facts{"feed.listed": "Trash",
			"feed.lists": "1", "feed.match": "exact", "feed.category": "disposable", "feed.days": "12"}},
		"on no list":                {entity.Domain, "blumenwiese.example", entity.Facts{}},
		"a phone number on no list": {entity.Phone, "+4915123456789", entity.Facts{}},
	}, func(t *testing.T, tt testCase) {
		got := expect.Value(f.Observe(t.Context(), parse(t, tt.kind, tt.value), all))(t)
		if tt.want["feed.listed"] != "" && tt.want["feed.fresh"] == "" {
			tt.want["feed.fresh"] = "yes"
		}
		expect.NoDiff(t, "facts", tt.want, got)
	})
	deep := lookups(parse(t, entity.Domain, strings.Repeat("x.", 50)+"loft.example"))
	expect.Equal(t, "lookups of a deep name", len(deep), 1+maxParents)
}

func TestGraphFacts(t *testing.T) {
	t.Parallel()
	var queried []Subject
	m := &memoryStore{}
	g := NewGraph(m)
	g.now = func() time.Time { return noon }
	m.aggregates = func(subjects []Subject) ([]Aggregate, error) {
		queried = append(queried, subjects...)
		return []Aggregate{{
			Customers: 19, Seen: 143.7, BlockedShare: 0.629, Reported: 0.2, Since: noon.Add(-50 * time.Hour),
			Neighbours: 4, NeighbourRisk: 0.31, Hour: 7, Day: 43,
			Own: History{Since: noon.Add(-30 * 24 * time.Hour), Hour: 0, Day: 17},
		}}, nil
	}
	collector := facts.NewCollector(slog.New(slog.DiscardHandler), g)
	var wanted []string
	for _, f := range collector.Table() {
		wanted = append(wanted, f.Name)
	}
	slices.Sort(wanted)
	got, _, err := collector.Collect(t.Context(), "acct_1", parse(t, entity.Domain, "example.org"), wanted)
	expect.NoError(t, err)
	want := entity.Facts{
		"graph.customers": "10", "graph.seen": "100", "graph.blocked_share": "65", "graph.reported_share": "20",
		"graph.first_seen_days": "2", "graph.neighbours": "3", "graph.neighbour_risk": "30",
		"history.first_seen_days": "2", "history.seen_1h": "5", "history.seen_24h": "20",
		"history.own_first_seen_days": "30", "history.own_seen_1h": "0", "history.own_seen_24h": "17",
	}
	expect.NoDiff(t, "facts", want, got)
	subjects := []Subject{{Account: "acct_1", Entity: Node{Kind: "domain", Value: "example.org"},
		Parents: []Node{{Kind: "registrable", Value: "example.org"}, {Kind: "maildomain", Value: "example.org"}}}}
	expect.NoDiff(t, "queried subjects", subjects, queried)
	m.aggregates = func([]Subject) ([]Aggregate, error) { return []Aggregate{{}}, nil }
	got, err = g.Observe(t.Context(), parse(t, entity.Phone, "+4915123456789"), all)
	expect.That(t, err == nil && len(got) == 0, "facts of an unknown entity: %v, %v; want none", got, err)
	broken := errors.New("no database")
	m.aggregates = func([]Subject) ([]Aggregate, error) { return nil, broken }
	expect.Error(t, "with a failing store",
		expect.ErrorOf(g.Observe(t.Context(), parse(t, entity.Domain, "example.org"), all)), broken)
}

// A source queries the store only for facts that a layer wants.
func TestUnwantedFactsAreNotQueried(t *testing.T) {
	t.Parallel()
	m, e := &memoryStore{}, parse(t, entity.Domain, "example.org")
	none := func(string) bool { return false }
	for _, observe := range []func(context.Context, entity.Entity, func(string) bool) (entity.Facts, error){
		NewFeed(m, hasLists).Observe, NewGraph(m).Observe, NewSimilar(m, slog.New(slog.DiscardHandler)).Observe,
	} {
		got, err := observe(t.Context(), e, none)
		expect.That(t, len(got) == 0 && err == nil, "unwanted facts %v, %v", got, err)
	}
	found, err := NewFeed(m, func() bool { return true }).Observe(t.Context(), e, all) // without lists
	expect.That(t, len(found) == 0 && err == nil && m.queries == 0, "found %v, %v by %d queries", found, err, m.queries)
}

func TestRoundDown(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0", 1: "1", 2: "2", 3: "3", 4: "3", 5: "5", 9: "5", 10: "10", 19: "10",
		20: "20", 49: "20", 50: "50", 99: "50", 100: "100", 999: "500", 123456: "100000"} {
		expect.Equal(t, fmt.Sprint(n, " rounded down"), roundDown(n), want)
	}
}

// hasLists reports that lists are imported.
func hasLists() bool { return false }

// While a holder's batch runs, its further queries wait for the next one, and others share another batch. Each caller
// gets its own result.
func TestBatcher(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		entered, release := make(chan int), make(chan struct{})
		b := &batcher[int, int]{maxBatch: 4, run: func(_ context.Context, queries []int) ([]int, error) {
			entered <- len(queries)
			<-release
			squares := make([]int, len(queries))
			for i, q := range queries {
				squares[i] = q * q
			}
			return squares, nil
		}}
		var answered atomic.Int32
		get := func(ctx context.Context, holder string, queries ...int) {
			for _, q := range queries {
				go func() {
					if square, err := b.get(admission.WithHolder(ctx, holder), q); err == nil {
						expect.Equal(t, fmt.Sprint("the result of query ", q), square, q*q)
						answered.Add(1)
					}
				}()
				synctest.Wait()
			}
		}
		get(t.Context(), "flood", 1)
		expect.Equal(t, "the first batch", <-entered, 1)
		gone, cancel := context.WithCancel(t.Context())
		get(gone, "flood", 99)
		cancel() // its query must be dropped
		get(t.Context(), "flood", 2, 3, 4, 5, 6)
		get(t.Context(), "another", 7)
		expect.Equal(t, "another holder's batch", <-entered, 1)
		get(t.Context(), "a third", 8, 9)
		for i, want := range []int{1, 0, 2, 4, 0} {
			release <- struct{}{}
			if want > 0 {
				expect.Equal(t, fmt.Sprint("batch ", i), <-entered, want)
			}
			synctest.Wait() // so that the batches end in the order in which they began
		}
		expect.Equal(t, "answered", answered.Load(), 9)
	})
}

// A batch that fails or panics fails all its queries, but not later ones.
func TestBatcherFails(t *testing.T) {
	t.Parallel()
	fail := true
	b := &batcher[int, int]{maxBatch: 4, run: func(_ context.Context, queries []int) ([]int, error) {
		if fail {
			panic("no")
		}
		return queries, nil
	}}
	expect.Failure(t, expect.ErrorOf(b.get(t.Context(), 1)), "a panicking batch succeeded")
	fail = false
	expect.Equal(t, "after a panic", expect.Value(b.get(t.Context(), 7))(t), 7)
	b.run = func(context.Context, []int) ([]int, error) { return nil, nil }
	expect.Failure(t, expect.ErrorOf(b.get(t.Context(), 1)), "a batch without results succeeded")
}
